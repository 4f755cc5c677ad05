"""For each alert: series under which it stays silent, and series under which it fires, and when.

Steps count from the first sample; there is one a step, which is a minute unless the case says so.
A series is written as promtool does: ``1+2x10`` starts at 1 and adds 2 ten times, ``_`` is a
missing sample.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

WHERE: Final = 'cluster="eu",namespace="streams",instance="agent:9655"'
LABELS: Final = {"cluster": "eu", "namespace": "streams", "instance": "agent:9655"}
Q: Final = f'{{{WHERE},application="orders",query="enrich"}}'
A: Final = f'{{{WHERE},application="orders"}}'
AGENT: Final = f"{{{WHERE}}}"


def q(name: str, **labels: str) -> str:
    """A series of the one query."""
    more = "".join(f',{label}="{value}"' for label, value in labels.items())
    return f'{name}{{{WHERE},application="orders",query="enrich"{more}}}'


def other(name: str, **labels: str) -> str:
    """A series of another query of the same agent."""
    return q(name, **labels).replace('"enrich"', '"archive"')


def _of_driver(figure: str, process: str) -> str:
    """A figure in bytes of a process of the application's driver."""
    return f'weir_driver_process_{figure}_bytes{{{WHERE},application="orders",process="{process}"}}'


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """``fires`` maps series to samples; it must be silent at ``silent_at`` and fire at ``at``.

    Each of ``quiet`` is a set of series, just on the other side of the threshold or rightly
    excused, under which it never fires up to step ``at`` + 60.
    """

    alert: str
    fires: dict[str, str]
    at: int  # step from which on it fires
    labels: dict[str, str]
    summary: str
    description: str
    quiet: tuple[dict[str, str], ...]
    silent_at: int | None = None  # the step before, unless it can fire from the start
    ends_at: int | None = None  # step from which on it is silent again; the step before it fires
    step_minutes: int = 1

    @property
    def last_silent(self) -> int:
        return self.at - 1 if self.silent_at is None else self.silent_at


_OF_QUERY: Final = {**LABELS, "application": "orders", "query": "enrich"}
_OF_QUERY_ANYWHERE: Final = {k: v for k, v in _OF_QUERY.items() if k != "instance"}
_MORE: Final = {q("weir_backlog_estimated_rows"): "0+6000x120"}
_UP: Final = {q("weir_query_up"): "1x120"}
_ALL_PRESENT: Final = {
    q("weir_executors_present"): "8x130",
    q("weir_executors_wanted"): "8x130",
}
_JOB: Final = {"cluster": "eu", "namespace": "streams", "job": "weir"}
_NEARS_ITS_LIMIT: Final = (
    "It and what shares its limit hold 230.4MiB, more than 90 % of what they may have."
)
_STARTED: Final = "weir_agent_start_time_seconds"
_STARTS_AGAIN: Final = (
    "3 times within the last hour. With each start alerts begin anew to wait, and those that wait "
    "for minutes may not be told at all."
)
_FLAPS: Final = (
    "It stopped answering three times or more within half an hour. With each scrape that fails "
    "alerts begin anew to wait, and those that wait for minutes may not be told at all."
)
_NOT_BACK: Final = (
    "It failed or its driver fell silent, and it has not come back for 3 minutes. If its driver is "
    "dead, or it failed, nothing of its input is processed. If it is gone for good: weir retire."
)
_NO_AGENT: Final = (
    "Jobs run on: grants expire, and drivers go back to the limits that they configured; where "
    "they configured none, the last one stays, unless rows could fall late behind it. Nobody sees "
    "their backlog meanwhile."
)
_NO_ANSWER: Final = (
    "Nobody sees the queries that report to it. They run on: their grants expire, and they go back "
    "to the limits that they configured; where they configured none, the last one stays, "
    "unless rows could fall late behind it."
)
_BEGINS: Final = "weir_agent_certificate_not_before_timestamp_seconds" + AGENT
_ENDS_AGAIN: Final = "orders/enrich ends again and again, and commits nothing"
_COMMITS_NOTHING: Final = (
    "It failed, or was killed or stopped in one batch, again and again without a commit between. A "
    "restart does not help: each begins at the same place."
)
_LOST: Final = "orders/enrich lost unread rows to retention"
_ROWS_LOST: Final = (
    "400 rows were deleted at the source before they were read. It goes on without them, or fails "
    "(failOnDataLoss)."
)
_ENDS: Final = "weir_agent_certificate_expiry_timestamp_seconds" + AGENT
_NO_MORE: Final = "Then no driver that checks it reports any more, and Prometheus scrapes no more."


def _target(agent: str, pod: str = "", where: str = "streams") -> str:
    """Whether a target answers; Prometheus knows no cluster, and a namespace of a pod alone."""
    found = f',namespace="{where}",pod="{pod}"' if pod else ""
    return f'up{{job="weir",instance="{agent}:9655"{found}}}'


def _in(cluster: str, target: str) -> str:
    """The same one where Prometheus, or who reads from several, does know its cluster."""
    return target.replace("up{", f'up{{cluster="{cluster}",')


def _build(agent: str, pod: str = "") -> str:
    """What an agent tells of itself; its own labels are none of the target."""
    own = "" if pod else 'namespace="streams",'
    told = f'weir_build_info{{cluster="eu",{own}version="1",python_version="3.11",'
    return _target(agent, pod).replace("up{", told)


def _of_pod(agent: str, pod: str) -> str:
    """When an agent in a pod started, at the address that the pod has."""
    of = f'job="weir",instance="{agent}:9655",pod="{pod}"'
    return f'{_STARTED}{{cluster="eu",namespace="streams",{of}}}'


def _gone(query: str, since: str, *, told: bool = False, stopped: bool = False) -> dict[str, str]:
    """A query of the one agent that is gone: silent, or told by an exception or its owner."""
    given = {
        q("weir_query_up"): re.sub(r"\d+(x\d+)$", r"0\1", since.replace("_", "1")),
        q("weir_query_state", state="terminated"): f"{int(told or stopped)}x180",
        q("weir_query_stopped"): f"{int(stopped)}x180",
        q("weir_query_gone_since_timestamp_seconds"): since,
    }
    return {name.replace('"enrich"', f'"{query}"'): values for name, values in given.items()}


def _moved(query: str) -> dict[str, str]:
    """Its driver came back three minutes later, and at another node's agent."""
    up = q("weir_query_up").replace('"enrich"', f'"{query}"').replace("agent:", "another:")
    return {**_gone(query, "_x5 300x180"), up: "_x8 1x180"}


def _moved_and_ended() -> dict[str, str]:
    """It moved so, ended there as it should at minute 28, and is forgotten there at minute 60."""
    at = {
        "weir_query_up": "_x8 1x19 0x31 stale",
        "weir_query_stopped": "_x8 0x19 1x31 stale",
        "weir_query_gone_since_timestamp_seconds": "_x28 1680x31 stale",
    }
    there = {q(name).replace("agent:", "another:"): values for name, values in at.items()}
    return {**_gone("enrich", "_x5 300x180"), **there}


def _moved_and_ended_with_a_gap() -> dict[str, str]:
    """And a scrape of the first agent fails at minute 65, when the other one tells no more.

    A third one tells of a run that had ended as it should before all that.
    """
    up, stopped = q("weir_query_up"), q("weir_query_stopped")
    gone = q("weir_query_gone_since_timestamp_seconds")
    before = {up: "0x180", stopped: "1x180", gone: "60x180"}
    return {
        **_moved_and_ended(),
        **{name.replace("agent:", "third:"): values for name, values in before.items()},
        up: "1x5 0x58 stale 0x120",
        stopped: "0x64 stale 0x120",
        gone: "_x5 300x58 stale 300x120",
    }


def _retired_where_it_was() -> dict[str, str]:
    """It moved so, and somebody retires it at the first agent, or that goes: at minute 30."""
    return {
        q("weir_query_up"): "1x4 0x24 stale",
        q("weir_query_stopped"): "0x29 stale",
        q("weir_query_up").replace("agent:", "another:"): "_x8 1x180",
    }


def _grown(*days: str) -> dict[str, str]:
    """Rows of state in two operators, a sample every ten minutes: 144 a day."""
    values = " ".join(days)
    return {
        q("weir_state_rows", operator="0:dedupe"): values,
        q("weir_state_rows", operator="1:join"): "0x430",
    }


_UNTIL_TEN: Final = "1200000x35 1200000+160000x23"
_WEEKEND: Final = ("1200000x59 2000000x47 1200000x35",) * 2


def _weekday(top: int = 5_000_000) -> str:
    """What follows the traffic: up from six to ten, down from 18 to 22."""
    return f"{_UNTIL_TEN} {top}x47 4880000-160000x23 1200000x11"


def _peak(samples_before: int) -> str:
    """A day with four hours of much."""
    return f"1200000x{samples_before - 1} 5000000x23 1200000x{144 - 24 - samples_before - 1}"


