"""Both wheels as they would be shipped: what is in them, and that they run by themselves."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(pytest.__file__).resolve().parents[1]
CLUTTER = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "*.pyc")
AGENT_PARTS = ("agent", "dashboards", "alerts")


def build(source: Path, out: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", out, source],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def listener_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("listener")
    shutil.copytree(ROOT / "spark_listener", work / "source", ignore=CLUTTER)
    return build(work / "source", work / "out")


@pytest.fixture(scope="module")
def agent_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("agent")
    source = work / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    for name in ("spark_listener", "tests", "examples", *AGENT_PARTS):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=CLUTTER)
    return build(source, work / "out")


def members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def about(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = [m for m in archive.namelist() if m.endswith(f".dist-info/{name}")]
        return archive.read(member).decode()


def files(*folders: str, beside: frozenset[str] = frozenset()) -> set[str]:
    found = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT)
            clutter = any(
                part == "__pycache__" or part.endswith(".egg-info") or part == "build"
                for part in inside.parts
            )
            if path.is_file() and not clutter and path.name not in beside:
                found.add(inside.as_posix())
    return found


def alone(*paths: Path, cwd: Path) -> tuple[list[str], dict[str, str]]:
    """A Python that sees these paths and what is installed, but not this checkout.

    Without site no .pth file is read, and it is by those that a checkout is installed editable.
    """
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("WEIR_", "SPARK_"))}
    environ["PYTHONPATH"] = os.pathsep.join([*map(str, paths), str(SITE)])
    wrapper = cwd / "python-alone"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    wrapper.chmod(0o755)
    return [str(wrapper)], environ


def test_listener_wheel_holds_the_package_and_nothing_else(listener_wheel: Path) -> None:
    own = frozenset({"pyproject.toml", "LICENSE", "README.md"})
    assert members(listener_wheel) == files("spark_listener", beside=own)
    assert "spark_listener/py.typed" in members(listener_wheel)


def test_listener_wheel_depends_on_nothing(listener_wheel: Path) -> None:
    metadata = about(listener_wheel, "METADATA")
    assert "Requires-Dist" not in metadata
    assert "Requires-Python: >=3.10" in metadata
    assert "License-Expression: Apache-2.0" in metadata
    assert "weir-run = spark_listener.run:main" in about(listener_wheel, "entry_points.txt")
    assert "Root-Is-Purelib: true" in about(listener_wheel, "WHEEL")
    with zipfile.ZipFile(listener_wheel) as archive:
        assert any(name.endswith("/LICENSE") for name in archive.namelist())


def test_listener_wheel_by_the_name_of_a_zip_is_imported_as_it_is(
    listener_wheel: Path, tmp_path: Path
) -> None:
    """Named as the page says of Dataproc, whose ``--py-files`` takes no wheel."""
    page = (ROOT / "docs" / "start" / "dataproc.md").read_text("utf-8")
    (command, name) = re.findall(r"`(cp \S+\.whl (\S+\.zip))`", page)[0]
    shutil.copy(listener_wheel, tmp_path)
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=60)
    shipped = tmp_path / name
    python, environ = alone(shipped, cwd=tmp_path)
    told = "import spark_listener as it; print(it.why_off() or it.__file__, it.__version__)"
    done = subprocess.run(
        [*python, "-c", told],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    version = listener_wheel.name.split("-")[1]
    assert done.stdout == f"{shipped}/spark_listener/__init__.py {version}\n", done.stderr


def test_agent_wheel_holds_its_packages_with_their_data(agent_wheel: Path) -> None:
    there = tuple(part for part in AGENT_PARTS if (ROOT / part).is_dir())
    assert members(agent_wheel) == files(*there)
    metadata = about(agent_wheel, "METADATA")
    assert "Requires-Dist: weir-spark-listener==" in metadata
    assert "weir = agent.cli:main" in about(agent_wheel, "entry_points.txt")


@pytest.fixture
def agent(agent_wheel: Path, listener_wheel: Path, tmp_path: Path) -> Iterator[str]:
    """`weir agent` out of the two wheels alone; gives its address."""
    unpacked = tmp_path / "unpacked"
    for wheel in (agent_wheel, listener_wheel):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
    python, environ = alone(unpacked, cwd=tmp_path)
    address = tmp_path / "address"
    run = "import sys; from agent.cli import main; sys.exit(main())"
    command = [*python, "-c", run, "agent", "--port", "0", "--address-file", str(address)]
    log = (tmp_path / "agent.log").open("wb")
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL
    )
    try:

        def told() -> str:
            text = address.read_text().strip() if address.exists() else ""
            assert text or process.poll() is None, (tmp_path / "agent.log").read_text()
            return text

        log_text = (tmp_path / "agent.log").read_text
        yield until(told, "the agent's address", seconds=30, telling=log_text)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        log.close()


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read()


def test_agent_runs_out_of_its_wheel_with_the_page(agent: str) -> None:
    assert get(f"{agent}/healthz")
    assert b"weir_build_info" in get(f"{agent}/metrics")
    page = get(f"{agent}/")
    assert b"<html" in page.lower()
    assert b"Weir" in page


JOB = """
import sys
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[1]").appName("py-files")
         .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
         .getOrCreate())
import spark_listener
print("listener from", spark_listener.__file__)
spark_listener.attach(spark)
query = (spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
         .writeStream.format("noop").queryName("shipped").option("checkpointLocation", sys.argv[1])
         .trigger(processingTime="200 milliseconds").start())
import time, urllib.request, json, os
give_up = time.monotonic() + 60
while time.monotonic() < give_up:
    with urllib.request.urlopen(os.environ["WEIR_AGENT_URL"] + "/v1/queries") as answer:
        views = json.load(answer)["queries"]
    if views and views[0]["totals"]["rows"] >= 30:
        break
    time.sleep(0.2)
query.stop()
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.timeout(180)
@pytest.mark.slow("a Spark of its own; that the wheel is whole and imports is looked at every time")
def test_listener_wheel_by_py_files_reports_a_real_query(
    listener_wheel: Path, agent: str, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(JOB)
    python, environ = alone(cwd=tmp_path)
    environ |= {"PYSPARK_PYTHON": python[0], "WEIR_AGENT_URL": agent, "SPARK_LOCAL_IP": "127.0.0.1"}
    environ["SPARK_HOME"] = str(SITE / "pyspark")
    done = subprocess.run(
        [
            *("bash", str(SITE / "pyspark" / "bin" / "spark-submit")),
            *("--py-files", str(listener_wheel), str(tmp_path / "job.py")),
            str(tmp_path / "checkpoint"),
        ],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=400,  # a Spark from cold, on a machine that may be busy
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{listener_wheel.name}/spark_listener/__init__.py" in done.stdout
    views = json.loads(get(f"{agent}/v1/queries"))["queries"]
    assert views, done.stderr[-4000:]
    (view,) = views
    assert (view["application"], view["query"]) == ("py-files", "shipped")
    assert view["totals"]["rows"] >= 30


@pytest.mark.slow("an environment of its own; what is in the wheel is looked at every time")
def test_weir_run_is_installed_by_the_listener_wheel(listener_wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "a venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True, timeout=120)
    subprocess.run(
        [venv / "bin/python", "-m", "pip", "install", "-q", "--no-index", listener_wheel],
        check=True,
        timeout=120,
    )
    done = subprocess.run(
        [venv / "bin/weir-run"], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert "weir-run" in done.stderr
    assert "Traceback" not in done.stderr
