"""Spark's own tests of streams pass with the plugin in their driver, and limits that move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lacking import lacking
from tests.plugin.scaling import configured
from tests.plugin.suites import CONFIG, run, there_are

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.slow("Spark's own tests, some minutes of them"),
    pytest.mark.course("minutes each"),
]
#: How many tests each has in Spark 4.2.
SUITES = {"FileStreamSourceSuite": 76, "StreamingQuerySuite": 48, "TriggerAvailableNowSuite": 12}


@pytest.mark.parametrize("suite", SUITES)
def test_spark_s_own_tests_pass_with_the_plugin(suite: str, tmp_path: Path) -> None:
    if not there_are():
        lacking("Spark's tests are missing: sh scripts/ensure-kafka.sh gets them")
    doors = tmp_path / "doors"
    with configured(tmp_path / "agent", doors, CONFIG) as agent:
        found = run([suite], tmp_path / "with", doors)
        told = agent.http.get("/v1/queries").json()["agent"]
        log = agent.log()
    assert {test: text for test, text in found.items() if text} == {}
    assert len(found) == SUITES[suite]
    assert told["events"]["started"] > 10, "Weir was there"
    assert told["events"]["progress"] > 10
    assert [one for one in log if one["level"] == "error"] == []
