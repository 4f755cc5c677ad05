"""Every error condition that an installed Spark, Kafka connector or Delta publishes is placed."""

from __future__ import annotations

import ast
import json
import zipfile
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pyspark
import pytest

from agent.core.judge.failure.cause import CAUSES, WHATS, WHERES, cause_of
from agent.core.judge.failure.conditions import (
    FAMILIES,
    PYSPARK,
    SQLSTATES,
    family_of,
    kind_in_pyspark,
    place_of_condition,
)
from tests.parsing import syntax_of

ROOT = Path(__file__).parents[2]
KINDS = {*WHATS, "denied", "absent", ""} - {"unknown"}
#: Databricks publishes these on its pages, in no jar.
OF_DATABRICKS = {
    *("CF_*", "CLOUD_FILE_*", "KINESIS_*", "PS_*", "INSUFFICIENT_PERMISSIONS*"),
    "UDF_PYSPARK_USER_CODE_ERROR.MEMORY_LIMIT*",
}


def jars() -> list[Path]:
    """Those that hold conditions: of the Spark in use, of the matrix, of Kafka and Delta."""
    made = ROOT / ".make"
    return [
        *Path(pyspark.__file__).parent.glob("jars/spark-common-utils_*.jar"),
        *made.glob("spark-*/lib/python*/site-packages/pyspark/jars/spark-common-utils_*.jar"),
        *made.glob("kafka/connector-*/spark-sql-kafka-*.jar"),
        *made.glob("kafka/delta-*/delta-spark_*.jar"),
    ]


@cache
def conditions(jar: Path) -> dict[str, str]:
    """What a jar publishes, subclasses too: the name and its SQLSTATE."""
    found: dict[str, str] = {}
    with zipfile.ZipFile(jar) as opened:
        for name in opened.namelist():
            if not (name.startswith("error/") and name.endswith(".json")):
                continue
            for condition, body in json.loads(opened.read(name)).items():
                if not (isinstance(body, dict) and "message" in body):
                    continue  # the classes and states of SQLSTATE
                state = body.get("sqlState", "")
                found[condition] = state
                for subclass in body.get("subClass", {}):
                    found[f"{condition}.{subclass}"] = state
    return found


@pytest.mark.parametrize("jar", jars(), ids=lambda jar: f"{jar.parents[0].name}-{jar.name}")
def test_every_published_condition_has_its_place(jar: Path) -> None:
    published = conditions(jar)
    assert published
    missing = sorted(name for name in published if family_of(name) is None)
    assert not missing, f"place these in agent/core/judge/failure/conditions.py: {missing}"


def test_the_conditions_of_the_spark_in_use_are_read() -> None:
    assert len(conditions(jars()[0])) > 1500


def test_every_family_says_why_and_every_pattern_is_of_use() -> None:
    published = {name for jar in jars() for name in conditions(jar)}
    for family in FAMILIES:
        assert family.why
        assert family.where in {*WHERES, ""} - {"unknown"}
        assert family.kind in KINDS
        assert family.where or not family.patterns or family.kind in ("", "gone")
    used = {pattern for name in published for pattern in _patterns_of(name)}
    unused = {p for family in FAMILIES for p in family.patterns} - used - OF_DATABRICKS
    # A pattern may be of a version that is not installed here, or of Delta.
    complete = all(
        any(f"spark-{version}" in str(jar) for jar in jars()) for version in ("3.5", "4.3")
    )
    assert not {
        pattern for pattern in unused if "*" in pattern and complete and len(published) > 2700
    }


def _patterns_of(name: str) -> list[str]:
    top = name.partition(".")[0]
    return [
        pattern
        for family in FAMILIES
        for pattern in family.patterns
        if fnmatchcase(name, pattern) or fnmatchcase(top, pattern)
    ]


def test_no_name_stands_twice() -> None:
    names = [pattern for family in FAMILIES for pattern in family.patterns]
    assert sorted(set(names)) == sorted(names)


def of_pyspark(package: Path) -> dict[str, str]:
    """The conditions that PySpark's own code names, and what they say."""
    told = package / "errors/error-conditions.json"
    if told.exists():
        published = json.loads(told.read_text("utf-8"))
    else:  # before 4.0 within a string of the module
        source = (package / "errors/error_classes.py").read_text("utf-8")
        text = next(one.value for one in syntax_of(source).body if isinstance(one, ast.Assign))
        published = json.loads(ast.literal_eval(text))
    return {name: " ".join(body["message"]) for name, body in published.items()}


PYSPARKS = [
    Path(pyspark.__file__).parent,
    *(ROOT / ".make").glob("spark-*/lib/python*/site-packages/pyspark"),
]


