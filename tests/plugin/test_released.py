"""Executors that a real job goes on reading are not released."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plugin.cluster import SPARK
from tests.plugin.conftest import JOBS
from tests.plugin.scaling import LOCAL_CLUSTER

if TYPE_CHECKING:
    from tests.plugin.conftest import Bench

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.slow("a cluster, and a job some of whose executors have no task for a while"),
]


def test_executors_whose_output_a_running_job_reads_stay_until_it_is_over(bench: Bench) -> None:
    """Without them Spark would make that output again, or end the job where it cannot."""
    command = (str(SPARK / "bin/spark-submit"), "--master", LOCAL_CLUSTER)
    conf = ("--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=600m")
    job = bench.run(bench.folder / "job", *command, *conf, str(JOBS / "reading_job.py"))
    assert job.wait(240) == 0, job.err[-3000:]
    assert [line for line in job.out.splitlines() if line] == [
        "without a task True",
        "read [6] made 6",
        "left 1",
        "back 3 None",  # as many as its cluster gives, without a word of ours
    ]
