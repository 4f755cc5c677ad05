"""Metrics of the processes: the agent's own, and those of drivers on its host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.metrics.row import AGENT_PROCESS, DRIVER_PROCESS, PREFIX

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric, Subject
    from agent.sources.host import ProcessSample


def _usual(
    subject: Subject[ProcessSample],
    prefix: str,
    process: str,
    note: str,
    *,
    files: str,
    files_limit: str,
    **not_shown: str,
) -> tuple[Metric, ...]:
    """What every program tells of itself.

    ``files`` and ``files_limit`` end the names of those two. ``not_shown`` says why no panel shows
    the one of that name.
    """
    return (
        subject.counter(
            f"{prefix}process_cpu_seconds_total",
            f"Processor time of {process}, user and system.",
            lambda sample: sample.cpu_seconds_total,
            unit="seconds",
            note=note,
        ),
        subject.gauge(
            f"{prefix}process_resident_memory_bytes",
            f"Resident memory of {process}.",
            lambda sample: sample.resident_bytes,
            unit="bytes",
            note=note,
        ),
        subject.gauge(
            f"{prefix}process_{files}",
            f"Open file descriptors of {process}.",
            lambda sample: sample.open_files,
            note=note,
        ),
        subject.gauge(
            f"{prefix}process_{files_limit}",
            f"Open file descriptors that {process} may have.",
            lambda sample: sample.open_files_limit,
            note=note,
            not_shown=not_shown.get("open_files_limit", ""),
        ),
        subject.gauge(
            f"{prefix}process_start_time_seconds",
            f"When {process} started, in seconds since 1970.",
            lambda sample: sample.start_time,
            unit="seconds",
            note=note,
            not_shown=not_shown.get("start_time", ""),
        ),
    )


def _more(
    subject: Subject[ProcessSample], owner: str, process: str, note: str = ""
) -> tuple[Metric, ...]:
    """What has no usual name: under a prefix of its own."""
    prefix = f"{PREFIX}{owner}_process_"
    return (
        subject.gauge(
            f"{prefix}memory_limit_bytes",
            f"The tightest memory limit that holds for {process}: of a control group, else the "
            "machine.",
            lambda sample: sample.memory.limit_bytes if sample.memory else None,
            unit="bytes",
            note=note,
        ),
        subject.gauge(
            f"{prefix}memory_limit_used_bytes",
            f"Memory in use under that limit by {process} and all that share it, without cache.",
            lambda sample: sample.memory.used_bytes if sample.memory else None,
            unit="bytes",
            note=note,
        ),
        subject.counter(
            f"{prefix}oom_kills_total",
            f"Processes killed under the memory limit of {process}.",
            lambda sample: sample.memory.oom_kills_total if sample.memory else None,
            note=note,
        ),
        subject.gauge(
            f"{prefix}threads",
            f"Threads of {process}.",
            lambda sample: sample.threads,
            note=note,
        ),
    )


_ON_ITS_HOST: Final = "Only where the agent shares the driver's host and was asked to look."

METRICS: Final[tuple[Metric, ...]] = (
    *_usual(
        AGENT_PROCESS,
        "",
        "the agent",
        "By the name that Prometheus's own clients give it, so ask with the job or the instance.",
        files="open_fds",
        files_limit="max_fds",
        start_time="weir_agent_start_time_seconds says nearly the same",
    ),
    *_more(AGENT_PROCESS, "agent", "the agent"),
    *_usual(
        DRIVER_PROCESS,
        f"{PREFIX}driver_",
        "the driver's process",
        _ON_ITS_HOST,
        files="open_files",
        files_limit="open_files_limit",
        open_files_limit="one line for each driver, all of them the same",
        start_time="the query's own run id tells of restarts",
    ),
    *_more(DRIVER_PROCESS, "driver", "the driver's process", _ON_ITS_HOST),
)
