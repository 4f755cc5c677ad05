"""Metrics of the processes: the agent's own, and those of drivers on its host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.export.metrics.row import AGENT_PROCESS, DRIVER_PROCESS, PREFIX

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric, Subject
    from agent.sources.host import ProcessSample


def _of(
    subject: Subject[ProcessSample], owner: str, process: str, note: str = "", **not_shown: str
) -> tuple[Metric, ...]:
    """The metrics of one kind of process, under a prefix of its own.

    ``not_shown`` says why no panel shows the one of that name.
    """
    prefix = f"{PREFIX}{owner}_process_"
    return (
        subject.counter(
            f"{prefix}cpu_seconds_total",
            f"Processor time of {process}, user and system.",
            lambda sample: sample.cpu_seconds_total,
            unit="seconds",
            note=note,
        ),
        subject.gauge(
            f"{prefix}resident_memory_bytes",
            f"Resident memory of {process}.",
            lambda sample: sample.resident_bytes,
            unit="bytes",
            note=note,
        ),
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
            not_shown=not_shown.get("memory_limit_used", ""),
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
        subject.gauge(
            f"{prefix}open_files",
            f"Open file descriptors of {process}.",
            lambda sample: sample.open_files,
            note=note,
        ),
        subject.gauge(
            f"{prefix}open_files_limit",
            f"Open file descriptors that {process} may have.",
            lambda sample: sample.open_files_limit,
            note=note,
            not_shown=not_shown.get("open_files_limit", ""),
        ),
        subject.gauge(
            f"{prefix}start_time_seconds",
            f"When {process} started, in seconds since 1970.",
            lambda sample: sample.start_time,
            unit="seconds",
            note=note,
            not_shown=not_shown.get("start_time", ""),
        ),
    )


METRICS: Final[tuple[Metric, ...]] = (
    *_of(
        AGENT_PROCESS,
        "agent",
        "the agent",
        start_time="weir_agent_start_time_seconds says the same",
    ),
    *_of(
        DRIVER_PROCESS,
        "driver",
        "the driver's process",
        "Only where the agent shares the driver's host and was asked to look.",
        memory_limit_used="resident memory against the limit is shown",
        open_files_limit="one line for each driver, all of them the same",
        start_time="the query's own run id tells of restarts",
    ),
)