@pytest.mark.parametrize("package", PYSPARKS, ids=lambda package: package.parts[-5])
def test_what_pyspark_itself_refuses_is_the_functions_fault(package: Path) -> None:
    published = of_pyspark(package)
    assert len(published) > 100
    for name, said in published.items():
        text = (
            "org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] x: Traceback (most "
            'recent call last):\n  File "/x/lib/pyspark.zip/pyspark/worker.py", line 9, in main\n'
            f"pyspark.errors.exceptions.base.PySparkRuntimeError: [{name}] {said}\n"
            " SQLSTATE: 38000\n\tat org.apache.spark.api.python.BasePythonRunner.x(P.scala:1)"
        )
        found = cause_of(text, "PYTHON_EXCEPTION")
        assert found.what == (kind_in_pyspark(name) or "bug"), name
        if kind_in_pyspark(name):  # what carries an error may be of a source
            cause = "configuration" if found.what == "setting" else "user_code"
            assert (found.cause, found.where) == (cause, "user_code"), name


def test_each_name_of_pysparks_own_is_published() -> None:
    names = {name for family in PYSPARK for name in family.patterns}
    assert names <= {name for package in PYSPARKS for name in of_pyspark(package)}


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("[PYTHON_VERSION_MISMATCH] x", "setting"),
        ("[PACKAGE_NOT_INSTALLED] x", "setting"),
        ("[SCHEMA_MISMATCH_FOR_PANDAS_UDF] x", "bug"),
        ("[FIELD_STRUCT_LENGTH_MISMATCH] x", "bug"),
        ("[UDTF_RETURN_SCHEMA_MISMATCH] x", "bug"),
        # an error that is passed on tells for itself
        ("[UDTF_EXEC_ERROR] x: ConnectionError: Connection refused", "unreachable"),
        ("[UDTF_EXEC_ERROR] x: KeyError: 'a'", "bug"),
    ],
)
def test_what_pyspark_says_is_not_read_as_sparks(said: str, what: str) -> None:
    text = f"pyspark.errors.exceptions.base.PySparkRuntimeError: {said}"
    python = f'Traceback (most recent call last):\n  File "/x/worker.py", line 9, in main\n{text}'
    assert cause_of(python, None).what == what


@pytest.mark.parametrize(
    ("name", "where", "kind"),
    [
        ("STREAM_FAILED", "", ""),
        ("CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS", "state", "gone"),
        ("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", "state", ""),
        ("CANNOT_LOAD_STATE_STORE.HDFS_STORE_PROVIDER_OUT_OF_MEMORY", "state", "memory"),
        ("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "state", "schema"),
        ("MALFORMED_LOG_FILE", "checkpoint", "corrupt"),
        ("CONCURRENT_STREAM_LOG_UPDATE", "checkpoint", "setting"),
        ("KAFKA_DATA_LOSS.START_OFFSET_RESET", "source", "gone"),
        ("FAILED_READ_FILE.FILE_NOT_EXIST", "source", "gone"),
        ("DELTA_CONCURRENT_APPEND", "sink", "refused"),
        ("DELTA_CONCURRENT_TRANSACTION", "checkpoint", "setting"),
        ("CLOUD_FILE_SOURCE_FILE_NOT_FOUND", "source", ""),
        ("UDF_PYSPARK_ERROR.OOM", "user_code", "memory"),
        ("UDF_PYSPARK_ERROR.UNKNOWN", "user_code", ""),
        ("DELTA_SCHEMA_CHANGED", "source", "schema"),
        ("DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED", "checkpoint", "corrupt"),
        ("DELTA_STREAMING_TRAILING_COMMIT_MISSING", "source", "gone"),  # 4.2: delta-io/delta#6314
        ("CAST_INVALID_INPUT", "user_code", "bug"),
        ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "user_code", "schema"),
        ("STREAMING_OUTPUT_MODE.INVALID", "user_code", "setting"),
        ("UNABLE_TO_ACQUIRE_MEMORY", "machine", "memory"),
    ],
)
def test_where_conditions_belong(name: str, where: str, kind: str) -> None:
    family = family_of(name)
    assert family is not None
    assert (family.where, family.kind) == (where, kind)


def test_a_condition_of_a_later_spark_goes_by_its_sqlstate() -> None:
    name = "ZEBRA_CROSSED"
    assert family_of(name) is None
    assert place_of_condition(name, f"[{name}] A zebra. SQLSTATE: 53200") == ("machine", "memory")
    assert place_of_condition(name, f"[{name}] A zebra. SQLSTATE: ZZ999") is None
    assert place_of_condition(name, f"[{name}] A zebra.") is None
    text = f"org.apache.spark.SparkException: [{name}] A zebra. SQLSTATE: 22012"
    found = cause_of(text, name)
    assert (found.cause, found.where, found.what) == ("user_code", "user_code", "bug")
    found = cause_of(text.replace("A zebra.", "No space left on device."), name)
    assert found.what == "disk"
    for where, kind in SQLSTATES.values():
        assert where in WHERES
        assert kind in KINDS


def test_each_condition_alone_is_judged() -> None:
    for jar in jars():
        for name, state in conditions(jar).items():
            said = f"org.apache.spark.SparkException: [{name}] It is so. SQLSTATE: {state}"
            found = cause_of(said, name)
            assert found.cause in CAUSES
            assert found.where in WHERES
            assert found.what in WHATS
