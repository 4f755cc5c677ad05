"""The listener as a sidecar's driver gets it: an archive that Spark is told of by local://."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
import yaml

from tests.helm import chart
from tests.helm.chart import ROOT

pytestmark = pytest.mark.spark


def test_spark_finds_the_listener_where_the_chart_puts_it(tmp_path: Path) -> None:
    with_plugin = chart.only(
        chart.render({"mode": "sidecar"}), "ConfigMap", f"{chart.RELEASE}-driver"
    )["data"]
    assert "pyFiles" not in "".join(with_plugin.values()), "a job may have a module of that name"
    objects = chart.render({"mode": "sidecar", "sidecar": {"plugin": False}})
    content = chart.only(objects, "ConfigMap", f"{chart.RELEASE}-driver")["data"]
    (line,) = [one for one in content["spark-defaults.conf"].splitlines() if "pyFiles" in one]
    told = line.split()[1]
    (driver,) = chart.driver_pod(objects)["spec"]["containers"]
    folders = {mount["mountPath"]: mount["name"] for mount in driver["volumeMounts"]}
    assert folders[told.removeprefix("local://").rpartition("/")[0]] == "weir-listener"
    application = yaml.safe_load(content["spark-application.yaml"])
    assert application["spec"]["deps"]["pyFiles"] == [told]

    # The same file name in a folder of ours, made as the image's is: the package alone, zipped.
    shutil.copytree(
        ROOT / "spark_listener",
        tmp_path / "source" / "spark_listener",
        ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"),
    )
    archive = tmp_path / told.rpartition("/")[2]
    shutil.make_archive(str(archive.with_suffix("")), "zip", tmp_path / "source")
    assert archive.exists()
    job = tmp_path / "job.py"
    job.write_text("import spark_listener\nprint('from', spark_listener.__file__)\n")
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    # Without site this checkout, which is installed editable, is not seen.
    python = tmp_path / "python"
    site = Path(pyspark.__file__).parents[1]
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec "{sys.executable}" -S "$@"\n'
    )
    python.chmod(0o755)
    done = subprocess.run(
        [
            *("bash", str(site / "pyspark" / "bin" / "spark-submit")),
            *("--conf", f"spark.submit.pyFiles=local://{archive}", str(job)),
        ],
        env={
            **environ,
            "SPARK_HOME": str(site / "pyspark"),
            "PYSPARK_PYTHON": str(python),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"from {archive}/spark_listener/__init__.py" in done.stdout
