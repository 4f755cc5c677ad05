"""A real YARN on this machine: a ResourceManager and a NodeManager, on the local file system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from tests.kafka.broker import free_ports
from tests.lacking import lacking, program
from tests.plugin.cluster import OPENED, ROOT
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.plugin.cluster import Children

JARS: Final = ROOT / ".make/kafka/yarn-3.4"
_SERVER: Final = "org.apache.hadoop.yarn.server"
_ADDRESSES: Final = (
    *("resourcemanager.address", "resourcemanager.scheduler.address"),
    *("resourcemanager.resource-tracker.address", "resourcemanager.admin.address"),
    *("resourcemanager.webapp.address", "nodemanager.address"),
    *("nodemanager.localizer.address", "nodemanager.webapp.address"),
)


def start_yarn(children: Children, folder: Path, *, memory_mb: int = 6144) -> Path:
    """A YARN with one node; the directory for ``HADOOP_CONF_DIR``. Skips where its jars lack."""
    if not (JARS / ".made").exists():
        lacking("no YARN in .make: sh scripts/ensure-kafka.sh yarn-3.4")
    conf = folder / "hadoop"
    conf.mkdir()
    settings = {f"yarn.{name}": f"127.0.0.1:{port}" for name, port in _ports()}
    settings |= {
        "yarn.resourcemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.resource.memory-mb": str(memory_mb),
        "yarn.nodemanager.resource.cpu-vcores": "8",
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(folder / "logs"),
        "yarn.nodemanager.vmem-check-enabled": "false",
        # A disk that is nearly full is no fault here.
        "yarn.nodemanager.disk-health-checker.enable": "false",
        "yarn.scheduler.minimum-allocation-mb": "256",
        "yarn.resourcemanager.am.max-attempts": "2",
    }
    _write(conf / "yarn-site.xml", settings)
    _write(conf / "core-site.xml", {"fs.defaultFS": "file:///"})
    queue = "yarn.scheduler.capacity"
    _write(
        conf / "capacity-scheduler.xml",
        {
            f"{queue}.root.queues": "default",
            f"{queue}.root.default.capacity": "100",
            f"{queue}.maximum-am-resource-percent": "0.9",
        },
    )
    (conf / "log4j.properties").write_text(
        "log4j.rootLogger=INFO,A\n"
        "log4j.appender.A=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.A.target=System.err\n"
        "log4j.appender.A.layout=org.apache.log4j.SimpleLayout\n"
    )
    java = program("java")
    for name in ("resourcemanager.ResourceManager", "nodemanager.NodeManager"):
        children.run(
            folder / name.rpartition(".")[2],
            *(java, "-Xmx400m", f"-Dyarn.log.dir={folder}", *OPENED),
            *("-cp", f"{conf}:{JARS}/*", f"{_SERVER}.{name}"),
        )
    node = folder / "NodeManager" / "job.err"
    until(lambda: "Registered with ResourceManager" in node.read_text(), "YARN's node", seconds=120)
    return conf


def _ports() -> list[tuple[str, int]]:
    return list(zip(_ADDRESSES, free_ports(len(_ADDRESSES)), strict=True))


def _write(path: Path, settings: Mapping[str, str]) -> None:
    lines = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    ]
    path.write_text("\n".join(["<configuration>", *lines, "</configuration>\n"]))
