"""Every exception class that an installed Kafka, Hadoop or Python publishes has an entry."""

from __future__ import annotations

import builtins
import re
import zipfile
from pathlib import Path

import pyspark
import pytest

from agent.core.judge.failure import kinds as failure_kinds
from agent.core.judge.failure.cause import WHATS, cause_of
from agent.core.judge.failure.names import (
    NAMES,
    ORACLE,
    SQL_CLASSES,
    STATUSES,
    VAGUE,
    kind_of_published,
)

ROOT = Path(__file__).parents[2]
KINDS = {*WHATS, "denied", "absent", ""} - {"unknown"}
#: What of a jar is its publisher's own, not what it carries along.
PACKAGES = {
    "kafka-clients": r"org/apache/kafka/(?:common/(?!message/)|clients/)",
    "hadoop-client-api": r"org/apache/hadoop/(?:fs|hdfs|ipc|net|security|io|util|yarn)/",
    "delta-spark": r"(?:org/apache/spark/sql/delta|io/delta)/",
}


def jars() -> list[Path]:
    made = ROOT / ".make"
    return [
        *Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar"),
        *made.glob("spark-*/lib/python*/site-packages/pyspark/jars/hadoop-client-api-*.jar"),
        *made.glob("kafka/*/kafka-clients-*.jar"),
        *made.glob("kafka/delta-*/delta-spark_*.jar"),
    ]


def published(jar: Path) -> set[str]:
    package = next(pattern for name, pattern in PACKAGES.items() if jar.name.startswith(name))
    with zipfile.ZipFile(jar) as opened:
        found = (
            re.match(package + r"(?:.*[/$])?([A-Za-z]+(?:Exception|Error))\.class$", name)
            for name in opened.namelist()
        )
        return {one[1] for one in found if one}


def known(name: str) -> bool:
    return kind_of_published(name) is not None or bool(
        failure_kinds.kind_of_class(name)
        or failure_kinds.kind_of_shared(name)
        or failure_kinds.kind_of_name(name)
    )


@pytest.mark.parametrize("jar", jars(), ids=lambda jar: f"{jar.parents[0].name}-{jar.name}")
def test_every_published_class_has_an_entry(jar: Path) -> None:
    names = published(jar)
    assert names
    missing = sorted(name for name in names if not known(name))
    assert not missing, f"place these in agent/core/judge/failure/names.py: {missing}"


def test_the_classes_of_the_hadoop_in_use_are_read() -> None:
    assert len(published(jars()[0])) > 100


def test_every_exception_of_python_has_an_entry() -> None:
    found = [
        name
        for name, one in vars(builtins).items()
        if isinstance(one, type)
        and issubclass(one, BaseException)
        and not issubclass(one, Warning)
        and not known(one.__name__)
    ]
    assert not found


def test_a_name_means_one_thing() -> None:
    meant: dict[str, str] = {}
    for kind, _, names in NAMES:
        assert kind in KINDS
        for name in names.split():
            assert kind_of_published(name) == kind, name
            assert meant.setdefault(name, kind) == kind, name
    assert {*STATUSES.values(), *SQL_CLASSES.values(), *(one[2] for one in ORACLE)} <= KINDS
    assert set(STATUSES) >= VAGUE


