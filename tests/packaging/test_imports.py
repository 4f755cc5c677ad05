"""The arrows of import hold, and all source is Python 3.10."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def imported(path: Path) -> set[str]:
    """Every module that a file names in an import, wherever in it, relative ones made absolute."""
    package = path.relative_to(ROOT).with_suffix("").parts
    package = package[:-1]  # the package that the file is in, an __init__.py included
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def top(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def sources(folder: str) -> list[Path]:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files, folder
    return files


def names(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", sources("spark_listener"), ids=names)
def test_the_listener_needs_the_standard_library_and_spark_only(path: Path) -> None:
    allowed = set(sys.stdlib_module_names) | {"spark_listener", "pyspark", "py4j"}
    assert top(imported(path)) <= allowed


@pytest.mark.parametrize("path", sources("agent/core"), ids=names)
def test_the_core_knows_neither_sources_nor_exporters_nor_the_service(path: Path) -> None:
    modules = imported(path)
    ours = {module for module in modules if module.partition(".")[0] == "agent"}
    assert {module for module in ours if module not in {"agent", "agent.core"}} <= {
        module for module in ours if module.startswith("agent.core.")
    }
    outside = {"socket", "http", "urllib", "asyncio", "threading", "random", "subprocess"}
    outside |= {"starlette", "uvicorn", "httpx", "apscheduler", "psutil", "prometheus_client"}
    assert not top(modules) & outside


@pytest.mark.parametrize("path", sources("agent"), ids=names)
def test_the_agent_runs_without_dashboards_and_without_spark(path: Path) -> None:
    """`weir history` alone may start Spark; what is imported with the agent may not."""
    modules = {module for module in imported(path) if "history" not in path.name}
    assert not top(modules) & {"dashboards", "alerts", "pyspark", "py4j", "examples", "tests"}


@pytest.mark.parametrize(
    "path",
    [
        file
        for folder in ("agent", "spark_listener", "examples", "scripts", "tests")
        for file in sources(folder)
    ],
    ids=names,
)
def test_all_source_is_python_3_10(path: Path) -> None:
    ast.parse(path.read_text("utf-8"), str(path), feature_version=(3, 10))
