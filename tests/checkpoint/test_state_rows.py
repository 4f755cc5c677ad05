"""Rows per partition of the state: what is read of which operator, and a real skewed query's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent.checkpoint.folder import CheckpointError
from agent.checkpoint.state_rows import Wanted, count_rows, counted, skewed, wanted
from tests.checkpoint.build import tree
from tests.checkpoint.kills import CHEAP, Driver


def listed(name, *stores, properties=None):
    return [
        {
            "operatorId": 1,
            "operatorName": name,
            "stateStoreName": store,
            "numPartitions": 3,
            "operatorProperties": properties,
        }
        for store in stores
    ]


JOIN = [f"{side}-{kind}" for side in ("left", "right") for kind in ("keyToNum", "keyWithIndex")]
VARIABLES = json.dumps({"stateVariables": [{"stateName": "total"}, {"stateName": "items"}]})


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (listed("stateStoreSave", "default"), {"default": {"operatorId": "1"}}),
        (
            listed("symmetricHashJoin", *JOIN),
            {side: {"operatorId": "1", "joinSide": side} for side in ("left", "right")},
        ),
        (
            listed("transformWithStateExec", "default", properties=VARIABLES),
            {name: {"operatorId": "1", "stateVarName": name} for name in ("total", "items")},
        ),
        (listed("transformWithStateExec", "default", properties="{"), {}),
        (listed("a new one", "other"), {"other": {"operatorId": "1", "storeName": "other"}}),
    ],
)
def test_what_is_read_of_which_operator(rows, expected):
    assert {one.part: one.options for one in wanted(iter(rows))} == expected


def test_partitions_without_rows_count_as_empty():
    one = counted(Wanted(0, "dedupe", "default", 4, {}), {1: 30, 3: 10})
    assert (one.rows, one.by_partition, one.empty_partitions) == (40, [0, 30, 0, 10], 2)
    assert (one.largest_partition, one.largest_rows, one.skew) == (1, 30, 3.0)
    nothing = counted(Wanted(0, "dedupe", "default", 2, {}), {})
    assert (nothing.rows, nothing.skew, nothing.empty_partitions) == (0, None, 2)


@pytest.mark.parametrize(
    ("by_partition", "said"),
    [
        ([100, 9700, 100, 100], "partition 1 of 4 holds 9,700 of 10,000 rows"),
        ([2500, 2600, 2450, 2450], None),
        ([0, 90, 0, 0], None),  # too few for words
        ([9000], None),
        ([], None),
    ],
)
def test_a_partition_that_holds_far_more_is_named(by_partition, said):
    found = skewed("operator 0 dedupe", "left", "rows", by_partition, least=1000)
    assert (found is None) == (said is None)
    assert said is None or said in found


@pytest.mark.slow("two Sparks of its own")
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_real_skewed_state(tmp_path):
    source = tmp_path / "in" / "left"
    source.mkdir(parents=True)
    # Most keys are such that Spark puts them into one partition of four; the others are few.
    rows = [{"id": n, "k": n, "v": 1, "t": "2026-01-01T00:00:00Z"} for n in range(6000)]
    with Driver(
        tmp_path / "log", settings={**CHEAP, "spark.sql.shuffle.partitions": "4"}
    ) as driver:
        order = {
            "input": str(source.parent),
            "sink": str(tmp_path / "sink.db"),
            "checkpoint": str(tmp_path / "ck"),
            "operator": "aggregation",
            "store": "rocksdb",
            "limit": 1,
        }
        places = driver.ask({"partitions": {"keys": 6000, "of": 4}})["partitions"]
        kept = [row for row in rows if places[row["k"]] == 1 or row["k"] % 50 == 0]
        (source / "a.json").write_text("\n".join(map(json.dumps, kept)))
        assert "error" not in driver.ask({"run": order})
    expected = [sum(places[row["k"]] == partition for row in kept) for partition in range(4)]
    before = tree(tmp_path / "ck")
    # A process of its own: it ends the Spark that it has.
    weir = Path(sys.executable).with_name("weir")
    options = ("checkpoint", "inspect", tmp_path / "ck", "--json", "--state-rows")
    ended = subprocess.run([weir, *options], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    state = json.loads(ended.stdout)["state"]
    assert tree(tmp_path / "ck") == before
    (found,) = state["rows"]
    assert (found["by_partition"], found["missing"]) == (expected, "")
    assert found["rows"] == sum(expected)
    sizes = state["operators"][0]["by_partition"]
    assert len(sizes) == 4
    assert sum(sizes) == state["operators"][0]["bytes"]
    assert any("partition 1 of 4" in line and "rows" in line for line in state["skewed"])


def test_without_pyspark_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(CheckpointError, match="pip install 'pyspark>=4'"):
        count_rows(str(tmp_path))