@pytest.mark.parametrize(
    ("message", "what"),
    [
        # one name as a class, an error code and a status of gRPC
        ("software.amazon.awssdk.services.x.model.SlowDownException: x", "throttled"),
        (
            "a.B$CException: x (Service: Amazon S3; Status Code: 503; Error Code: SlowDown)",
            "throttled",
        ),
        ("a.BException: RESOURCE_EXHAUSTED: x", "throttled"),
        # a code is believed before a status, a status before words
        ("a.BException: x (Status Code: 400; Error Code: ExpiredToken)", "refused"),
        ("a.BException: x (Status Code: 400; Error Code: InternalFailure)", "unreachable"),
        ("a.BException: HTTP/1.1 429 unsupported", "throttled"),
        # but words before one that services give for most anything
        ("a.BException: x timed out (Status Code: 400)", "unreachable"),
        ("a.BException: x (Status Code: 400)", "refused"),
        ('a.BException: {"reason" : "quotaExceeded"}', "throttled"),
        ("a.BException: Command failed with error 112 (WriteConflict): x", "refused"),
        ("a.BException: unavailable_shards_exception: x", "unreachable"),
        ("a.BException: condition: amqp:link:stolen", "refused"),
        ("java.sql.SQLException: ORA-12541: x", "unreachable"),
        ("java.sql.SQLException: ORA-01017: x", "refused"),
        ("java.sql.SQLException: x [SQLState: 08006]", "unreachable"),
        ("java.sql.SQLException: x [SQLState: 28000]", "refused"),
        # a state that is not of its class's kind; one of class 42 only where no words tell
        ("java.sql.SQLException: x [SQLState: 42501]", "refused"),
        ("java.sql.SQLException: x [SQLState: 42703]", "schema"),
        ("java.sql.SQLException: x timed out [SQLState: 42000]", "unreachable"),
        ("pyodbc.Error: ('23000', '[23000] [Microsoft]x')", "refused"),
        ("net.snowflake.X: 002003 (42S02): x", "setting"),
        # Oracle's numbers, in whatever language it says the rest
        ("java.sql.SQLException: ORA-00911: x", "setting"),
        ("java.sql.SQLException: ORA-00904: x", "schema"),
        ("java.sql.SQLException: ORA-04031: x", "throttled"),
        ("java.sql.SQLException: ORA-20001: x", "refused"),
        # numbers and names of MongoDB and ClickHouse
        ("com.mongodb.MongoCommandException: Command failed with error 18: x", "refused"),
        ("com.mongodb.MongoQueryException: Query failed with error code 286 and x", "gone"),
        ("a.BException: Code: 252. DB::Exception: x", "throttled"),
        ("a.BException: [HTTP]default@h:8123}/d [60] DB::Exception: x", "setting"),
        ("a.BException: DB::Exception: x. (TABLE_IS_READ_ONLY) (version 23)", "refused"),
        # a status that no list has is as its class's first, and as vague
        ("io.grpc.StatusRuntimeException: UNKNOWN: HTTP status code 464", "refused"),
        ("a.BException: HTTP/1.1 520", "unreachable"),
        ("a.BException: slow down (Status Code: 503)", "throttled"),
    ],
)
def test_codes_and_statuses_in_messages(message: str, what: str) -> None:
    assert cause_of(message, None).what == what


