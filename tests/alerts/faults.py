"""Faults as an on-call team meets them: what is seen of each, and what may be told of it.

Those of the first list are events that a real agent is sent; those of the second need hours or days
of history, so they are series as an agent would have exported them, written as promtool does, a
sample a minute, the last one now.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.simulation import plant
from agent.simulation.live import Live
from agent.simulation.run import Watched
from agent.simulation.yardsticks import Static
from spark_listener.wire import format_time
from tests.simulation.scenarios import scenario_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_SECONDS: Final = 60.0
DAY: Final = 24 * 60


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """``told``: every (receiver, alert) of it; at most one is a page. ``also``: what fires and must
    be held back by an inhibition, or the case would prove nothing."""

    name: str  # of the query too
    told: tuple[tuple[str, str], ...]
    also: tuple[str, ...]
    series: dict[str, str] = {}
    step_seconds: int = 60


# -- events for a real agent ----------------------------------------------------------------------


def spiral_events(name: str) -> list[dict[str, Any]]:
    """A job without a limit whose arrivals rise: batches grow until they are killed, again and
    again. From the simulator, with nothing steering; it ends, now, with the second time-out."""
    scenario = scenario_of(
        name=name,
        duration_seconds=1200,
        initial_limit_rows=100_000_000,
        arrival_rows_per_second=[[0, 2000], [300, 9000]],
        congestion_rows=400_000,
        batch_timeout_seconds=DEADLINE_SECONDS,
    )
    events: list[dict[str, Any]] = []
    watcher = Live(scenario, steer=False, on_event=events.append)
    plant.run(scenario, plant.Noise(0.1, 0), Watched(Static(scenario.initial_limit_rows), watcher))
    ends = [place for place, event in enumerate(events) if event["type"] == "terminated"]
    return _until_now(events[: ends[1] + 1])


def _until_now(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    now = datetime.now(timezone.utc).timestamp()
    shift = now - _seconds(events[-1]["time"])
    for event in events:
        event["time"] = format_time(_seconds(event["time"]) + shift)
        if "timestamp" in event["body"]:
            event["body"]["timestamp"] = format_time(_seconds(event["body"]["timestamp"]) + shift)
    return events


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def of_agent(name: str, *told: tuple[str, str], also: tuple[str, ...] = ()) -> Fault:
    return Fault(name=name, told=told, also=also)


#: One agent is sent all of these.
SENT: Final = (
    of_agent("spiral", ("page", "WeirSpiral"), also=("WeirBatchesFailing", "WeirQueryGone")),
    of_agent("failing", ("page", "WeirBatchesFailing"), also=("WeirQueryGone",)),
    # No exception, no known deadline passed: a driver that the kernel kills, back in no time.
    of_agent("killed", ("page", "WeirBatchesFailing")),
    # The batch was late before it was called hung: that was told to the day, not paged.
    of_agent("hung", ("day", "WeirDeadlineNear"), ("page", "WeirBatchHung"), also=()),
    of_agent("broken", ("page", "WeirQueryGone")),
    of_agent("stopped"),
    # Stopped, and started by a deploy that gave it another checkpoint.
    of_agent("renewed", ("log", "WeirNewCheckpoint")),
)
#: Another one is sent these two, and then nothing more.
SILENT: Final = ("silent-a", "silent-b")


# -- series as they would have been exported ------------------------------------------------------


def _of(name: str, **series: str) -> dict[str, str]:
    labels = f'cluster="{name}",instance="agent:9655",application="orders",query="{name}"'
    return {f"weir_{metric}{{{labels}}}": values for metric, values in series.items()}


def _state(name: str, state: str, values: str) -> dict[str, str]:
    (series,) = _of(name, lag_state="")
    return {series[:-1] + f',state="{state}"}}': values}


EXPORTED: Final = (
    Fault(
        name="short-of-capacity",
        told=(("day", "WeirNeedsCapacity"),),
        also=("WeirFallingBehind",),
        series=_of(
            "short-of-capacity",
            query_up="1x60",
            backlog_seconds="0+12x60",
            backlog_estimated_rows="0+600x60",
            required_capacity_ratio="1.3x60",
            target_feasible="0x60",
        ),
    ),
    Fault(
        name="burst-for-hours",
        told=(("page", "WeirFallingBehindFast"),),
        also=("WeirFallingBehind", "WeirNeedsCapacity"),
        series=_of(
            "burst-for-hours",
            query_up="1x60",
            backlog_seconds="0+50x60",
            backlog_estimated_rows="0+600x60",
            required_capacity_ratio="6x60",
            target_feasible="0x60",
        ),
    ),
    Fault(
        name="retention-wins",
        told=(("page", "WeirRetentionLossNear"),),
        also=("WeirFallingBehindFast", "WeirNeedsCapacity"),
        series=_of(
            "retention-wins",
            query_up="1x60",
            backlog_seconds="0+50x60",
            backlog_estimated_rows="0+600x60",
            required_capacity_ratio="6x60",
            retention_loss_seconds="9000-60x60",
        ),
    ),
    Fault(
        name="takes-nothing",
        told=(("page", "WeirBacklogStuck"),),
        also=("WeirFallingBehindFast", "WeirFallingBehind"),
        series={
            **_of(
                "takes-nothing",
                query_up="1x60",
                backlog_seconds="0+60x60",
                backlog_estimated_rows="0+600x60",
            ),
            **_state("takes-nothing", "STALL", "1x60"),
        },
    ),
    Fault(
        name="source-went-quiet",
        told=(("day", "WeirWatermarkStuck"),),
        also=("WeirStateGrowing",),
        series={
            **_of(
                "source-went-quiet",
                query_up=f"1x{2 * DAY + 90}",
                watermark_lag_seconds=f"0+60x{2 * DAY + 90}",
                last_progress_timestamp_seconds=f"0+60x{2 * DAY + 90}",
                rows_total=f"0+6000x{2 * DAY + 90}",
            ),
            'query:weir_state_rows:sum{cluster="source-went-quiet",application="orders",'
            'query="source-went-quiet"}': f"1000000+1000x{2 * DAY + 90}",
        },
    ),
    Fault(
        name="target-too-short",
        told=(("log", "WeirTargetInfeasible"),),
        also=(),
        series=_of(
            "target-too-short",
            query_up="1x60",
            target_feasible="0x60",
            required_capacity_ratio="0.7x60",
        ),
    ),
)
#: Of an agent of its own.
FULL: Final = of_agent("full", ("day", "WeirAgentFull"))
FAULTS: Final = (*SENT, FULL, *EXPORTED)


def samples(fault: Fault, now: float) -> Iterator[str]:
    """The series as OpenMetrics with times, family by family; the last sample is of ``now``."""
    for series, notation in sorted(fault.series.items()):
        values = numbers(notation)
        for place, value in enumerate(values):
            if value is not None:
                at = now - (len(values) - 1 - place) * fault.step_seconds
                yield f"{series} {value:g} {at:.0f}\n"


def numbers(notation: str) -> list[float | None]:
    """promtool's ``1+2x3``, ``5x2``, ``_x2`` and ``stale`` as the samples that they mean."""
    found: list[float | None] = []
    for word in notation.split():
        if word == "stale":
            found.append(None)
            continue
        start, step, times = _WORD.fullmatch(word).groups()  # type: ignore[union-attr]
        if start == "_":
            found += [None] * int(times or 1)
        else:
            count = int(times or 0) + 1
            found += [float(start) + float(step or 0) * place for place in range(count)]
    return found


_WORD: Final = re.compile(r"(_|-?[\d.]+)([+-][\d.]+)?(?:x(\d+))?")
