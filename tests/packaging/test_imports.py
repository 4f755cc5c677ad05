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
    outside |= {"starlette", "uvicorn", "httpx", "psutil", "prometheus_client"}
    assert not top(modules) & outside


#: What starts a Spark of its own when it is asked to: these may name it, inside their functions.
START_SPARK = ("agent/history/", "agent/checkpoint/state_rows.py")


@pytest.mark.parametrize("path", sources("agent"), ids=names)
def test_the_agent_runs_without_dashboards_and_without_spark(path: Path) -> None:
    spark = {"pyspark", "py4j"}
    assert not top(imported(path)) & {"dashboards", "alerts", "examples", "tests"}
    if names(path).startswith(START_SPARK):
        assert not top(run_at_import(path)) & spark
    else:
        assert not top(imported(path)) & spark


def run_at_import(path: Path) -> set[str]:
    """Modules that importing the file imports: not those of functions, nor of types alone."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


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
