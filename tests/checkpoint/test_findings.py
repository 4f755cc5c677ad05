"""Every check of the audit: a real query that triggers it, and a sound one that does not.

What a query tells of itself comes from Spark; folders are what Spark wrote, damaged as people and
machines damage them. A check without both a bad and a sound case fails the last test.
"""

import contextlib
import shutil
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from agent.checkpoint.audit import CHECKS, TEMPORARY, QueryFacts, audit
from agent.checkpoint.audit_command import facts_of
from agent.checkpoint.folder import LocalFolder
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.soundness import judge
from tests.checkpoint.kills import CHEAP, Driver, make_input, make_order
from tests.checkpoint.test_audit import lines  # noqa: F401 - a fixture
from tests.kafka.broker import connector
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
BATCHES = 6
LAST = BATCHES - 1  # the newest batch with data


def of_folder(root):
    folder = LocalFolder(Path(root))
    seen = read_checkpoint(folder)
    return {
        finding.check for finding in (*judge(seen, folder).findings, *audit(facts_of(seen, [])))
    }


def of_query(told, **more):
    facts = QueryFacts(
        query="app/orders",
        sink=told["sink"],
        sources=told["sources"],
        checkpoint_location=told["location"],
        master=told["master"],
        **more,
    )
    return {finding.check for finding in audit(facts)}


def remove(root, *names):
    """Files of the logs, with their checksums."""
    for name in names:
        path = Path(root) / name
        for file in (path, path.with_name(f".{path.name}.crc")):
            file.unlink(missing_ok=True)


def overwrite(root, name, change):
    path = Path(root) / name
    path.write_bytes(change(path.read_bytes()))


