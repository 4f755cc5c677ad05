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
    ],
)
def test_codes_and_statuses_in_messages(message: str, what: str) -> None:
    assert cause_of(message, None).what == what


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