CASES: Final[tuple[Case, ...]] = (
    Case(
        alert="WeirSpiral",
        fires={
            q("weir_spiral_phase", phase="none"): "1x9 0x120",
            q("weir_spiral_phase", phase="pressured"): "0x130",
            q("weir_spiral_phase", phase="spiralling"): "0x9 1x2 0x120",
            q("weir_spiral_phase", phase="timing_out"): "0x12 1x2 0x120",
            q("weir_spiral_phase", phase="dead"): "0x15 1x120",
        },
        at=10,
        labels=_OF_QUERY,
        summary="orders/enrich is in a time-out spiral, or about to be",
        description="Batches grow faster than they are committed: the next ones are killed at "
        "their deadline and start again, larger each time.",
        quiet=(
            {**_moved("enrich"), q("weir_spiral_phase", phase="spiralling"): "_x8 1x180"},
            {
                **_retired_where_it_was(),
                q("weir_spiral_phase", phase="spiralling"): "_x8 1x21 stale",
            },
            {
                q("weir_spiral_phase", phase="pressured"): "0x9 1x120",
                q("weir_spiral_phase", phase="spiralling"): "0x130",
                q("weir_spiral_phase", phase="timing_out"): "0x130",
                q("weir_spiral_phase", phase="dead"): "0x130",
            },
            {  # lost again and again, and never for its time: WeirBatchesFailing tells, below
                q("weir_spiral_phase", phase="spiralling"): "0x130",
                q("weir_spiral_phase", phase="timing_out"): "0x130",
                q("weir_spiral_phase", phase="dead"): "0x4 1x120",
            },
            {  # its owner stopped it, and then its series ended
                q("weir_spiral_phase", phase="spiralling"): "0x9 1x40 stale",
                q("weir_query_up"): "1x9 0x40 stale",
                q("weir_query_stopped"): "0x9 1x40 stale",
            },
        ),
    ),
    Case(
        alert="WeirQueryGone",
        fires={
            q("weir_query_up"): "1x9 0x120",
            q("weir_query_stopped"): "0x130",
        },
        at=13,  # down from minute 10, held for 3
        labels=_OF_QUERY,
        summary="orders/enrich does not run",
        description=_NOT_BACK,
        quiet=(
            {q("weir_query_up"): "1x9 0x2 1x120"},  # a restart
            {  # its owner stopped it, or it had read what there was
                q("weir_query_up"): "1x9 0x120",
                q("weir_query_stopped"): "0x9 1x120",
            },
            _moved("enrich"),
            _moved_and_ended(),
            _moved_and_ended_with_a_gap(),
        ),
    ),
    Case(
        alert="WeirQueryGone",  # it had ended elsewhere before it was lost here
        fires={
            **_gone("enrich", "_x20 1200x180"),
            q("weir_query_up").replace("agent:", "another:"): "1x4 0x180",
            q("weir_query_stopped").replace("agent:", "another:"): "0x4 1x180",
            q("weir_query_gone_since_timestamp_seconds").replace("agent:", "another:"): (
                "_x5 300x180"
            ),
        },
        at=24,
        labels=_OF_QUERY,
        summary="orders/enrich does not run",
        description=_NOT_BACK,
        quiet=(),
    ),
    Case(
        alert="WeirQueryGone",  # and another agent's query of another name goes on
        fires={**_gone("enrich", "_x10 600x180"), **_moved("archive")},
        at=14,  # silent from minute 11, held for 3
        labels=_OF_QUERY,
        summary="orders/enrich does not run",
        description=_NOT_BACK,
        quiet=(),
    ),
    Case(
        alert="WeirQueryGone",  # for days, until it is retired: its series end at minute 3000
        fires={
            q("weir_query_up"): "1x9 0x2989 _x30",
            q("weir_query_stopped"): "0x2999 _x30",
        },
        at=2998,
        silent_at=12,
        ends_at=3010,  # what is not there any more looks alive for 5 minutes, and 5 it is kept
        labels=_OF_QUERY,
        summary="orders/enrich does not run",
        description=_NOT_BACK,
        quiet=(),
    ),
    Case(
        alert="WeirBatchHung",
        fires={q("weir_attention", level="hung"): "0x9 1x120"},
        at=12,
        labels={**_OF_QUERY, "level": "hung"},
        summary="orders/enrich: a batch hangs",
        description="The running batch is past its deadline or, where none is known, six times as "
        "old as the target and the last batch. Heartbeats still "
        "come, so the driver lives; the batch makes no visible progress.",
        quiet=(
            {q("weir_attention", level="hung"): "0x9 1x1 0x120"},  # the first batch's warm-up
            {q("weir_attention", level="late"): "1x120"},
        ),
    ),
    Case(
        alert="WeirBatchesFailing",
        fires={q("weir_checkpoint_failures_consecutive"): "0x4 1x4 2x120"},
        at=10,
        labels=_OF_QUERY,
        summary=_ENDS_AGAIN,
        description=_COMMITS_NOTHING,
        quiet=(
            {**_moved("enrich"), q("weir_checkpoint_failures_consecutive"): "_x8 2x180"},
            {**_moved_and_ended(), q("weir_checkpoint_failures_consecutive"): "_x8 2x180"},
            {q("weir_checkpoint_failures_consecutive"): "0x4 1x4 0x4 1x120"},
        ),
    ),
    Case(
        alert="WeirBatchesFailing",  # killed in one batch three times, and nobody said a word
        fires={
            q("weir_checkpoint_failures_consecutive"): "0x130",
            q("weir_spiral_phase", phase="spiralling"): "0x130",
            q("weir_spiral_phase", phase="timing_out"): "0x130",
            q("weir_spiral_phase", phase="dead"): "0x9 1x120",
        },
        at=10,
        labels=_OF_QUERY,
        summary=_ENDS_AGAIN,
        description=_COMMITS_NOTHING,
        quiet=(
            {  # for its time: WeirSpiral
                q("weir_spiral_phase", phase="timing_out"): "0x4 1x4 0x120",
                q("weir_spiral_phase", phase="dead"): "0x9 1x120",
            },
            {q("weir_spiral_phase", phase="dead"): "1x120", q("weir_query_stopped"): "1x120"},
            {**_moved("enrich"), q("weir_spiral_phase", phase="dead"): "_x8 1x180"},
            {  # lost twice: the next restart may mend it
                q("weir_spiral_phase", phase="none"): "1x120",
                q("weir_spiral_phase", phase="dead"): "0x120",
            },
        ),
    ),
    Case(
        # Restarted each three minutes, and no batch begins: let go of in the end, at minute 15.
        alert="WeirBatchesFailing",
        fires={
            q("weir_checkpoint_failures_consecutive"): "0x14 stale",
            q("weir_batches_total", result="failed"): "0x4 1x2 2x2 3x3 stale",
            q("weir_batches_total", result="completed"): "9x14 stale",
        },
        at=11,
        ends_at=20,  # kept for five minutes
        labels=_OF_QUERY,
        summary=_ENDS_AGAIN,
        description=_COMMITS_NOTHING,
        quiet=(
            {  # it commits between: WeirFailingOften
                q("weir_batches_total", result="failed"): "0x4 1x2 2x2 3x120",
                q("weir_batches_total", result="completed"): "9x4 10x120",
            },
            {q("weir_batches_total", result="failed"): "0x4 1x2 2x120"},
            {  # more slowly: it is gone for three minutes each time
                q("weir_batches_total", result="failed"): "0x4 1x7 2x7 3x7 4x7 5x7 6x120",
            },
            {
                **_retired_where_it_was(),
                q("weir_batches_total", result="failed"): "0x19 1 2 3 4x6 stale",
            },
        ),
    ),
    Case(
        alert="WeirSpiral",  # given up on: the time-outs that led there are hours ago
        fires={
            q("weir_spiral_phase", phase="timing_out"): "0x4 1x2 0x300",
            q("weir_spiral_phase", phase="dead"): "0x299 1x30",
        },
        at=300,
        labels=_OF_QUERY,
        summary="orders/enrich is in a time-out spiral, or about to be",
        description="Batches grow faster than they are committed: the next ones are killed at "
        "their deadline and start again, larger each time.",
        quiet=(),
        silent_at=4,
    ),
    Case(
        alert="WeirDeadlineNear",
        fires={
            q("weir_batch_running_seconds"): "0+60x30",  # 480 s at minute 8, 540 at 9
            q("weir_checkpoint_deadline_seconds"): "600x120",
        },
        at=9,
        labels=_OF_QUERY,
        summary="orders/enrich: a batch nears its deadline",
        description="A batch takes 9m 0s, more than 80 % of the deadline after which something "
        "kills it. A killed batch runs again from its start.",
        quiet=(
            {
                q("weir_batch_running_seconds"): "480x120",
                q("weir_checkpoint_seconds"): "480x120",
                q("weir_checkpoint_deadline_seconds"): "600x120",
                **_UP,
            },
            {q("weir_batch_running_seconds"): "0+60x120"},  # no deadline is configured
        ),
    ),
    Case(
        alert="WeirDeadlineNear",  # the batch that just ended; none runs now
        fires={
            q("weir_checkpoint_seconds"): "100x4 481x120",
            q("weir_checkpoint_deadline_seconds"): "600x130",
            **_UP,
        },
        at=5,
        labels=_OF_QUERY,
        summary="orders/enrich: a batch nears its deadline",
        description="A batch takes 8m 1s, more than 80 % of the deadline after which something "
        "kills it. A killed batch runs again from its start.",
        quiet=(
            {
                q("weir_checkpoint_seconds"): "590x120",
                q("weir_checkpoint_deadline_seconds"): "600x120",
                q("weir_query_up"): "0x120",  # gone: that is another alert
            },
            {  # of a query to which nothing has come since
                q("weir_checkpoint_seconds"): "590x120",
                q("weir_checkpoint_deadline_seconds"): "600x120",
                q("weir_query_state", state="idle"): "1x120",
                **_UP,
            },
        ),
    ),
    Case(
        alert="WeirDeadlineNear",  # ... and nothing comes any more: kept ten minutes beyond ten
        fires={
            q("weir_checkpoint_seconds"): "100x4 481x120",
            q("weir_checkpoint_deadline_seconds"): "600x130",
            q("weir_query_state", state="idle"): "0x4 1x120",
            **_UP,
        },
        at=5,
        ends_at=25,
        labels=_OF_QUERY,
        summary="orders/enrich: a batch nears its deadline",
        description="A batch takes 8m 1s, more than 80 % of the deadline after which something "
        "kills it. A killed batch runs again from its start.",
        quiet=(),
    ),
    Case(
        alert="WeirDeadlineNear",  # foreseen: none runs, and the last one was short enough
        fires={
            q("weir_checkpoint_seconds"): "100x120",
            q("weir_checkpoint_deadline_seconds"): "600x130",
            q("weir_checkpoint_deadline_eta_seconds"): "_x4 120x2 119x120",
            **_UP,
        },
        at=7,
        labels=_OF_QUERY,
        summary="orders/enrich: a batch nears its deadline",
        description="A batch takes 8m 1s, more than 80 % of the deadline after which something "
        "kills it. A killed batch runs again from its start.",
        quiet=(
            {
                q("weir_checkpoint_deadline_seconds"): "600x120",
                q("weir_checkpoint_deadline_eta_seconds"): "10x120",
                q("weir_query_up"): "0x120",
            },
        ),
    ),
    Case(
        alert="WeirRetentionLossNear",
        fires={
            q("weir_retention_loss_seconds", source="0"): "14400x4 14399x120",
            q("weir_retention_loss_seconds", source="1"): "90000x130",
        },
        at=10,
        labels=_OF_QUERY,
        summary="orders/enrich is about to lose unread rows",
        description="At the present rates retention deletes unread rows in 3h 59m 59s (0s: it does "
        "already).",
        quiet=(
            {**_moved("enrich"), q("weir_retention_loss_seconds", source="0"): "_x8 14399x180"},
            {q("weir_retention_loss_seconds", source="0"): "14400x120"},
            {q("weir_retention_loss_seconds", source="0"): "9000x3 20000x120"},
        ),
    ),
    Case(
        alert="WeirRowsLost",
        fires={
            q("weir_retention_lost_rows", source="0"): "0x4 300x120",
            q("weir_retention_lost_rows", source="1"): "0x4 100x120",
            **_UP,
        },
        at=5,
        labels=_OF_QUERY,
        summary=_LOST,
        description=_ROWS_LOST,
        quiet=(
            {q("weir_retention_lost_rows", source="0"): "0x120", **_UP},
            {  # near, and not there
                q("weir_retention_loss_seconds", source="0"): "60x120",
                q("weir_retention_lost_rows", source="0"): "0x120",
                **_UP,
            },
            {**_moved("enrich"), q("weir_retention_lost_rows", source="0"): "_x8 9x180"},
            {  # retired at the one agent that it had left before
                **_retired_where_it_was(),
                q("weir_retention_lost_rows", source="0"): "_x8 9x21 stale",
            },
        ),
    ),
    Case(
        # One scrape sees them, and the next commit of failOnDataLoss=false leaves them behind.
        alert="WeirRowsLost",
        fires={q("weir_retention_lost_rows", source="0"): "0x4 400 0x120", **_UP},
        at=19,
        silent_at=4,
        labels=_OF_QUERY,
        summary=_LOST,
        description=_ROWS_LOST,
        quiet=(),
    ),
    Case(
        alert="WeirRowsLost",  # gone, and retired at minute 20: kept for five more
        fires={
            q("weir_retention_lost_rows", source="0"): "0x4 400x14 stale",
            q("weir_query_up"): "1x9 0x9 stale",
        },
        at=5,
        ends_at=25,
        labels=_OF_QUERY,
        summary=_LOST,
        description=_ROWS_LOST,
        quiet=(),
    ),
    Case(
        alert="WeirRetentionLossAhead",
        fires={q("weir_retention_loss_seconds", source="0"): "86400x4 86399x120"},
        at=65,
        labels=_OF_QUERY,
        summary="orders/enrich will lose unread rows within a day",
        description="At the present rates retention deletes unread rows in 23h 59m 59s.",
        quiet=(
            {**_moved("enrich"), q("weir_retention_loss_seconds", source="0"): "_x8 86399x180"},
            {q("weir_retention_loss_seconds", source="0"): "86400x140"},
        ),
    ),
    Case(
        alert="WeirRetentionUnwatched",
        fires={
            q("weir_retention_lost_rows", source="0"): "0x4 _x120",
            q("weir_consistency_findings", check="retention_unwatched", severity="warning"): (
                "_x4 1x120"
            ),
        },
        at=14,
        labels=_OF_QUERY,
        summary="orders/enrich: whether retention deletes unread rows nobody can tell any more",
        description="It was watched within the last day. What is lacking stands beside the query "
        "on the status page; alerts on retention come for it no more, or go by a retention that "
        "was known last.",
        quiet=(
            {  # another cluster's topic
                q("weir_consistency_findings", check="retention_unwatched", severity="warning"): (
                    "1x120"
                )
            },
            {  # another fault
                q("weir_retention_lost_rows", source="0"): "0x120",
                q("weir_consistency_findings", check="read_uncommitted", severity="warning"): (
                    "1x120"
                ),
            },
            {  # brokers that restart
                q("weir_retention_lost_rows", source="0"): "0x120",
                q("weir_consistency_findings", check="retention_unwatched", severity="warning"): (
                    "_x4 1x3 _x120"
                ),
            },
        ),
    ),
    Case(
        alert="WeirFallingBehindFast",
        # A second lost each second: 900 s at minute 15, held for five from 16 on.
        fires={q("weir_backlog_seconds"): "0+60x120", **_MORE, **_UP},
        at=21,
        labels=_OF_QUERY,
        summary="orders/enrich falls behind fast",
        description="It is 21m 0s behind, and loses more than half a second each second.",
        quiet=(
            {q("weir_backlog_seconds"): "0+30x120", **_MORE, **_UP},  # half a second a second
            {q("weir_backlog_seconds"): "0+60x17 900+0x100", **_MORE, **_UP},  # it turned
            {
                q("weir_backlog_seconds"): "0+60x120",
                **_MORE,
                q("weir_estimated_time_to_consume_seconds"): "3599x120",
                **_UP,
            },
            {q("weir_backlog_seconds"): "0+60x120", **_MORE, q("weir_query_up"): "0x120"},
            {  # it works through what it found at its start
                q("weir_backlog_seconds"): "0+60x120",
                q("weir_backlog_estimated_rows"): "900000-6000x120",
                **_UP,
            },
        ),
    ),
    Case(
        alert="WeirBacklogStuck",
        fires={q("weir_lag_state", state="STALL"): "0x4 1x120", **_UP},
        at=10,
        labels={**_OF_QUERY, "state": "STALL"},
        summary="orders/enrich commits batches and takes nothing",
        description="There is a backlog, batches are committed, and none of them holds a row.",
        quiet=(
            {q("weir_lag_state", state="STALL"): "0x4 1x4 0x100", **_UP},
            {q("weir_lag_state", state="STALL"): "1x120", q("weir_query_up"): "0x120"},
            {q("weir_lag_state", state="ERR"): "1x120", **_UP},
        ),
    ),
    Case(
        alert="WeirFallingBehind",
        # Behind by 60 s a minute: 300 s at minute 5, above it from 6 on; growth known by then.
        fires={q("weir_backlog_seconds"): "0+60x120", **_MORE, **_UP},
        at=16,
        labels=_OF_QUERY,
        summary="orders/enrich falls behind and will not catch up",
        description="It is 16m 0s behind, and that still grows.",
        quiet=(
            {q("weir_backlog_seconds"): "300x120", **_MORE, **_UP},
            {q("weir_backlog_seconds"): "9000-60x120", **_MORE, **_UP},  # far behind, and draining
            {
                q("weir_backlog_seconds"): "0+60x10 600-60x10 0x100",
                **_MORE,
                **_UP,
            },  # a spike that drains
            {
                q("weir_backlog_seconds"): "0+60x120",
                **_MORE,
                q("weir_estimated_time_to_consume_seconds"): "3599x120",
                **_UP,
            },
            {q("weir_backlog_seconds"): "0+60x120", **_MORE, q("weir_query_up"): "0x120"},
            {  # it works through what it found at its start
                q("weir_backlog_seconds"): "0+60x120",
                q("weir_backlog_estimated_rows"): "900000-6000x120",
                **_UP,
            },
        ),
    ),
    Case(
        alert="WeirNeedsCapacity",
        fires={q("weir_required_capacity_ratio"): "1x4 1.5x120", **_UP},
        at=15,
        labels=_OF_QUERY,
        summary="orders/enrich needs 150% of its capacity",
        description="More arrives than it can digest with any limit. The backlog grows until there "
        "are more cores, less work per row, or fewer rows.",
        quiet=(
            {q("weir_required_capacity_ratio"): "1x120", **_UP},
            {q("weir_required_capacity_ratio"): "1x4 3x9 0.9x100", **_UP},  # a burst
            {q("weir_required_capacity_ratio"): "1.5x120", q("weir_query_up"): "0x120"},
        ),
    ),
    *(
        Case(  # kept over what a single batch makes of it: it last holds at minute `last`
            alert=alert,
            fires={**fires, **_UP},
            at=at,
            ends_at=last + 1 + kept,
            labels=_OF_QUERY,
            summary=summary,
            description=description,
            quiet=(),
        )
        for alert, fires, at, last, kept, summary, description in (
            (
                "WeirNeedsCapacity",
                {q("weir_required_capacity_ratio"): "1x4 1.5x15 0.9x100"},
                15,
                20,
                10,
                "orders/enrich needs 150% of its capacity",
                (
                    "More arrives than it can digest with any limit. The backlog grows until there "
                    "are more cores, less work per row, or fewer rows."
                ),
            ),
            (
                "WeirExecutorsAtMaximum",
                {
                    q("weir_executors_bound", bound="maximum"): "0x4 1x20 0x100",
                    q("weir_executors_mode", mode="on"): "1x130",
                    **_ALL_PRESENT,
                },
                20,
                25,
                15,
                "orders/enrich: the most executors that Weir may ask for do not suffice",
                (
                    "More executors would digest what arrives inside the target, but "
                    "maximum_executors is reached."
                ),
            ),
            (
                "WeirTargetInfeasible",
                {q("weir_target_feasible"): "1x4 0x35 1x100"},
                35,
                40,
                10,
                "orders/enrich: no limit keeps the target",
                (
                    "Batches must be larger than the target allows, to digest what arrives beside "
                    "their fixed cost. Weir lets them be as far as that pays and the deadline "
                    "allows."
                ),
            ),
            (
                "WeirDeadlineNear",
                {
                    q("weir_batch_running_seconds"): "100x4 540x1 10x100",
                    q("weir_checkpoint_deadline_seconds"): "600x120",
                },
                5,
                6,
                10,
                "orders/enrich: a batch nears its deadline",
                (
                    "A batch takes 9m 0s, more than 80 % of the deadline after which something "
                    "kills it. A killed batch runs again from its start."
                ),
            ),
        )
    ),
    Case(
        alert="WeirExecutorsAtMaximum",
        fires={
            q("weir_executors_bound", bound="maximum"): "0x4 1x120",
            q("weir_executors_mode", mode="on"): "1x130",
            **_ALL_PRESENT,
        },
        at=20,
        labels=_OF_QUERY,
        summary="orders/enrich: the most executors that Weir may ask for do not suffice",
        description="More executors would digest what arrives inside the target, but "
        "maximum_executors is reached.",
        quiet=(
            {
                q("weir_executors_bound", bound="maximum"): "0x120",
                q("weir_executors_bound", bound="tasks"): "1x120",
                q("weir_executors_mode", mode="on"): "1x120",
                **_ALL_PRESENT,
            },
            {  # a burst
                q("weir_executors_bound", bound="maximum"): "0x4 1x14 0x100",
                q("weir_executors_mode", mode="on"): "1x120",
                **_ALL_PRESENT,
            },
            {  # nobody asks for any
                q("weir_executors_bound", bound="maximum"): "1x120",
                q("weir_executors_mode", mode="dry-run"): "1x120",
                q("weir_executors_mode", mode="on"): "0x120",
                **_ALL_PRESENT,
            },
            {  # the cluster's queue gives three of eight
                q("weir_executors_bound", bound="maximum"): "1x120",
                q("weir_executors_mode", mode="on"): "1x120",
                q("weir_executors_present"): "3x120",
                q("weir_executors_wanted"): "8x120",
            },
        ),
    ),
    Case(
        alert="WeirTargetInfeasible",
        fires={
            q("weir_target_feasible"): "1x4 0x120",
            q("weir_required_capacity_ratio"): "0.7x120",
            **_UP,
        },
        at=35,
        labels=_OF_QUERY,
        summary="orders/enrich: no limit keeps the target",
        description="Batches must be larger than the target allows, to digest what arrives beside "
        "their fixed cost. Weir lets them be as far as that pays and the deadline allows.",
        quiet=(
            {q("weir_target_feasible"): "1x120", **_UP},
            {q("weir_target_feasible"): "0x120", q("weir_query_up"): "0x120"},
            {
                q("weir_target_feasible"): "0x120",
                **_UP,
                q("weir_required_capacity_ratio"): "1.1x120",  # then it needs capacity
            },
        ),
    ),
    Case(
        alert="WeirFailingOften",
        # One, then one more every 20 minutes: the third is seen at minute 45.
        fires={
            q("weir_batches_total", result="failed"): "0x4 1x19 2x19 3x1 3x19",
            q("weir_batches_total", result="completed"): "0x9 1x120",
            q("weir_batches_total", result="empty"): "0x130",
        },
        at=45,
        labels={**_OF_QUERY, "result": "failed"},
        summary="orders/enrich fails again and again",
        description="3 failures in the last hour. It commits batches between them, so it goes on, "
        "late.",
        quiet=(
            {
                q("weir_batches_total", result="failed"): "0x4 1x19 2x120",
                q("weir_batches_total", result="completed"): "0+1x120",
            },
            {q("weir_batches_total", result="completed"): "0+9x120"},
            {  # nothing was committed in the hour: somebody is woken
                q("weir_batches_total", result="failed"): "0x4 1x19 2x19 3x60",
                q("weir_batches_total", result="completed"): "7x120",
            },
            {  # its owner stopped it, and it was let go of soon after
                q("weir_batches_total", result="failed"): "0 3x9 stale",
                q("weir_batches_total", result="completed"): "0+1x10 stale",
                q("weir_query_stopped"): "1x10 stale",
            },
            {
                **_retired_where_it_was(),
                q("weir_batches_total", result="failed"): "0x19 4x9 stale",
                q("weir_batches_total", result="completed"): "0+1x29 stale",
            },
        ),
    ),
    Case(
        alert="WeirRewound",
        fires={q("weir_lag_state", state="REWIND"): "0x4 1x120", **_UP},
        at=5,
        labels={**_OF_QUERY, "state": "REWIND"},
        summary="orders/enrich reads again what it had committed",
        description="Its offsets went back. A sink that is not idempotent now gets rows twice.",
        quiet=({q("weir_lag_state", state="ERR"): "1x120", **_UP},),
    ),
    Case(
        alert="WeirNewCheckpoint",
        fires={
            q("weir_query_info", query_id="a", run_id="1"): "1x9 stale",
            q("weir_query_info", query_id="b", run_id="2"): "_x12 1x120",
            q("weir_query_up"): "1x9 0x1 1x120",
        },
        at=12,
        labels=_OF_QUERY_ANYWHERE,
        summary="orders/enrich runs from a new checkpoint",
        description="Within the hour it ran from another one. What it had read, and its state, it "
        "does not know any more: it began where its source's options say, such as startingOffsets. "
        "A sink that goes by batch numbers, as Spark's file sink, drops its batches up to the old "
        "one's.",
        quiet=(
            {  # a restart
                q("weir_query_info", query_id="a", run_id="1"): "1x9 stale",
                q("weir_query_info", query_id="a", run_id="2"): "_x12 1x120",
                **_UP,
            },
            {  # at another agent
                q("weir_query_info", query_id="a", run_id="1"): "1x9 stale",
                q("weir_query_info", query_id="a", run_id="2").replace(
                    "agent:", "another:"
                ): "_x12 1x120",
                **_UP,
            },
            {  # told of before its start was
                q("weir_query_info", query_id="", run_id=""): "1x9 stale",
                q("weir_query_info", query_id="a", run_id="2"): "_x10 1x120",
                **_UP,
            },
            {  # two queries
                q("weir_query_info", query_id="a", run_id="1"): "1x120",
                other("weir_query_info", query_id="b", run_id="2"): "1x120",
                **_UP,
            },
            {  # it ended again
                q("weir_query_info", query_id="a", run_id="1"): "1x9 stale",
                q("weir_query_info", query_id="b", run_id="2"): "_x12 1x120",
                q("weir_query_up"): "1x9 0x120",
            },
        ),
    ),
    Case(
        alert="WeirCheckpointUnsound",
        fires={
            q("weir_consistency_findings", check="state_incomplete", severity="error"): "_x5 2x120",
            q("weir_consistency_findings", check="two_writers", severity="error"): "_x5 1x120",
        },
        at=5,
        labels=_OF_QUERY,
        summary="orders/enrich: its checkpoint is not sound",
        description="3 findings of the consistency audit are errors: the query may not come back "
        "from its checkpoint, or writes rows twice.",
        quiet=(
            {
                **_moved("enrich"),
                q("weir_consistency_findings", check="two_writers", severity="error"): "_x8 1x180",
            },
            {
                q(
                    "weir_consistency_findings", check="sink_at_least_once", severity="warning"
                ): "1x99"
            },
            {  # WeirWatermarkAhead
                q("weir_consistency_findings", check="late_rows", severity="error"): "1x99"
            },
            {  # killed, and begun again under another name: two live ones for a moment
                q(
                    "weir_consistency_findings", check="location_shared", severity="error"
                ): "_x8 1 1 stale"
            },
        ),
    ),
    Case(
        alert="WeirCheckpointUnsound",  # a job that lives for two minutes of each hour
        fires={
            q(
                "weir_consistency_findings", check="state_incomplete", severity="error"
            ): "_x5 1x2 stale _x56 1x2 stale",
            q("weir_query_up"): "_x4 1x3 0x55 1x3 0x120",
            q("weir_query_stopped"): "_x4 0x3 1x55 0x3 1x120",
        },
        at=5,
        ends_at=128,
        labels=_OF_QUERY,
        summary="orders/enrich: its checkpoint is not sound",
        description="1 findings of the consistency audit are errors: the query may not come back "
        "from its checkpoint, or writes rows twice.",
        quiet=(),
    ),
    Case(
        alert="WeirCheckpointUnsound",  # two that share one
        fires={
            q("weir_consistency_findings", check="location_shared", severity="error"): "_x5 1x120"
        },
        at=7,
        labels=_OF_QUERY,
        summary="orders/enrich: its checkpoint is not sound",
        description="1 findings of the consistency audit are errors: the query may not come back "
        "from its checkpoint, or writes rows twice.",
        quiet=(),
    ),
    Case(
        alert="WeirStateGrowing",  # a steady growth without end: a million more every day
        fires=_grown("2000000+6945x430"),
        step_minutes=10,
        # Two days and an hour are needed to compare; held for an hour more.
        at=294,
        labels=_OF_QUERY_ANYWHERE,
        summary="orders/enrich: its state grows without bound",
        description="4.042M rows of state, and more every day. It will not fit in the end, and "
        "each commit takes longer until then.",
        quiet=(
            _grown("2000000+1300x430"),  # nine in a hundred
            _grown("0+6000x20 120000x410"),  # less than a million
            # By day up, by night down, the same every day.
            _grown("2000000+30000x71 4160000-30000x71 " * 2, "2000000+30000x71 4160000-30000x71"),
            _grown("0+100000x71 7200000x350"),  # fills its window after a start, then stands
        ),
    ),
    Case(
        alert="WeirStateGrowing",  # the agent's address changes with its pod
        fires={
            q("weir_state_rows", operator="0:dedupe"): "2000000+6945x200",
            q("weir_state_rows", operator="0:dedupe").replace(
                "agent:9655", "other:9655"
            ): "_x201 3395945+6945x230",
        },
        step_minutes=10,
        at=294,
        labels=_OF_QUERY_ANYWHERE,
        summary="orders/enrich: its state grows without bound",
        description="4.042M rows of state, and more every day. It will not fit in the end, and "
        "each commit takes longer until then.",
        quiet=(),
    ),
    Case(
        alert="WeirStateGrowing",  # steady for a day and more, then a leak
        fires=_grown("2000000x199 2000000+100000x200"),
        step_minutes=10,
        at=220,
        labels=_OF_QUERY_ANYWHERE,
        summary="orders/enrich: its state grows without bound",
        description="4M rows of state, and more every day. It will not fit in the end, and each "
        "commit takes longer until then.",
        quiet=(_grown("2000000x199 2000000+100000x3 2900000x200"),),
    ),
    Case(
        alert="WeirStateGrowing",  # a leak on a Monday morning, beyond what a Monday has
        # Not as much as on the last days of the week before: that says nothing of a Monday.
        fires=_grown(
            *(_weekday(), _weekday(), _weekday(), _weekday(7_000_000), _weekday(7_000_000)),
            *(*_WEEKEND, _UNTIL_TEN, "5000000+100000x150"),
        ),
        step_minutes=10,
        at=1083,
        labels=_OF_QUERY_ANYWHERE,
        summary="orders/enrich: its state grows without bound",
        description="6.5M rows of state, and more every day. It will not fit in the end, and each "
        "commit takes longer until then.",
        quiet=(
            # Twice and a half of a Sunday's, as each Monday.
            _grown(*[*[_weekday()] * 5, *_WEEKEND] * 2),
            _grown(_peak(36), *[_weekday()] * 4, *_WEEKEND, _peak(78)),  # seven hours later
        ),
    ),
    Case(
        alert="WeirSnapshotsLate",
        fires={q("weir_state_snapshot_lag_versions", operator="0:dedupe"): "300x4 301x120"},
        at=35,
        labels={**_OF_QUERY, "operator": "0:dedupe"},
        summary="orders/enrich: snapshots of its state lag behind",
        description="301 versions of 0:dedupe are in no snapshot. A restart must replay them all "
        "before its first batch.",
        quiet=(
            {q("weir_state_snapshot_lag_versions", operator="0:dedupe"): "300x120"},
            {q("weir_state_snapshot_lag_versions", operator="0:dedupe"): "900x29 10x120"},
        ),
    ),
    Case(
        alert="WeirWatermarkStuck",
        fires={
            q("weir_watermark_lag_seconds"): "0+60x120",
            q("weir_last_progress_timestamp_seconds"): "0+60x120",
            q("weir_rows_total"): "0+100x120",
            **_UP,
        },
        at=71,  # past an hour at minute 61, held for ten
        labels=_OF_QUERY,
        summary="orders/enrich: its watermark stands still",
        description="The watermark is 1h 11m 0s behind and does not move, though rows are "
        "processed.",
        quiet=(
            {  # idle by night
                q("weir_watermark_lag_seconds"): "0+60x120",
                q("weir_last_progress_timestamp_seconds"): "0+60x140",
                q("weir_rows_total"): "100x140",
                **_UP,
            },
            {  # the first batch after a night without rows: the watermark is the evening's
                q("weir_watermark_lag_seconds"): "660x59 47460x80",
                q("weir_last_progress_timestamp_seconds"): "0x59 46800x80",
                q("weir_rows_total"): "1000x59 2000x80",
                **_UP,
            },
            {  # far behind, and moving
                q("weir_watermark_lag_seconds"): "7200+30x140",
                q("weir_last_progress_timestamp_seconds"): "0+60x140",
                q("weir_rows_total"): "0+100x140",
                **_UP,
            },
            {
                q("weir_watermark_lag_seconds"): "0+60x140",
                q("weir_last_progress_timestamp_seconds"): "0+60x140",
                q("weir_rows_total"): "0+100x140",
                q("weir_query_up"): "0x140",
            },
        ),
    ),
    Case(
        alert="WeirLateRowsDropped",
        # Two in a hundred, and from minute 2 on twice; held for 15.
        fires={
            q("weir_watermark_dropped_rows_total"): "0+20x120",
            q("weir_rows_total"): "0+1000x120",
            **_UP,
        },
        at=17,
        labels=_OF_QUERY,
        summary="orders/enrich drops late rows",
        description="340 rows of the last three hours came after the watermark and were dropped: "
        "they are missing from the result.",
        quiet=(
            {
                q("weir_watermark_dropped_rows_total"): "0+10x120",
                q("weir_rows_total"): "0+1000x120",
                **_UP,
            },
            {
                q("weir_watermark_dropped_rows_total"): "0x4 1000x120",  # once, and no more
                q("weir_rows_total"): "0+1000x120",
                **_UP,
            },
        ),
    ),
    Case(
        alert="WeirWatermarkAhead",
        fires={
            q("weir_consistency_findings", check="late_rows", severity="error"): "_x5 1x120",
            q("weir_query_up"): "1x130",
        },
        at=10,
        labels=_OF_QUERY,
        summary="orders/enrich: its watermark is ahead of the clock, and rows are lost",
        description="One row of a far time took it there. The others are dropped as late, and are "
        "missing from the result for good, until their times have come as far or the checkpoint "
        "begins anew.",
        quiet=(
            {  # the others were there soon after
                q(
                    "weir_consistency_findings", check="late_rows", severity="error"
                ): "_x5 1x4 stale",
                **_UP,
            },
            {  # batches are as configured again
                q("weir_consistency_findings", check="late_rows", severity="warning"): "1x120",
                **_UP,
            },
            {
                q("weir_consistency_findings", check="file_damaged", severity="error"): "1x120",
                **_UP,
            },
            {
                q("weir_consistency_findings", check="late_rows", severity="error"): "1x120",
                q("weir_query_up"): "0x120",
            },
        ),
    ),
    Case(
        alert="WeirLateRowsHeld",
        fires={q("weir_late_rows_held"): "0x4 1x20", q("weir_query_up"): "1x30"},
        at=5,
        labels=_OF_QUERY,
        summary="orders/enrich: smaller batches dropped late rows, so they are as configured again",
        description="Rows later than the delay that the query declares fell behind the watermark "
        "at the ends of smaller batches. Weir no longer makes them smaller, so a burst is one "
        "large batch again.",
        quiet=(
            {q("weir_late_rows_held"): "0x30", q("weir_query_up"): "1x30"},
            {q("weir_late_rows_held"): "1x30", q("weir_query_up"): "0x30"},
        ),
    ),
    Case(
        alert="WeirLimitHeldLong",
        fires={
            q("weir_query_held_since_timestamp_seconds"): "_x9 540x800",
            q("weir_query_up"): "1x900",
        },
        at=730,
        labels=_OF_QUERY,
        summary="orders/enrich: its limit has been held by hand for 12 hours",
        description="Weir does not adapt the limit until the hold is released.",
        quiet=(
            {
                q("weir_query_held_since_timestamp_seconds"): "_x9 540x719 stale",
                q("weir_query_up"): "1x900",
            },
            {q("weir_query_held_since_timestamp_seconds"): "540x900", q("weir_query_up"): "0x900"},
        ),
    ),
    Case(
        alert="WeirModeOffLong",
        fires={
            q("weir_query_mode", mode="off"): "0x9 1x400",
            q("weir_query_mode_since_timestamp_seconds"): "_x9 540x400",
            q("weir_query_up"): "1x400",
        },
        at=250,
        labels={**_OF_QUERY, "mode": "off"},
        summary="orders/enrich: Weir has been switched off by hand for 4 hours",
        description="The query runs with the limits that its job configured, until somebody gives "
        "it another mode.",
        quiet=(
            {  # for an incident
                q("weir_query_mode", mode="off"): "0x9 1x230 0x200",
                q("weir_query_mode_since_timestamp_seconds"): "_x9 540x230 stale",
                q("weir_query_up"): "1x400",
            },
            {  # by its configuration
                q("weir_query_mode", mode="off"): "1x400",
                q("weir_query_up"): "1x400",
            },
            {  # by hand, but dry-run
                q("weir_query_mode", mode="off"): "0x400",
                q("weir_query_mode_since_timestamp_seconds"): "540x400",
                q("weir_query_up"): "1x400",
            },
            {
                q("weir_query_mode", mode="off"): "1x400",
                q("weir_query_mode_since_timestamp_seconds"): "540x400",
                q("weir_query_up"): "0x400",
            },
        ),
    ),
    Case(
        alert="WeirListenerDropping",
        fires={f"weir_listener_dropped_events_total{A}": "0x4 3x120"},
        at=5,
        labels={**LABELS, "application": "orders"},
        summary="orders: the listener drops events",
        description="The queue in the driver is full, so the judgement of its queries has holes. "
        "The job itself is not affected.",
        quiet=({f"weir_listener_dropped_events_total{A}": "0x120"},),
    ),
    Case(
        alert="WeirListenerDropping",  # after an outage in which its series had ended
        fires={f"weir_listener_dropped_events_total{A}": "0x4 _x90 7x120"},
        at=95,
        labels={**LABELS, "application": "orders"},
        summary="orders: the listener drops events",
        description="The queue in the driver is full, so the judgement of its queries has holes. "
        "The job itself is not affected.",
        quiet=({f"weir_listener_dropped_events_total{A}": "0x4 _x90 0x120"},),
    ),
    Case(
        alert="WeirDriverMemoryNearLimit",  # JVM and Python fill it together: 60 and 35 %
        fires={
            _of_driver("resident_memory", "jvm"): "1000000000x4 2576980378x120",
            _of_driver("resident_memory", "python"): "1503238554x130",
            **{
                _of_driver(name, process): values
                for process in ("jvm", "python")
                for name, values in (
                    ("memory_limit_used", "3000000000x4 4080218932x120"),
                    ("memory_limit", "4294967296x130"),
                )
            },
        },
        at=15,
        labels={**LABELS, "application": "orders"},
        summary="orders: the driver nears its memory limit",
        description="Its processes, and what shares their limit, hold 3.8GiB, more than 90 % of "
        "what they may have.",
        quiet=(
            {
                _of_driver("resident_memory", "jvm"): "2576980378x120",
                _of_driver("memory_limit_used", "jvm"): "3865470566x120",
                _of_driver("memory_limit", "jvm"): "4294967296x120",
            },
            {  # what others fill, of which both have no more than a quarter
                _of_driver("resident_memory", "jvm"): "1000000000x120",
                _of_driver("resident_memory", "python"): "73741824x120",
                _of_driver("memory_limit_used", "jvm"): "4294967295x120",
                _of_driver("memory_limit", "jvm"): "4294967296x120",
            },
            {  # a machine of 64 GiB that others fill: of 60 it has 4
                _of_driver("resident_memory", "jvm"): "4294967296x120",
                _of_driver("memory_limit_used", "jvm"): "64424509440x120",
                _of_driver("memory_limit", "jvm"): "68719476736x120",
            },
        ),
    ),
    Case(
        alert="WeirDriverMemoryNearLimit",  # others fill it, and of the rest it has enough to count
        fires={
            _of_driver("resident_memory", "jvm"): "1000000000x130",
            _of_driver("resident_memory", "python"): "73741825x130",
            _of_driver("memory_limit_used", "jvm"): "3000000000x4 4080218932x120",
            _of_driver("memory_limit", "jvm"): "4294967296x130",
        },
        at=15,
        labels={**LABELS, "application": "orders"},
        summary="orders: the driver nears its memory limit",
        description="Its processes, and what shares their limit, hold 3.8GiB, more than 90 % of "
        "what they may have.",
        quiet=(),
    ),
    Case(
        alert="WeirDriverMemoryNearLimit",  # what is used under the limit is not told
        fires={
            _of_driver("resident_memory", "jvm"): "1000000000x4 3865470567x120",
            _of_driver("memory_limit", "jvm"): "4294967296x130",
        },
        at=15,
        labels={**LABELS, "application": "orders"},
        summary="orders: the driver nears its memory limit",
        description="Its processes, and what shares their limit, hold 3.6GiB, more than 90 % of "
        "what they may have.",
        quiet=(
            {
                _of_driver("resident_memory", "jvm"): "3865470566x120",
                _of_driver("memory_limit", "jvm"): "4294967296x120",
            },
        ),
    ),
    Case(
        alert="WeirAgentDown",
        fires={"weir_build_info" + AGENT: "1x4 _x120"},
        at=15,  # the last sample, at 4, looks alive for 5 minutes; held for 5
        labels={"cluster": "eu", "namespace": "streams"},
        summary="No Weir agent is scraped",
        description=_NO_AGENT,
        quiet=(
            {"weir_build_info" + AGENT: "1x4 _x6 1x120"},  # a rollout
            {"weir_build_info" + AGENT: "1x120"},
        ),
    ),
    *(
        Case(
            alert="WeirAgentDown",  # of several clusters or namespaces: one page, without them
            fires={
                "weir_build_info" + AGENT: "1x4 _x120",
                "weir_build_info" + AGENT.replace(*other): "1x4 _x120",
                **more,
            },
            at=15,
            labels=left,
            summary="No Weir agent is scraped",
            description=_NO_AGENT,
            quiet=({"weir_build_info" + AGENT: "1x4 _x120", _build("b"): "1x130"},),
        )
        for other, more, left in (
            (('"eu"', '"us"'), {}, {"namespace": "streams"}),
            (('"streams"', '"shop"'), {}, {"cluster": "eu"}),
            (
                ('"streams"', '"shop"'),
                {"weir_build_info" + AGENT.replace('"eu"', '"us"'): "1x4 _x120"},
                {},
            ),
        )
    ),
    Case(
        alert="WeirAgentUnreachable",
        fires={
            _target("a"): "1x4 0x120",
            _build("a"): "1x4 stale _x120",  # a scrape that fails ends what it brought
            _target("b"): "1x130",  # beside another one, which answers
            _build("b"): "1x130",
        },
        at=7,  # the second scrape that fails is at minute 6
        labels={**_JOB, "instance": "a:9655"},
        summary="The Weir agent at a:9655 does not answer",
        description=_NO_ANSWER,
        quiet=(
            {_target("a"): "1x4 0 1x120", _build("a"): "1x4 _ 1x120"},  # a restart
            {_target("a"): "0x130", _build("b"): "1x130"},  # another program's target
            {_target("a"): "1x4 _x120", _build("a"): "1x4 _x120"},  # taken away
        ),
    ),
    Case(
        alert="WeirAgentUnreachable",  # of a StatefulSet: back at another address
        fires={
            _target("a", pod="weir-0"): "1x4 stale",
            _build("a", pod="weir-0"): "1x4 stale _x120",
            _target("b", pod="weir-0"): "_x4 0x120",
            _target("c", pod="weir-1"): "1x130",
            _build("c", pod="weir-1"): "1x130",
        },
        at=6,
        labels={**_JOB, "pod": "weir-0"},
        summary="The Weir agent at weir-0 does not answer",
        description=_NO_ANSWER,
        quiet=(
            {  # it answers at another address
                _target("a", pod="weir-0"): "1x4 0 stale",
                _build("a", pod="weir-0"): "1x4 stale",
                _target("b", pod="weir-0"): "_x5 1x120",
                _build("b", pod="weir-0"): "_x5 1x120",
            },
            {  # the next one is of another name
                _target("a", pod="weir-7d4"): "1x4 stale",
                _build("a", pod="weir-7d4"): "1x4 stale",
                _target("b", pod="weir-9x1"): "_x4 1x120",
                _build("b", pod="weir-9x1"): "_x4 1x120",
            },
        ),
    ),
    Case(
        alert="WeirAgentUnreachable",  # in a pod, with a namespace of its own beside the target's
        fires={
            _target("a", pod="weir-0", where="jobs"): "1x4 0x120",
            _build("a", pod="weir-0"): "1x4 stale _x120",
            _target("c", pod="weir-1", where="jobs"): "1x130",
            _build("c", pod="weir-1"): "1x130",
        },
        at=7,
        labels={**_JOB, "instance": "a:9655", "pod": "weir-0"},
        summary="The Weir agent at weir-0 does not answer",
        description=_NO_ANSWER,
        quiet=(
            {  # another pod has its address now
                _target("a", pod="weir-0", where="jobs"): "1x4 stale",
                _build("a", pod="weir-0"): "1x4 stale",
                _target("a", pod="other", where="jobs"): "_x4 0x120",
                _target("c", pod="weir-1", where="jobs"): "1x130",
                _build("c", pod="weir-1"): "1x130",
            },
        ),
    ),
    *(
        Case(
            alert="WeirAgentUnreachable",  # rules are judged over two clusters; one of one name
            fires={
                _in("eu", _target("a", pod)): "1x4 0x120",
                _in("us", _target("a", pod)): "1x130",
                _build("a", pod): "1x4 stale _x120",
                _build("a", pod).replace('"eu"', '"us"'): "1x130",
            },
            at=7,
            labels={**_JOB, **({"pod": pod} if pod else {"instance": "a:9655"})},
            summary=f"The Weir agent at {pod or 'a:9655'} does not answer",
            description=_NO_ANSWER,
            quiet=(),
        )
        for pod in ("", "weir-0")
    ),
    Case(
        alert="WeirAgentUnreachable",  # Prometheus calls the cluster otherwise than the agent does
        fires={
            _in("prod-eu", _target("a")): "1x4 0x120",
            _build("a"): "1x4 stale _x120",
            _in("prod-eu", _target("b")): "1x130",
            _build("b"): "1x130",
        },
        at=7,
        labels={**_JOB, "instance": "a:9655"},
        summary="The Weir agent at a:9655 does not answer",
        description=_NO_ANSWER,
        quiet=(),
    ),
    Case(
        alert="WeirAgentBlind",
        fires={
            q("weir_query_up"): "1x4 0x120",
            q("weir_query_state", state="terminated"): "0x120",
            q("weir_query_gone_since_timestamp_seconds"): "_x5 240x120",
            other("weir_query_up"): "1x5 0x120",
            other("weir_query_state", state="terminated"): "0x120",
            other("weir_query_gone_since_timestamp_seconds"): "_x6 360x120",
            # One that was gone before, and one that its owner stopped meanwhile.
            **_gone("old", "_x5 60x120"),
            **_gone("done", "_x5 300x120", stopped=True),
        },
        at=8,  # the second falls silent at minute 6
        labels=LABELS,
        summary="A Weir agent hears of none of its queries: 2 fell silent together",
        description="Their drivers died, or cannot reach the agent. If they still run, nobody sees "
        "how.",
        quiet=(
            {  # one is left
                **_gone("enrich", "_x5 240x120"),
                **_gone("old", "_x5 300x120"),
                other("weir_query_up"): "1x120",
                other("weir_query_state", state="terminated"): "0x120",
            },
            # They said that they end.
            _gone("enrich", "_x5 300x120", told=True) | _gone("other", "_x6 360x120", told=True),
            # A single query: that is WeirQueryGone.
            _gone("enrich", "_x5 300x120"),
            # One after the other: the first was told when it went.
            _gone("enrich", "_x5 239x120") | _gone("other", "_x6 360x120"),
            # Both long ago, and the last one was stopped, or failed.
            _gone("a", "60x180") | _gone("b", "61x180") | _gone("c", "_x60 3600x120", stopped=True),
            _gone("a", "60x180") | _gone("b", "61x180") | _gone("c", "_x60 3600x120", told=True),
            # Another failed with them, and nobody would be told of it.
            _gone("a", "60x180") | _gone("b", "61x180") | _gone("c", "50x180", told=True),
            _moved("enrich") | _moved("archive"),
        ),
    ),
    *(
        Case(
            alert="WeirAgentFull",
            fires={f'{counter}{{{WHERE},reason="{reason}"}}': "0x4 9x120"},
            at=5,
            labels={**LABELS, "reason": reason},
            summary="A Weir agent has no room for more",
            description="It knows as many queries as it may, or holds as many requests as it can: "
            "events are refused, so what they tell of is not watched.",
            quiet=(
                {f'{counter}{{{WHERE},reason="{reason}"}}': "9x120"},
                {f'{counter}{{{WHERE},reason="malformed"}}': "0+1x120"},
                {f'weir_agent_refused_requests_total{{{WHERE},reason="state"}}': "0+1x120"},
            ),
        )
        for counter, reason in (
            ("weir_agent_rejected_events_total", "cardinality"),
            ("weir_agent_refused_requests_total", "full"),
        )
    ),
    Case(
        alert="WeirAgentRejectsEvents",
        fires={
            f'weir_agent_refused_requests_total{{{WHERE},reason="unauthorized"}}': "0x4 1+1x120",
            f'weir_agent_refused_requests_total{{{WHERE},reason="malformed"}}': "0x130",
        },
        at=10,
        labels=LABELS,
        summary="A Weir agent refuses what drivers send",
        description="6 requests or events in the last 10 minutes. Queries behind them are not "
        "judged, or with holes.",
        quiet=(
            {f'weir_agent_refused_requests_total{{{WHERE},reason="unauthorized"}}': "5x120"},
            {f'weir_agent_refused_requests_total{{{WHERE},reason="unauthorized"}}': "0x4 1x120"},
            {f'weir_agent_rejected_events_total{{{WHERE},reason="cardinality"}}': "0+1x120"},
            {f'weir_agent_refused_requests_total{{{WHERE},reason="state"}}': "0+1x120"},
        ),
    ),
    Case(
        alert="WeirAgentRejectsEvents",  # whole requests are fine, events in them are not
        fires={
            f'weir_agent_refused_requests_total{{{WHERE},reason="malformed"}}': "0x130",
            # A scrape fails meanwhile.
            f'weir_agent_rejected_events_total{{{WHERE},reason="malformed"}}': "0x4 1 2 _ 4+1x120",
        },
        at=10,
        labels=LABELS,
        summary="A Weir agent refuses what drivers send",
        description="6 requests or events in the last 10 minutes. Queries behind them are not "
        "judged, or with holes.",
        quiet=(
            {f'weir_agent_rejected_events_total{{{WHERE},reason="malformed"}}': "5x120"},
            {f'weir_agent_rejected_events_total{{{WHERE},reason="malformed"}}': "0x4 1 2x120"},
        ),
    ),
    Case(
        alert="WeirAgentStateNotSaved",
        fires={"weir_agent_state_writable" + AGENT: "1x4 0x120"},
        at=10,
        labels=LABELS,
        summary="A Weir agent cannot save its state",
        description="It takes no events in: drivers keep the newest 2,000 each and fall back to "
        "their configured limits, figures and alerts stand still, jobs run on. Only who is alive "
        "is still told.",
        quiet=({"weir_agent_state_writable" + AGENT: "1x4 0x4 1x120"},),
    ),
    Case(
        alert="WeirAgentMemoryNearLimit",
        fires={
            "process_resident_memory_bytes" + AGENT: "100000000x130",
            "weir_agent_process_memory_limit_used_bytes" + AGENT: "150000000x4 241591911x120",
            "weir_agent_process_memory_limit_bytes" + AGENT: "268435456x130",
        },
        at=15,
        labels=LABELS,
        summary="A Weir agent nears its memory limit",
        description=_NEARS_ITS_LIMIT,
        quiet=(
            {  # what others fill, the agent being less than a fiftieth of it
                "process_resident_memory_bytes" + AGENT: "5368709x120",
                "weir_agent_process_memory_limit_used_bytes" + AGENT: "268435455x120",
                "weir_agent_process_memory_limit_bytes" + AGENT: "268435456x120",
            },
            {
                "process_resident_memory_bytes" + AGENT: "241591911x120",
                "weir_agent_process_memory_limit_used_bytes" + AGENT: "241591910x120",
                "weir_agent_process_memory_limit_bytes" + AGENT: "268435456x120",
            },
            {  # the agent alone, where what is used is not told
                "process_resident_memory_bytes" + AGENT: "241591910x120",
                "weir_agent_process_memory_limit_bytes" + AGENT: "268435456x120",
            },
            {"process_resident_memory_bytes" + AGENT: "999999999999x120"},  # another program
        ),
    ),
    Case(
        alert="WeirAgentMemoryNearLimit",  # what is used under the limit is not told
        fires={
            "process_resident_memory_bytes" + AGENT: "100000000x4 241591911x120",
            "weir_agent_process_memory_limit_bytes" + AGENT: "268435456x130",
        },
        at=15,
        labels=LABELS,
        summary="A Weir agent nears its memory limit",
        description=_NEARS_ITS_LIMIT,
        quiet=(),
    ),
    Case(
        alert="WeirAgentRestarting",
        fires={_STARTED + AGENT: "60x4 300x19 1500x34 3600x120"},
        at=60,  # three starts within 55 minutes
        labels=LABELS,
        summary="The Weir agent at agent:9655 starts again and again",
        description=_STARTS_AGAIN,
        quiet=(
            {_STARTED + AGENT: "60x4 300x4 _x2 720x120"},  # an upgrade, and back
            {_STARTED + AGENT: "60x4 300x34 2400x34 4500x120"},  # the third after 70 minutes
            {  # four agents, each upgraded
                _STARTED + AGENT.replace("agent:", f"{one}:"): "60x4 300x120"
                for one in ("a", "b", "c", "d")
            },
            {  # and in pods, each of which has another address then
                _of_pod(f"{one}{at}", f"weir-{one}"): values
                for one in ("a", "b", "c", "d")
                for at, values in enumerate(("60x4 stale", "_x6 360x120"))
            },
        ),
    ),
    Case(
        alert="WeirAgentRestarting",  # in its pod
        fires={_of_pod("a", "weir-0"): "60x9 stale _ 660x18 1800x9 stale _ 2460x120"},
        at=43,
        labels={**_JOB, "instance": "a:9655", "pod": "weir-0"},
        summary="The Weir agent at weir-0 starts again and again",
        description=_STARTS_AGAIN,
        quiet=(
            {  # beside a driver that runs every quarter of an hour, in a pod of one name
                _of_pod("a", "orders-driver"): "60x9 stale",
                _of_pod("b", "orders-driver"): "_x14 900x9 stale",
                _of_pod("c", "orders-driver"): "_x29 1800x9 stale",
                _of_pod("d", "orders-driver"): "_x44 2700x30",
            },
        ),
    ),
    Case(
        alert="WeirAgentFlapping",
        fires={
            _target("a"): "1x4 0 1x7 0 1 0 1x120",
            _build("a"): "1x4 stale 1x7 stale 1 stale 1x120",
        },
        at=16,
        labels={**_JOB, "instance": "a:9655"},
        summary="The Weir agent at a:9655 answers scrapes only now and then",
        description=_FLAPS,
        quiet=(
            {_target("a"): "1x4 0x120", _build("a"): "1x4 stale _x120"},  # gone for good
            {  # an upgrade, and back
                _target("a"): "1x4 0x2 1x9 0x3 1x60",
                _build("a"): "1x4 stale _x1 1x9 stale _x2 1x60",
            },
            {_target("a"): "1 0 1 0 1 0 1x70", _build("b"): "1x80"},  # another program's target
            {  # two agents, each upgraded, and back
                target(agent): values
                for agent in ("a", "b")
                for target, values in (
                    (_target, "1x4 0 1x4 0 1x70"),
                    (_build, "1x4 stale 1x4 stale 1x70"),
                )
            },
        ),
    ),
    Case(
        alert="WeirAgentFlapping",  # in a pod, with a namespace of its own beside the target's
        fires={
            _target("a", pod="weir-0", where="jobs"): "1 0 1 0 1 0 1x60",
            _build("a", pod="weir-0"): "1 stale 1 stale 1 stale 1x60",
        },
        at=5,
        labels={**_JOB, "instance": "a:9655", "pod": "weir-0"},
        summary="The Weir agent at weir-0 answers scrapes only now and then",
        description=_FLAPS,
        quiet=(
            {  # a pod that is made anew has another address
                _target("a", pod="weir-0"): "1 0 1 0 1 stale",
                _build("a", pod="weir-0"): "1 stale 1 stale 1 stale",
                _target("b", pod="weir-0"): "_x5 1 0 1 0 1x60",
                _build("b", pod="weir-0"): "_x5 1 stale 1 stale 1x60",
            },
        ),
    ),
    Case(
        alert="WeirBrokersUnreachable",
        fires={"weir_kafka_up" + AGENT: "1x4 0x120"},
        at=15,
        labels=LABELS,
        summary="Kafka's brokers do not answer a Weir agent",
        description="A backlog is what the query's own progress says, and whether retention "
        "deletes unread rows nobody can tell.",
        quiet=(
            {"weir_kafka_up" + AGENT: "1x4 0x9 1x120"},  # a broker that restarts
            {"weir_kafka_up" + AGENT: "_x120"},  # none is asked
        ),
    ),
    Case(
        alert="WeirCertificateEnds",  # of ninety days
        # Of promtool's clock, which begins at 0: a week and ten minutes.
        fires={_ENDS: "605400x120", _BEGINS: "-7170600x120"},
        at=71,
        labels=LABELS,
        summary="The certificate of a Weir agent ends in 6d 22h 59m 0s",
        description=_NO_MORE,
        quiet=(
            {_ENDS: "613000x131", _BEGINS: "-7163000x131"},
            {_ENDS: "605400x60 9000000x80", _BEGINS: "-7170600x60 1224000x80"},  # renewed
            {_ENDS: "86400x131", _BEGINS: "0x131"},  # new, and of a day
        ),
    ),
    Case(
        alert="WeirCertificateEnds",  # of a day, with less than six hours left and not renewed
        fires={_ENDS: "86400x175", _BEGINS: "0x175"},
        step_minutes=10,
        at=115,
        labels=LABELS,
        summary="The certificate of a Weir agent ends in 4h 50m 0s",
        description=_NO_MORE,
        quiet=(
            # Renewed at sixteen hours, as cert-manager does.
            {_ENDS: "86400x95 144000x95", _BEGINS: "0x95 57600x95"},
            {_ENDS: "518400x175", _BEGINS: "0x175"},  # of six days, within its first
        ),
    ),
    Case(
        alert="WeirCertificateEnds",  # of an older agent, which does not tell from when it holds
        fires={_ENDS: "605400x120"},
        at=71,
        labels=LABELS,
        summary="The certificate of a Weir agent ends in 6d 22h 59m 0s",
        description=_NO_MORE,
        quiet=({_ENDS: "613000x131"}, {_ENDS: "605400x60 9000000x80"}),
    ),
    Case(
        alert="WeirNamesCollide",
        fires={"weir_agent_name_collisions_total" + AGENT: "0x4 1x120"},
        at=5,
        labels=LABELS,
        summary="Two live applications share a name",
        description="1 times in the last hour. The later one goes by its id until the earlier "
        "one is stopped, silent, or retired.",
        quiet=({"weir_agent_name_collisions_total" + AGENT: "2x120"},),
    ),
    Case(
        alert="WeirAgentScrapeErrors",
        fires={"weir_agent_scrape_errors_total" + AGENT: "0x4 1x120"},
        at=5,
        labels=LABELS,
        summary="A Weir agent leaves queries out of its metrics",
        description="The view of at least one query fails. Its series are missing, and with them "
        "its alerts.",
        quiet=({"weir_agent_scrape_errors_total" + AGENT: "4x120"},),
    ),
)