@pytest.fixture(scope="module")
def driver(kafka_jars, tmp_path_factory):
    settings = {
        **CHEAP,
        "spark.jars": connector(version("pyspark")),
        "spark.sql.streaming.fileSource.log.compactInterval": "100",
    }
    with Driver(tmp_path_factory.mktemp("driver") / "log", settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return make_input(tmp_path_factory.mktemp("input"), files=BATCHES, rows=4)


@pytest.fixture(scope="module")
def durable():
    """A folder that is none of the temporary ones, wherever the repository itself lies."""
    (ROOT / ".make").mkdir(exist_ok=True)
    places = [place for place in (ROOT / ".make", Path.home()) if not TEMPORARY.search(f"{place}/")]
    assert places, "neither the repository nor the home directory is outside of temporary folders"
    folder = Path(tempfile.mkdtemp(dir=places[0], prefix="durable-"))
    yield folder

    def gone():
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    until(gone, "tasks of stopped queries to write no more into the folder")


@pytest.fixture(scope="module")
def whole(driver, source, durable):
    """The checkpoint of a query that ran to its end."""
    order = make_order(durable, source, "aggregation", "hdfs", limit=1)
    assert "error" not in driver.ask({"run": order})
    return Path(order["checkpoint"])


def logs(*batches):
    return [f"{log}/{batch}" for log in ("offsets", "commits") for batch in batches]


class Cases:
    """Makes the cases; each returns the checks that were found."""

    def __init__(self, driver, source, durable, whole, broker, socket_port, tmp_path):
        self.driver, self.source, self.durable = driver, source, durable
        self.whole, self.broker, self.port, self.tmp = whole, broker, socket_port, tmp_path
        #: The newest batch; it may be one without data, which takes no entry of the source's log.
        self.n = read_checkpoint(LocalFolder(whole)).layout.latest_commit

    def describe(self, source="files", sink="parquet", **more):
        """What a query tells of itself. Its folders are durable unless ``more`` says otherwise."""
        place = Path(tempfile.mkdtemp(dir=self.durable))
        order = {
            "source": source,
            "sink": sink,
            "options": {},
            "input": str(self.source),
            "limit": 1,
            "checkpoint": str(place / "ck"),
            "parquet": str(place / "out"),
            **more,
        }
        told = self.driver.ask({"describe": order})
        assert "error" not in told, told
        return told

    def kafka(self, **options):
        topic = f"audit-{time.monotonic_ns()}"
        self.broker.create_topic(topic)
        self.broker.produce(topic, ["a"])
        given = {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **options,
        }
        return of_query(self.describe("kafka", options=given), options=given)

    def kafka_sink(self, milliseconds):
        topic = f"out-{time.monotonic_ns()}"
        self.broker.create_topic(topic)
        given = {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "topic": topic,
            "kafka.transaction.timeout.ms": str(milliseconds),
        }
        told = self.describe(sink="kafka", sink_options=given)
        return of_query(told, options=given, deadline_seconds=60.0)

    @contextlib.contextmanager
    def copy(self, *gone):
        root = shutil.copytree(self.whole, Path(tempfile.mkdtemp(dir=self.durable)) / "ck")
        remove(root, *gone)
        yield root

    def without(self, *gone):
        with self.copy(*gone) as root:
            return of_folder(root)

    def damaged(self, name, change):
        with self.copy() as root:
            overwrite(root, name, change)
            return of_folder(root)

    # The cases that take more than a line

    def shared(self):
        """A second driver starts on the checkpoint of a query that runs."""
        order = make_order(self.tmp, self.source, "aggregation", "hdfs", limit=1, name="shared")
        self.driver.start({"run": {**order, "sink_seconds": 2.0}})
        while not (Path(order["checkpoint"]) / "offsets/0").exists():
            time.sleep(0.05)
        with Driver(self.tmp / "second.log") as second:
            told = second.ask(
                {
                    "describe": {
                        **order,
                        "source": "files",
                        "sink": "foreachBatch",
                        "sink_options": {},
                    }
                }
            )
        self.driver.finish()
        assert "error" not in told, told
        facts = QueryFacts(
            query="b/orders",
            checkpoint_location=told["location"],
            others={"a/orders": order["checkpoint"]},
        )
        return {finding.check for finding in audit(facts)}

    def two_writers(self):
        """A second driver goes on from an older copy, and its offsets land here."""
        batch = LAST - 1
        with self.copy() as first, self.copy(*logs(*range(batch, self.n + 1))) as second:
            for entry in range(batch, LAST + 1):
                remove(second, f"sources/0/{entry}")
            for file in second.glob("state/0/*/*.*"):
                if file.name.split(".")[0].isdigit() and int(file.name.split(".")[0]) > batch:
                    remove(second, file.relative_to(second))
            order = make_order(self.tmp, self.source, "aggregation", "hdfs", limit=1, name="two")
            answer = self.driver.ask({"run": {**order, "checkpoint": str(second)}})
            assert "error" not in answer, answer
            for name in (f"offsets/{batch}", f"offsets/.{batch}.crc"):
                shutil.copy2(second / name, first / name)
            return of_folder(first)

    def asynchronous(self):
        """Only the query itself tells: its log may have no holes."""
        order = {
            "sink_options": {
                "asyncProgressTrackingEnabled": "true",
                "asyncProgressTrackingCheckpointIntervalMs": "400",
                "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
            },
            "batches": 4,
        }
        told = self.describe("rate", "noop", options={"rowsPerSecond": "50"}, **order)
        assert "AsyncProgressTracking" in told["class"]
        # The listener tells the class of the execution as this setting.
        return of_query(told, conf={"asyncProgressTrackingEnabled": "true"})

    def lagging(self):
        """Many changes and no snapshot: maintenance that never gets there."""
        many = make_input(self.tmp / "many", files=103, rows=1)
        order = make_order(self.tmp, many, "aggregation", "hdfs", limit=1, name="lag")
        order["conf"] = {
            "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1000",
            "spark.sql.shuffle.partitions": "1",
        }
        assert "error" not in self.driver.ask({"run": {**order, "seconds": 600}})
        return of_folder(order["checkpoint"])

    def killed_before_its_first_batch(self):
        with self.copy() as root:
            for name in ("offsets", "commits", "sources"):
                shutil.rmtree(root / name)
            return of_folder(root)

    def killed_while_writing(self):
        with self.copy() as root:
            (root / "offsets/.9.0c4f9a1e-4a52-4a27-8ea1-4e5d5c2b8c11.tmp").write_bytes(b"v1\n{")
            return of_folder(root)


#: For each check: the query that triggers it, and the sound one; a string names an equal one.
TABLE = {
    "source_not_replayable": (
        lambda c: of_query(
            c.describe("socket", options={"host": "127.0.0.1", "port": str(c.port)})
        ),
        lambda c: of_query(c.describe()),
    ),
    "sink_at_least_once": (
        lambda c: of_query(c.describe(sink="foreachBatch")),
        lambda c: of_query(c.describe()),
    ),
    "sink_not_durable": (
        lambda c: of_query(c.describe(sink="memory")),
        lambda c: of_query(c.describe()),
    ),
    "location_not_durable": (
        lambda c: of_query(c.describe(sink="noop", checkpoint=None)),  # Spark takes a temporary one
        lambda c: of_query(c.describe()),
    ),
    "location_shared": (
        lambda c: c.shared(),
        lambda c: of_query(c.describe(), others={"app/other": c.describe()["location"]}),
    ),
    "two_writers": (lambda c: c.two_writers(), lambda c: c.without()),
    "transaction_timeout": (lambda c: c.kafka_sink(3_600_000), lambda c: c.kafka_sink(600_000)),
    "read_uncommitted": (
        lambda c: c.kafka(**{"kafka.isolation.level": "read_uncommitted"}),
        lambda c: c.kafka(**{"kafka.isolation.level": "read_committed"}),
    ),
    "asynchronous_progress": (lambda c: c.asynchronous(), lambda c: of_query(c.describe())),
    "snapshot_lag": (lambda c: c.lagging(), lambda c: c.without()),
    "log_unreadable": (
        lambda c: c.damaged(f"offsets/{c.n}", lambda data: data[: len(data) // 2]),
        lambda c: c.without(),
    ),
    "file_damaged": (
        lambda c: c.damaged(f"sources/0/{LAST}", lambda data: data.replace(b"file", b"fame")),
        lambda c: c.without(),
    ),
    "metadata_missing": (lambda c: c.without("metadata"), lambda c: c.without()),
    "commit_without_offsets": (lambda c: c.without(f"offsets/{c.n}"), lambda c: c.without()),
    "offsets_missing": (lambda c: c.without(f"offsets/{c.n - 1}"), lambda c: c.without()),
    "offsets_without_commits": (
        lambda c: c.without(f"commits/{c.n}", f"commits/{c.n - 1}"),
        lambda c: c.without(f"commits/{c.n}"),  # one open batch is a query at work
    ),
    "source_log_incomplete": (
        lambda c: c.without(f"sources/0/{LAST - 1}"),
        lambda c: c.without(),
    ),
    "source_log_ahead": (
        lambda c: c.without(*logs(*range(LAST, c.n + 1))),
        lambda c: c.without(),
    ),
    "state_incomplete": (
        lambda c: c.without(f"state/0/0/{c.n + 1}.delta", f"state/0/0/{c.n + 1}.snapshot"),
        lambda c: c.without(),
    ),
    "state_ahead": (
        lambda c: c.without(*logs(c.n, c.n - 1)),
        lambda c: c.without(),
    ),
    "state_without_offsets": (
        lambda c: c.without(*logs(c.n)),
        lambda c: c.without(f"commits/{c.n}"),
    ),
    "temporary_files": (lambda c: c.killed_while_writing(), lambda c: c.without()),
    "leftovers_at_start": (lambda c: c.killed_before_its_first_batch(), lambda c: c.without()),
}


@pytest.fixture
def cases(driver, source, durable, whole, broker, lines, tmp_path):  # noqa: F811
    return Cases(driver, source, durable, whole, broker, lines, tmp_path)


@pytest.mark.slow("queries of its own; on Spark's own checkpoints each is tried every time")
@pytest.mark.parametrize("check", TABLE)
def test_a_query_that_triggers_it_and_a_sound_one(cases, check):
    bad, sound = TABLE[check]
    assert check in bad(cases)
    assert check not in sound(cases)


@pytest.mark.slow("a query of its own; that sound ones are is seen every time on Spark's fixtures")
def test_the_sound_folder_has_no_finding_at_all(cases):
    assert cases.without() == set()


def test_every_check_has_both():
    # Late rows are judged from batches (tests/core/test_lateness.py), and no Spark of today leaves
    # its commits out (tests/checkpoint/test_spark_fixtures.py).
    # A schema named by address: tests/checkpoint/test_savepoint.py; other partitions, given
    # offline: tests/checkpoint/test_repartition.py.
    elsewhere = {"late_rows", "batch_ends", "commits_missing", "state_schema_elsewhere"}
    elsewhere |= {"sink_quota"}  # tests/core/test_quota.py
    elsewhere |= {"repartition_unfinished", "partitions_untold"}
    elsewhere |= {"retention_unwatched"}  # of brokers: tests/service/test_kafka_watch.py
    assert set(TABLE) == set(CHECKS) - elsewhere
