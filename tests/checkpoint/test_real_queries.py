"""Real queries, killed and rescued, copied while they run and restored: the result must not differ.

A dozen of what ``python -m tests.benchmarks.rescue`` does by the hundred.
"""

import random
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from agent.checkpoint import journal
from agent.checkpoint.folder import LocalFolder
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.rescue_command import RescueOptions, rescue
from agent.checkpoint.savepoint import take_savepoint
from agent.checkpoint.sink import advise_rollback
from agent.checkpoint.soundness import judge
from tests.checkpoint.build import killed_at, tree, write
from tests.checkpoint.kills import (
    CHEAP,
    Driver,
    contents,
    fairly,
    fill_topics,
    finish,
    finish_rescued,
    make_input,
    make_order,
    point_of,
    rescue_quietly,
    roll_back,
    take_kills,
)
from tests.checkpoint.test_rescue_rules import plan
from tests.kafka.broker import connector

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
SWEEP = pytest.mark.slow(
    "a Spark killed again and again; rescues of its files are tried every time"
)


@pytest.fixture(scope="module")
def driver(kafka_jars, tmp_path_factory):
    settings = {**CHEAP, "spark.jars": connector(version("pyspark"))}
    with Driver(tmp_path_factory.mktemp("driver") / "log", settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return make_input(tmp_path_factory.mktemp("input"), files=12)


@SWEEP
@pytest.mark.parametrize(
    ("reads", "operator", "store"),
    [
        ("files", "aggregation", "hdfs"),
        ("kafka", "aggregation", "rocksdb"),
        ("files", "join", "changelog"),
        ("files", "window", "changelog-v2"),
    ],
)
def test_killed_and_rescued_and_copied_under_load(
    driver,
    source,
    request,
    tmp_path,
    reads,
    operator,
    store,
):
    order = make_order(tmp_path, source, operator, store, limit=4)
    if reads == "kafka":
        running = request.getfixturevalue("broker")
        topic = f"{operator}-{store}"
        fill_topics(running, topic, source)
        order |= {"kafka": running.bootstrap, "topic": topic, "unit_rows": 10}
    savepoints = []

    def copy_it():
        checkpoint = Path(order["checkpoint"])
        if len(savepoints) < 1 and (checkpoint / "commits/1").exists():
            to = tmp_path / f"savepoint-{len(savepoints)}"
            manifest = take_savepoint(
                LocalFolder(checkpoint), to / "ck", now=lambda: 0.0, sleep=lambda _: None
            )
            savepoints.append((to, manifest.batch_id))

    kills = take_kills(
        driver,
        order,
        tmp_path / "images",
        most=3,
        chaos=random.Random(operator + store),
        wanted=fairly(3),
        meanwhile=copy_it,
    )
    truth = contents(order["sink"], operator)
    assert truth[0]
    assert kills
    for kill in kills:
        point = point_of(kill / "ck")
        assert finish_rescued(driver, order, kill, truth, limit=3) == "", point
    for to, batch_id in savepoints:
        shutil.copy2(order["sink"], to / "sink.db")
        roll_back(to / "sink.db", batch_id)
        assert finish(driver, order, to, truth, limit=5) == ""


@SWEEP
def test_a_rescue_that_is_killed_itself_leaves_a_right_result(driver, source, tmp_path):
    order = make_order(tmp_path, source, "aggregation", "hdfs", limit=4)

    def half_done(image):
        base = read_checkpoint(LocalFolder(image / "ck")).layout.latest_commit
        return base >= 0 and point_of(image / "ck") in ("some state", "all state")

    kills = take_kills(
        driver, order, tmp_path / "images", most=1, chaos=random.Random(3), wanted=half_done
    )
    if not kills:  # the phase is short: make it from the finished run, whose last commit we take
        image = tmp_path / "images" / "made"
        image.mkdir(parents=True)
        shutil.copytree(order["checkpoint"], image / "ck")
        shutil.copy2(order["sink"], image / "sink.db")
        last = read_checkpoint(LocalFolder(image / "ck")).layout.latest_commit
        for name in (f"{last}", f".{last}.crc"):
            (image / "ck/commits" / name).unlink()
        kills = [image]
    truth = contents(order["sink"], "aggregation")
    wanted = plan(kills[0] / "ck")
    base = wanted.base_batch
    chaos = random.Random(4)
    for step in chaos.sample(range(3, len(wanted.moves) + 2), 2):
        image = shutil.copytree(kills[0], tmp_path / f"apply-{step}")
        assert killed_at(
            step, lambda say, r=image / "ck": journal.apply_plan(r, wanted, now=1e9, on_step=say)
        )
        roll_back(image / "sink.db", base)
        assert finish(driver, order, image, truth, limit=3) == "", step
    image = shutil.copytree(kills[0], tmp_path / "undo")
    before = tree(image / "ck")
    journal.apply_plan(image / "ck", wanted, now=1e9)
    [found] = journal.find_rescues(image / "ck")
    assert killed_at(
        len(wanted.moves) // 2, lambda say: journal.undo(image / "ck", found, on_step=say)
    )
    again = shutil.copytree(image, tmp_path / "undo-again")
    roll_back(image / "sink.db", base)
    assert finish(driver, order, image, truth, limit=3) == ""
    assert rescue(str(again / "ck"), RescueOptions(undo=True, unchanged_seconds=0)) == 0
    assert tree(again / "ck") == before


@pytest.mark.slow("a query of its own; that one goes on is tried every time on Spark's fixtures")
def test_a_file_sink_that_holds_the_batch_and_one_that_is_rolled_back(driver, source, tmp_path):
    early = tmp_path / "early"
    (early / "left").mkdir(parents=True)
    files = sorted((source / "left").iterdir())
    for file in files[:6]:
        shutil.copy2(file, early / "left")
    order = make_order(tmp_path, early, "none", "hdfs", limit=3)
    order["parquet"] = str(tmp_path / "out")
    assert "error" not in driver.ask({"run": order})
    to = tmp_path / "savepoint"
    checkpoint = LocalFolder(Path(order["checkpoint"]))
    manifest = take_savepoint(checkpoint, to / "ck", now=lambda: 0.0, sleep=lambda _: None)
    for file in files[6:]:
        shutil.copy2(file, early / "left")
    assert "error" not in driver.ask({"run": order})
    truth = {"rows": 120, "distinct": 120}
    assert driver.ask({"table": order}) == truth

    held = shutil.copytree(order["checkpoint"], tmp_path / "held")
    last = read_checkpoint(LocalFolder(held)).layout.latest_commit
    for name in (f"{last}", f".{last}.crc"):
        (held / "commits" / name).unlink()
    before = tree(held)
    code, report = rescue_quietly(held, apply=True, sink_path=order["parquet"])
    assert code == 1
    assert f"holds batch {last}" in report["plan"]["refusals"][0]["evidence"]
    assert tree(held) == before

    advice = advise_rollback(Path(order["parquet"]), manifest.batch_id)
    assert advice.possible
    assert advice.log_entries
    for entry in advice.log_entries:
        for name in (entry, f".{entry}.crc"):
            (Path(order["parquet"]) / "_spark_metadata" / name).unlink(missing_ok=True)
    for path in advice.data_files:
        Path(path.removeprefix("file://")).unlink()
    assert driver.ask({"table": order})["rows"] == 60
    shutil.copytree(to / "ck", tmp_path / "again")
    anew = {**order, "checkpoint": str(tmp_path / "again"), "parquet": str(tmp_path / "anew")}
    (tmp_path / "anew").mkdir()
    advice = advise_rollback(tmp_path / "anew", manifest.batch_id)
    for entry in advice.missing_entries:  # without them Spark cannot read what it writes
        write(tmp_path / "anew", f"_spark_metadata/{entry}", "v1", checksum=False)
    assert "error" not in driver.ask({"run": anew})
    assert driver.ask({"table": anew}) == {"rows": 60, "distinct": 60}, (
        "an empty sink gets the rest"
    )
    restored = {**order, "checkpoint": str(to / "ck"), "limit": 2}
    assert "error" not in driver.ask({"run": restored})
    assert driver.ask({"table": order}) == truth


@pytest.mark.slow("queries of its own; what is said of such a snapshot is tried every time")
@pytest.mark.parametrize("store", ["hdfs", "changelog", "changelog-v2"])
def test_a_snapshot_that_cannot_be_read_is_passed_over_there_or_not(
    driver, source, tmp_path, store
):
    early = tmp_path / "early"
    (early / "left").mkdir(parents=True)
    files = sorted((source / "left").iterdir())
    for file in files[:7]:
        shutil.copy2(file, early / "left")
    order = make_order(tmp_path, early, "aggregation", store, limit=1)
    # Slow enough for the maintenance to write its snapshots meanwhile.
    assert "error" not in driver.ask({"run": {**order, "sink_seconds": 0.5}})
    bad = tmp_path / "bad"
    bad.mkdir()
    root = shutil.copytree(order["checkpoint"], bad / "ck")
    shutil.copy2(order["sink"], bad / "sink.db")
    for file in files[7:]:
        shutil.copy2(file, early / "left")
    assert "error" not in driver.ask({"run": order})
    truth = contents(order["sink"], "aggregation")

    kind, damaged = "snapshot" if store == "hdfs" else "zip", []
    for partition in root.glob("state/0/[01]"):
        newest = max(partition.glob(f"*.{kind}"), key=lambda path: int(path.stem.partition("_")[0]))
        damaged.append(newest.relative_to(root))
        newest.write_bytes(b"")
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    seen = judge(read_checkpoint(LocalFolder(root)), LocalFolder(root), deep=True)
    said = [one for one in seen.findings if one.severity != "info"]
    assert {(one.check, one.severity) for one in said} == {("state_incomplete", "warning")}
    aside = shutil.copytree(bad, tmp_path / "aside")
    for path in damaged:
        assert store == "changelog-v2" or any(f"move {path} aside" in one.remedy for one in said)
        (aside / "ck" / path).unlink()
    for image in (bad, aside):
        assert finish(driver, order, image, truth, limit=1) == "", image