MESSAGES = [
    line.split("|", 1)
    for line in (Path(__file__).parent / "messages.txt").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(("whats", "message"), MESSAGES, ids=[one[1][:60] for one in MESSAGES])
def test_messages_as_servers_publish_them(whats: str, message: str) -> None:
    """What databases, stores, brokers and the JDK say, from a class that says nothing."""
    text = f"java.sql.SQLException: {message}\n\tat com.acme.db.Client.call(Client.java:1)"
    assert cause_of(text, None).what in whats.split("/")


THROWN = [
    line.split("|", 1)
    for line in (Path(__file__).parent / "thrown.txt").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(("whats", "thrown"), THROWN, ids=[one[1][:60] for one in THROWN])
def test_exceptions_as_clients_publish_them(whats: str, thrown: str) -> None:
    """Class and message together, at the end of the line in which Spark tells of a task."""
    text = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: "
        "Task 3 in stage 12.0 failed 4 times, most recent failure: "
        "Lost task 3.3 in stage 12.0 (TID 91) (10.0.0.12 executor 2): "
    )
    assert cause_of(text + thrown, None).what in whats.split("/")


@pytest.mark.parametrize(
    ("inside", "what"), [(0, "unreachable"), (2, "unreachable"), (3, "unknown")]
)
def test_a_client_that_connects_tells_so_by_its_innermost_frames(inside: int, what: str) -> None:
    frames = ["com.acme.db.A.call", "com.acme.db.B.call", "com.acme.db.C.call"][:inside]
    frames.append("com.mongodb.Client.openConnection")
    text = "\n\tat ".join(
        ["com.mongodb.MongoException: x", *(f"{frame}(A.java:1)" for frame in frames)]
    )
    assert cause_of(text, None).what == what


@pytest.mark.parametrize(
    ("text", "what", "cause"),
    [
        # what a client throws for anything tells no kind, but that a service said it
        ("com.mongodb.MongoException: x", "unknown", "external_sink"),
        ("java.sql.SQLException: x", "unknown", "external_sink"),
        # an argument that nobody took: an option while a query is made, else nothing to tell
        (
            (
                "java.lang.IllegalArgumentException: x\n\tat com.mongodb.A.b"
                "\n\tat org.apache.spark.sql.DataFrameWriter.save"
            ),
            "setting",
            "configuration",
        ),
        (
            (
                "java.lang.IllegalArgumentException: x\n\tat com.mongodb.A.b"
                "\n\tat org.apache.spark.sql.execution.streaming.StreamExecution.runStream"
            ),
            "unknown",
            "external_sink",
        ),
    ],
)
def test_a_class_thrown_for_anything_tells_no_kind(text: str, what: str, cause: str) -> None:
    found = cause_of(text, None)
    assert (found.what, found.cause) == (what, cause)


@pytest.mark.parametrize(
    ("frames", "where"),
    [
        # a relation is made to read as well as to write; the stack above it tells
        (
            (
                "net.snowflake.spark.snowflake.DefaultSource.createRelation "
                "org.apache.spark.sql.DataFrameReader.load"
            ),
            "source",
        ),
        (
            (
                "net.snowflake.spark.snowflake.DefaultSource.createRelation "
                "org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand.run"
            ),
            "sink",
        ),
        # whoever throws a class of Java's tells more than the class
        ("com.acme.gpconnector.reader.GreenplumReader.next", "source"),
        ("com.acme.gpconnector.writer.GreenplumWriter.put", "sink"),
        ("com.pingcap.tikv.TwoPhaseCommitter.commit", "sink"),
    ],
)
def test_where_a_connector_was(frames: str, where: str) -> None:
    stack = "".join(f"\n\tat {frame}(X.java:1)" for frame in frames.split())
    assert cause_of(f"java.sql.SQLException: timed out{stack}", None).where == where


@pytest.mark.parametrize(
    ("frames", "class_name", "what"),
    [
        # an exception of no meaning, by the library that it was thrown from
        ("java.net.SocketInputStream.read com.acme.X.y", "java.io.IOException", "unreachable"),
        ("java.util.zip.GZIPInputStream.read com.acme.X.y", "java.io.IOException", "corrupt"),
        ("sun.security.provider.JavaKeyStore.engineLoad a.B.c", "java.io.IOException", "setting"),
        # the end of a file, of a connection, and of a worker's answer
        ("java.io.DataInputStream.readUTF com.acme.X.y", "java.io.EOFException", "corrupt"),
        ("java.net.Socket.read com.acme.X.y", "java.io.EOFException", "unreachable"),
        ("java.io.DataInputStream.readInt", "java.io.EOFException", "unreachable"),
        # a file of the machine that a client opens itself is one that an option names
        (
            "java.io.FileInputStream.open0 org.apache.kafka.common.security.X.y",
            "java.io.FileNotFoundException",
            "setting",
        ),
        ("java.io.FileInputStream.open0 a.B.c", "java.io.FileNotFoundException", "gone"),
    ],
)
def test_frames_tell_what_a_class_does_not(frames: str, class_name: str, what: str) -> None:
    stack = "".join(f"\n\tat {frame}(X.java:1)" for frame in frames.split())
    assert cause_of(f"{class_name}: x{stack}", None).what == what
