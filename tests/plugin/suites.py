"""Spark's own tests of streams, run with the plugin and an agent, as they are.

``python -m tests.plugin.suites [SUITE ...]`` (as ``StreamSuite``; without any: all, for hours) runs
each with the plugin and, where a test fails, once more without: printed is what fails only with it.
A test that counts on where batches end does, as it would with a configured limit. The tests come
from the jars of Spark's, which ``scripts/ensure-kafka.sh suites-4.2 suites-kafka-4.2`` gets.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_listener import plugin
from tests.lacking import plugin_jar, program
from tests.plugin.cluster import ROOT, SPARK
from tests.plugin.scaling import configured

if TYPE_CHECKING:
    from collections.abc import Iterable

JARS: Final = ROOT / ".make/kafka"
#: The jars that tests are in, and what those of streams are called in them.
_TESTS: Final = {
    "suites-4.2/spark-sql_2.13-*-tests.jar": re.compile(
        r"(?:org|test)/.*streaming/(?:[a-z]+/)*\w+Suite\.class"
    ),
    "suites-kafka-4.2/*-tests.jar": re.compile(r"org/apache/spark/sql/kafka010/\w+Suite\.class"),
}
#: What Spark's launcher opens of Java for itself.
_OPENED: Final = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
_LOG: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
#: A target so short that limits are moved wherever they can be, but in two tests of configured
#: ones, which count the batches that come of them.
CONFIG: Final = """\
target_seconds: 0.2
rules: [{match: file_data, mode: dry-run}]
"""


def suites() -> dict[str, str]:
    """The class of each suite, by its short name."""
    found = []
    for home, called in _TESTS.items():
        with zipfile.ZipFile(_jar(home)) as jar:
            found += [name for name in jar.namelist() if called.fullmatch(name)]
    classes = [name.removesuffix(".class").replace("/", ".") for name in found]
    return {one.rpartition(".")[2]: one for one in classes}


def run(
    names: Iterable[str], folder: Path, doors: Path | None, seconds: float = 900
) -> dict[str, str]:
    """What went wrong in each test, "" where nothing did, by ``Suite: test``.

    ``doors``: with the plugin, whose doors are there. A suite that could not begin or end is a test
    without a name.
    """
    folder.mkdir(parents=True)
    classes = folder / "classes"
    for home in _TESTS:
        with zipfile.ZipFile(_jar(home)) as jar:
            jar.extractall(classes)  # some tests read their resources as files
    log = folder / "log4j2.properties"
    log.write_text(_LOG)
    path = [classes, *(SPARK / "jars").glob("*.jar"), *JARS.glob("suites-*/*.jar")]
    options = [f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in _OPENED]
    options += [
        "-XX:+IgnoreUnrecognizedVMOptions",
        "--add-modules=jdk.incubator.vector",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        f"-Dlog4j2.configurationFile={log}",
        f"-Djava.io.tmpdir={folder}",
        f"-Dspark.test.home={folder}",
        "-Dspark.testing=true",
        "-Dspark.ui.enabled=false",
    ]
    if doors is not None:
        path.append(plugin_jar())
        options += [f"-Dspark.plugins={plugin.NAME}", f"-Dspark.weir.door.dir={doors}"]
    known = suites()
    chosen = [part for name in names for part in ("-s", known[name])]
    said = folder / "said.txt"
    with said.open("w") as out:
        subprocess.run(
            [
                *(program("java"), "-Xmx3g", "-Xss4m", *options),
                *("-cp", os.pathsep.join(map(str, path)), "org.scalatest.tools.Runner"),
                *("-R", str(classes), *chosen, "-oWF", "-u", str(folder / "reports")),
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            timeout=seconds,
            env={**os.environ, "SPARK_TESTING": "1"},
            check=False,
        )
    found: dict[str, str] = {}
    for report in (folder / "reports").glob("*.xml"):
        for case in ET.parse(report).iter("testcase"):
            suite = str(case.get("classname")).rpartition(".")[2]
            wrong = case.find("failure")
            text = "" if wrong is None else str(wrong.get("message") or wrong.text or "failed")
            found[f"{suite}: {case.get('name')}"] = text
    for line in said.read_text().splitlines():
        if match := re.match(r"SUITE ABORTED - (\w+): (.*)", line):
            found[f"{match[1]}: "] = match[2]
    return found


def there_are() -> bool:
    """Whether the jars are there."""
    return all(any(JARS.glob(home)) for home in _TESTS)


def _jar(home: str) -> Path:
    (found,) = JARS.glob(home)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suite", nargs="*")
    parser.add_argument("--seconds", type=float, default=900, help="the longest a suite may take")
    given = parser.parse_args()
    differ = 0
    with tempfile.TemporaryDirectory(prefix="weir-suites-") as made:
        folder = Path(made)
        doors = folder / "doors"
        with configured(folder / "agent", doors, CONFIG) as agent:
            for name in given.suite or sorted(suites()):
                found = run([name], folder / f"{name}-with", doors, given.seconds)
                wrong = {test: text for test, text in found.items() if text}
                alone = (
                    run([name], folder / f"{name}-without", None, given.seconds) if wrong else {}
                )
                only = {test: text for test, text in wrong.items() if not alone.get(test)}
                differ += len(only)
                print(
                    f"{name}: {len(found)} tests, {len(wrong)} fail, {len(only)} only with",
                    flush=True,
                )
                for test, text in only.items():
                    print(f"    {test}: {text[:300]}", flush=True)
            events = agent.http.get("/v1/queries").json()["agent"]["events"]
    print(f"{differ} fail only with the plugin; the agent heard {events}")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
