"""The arrows of import hold, and all source is Python 3.10."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.parsing import syntax_of

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]


def imported(path: Path) -> set[str]:
    """Every module that a file names in an import, wherever in it, relative ones made absolute."""
    return named(path, ast.walk(parsed(path)))


def imported_at_once(path: Path, *, types: bool = False) -> set[str]:
    """Those that importing the file imports: none of functions; ``types``: those of types too."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [parsed(path)]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return named(path, found)


@cache
def parsed(path: Path) -> ast.Module:
    return syntax_of(path.read_text("utf-8"))


def named(path: Path, nodes: Iterable[ast.AST]) -> set[str]:
    package = path.relative_to(ROOT).with_suffix("").parts
    package = package[:-1]  # the package that the file is in, an __init__.py included
    found: set[str] = set()
    for node in nodes:
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
        assert not top(imported_at_once(path)) & spark
    else:
        assert not top(imported(path)) & spark


#: All that is not a test.
PARTS = ("spark_listener", "agent", "dashboards", "alerts", "helm", "scripts", "examples")


@cache
def modules() -> dict[str, Path]:
    found = {}
    for part in PARTS:
        for path in sources(part):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def graph(*, types: bool) -> dict[str, set[str]]:
    """By module those of ours that it imports, the packages that they are in included."""
    ours = modules()
    found: dict[str, set[str]] = {}
    for module, path in ours.items():
        wanted = imported_at_once(path, types=types)
        above = {one for name in wanted for one in prefixes(name)}
        # Its own packages are there already when it is imported.
        found[module] = (above & set(ours)) - set(prefixes(module))
    return found


def prefixes(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: length + 1]) for length in range(len(parts))]


def circle(edges: dict[str, set[str]]) -> str:
    """One that there is, as ``a → b → a``; empty where there is none."""
    done: set[str] = set()

    def go(module: str, behind: tuple[str, ...]) -> str:
        if module in behind:
            return " → ".join([*behind[behind.index(module) :], module])
        if module in done:
            return ""
        for one in sorted(edges[module]):
            if found := go(one, (*behind, module)):
                return found
        done.add(module)
        return ""

    return next((found for module in sorted(edges) if (found := go(module, ()))), "")


def test_a_circle_is_found_and_named() -> None:
    assert circle({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == "b → d → b"
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == ""


def test_no_module_imports_itself_by_way_of_others() -> None:
    edges = graph(types=False)
    assert len(edges) > 200
    assert circle(edges) == ""


def test_nor_does_it_for_types_alone() -> None:
    edges = graph(types=True)
    assert edges["agent.checkpoint.render"] > graph(types=False)["agent.checkpoint.render"]
    assert circle(edges) == ""


#: What each part may import of ours, wherever in a file, for types too; a module stands for what
#: is below it. A part stands below those that it imports: with no circle there is an order.
MAY_IMPORT: dict[str, set[str]] = {
    "spark_listener": set(),
    "agent": set(),  # agent/__init__.py: the version
    "agent.child": set(),
    "agent.files": set(),
    "agent.spark_codecs": set(),
    "agent.core": {"spark_listener"},
    "agent.client": {"spark_listener", "agent.core"},
    "agent.simulation": {"spark_listener", "agent.core"},
    "agent.sources": {
        "spark_listener",
        "agent.core",
        "agent.child",
        "agent.files",
        "agent.spark_codecs",
    },
    "agent.replay_summary": {"agent.core"},
    "agent.replay": {"agent.core", "agent.sources"},
    "agent.history": {
        "spark_listener",
        "agent",
        "agent.core",
        "agent.files",
        "agent.spark_codecs",
        "agent.sources",
        "agent.replay",
    },
    "agent.checkpoint": {
        "spark_listener",
        "agent.core",
        "agent.files",
        "agent.spark_codecs",
        "agent.client",
    },
    # Of the sources what the host tells, of the checkpoint tools what an audit may find.
    "agent.export": {
        "spark_listener",
        "agent.core",
        "agent.client",
        "agent.sources.host",
        "agent.checkpoint.audit",
    },
    "agent.compare": {"agent.core"},
    "agent.compare_command": {
        "agent.core",
        "agent.client",
        "agent.export",
        "agent.compare",
        "agent.replay",
    },
    "agent.service": {
        "spark_listener",
        "agent",
        "agent.core",
        "agent.child",
        "agent.files",
        "agent.sources",
        "agent.checkpoint",
        "agent.export",
        "agent.compare",
    },
    "agent.cli": {
        "spark_listener.plugin",
        "agent",
        "agent.core",
        "agent.client",
        "agent.files",
        "agent.simulation",
        "agent.sources",
        "agent.replay",
        "agent.replay_summary",
        "agent.compare_command",
        "agent.history",
        "agent.checkpoint",
        "agent.export",
        "agent.service",
    },
    "dashboards": {"agent.core", "agent.export"},
    "alerts": {"agent.export", "dashboards"},
    "helm": {"agent.service"},
    "scripts": {
        "spark_listener",
        "agent.cli",
        "agent.client",
        "agent.export",
        "agent.simulation",
    },
    "examples": {"spark_listener", "agent.client", "agent.export", "alerts"},
}


def part_of(module: str) -> str:
    names = prefixes(module)
    return names[1] if names[0] == "agent" and len(names) > 1 else names[0]


@pytest.mark.parametrize("part", sorted({part_of(module) for module in modules()}))
def test_a_part_imports_what_is_below_it(part: str) -> None:
    ours = modules()
    for module, path in ours.items():
        if part_of(module) != part:
            continue
        for name in imported(path):
            found = [one for one in prefixes(name) if one in ours]
            if found and part_of(found[-1]) != part:  # the longest: the rest is something in it
                of_it = {one for one in prefixes(found[-1]) if one != "agent"} or {"agent"}
                assert of_it & MAY_IMPORT[part], f"{module} imports {found[-1]}"


def test_parts_stand_one_below_the_other() -> None:
    edges = {
        part: {part_of(one) for one in allowed} - {part} for part, allowed in MAY_IMPORT.items()
    }
    assert circle(edges) == ""


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
    syntax_of(path.read_text("utf-8"), str(path), feature_version=(3, 10))
