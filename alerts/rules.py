"""The rules: what wakes people, why at that threshold, and what is recorded for them.

Critical wakes somebody: data is not flowing, or nobody would see it. Warning is for the working
day: it will become critical if left. Info is to know, not to act on.
"""

from __future__ import annotations

from typing import Final

from alerts.expressions import of_query, series
from alerts.model import Alert, Recording
from dashboards import links
from dashboards.over import STOPPED, over, stops
from dashboards.silent import MISSED, flapping, silent, was_agent

BACKLOG_GROWTH_5M: Final = "query:weir_backlog_seconds:deriv5m"
BACKLOG_GROWTH: Final = "query:weir_backlog_seconds:deriv15m"
BACKLOG_GROWTH_1H: Final = "query:weir_backlog_seconds:deriv1h"
STATE_ROWS: Final = "query:weir_state_rows:sum"
ROWS_RATE: Final = "query:weir_rows:rate5m"
BATCH_P99: Final = "query:weir_batch_duration_seconds:p99_15m"

#: Not what passes by itself, and what other alerts tell.
_FROM_DRIVERS = 'reason!~"full|state"'
#: How long a page is kept where it no longer holds: a scrape that fails ends all series, and so
#: what stands on them, which would be sent once more. An agent that starts anew is back within five
#: minutes, as WeirAgentDown has it. All alike, so that none is let go of before what it holds back.
_OVER_A_GAP: Final = "5m"
_UP = series("weir_query_up")
_TOLD_ID: Final = 'query_id!=""'
_GONE_SINCE = series("weir_query_gone_since_timestamp_seconds")
_BEGINS = series("weir_agent_certificate_not_before_timestamp_seconds")
_ENDS = series("weir_agent_certificate_expiry_timestamp_seconds")


def _growth(window: str) -> str:
    """Seconds of backlog gained per second."""
    return f"deriv({series('weir_backlog_seconds')}[{window}])"


RECORDINGS: Final[tuple[Recording, ...]] = (
    Recording(
        name=BACKLOG_GROWTH,
        expression=_growth("15m"),
        why="Seconds of backlog gained per second. 15 minutes smooth the saw-tooth of batches.",
    ),
    Recording(
        name=BACKLOG_GROWTH_5M,
        expression=_growth("5m"),
        why="The short window beside it: whether it still grows.",
    ),
    Recording(
        name=BACKLOG_GROWTH_1H,
        expression=_growth("1h"),
        why="The long window beside it: whether it grows in the large.",
    ),
    Recording(
        name=STATE_ROWS,
        expression=f"sum without (operator, instance, pod) ({series('weir_state_rows')})",
        why="Rows in all of a query's state, to look back on for days, so whatever the agent's "
        "address was. Rows and not bytes: RocksDB reports the memory that it uses, which has a "
        "bound of its own.",
    ),
    Recording(
        name=ROWS_RATE,
        expression=f"rate({series('weir_rows_total')}[5m])",
        why="Rows digested per second, for long ranges.",
    ),
    Recording(
        name=BATCH_P99,
        expression="histogram_quantile(0.99, sum without (instance, pod) "
        "(rate(weir_batch_duration_seconds_bucket[15m])))",
        why="For long ranges; 15 minutes hold enough batches of a slow query.",
    ),
    Recording(
        name=STOPPED,
        # An hour: a scrape that fails ends all series, this one too, and an agent may be away.
        expression=f"{stops(f'last_over_time({STOPPED}[1h])', series)}"
        f" and on (cluster, namespace, application, query) last_over_time({_UP}[1h])",
        why="When a query last ended as it should, at whichever agent: it outlives the series of "
        "that agent, for as long as another one tells that the query was lost there before, and "
        "an hour in which none does.",
    ),
)
#: The audit's errors, and apart from them the one that a driver's death may look like: its query
#: lives on for ``silent_seconds``, 15 by default, beside the one that a new driver began under
#: another name. Scraped each minute it may be seen once; two minutes apart it is no such moment.
#: And apart from them the one by which all rows are lost now, of which somebody is woken.
_UNSOUND = series(
    "weir_consistency_findings",
    severity="error",
    matchers='check!~"location_shared|late_rows"',
)
_AHEAD = series("weir_consistency_findings", severity="error", check="late_rows")
_SHARED = series("weir_consistency_findings", severity="error", check="location_shared")
_BOTH_LIVE: Final = "2m"
_GONE = f"{_UP} == 0"

_UNLESS_OVER = f"unless {over(series)}"
_TERMINATED = f"{series('weir_query_state', state='terminated')} == 1"
#: The last that went, of an agent's queries: within two minutes, which is how long one that
#: restarts is waited for, one cause took them all.
_LAST_GONE = (
    f"({_GONE_SINCE} >= ignoring (application, query) group_left ()"
    f" max without (application, query) ({_GONE_SINCE}) - 120)"
)
_TERMINATED_TOO = f"{of_query('weir_query_state')} {_TERMINATED}"
_FAILING = series("weir_checkpoint_failures_consecutive")
_RUNNING = series("weir_batch_running_seconds")
_DEADLINE = series("weir_checkpoint_deadline_seconds")
_NEEDED = series("weir_required_capacity_ratio")
_MORE_EXECUTORS = f"max without (bound) ({series('weir_executors_bound', bound='maximum')}) == 1"
_ASKS = f"and max without (mode) ({series('weir_executors_mode', mode='on')}) == 1"
_ALL_PRESENT = f"and {series('weir_executors_present')} >= {series('weir_executors_wanted')}"
_ALIVE = f"and ({_UP} == 1)"
_OF_STATE_ALIVE = f"and {of_query('weir_lag_state')} ({_UP} == 1)"
_ETA = series("weir_checkpoint_deadline_eta_seconds")
_BEHIND = series("weir_backlog_seconds")
_IDLE = (
    f"{of_query('weir_query_state')}"
    f" min_over_time({series('weir_query_state', state='idle')}[10m]) == 1"
)
_MORE_WAITS = f"and deriv({series('weir_backlog_estimated_rows')}[15m]) > 0"
_SOON = f"unless {series('weir_estimated_time_to_consume_seconds')} < 3600"
_SPIRAL = series("weir_spiral_phase", matchers='phase=~"spiralling|timing_out"')
_TIMING_OUT = series("weir_spiral_phase", phase="timing_out")
_DEAD = series("weir_spiral_phase", phase="dead")
_LOSS = series("weir_retention_loss_seconds")
_LOST = series("weir_retention_lost_rows")
_UNWATCHED = series("weir_consistency_findings", check="retention_unwatched")
_FAILED = series("weir_batches_total", result="failed")
_COMMITTED = series("weir_batches_total", matchers='result!="failed"')
_BUILD = series("weir_build_info")
_DROPPED = series("weir_listener_dropped_events_total")
_REFUSED = series("weir_agent_refused_requests_total", matchers=_FROM_DRIVERS)
_MALFORMED = series("weir_agent_rejected_events_total", reason="malformed")
_DRIVER_MAY = series("weir_driver_process_memory_limit_bytes")
_DRIVER_USES = series("weir_driver_process_memory_limit_used_bytes")
_DRIVER_HOLDS = series("weir_driver_process_resident_memory_bytes")
_AGENT_MAY = series("weir_agent_process_memory_limit_bytes")
_AGENT_USES = series("weir_agent_process_memory_limit_used_bytes")
_AGENT_HOLDS = series("process_resident_memory_bytes")
_STARTED = f"changes({series('weir_agent_start_time_seconds')}[1h])"
_LATE = series("weir_watermark_dropped_rows_total")
_OFF = f"{series('weir_query_mode', mode='off')} == 1"
_OFF_SINCE = series("weir_query_mode_since_timestamp_seconds")
_BY_HAND_LONG = f"{of_query('weir_query_mode')} (time() - {_OFF_SINCE} > 4 * 3600)"
_HELD_SINCE = series("weir_query_held_since_timestamp_seconds")
_MODE_ALIVE = f"{of_query('weir_query_mode')} ({_UP} == 1)"
#: Of a query whichever agent tells, by name: a run of another id begins series of its own.
_BY_NAME = "(cluster, namespace, application, query)"
_RAN_AS = (
    "count by (cluster, namespace, application, query, query_id)"
    f" (last_over_time({series('weir_query_info', matchers=_TOLD_ID)}[1h]))"
)
_QUERY = "{{ $labels.application }}/{{ $labels.query }}"


def _goes_on(counter: str) -> str:
    """How often it was counted in ten minutes, while it is counted on, whatever the reason."""
    lately, now = (f"sum without (reason) (increase({counter}[{w}])) > 0" for w in ("10m", "3m"))
    return f"{lately} and {now}"


def _of_all(labels: str) -> str:
    """What these labels are of all agents that were, where they are the same of all."""
    values = f"max by ({labels}) ({was_agent(series)})"
    return f"({values} and on () count({values}) == 1)"


def _committed(window: str) -> str:
    """Of a query, whether it committed a batch within it."""
    return f"sum without (result) (increase({_COMMITTED}[{window}])) > 0"


def _failed_thrice(window: str) -> str:
    """How often it failed within it, where that is three times.

    Of a series that began within it, as an agent's in a new pod, ``increase`` alone makes nearly
    three of two; the difference alone would take a count that began anew for failures.
    """
    counted = f"max_over_time({_FAILED}[{window}]) - min_over_time({_FAILED}[{window}])"
    return f"increase({_FAILED}[{window}]) > 2.5 and {counted} >= 3"


#: Time-outs led to where it is, within a day: WeirSpiral tells.
_FOR_ITS_TIME = f"max without (phase) (max_over_time({_TIMING_OUT}[1d])) == 1"
_LOST_FOR_GOOD = f"max without (phase) ({_DEAD}) == 1"
#: What ends before a batch begins, for its configuration, is no batch's failure. Of a query that is
#: let go of, the counts end at once, and so does this.
_FAILS_AT_ITS_START = (
    f"max without (result) ({_failed_thrice('15m')} and {_FAILED}) unless {_committed('15m')}"
)


def _state(ago: str = "0s") -> str:
    """Rows of state on average over an hour, some time ago."""
    return f"avg_over_time({STATE_ROWS}[1h]{'' if ago == '0s' else f' offset {ago}'})"


ALERTS: Final[tuple[Alert, ...]] = (
    # -- a query ----------------------------------------------------------------------------
    Alert(
        name="WeirSpiral",
        severity="critical",
        subject="query",
        says="batches grow faster than they are committed, and are or will be killed at their "
        "deadline",
        expression=f"(max without (phase) ({_SPIRAL}) == 1"
        f" or {_LOST_FOR_GOOD} and {_FOR_ITS_TIME})"
        f" {_UNLESS_OVER}",
        hold="0s",
        why="The detector weighs what it foresees, and its doubt, before it says so: there is "
        "nothing left to wait for, and each batch that is lost makes the next one larger. Kept "
        "for five minutes, which make one page of one spiral, whatever the batches between do. A "
        "batch that was lost for good counts where time-outs led there: else WeirBatchesFailing "
        "tells.",
        keep=_OVER_A_GAP,
        summary=f"{_QUERY} is in a time-out spiral, or about to be",
        description="Batches grow faster than they are committed: the next ones are killed at "
        "their deadline and start again, larger each time.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirQueryGone",
        severity="critical",
        subject="query",
        says="failed or silent, and not back for 3 minutes",
        expression=f"{_GONE} {_UNLESS_OVER}",
        hold="3m",
        why="A restart under a supervisor takes one to two minutes; three say that it does not "
        "come back by itself. A query that its owner stopped, or that had read what there was "
        "(available now, once), is nobody's alarm, nor is one that came back at another agent, and "
        "may have ended there since. It does not end by itself: until the query is back or "
        "somebody retires it, nothing of its input is processed. Kept for five minutes: a scrape "
        "that fails is no end.",
        keep=_OVER_A_GAP,
        summary=f"{_QUERY} does not run",
        description="It failed or its driver fell silent, and it has not come back for 3 minutes. "
        "If its driver is dead, or it failed, nothing of its input is processed. If it is gone for "
        "good: weir retire.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirBatchHung",
        severity="critical",
        subject="query",
        says="the running batch is past its deadline or, without one, six times as old as the last",
        expression=f"{series('weir_attention', level='hung')} == 1",
        hold="2m",
        why="Hung already means past the deadline, or without one longer than 30 s, six targets "
        "and six times the shorter of the last two batches. Two minutes more let a first batch "
        "after a start warm up. Kept for five minutes: a scrape that fails is no end.",
        keep=_OVER_A_GAP,
        summary=f"{_QUERY}: a batch hangs",
        description="The running batch is past its deadline or, where none is known, six times as "
        "old as the target and the last batch. Heartbeats still "
        "come, so the driver lives; the batch makes no visible progress.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirBatchesFailing",
        severity="critical",
        subject="query",
        says="failed twice, or was killed in one batch three times, without a commit between",
        expression=f"({_FAILING} >= 2 or ({_LOST_FOR_GOOD} unless {_FOR_ITS_TIME})"
        f" or ({_FAILS_AT_ITS_START})) {_UNLESS_OVER}",
        hold="0s",
        why="One failure may be a lost executor, and the restart mends it. A second without a "
        "commit between is the same batch failing again: restarts will not help. A driver that is "
        "killed tells no failure, so a batch that was begun three times counts as well; where "
        "time-outs led there WeirSpiral tells it. Nor is it a batch's failure where a "
        "configuration lets none begin, and each start ends WeirQueryGone's wait of three minutes: "
        "three failures in a quarter of an hour without a commit say so, and what is restarted "
        "more slowly is gone for three minutes. Kept for five minutes: a scrape that fails is no "
        "end.",
        keep=_OVER_A_GAP,
        summary=f"{_QUERY} ends again and again, and commits nothing",
        description="It failed, or was killed or stopped in one batch, again and again without a "
        "commit between. A restart does not help: each begins at the same place.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirDeadlineNear",
        severity="warning",
        subject="query",
        says="a batch takes, took or will take more than 80 % of its deadline",
        expression=f"({_RUNNING} > 0.8 * {_DEADLINE})"
        f" or ({series('weir_checkpoint_seconds')} > 0.8 * {_DEADLINE} {_ALIVE}"
        f" unless {_IDLE})"
        f" or ({_DEADLINE} - {_ETA} > 0.8 * {_DEADLINE} {_ALIVE})",
        hold="0s",
        why="0.8 of the deadline is what sizing keeps below, noise included: beyond it the limit "
        "no longer protects the batch. Running, just ended, or foreseen to pass the deadline "
        "within the fifth that is left. Waiting would use up that time. Kept for ten minutes, as "
        "between two such batches none is near; the last one says nothing of a query that was idle "
        "for as long.",
        keep="10m",
        summary=f"{_QUERY}: a batch nears its deadline",
        description="A batch takes {{ $value | humanizeDuration }}, more than 80 % of the deadline "
        "after which something kills it. A killed batch runs again from its start.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirRetentionLossNear",
        severity="critical",
        subject="query",
        says="retention deletes unread rows within four hours",
        expression=f"min without (source) ({_LOSS}) < 14400 {_UNLESS_OVER}",
        hold="5m",
        why="What retention deletes is lost for good. Four hours are what it takes to find people, "
        "to raise the retention or to add capacity. Five minutes let the two rates settle. Kept "
        "for as long: a scrape that fails is no end.",
        keep=_OVER_A_GAP,
        summary=f"{_QUERY} is about to lose unread rows",
        description="At the present rates retention deletes unread rows in "
        "{{ $value | humanizeDuration }} (0s: it does already).",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirRowsLost",
        severity="critical",
        subject="query",
        says="retention deleted rows that it had not read",
        expression=f"sum without (source) (max_over_time({_LOST}[15m])) > 0 and {_UP}"
        f" {_UNLESS_OVER}",
        hold="0s",
        why="What is deleted unread is lost for good, foreseen or not; with failOnDataLoss=false "
        "nothing fails. The figure is of the last batch and falls with the next commit, so one "
        "look that saw it suffices: a quarter of an hour is looked back. Told once more where the "
        "loss was foreseen: that it has come asks for other things. Kept for five minutes: a "
        "scrape that fails is no end.",
        keep=_OVER_A_GAP,
        summary=f"{_QUERY} lost unread rows to retention",
        description="{{ $value | humanize }} rows were deleted at the source before they were "
        "read. It goes on without them, or fails (failOnDataLoss).",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirRetentionLossAhead",
        severity="warning",
        subject="query",
        says="retention deletes unread rows within a day",
        expression=f"min without (source) ({_LOSS}) < 86400 {_UNLESS_OVER}",
        hold="1h",
        why="Within a day, so within somebody's working hours. An hour leaves out peaks: a backlog "
        "that grows by day and shrinks by night foresees a loss that does not come.",
        summary=f"{_QUERY} will lose unread rows within a day",
        description="At the present rates retention deletes unread rows in "
        "{{ $value | humanizeDuration }}.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirFallingBehindFast",
        severity="critical",
        subject="query",
        says="15 minutes behind, and loses more than half a second each second",
        # Not as recorded: Thanos' ruler gives that a label of its own, by which nothing matches.
        expression=f"({_BEHIND} > 900 and {_growth('15m')} > 0.5 and {_growth('5m')} > 0.5"
        f" {_MORE_WAITS} {_SOON}) {_ALIVE}",
        hold="5m",
        why="Half a second lost each second: it digests less than half of what arrives. At that "
        "rate 15 minutes behind are hours by the morning. The short window ends the alert soon "
        "after it turns. The oldest row that waits grows older while a query works through what it "
        "found at its start; so more rows must wait, too. Kept for five minutes: a scrape that "
        "fails is no end.",
        keep=_OVER_A_GAP,
        summary=f"{_QUERY} falls behind fast",
        description="It is {{ $value | humanizeDuration }} behind, and loses more than half a "
        "second each second.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirBacklogStuck",
        severity="critical",
        subject="query",
        says="commits batches without a row, although there is a backlog",
        expression=f"{series('weir_lag_state', state='STALL')} == 1 {_OF_STATE_ALIVE}",
        hold="5m",
        why="Five batches that took nothing although there was a backlog make the state. Five "
        "minutes leave out a source that is being moved or a topic without a leader. Kept for as "
        "long: a scrape that fails is no end.",
        keep=_OVER_A_GAP,
        summary=f"{_QUERY} commits batches and takes nothing",
        description="There is a backlog, batches are committed, and none of them holds a row.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirWatermarkAhead",
        severity="critical",
        subject="query",
        says="its watermark is ahead of the clock, so all other rows are dropped as late",
        expression=f"max without (check, severity) ({_AHEAD}) > 0 {_ALIVE}",
        hold="5m",
        why="One row of a far time takes the watermark there, and it never goes back: from the "
        "next batch on every other row is dropped, for good, and nothing fails. Spark counts few "
        "of them where an aggregation makes one of many, so no share of the rows tells it. Five "
        "minutes leave out a row as little ahead as the others are by then. Kept for as long: a "
        "scrape that fails is no end.",
        keep=_OVER_A_GAP,
        summary=f"{_QUERY}: its watermark is ahead of the clock, and rows are lost",
        description="One row of a far time took it there. The others are dropped as late, and are "
        "missing from the result for good, until their times have come as far or the checkpoint "
        "begins anew.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirRetentionUnwatched",
        severity="warning",
        subject="query",
        says="nobody watches any more how near retention is to what it has not read",
        expression=f"(max without (check, severity) ({_UNWATCHED}) > 0"
        " and on (cluster, namespace, application, query)"
        f" max_over_time({_LOST}[1d])) {_UNLESS_OVER}",
        hold="10m",
        why="A right that was taken away, or a topic that is gone, ends WeirRetentionLossNear and "
        "WeirRowsLost as if all were well, or leaves them to a retention of before. Only of a "
        "query that was watched within a day: one that reads another cluster's topics never was. "
        "Ten minutes leave out brokers that restart.",
        summary=f"{_QUERY}: whether retention deletes unread rows nobody can tell any more",
        description="It was watched within the last day. What is lacking stands beside the query "
        "on the status page; alerts on retention come for it no more, or go by a retention that "
        "was known last.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirFallingBehind",
        severity="warning",
        subject="query",
        says="five minutes behind, growing, not caught up within the hour",
        expression=f"({_BEHIND} > 300 and {_growth('1h')} > 0.01 and {_growth('15m')} > 0.01"
        f" {_MORE_WAITS} {_SOON}) {_ALIVE}",
        hold="10m",
        why="Below five minutes a backlog is a burst at work. It must grow over the hour and still "
        "over the last 15 minutes, in rows too, and ten more: that leaves out spikes that drain, "
        "and what a start found. A query that will have caught up within the hour needs nobody.",
        summary=f"{_QUERY} falls behind and will not catch up",
        description="It is {{ $value | humanizeDuration }} behind, and that still grows.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirNeedsCapacity",
        severity="warning",
        subject="query",
        says="arrivals exceed what the largest allowed batches can digest",
        expression=f"{_NEEDED} > 1 {_ALIVE}",
        hold="10m",
        why="Above 1 the arrivals exceed what the largest allowed batches can digest: no limit is "
        "stable. Arrival and capacity are smoothed over minutes; ten minutes leave out bursts. "
        "Kept for ten more: a batch may take the ratio below 1 for a moment.",
        keep="10m",
        summary=f"{_QUERY} needs {{{{ $value | humanizePercentage }}}} of its capacity",
        description="More arrives than it can digest with any limit. The backlog grows until there "
        "are more cores, less work per row, or fewer rows.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirExecutorsAtMaximum",
        severity="warning",
        subject="query",
        says="the most executors that Weir may ask for do not suffice",
        expression=f"{_MORE_EXECUTORS} {_ASKS} {_ALL_PRESENT}",
        hold="15m",
        why="Weir asks at once, and executors are there within minutes: a quarter of an hour "
        "leaves out a burst and their start. Where the cluster gives fewer than are asked for, a "
        "higher maximum brings none. Kept for as long: a small batch needs fewer.",
        keep="15m",
        summary=f"{_QUERY}: the most executors that Weir may ask for do not suffice",
        description="More executors would digest what arrives inside the target, but "
        "maximum_executors is reached.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirTargetInfeasible",
        severity="info",
        subject="query",
        says="no limit keeps the target; nothing is lost",
        expression=f"{series('weir_target_feasible')} == 0 {_ALIVE} unless {_NEEDED} > 1",
        hold="30m",
        why="The target cannot hold, yet the arrivals can be digested: nothing is lost, so nobody "
        "is in a hurry. Half an hour leaves out the daily peak's edges. Kept for ten minutes, as a "
        "single batch may judge otherwise.",
        keep="10m",
        summary=f"{_QUERY}: no limit keeps the target",
        description="Batches must be larger than the target allows, to digest what arrives beside "
        "their fixed cost. Weir lets them be as far as that pays and the deadline allows.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirFailingOften",
        severity="warning",
        subject="query",
        says="three failures in an hour, with commits between",
        expression=f"{_failed_thrice('1h')} and increase({_FAILED}[15m]) > 0"
        f" and {of_query('weir_batches_total')} {_committed('1h')}"
        f" unless {of_query('weir_batches_total')} {over(series, '15m')}",
        hold="0s",
        why="Three failures an hour with commits between are no chance and cost a start each, yet "
        "data flows. A driver that was killed counts, though it tells no failure. The short window "
        "ends the alert when the failures do. Where nothing was committed in the hour somebody is "
        "woken: by WeirBatchesFailing, or by WeirQueryGone.",
        summary=f"{_QUERY} fails again and again",
        description="{{ $value | humanize }} failures in the last hour. It commits batches between "
        "them, so it goes on, late.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirRewound",
        severity="warning",
        subject="query",
        says="reads again what it had committed",
        expression=f"{series('weir_lag_state', state='REWIND')} == 1 {_OF_STATE_ALIVE}",
        hold="0s",
        why="Committed offsets never go back by themselves: somebody reset them, or the checkpoint "
        "is an older one. Every batch from here on may be written twice.",
        summary=f"{_QUERY} reads again what it had committed",
        description="Its offsets went back. A sink that is not idempotent now gets rows twice.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirNewCheckpoint",
        severity="info",
        subject="query",
        says="runs from a new checkpoint, having run from another within the hour",
        expression=f"count by {_BY_NAME} ({_RAN_AS}) > 1 and on {_BY_NAME} {_UP} == 1",
        hold="0s",
        why="A query's id is its checkpoint's. Another one under the same name is a checkpoint "
        "that was begun anew, by a deploy for the most part: nothing fails, and rows between the "
        "two may be skipped, or all be read again. An hour, so that one that is stopped for a "
        "deploy is told; whether it is meant somebody has to know, and nobody is woken.",
        summary=f"{_QUERY} runs from a new checkpoint",
        description="Within the hour it ran from another one. What it had read, and its state, it "
        "does not know any more: it began where its source's options say, such as startingOffsets. "
        "A sink that goes by batch numbers, as Spark's file sink, drops its batches up to the old "
        "one's.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirCheckpointUnsound",
        severity="warning",
        subject="query",
        says="the consistency audit finds an error",
        expression=f"sum without (check, severity) ({_UNSOUND}"
        f" or ({_SHARED} and {_SHARED} offset {_BOTH_LIVE})) > 0 {_UNLESS_OVER}",
        hold="0s",
        why="An error is what breaks exactly once or the next start, now or for certain; what is "
        "merely not guaranteed (warning, info) is on the page and wakes nobody. The query still "
        "runs. A finding in the folder counts once a second look confirms it, so it is told at "
        "once: a job of an hour's trigger lives for minutes. That two queries share a checkpoint "
        "is told where they do for two minutes: a driver that was killed counts as live for a "
        "moment after the one in its place began, under another name. Kept for an hour, which a "
        "job that comes and goes is away between two runs.",
        keep="60m",
        summary=f"{_QUERY}: its checkpoint is not sound",
        description="{{ $value }} findings of the consistency audit are errors: the query may not "
        "come back from its checkpoint, or writes rows twice.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirStateGrowing",
        severity="warning",
        subject="query",
        says="state larger day by day",
        expression=f"{STATE_ROWS} > 1000000 and ("
        f"({_state()} > 1.1 * {_state('1d')} and {_state('1d')} > 1.1 * {_state('2d')})"
        f" or ({_state()} > 1.5 * max_over_time({STATE_ROWS}[1d] offset 6h)"
        f" and {STATE_ROWS} offset 30h > 0))"
        f" unless {_state()} <= 1.1 * max_over_time({STATE_ROWS}[1d] offset 6d12h)",
        hold="1h",
        why="State that has a bound repeats itself day by day. A tenth more than at the same hour "
        "on each of two days, or half more than the highest of the day until six hours ago, does "
        "not; unless it was there a week ago, half a day before or after, and a tenth more: a "
        "Monday is no Sunday. Below a million rows it is no trouble yet; an hour leaves out a "
        "re-read.",
        summary=f"{_QUERY}: its state grows without bound",
        description="{{ $value | humanize }} rows of state, and more every day. It will not fit in "
        "the end, and each commit takes longer until then.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirSnapshotsLate",
        severity="warning",
        subject="query",
        says="more than 300 versions of state in no snapshot",
        expression=f"{series('weir_state_snapshot_lag_versions')} > 300",
        hold="30m",
        why="Spark uploads snapshots about once a minute: two batches a second are 120 versions "
        "by then. 300 for half an hour means that uploads fail or cannot keep up.",
        summary=f"{_QUERY}: snapshots of its state lag behind",
        description="{{ $value }} versions of {{ $labels.operator }} are in no snapshot. A restart "
        "must replay them all before its first batch.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirWatermarkStuck",
        severity="warning",
        subject="query",
        says="rows come, the watermark stands still",
        expression=f"{series('weir_watermark_lag_seconds')} > 3600"
        f" and deriv({series('weir_watermark_lag_seconds')}[30m])"
        f" > 0.9 * deriv({series('weir_last_progress_timestamp_seconds')}[30m])"
        f" and rate({series('weir_rows_total')}[30m]) > 0"
        f" and changes({series('weir_rows_total')}[3h]) > 1 {_ALIVE}",
        hold="10m",
        why="Rows come and the watermark stands still: nothing is emitted in append mode and no "
        "state is dropped. It falls behind as fast as batches end, whose times step as it does, so "
        "the two are compared; of two batches, as the first after a quiet night rightly has the "
        "watermark of the evening. Windows and delays of up to an hour are common; half an hour of "
        "standing still beyond that is a source that went quiet, or a wrong clock. Kept for 40 "
        "minutes: with the half hour that is looked at, it lasts from a batch an hour to the next.",
        keep="40m",
        summary=f"{_QUERY}: its watermark stands still",
        description="The watermark is {{ $value | humanizeDuration }} behind and does not move, "
        "though rows are processed.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirLateRowsDropped",
        severity="info",
        subject="query",
        says="more than one row in a hundred too late",
        expression=f"increase({_LATE}[3h]) > 0.01 * increase({series('weir_rows_total')}[3h])"
        f" and changes({_LATE}[3h]) > 1 {_ALIVE}",
        hold="15m",
        why="A few late rows are what a watermark is for. One in a hundred of three hours', in "
        "more than one batch, means that the watermark no longer fits the data. They hold two "
        "batches of an hour's trigger at any time; 15 minutes leave out a start.",
        summary=f"{_QUERY} drops late rows",
        description="{{ $value | humanize }} rows of the last three hours came after the watermark "
        "and were dropped: they are missing from the result.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirLateRowsHeld",
        severity="warning",
        subject="query",
        says="smaller batches dropped late rows; they are as configured again",
        expression=f"{series('weir_late_rows_held')} == 1 {_ALIVE}",
        hold="0s",
        why="It is judged once, from rows that are lost already, and stays until somebody decides.",
        summary=f"{_QUERY}: smaller batches dropped late rows, so they are as configured again",
        description="Rows later than the delay that the query declares fell behind the watermark "
        "at the ends of smaller batches. Weir no longer makes them smaller, so a burst is one "
        "large batch again.",
        dashboard=links.CHECKPOINTS,
    ),
    Alert(
        name="WeirLimitHeldLong",
        severity="info",
        subject="query",
        says="held by hand for twelve hours",
        expression=f"time() - {_HELD_SINCE} > 12 * 3600 {_ALIVE}",
        hold="0s",
        why="A hold or a limit by hand is for an incident. Twelve hours later it was forgotten, "
        "however often the query has started since. Kept for an hour, which a job that comes and "
        "goes is away between two runs.",
        keep="60m",
        summary=f"{_QUERY}: its limit has been held by hand for 12 hours",
        description="Weir does not adapt the limit until the hold is released.",
        dashboard=links.QUERY,
    ),
    Alert(
        name="WeirModeOffLong",
        severity="warning",
        subject="query",
        says="switched off by hand for four hours",
        expression=f"{_OFF} and {_BY_HAND_LONG} and {_MODE_ALIVE}",
        hold="0s",
        why="The kill switch is for an incident. Four hours later it was forgotten, however often "
        "the query has started since: nothing keeps batches small meanwhile. Off by the "
        "configuration is meant so. Kept for an hour, which a job that comes and goes is away "
        "between two runs.",
        keep="60m",
        summary=f"{_QUERY}: Weir has been switched off by hand for 4 hours",
        description="The query runs with the limits that its job configured, until somebody gives "
        "it another mode.",
        dashboard=links.QUERY,
    ),
    # -- an application ---------------------------------------------------------------------
    Alert(
        name="WeirListenerDropping",
        severity="warning",
        subject="application",
        says="events dropped in the driver",
        expression=f"increase({_DROPPED}[10m]) > 0 or ({_DROPPED} > 0 unless {_DROPPED}"
        " <= ignoring (instance, pod) group_left ()"
        f" max without (instance, pod) (last_over_time({_DROPPED}[{MISSED}] offset 10m)))",
        hold="0s",
        why="The driver's queue drops only when the agent took nothing for long: what was dropped "
        "is lost to the counters for good, so the first one matters. After so long the series may "
        "begin anew, above what it was, which is no increase. What was told before, within three "
        "days, is not told again, whatever agent says it now.",
        summary="{{ $labels.application }}: the listener drops events",
        description="The queue in the driver is full, so the judgement of its queries has holes. "
        "The job itself is not affected.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirDriverMemoryNearLimit",
        severity="warning",
        subject="application",
        says="90 % of its memory limit",
        expression=f"max without (process) (({_DRIVER_USES} or {_DRIVER_HOLDS})"
        f" > 0.9 * {_DRIVER_MAY} and 0.25 * {_DRIVER_MAY}"
        f" < ignoring (process) group_left () sum without (process) ({_DRIVER_HOLDS}))",
        hold="10m",
        why="At the limit the kernel kills the driver, and all its queries with it. All under the "
        "limit counts: JVM and Python share it. Where both hold less than a quarter, as on a "
        "machine that others fill, theirs is not the trouble. A heap that fills up to its maximum "
        "stays below 90 % of a limit that leaves room for the rest.",
        summary="{{ $labels.application }}: the driver nears its memory limit",
        description="Its processes, and what shares their limit, hold "
        "{{ $value | humanize1024 }}B, more than 90 % of what they may have.",
        dashboard=links.AGENT,
    ),
    # -- the agent --------------------------------------------------------------------------
    Alert(
        name="WeirAgentDown",
        severity="critical",
        subject="agent",
        says="no agent is scraped",
        # Of one cluster or namespace it bears the name, so that it silences what is of the one, and
        # the Prometheus operator routes it by the other; of several it is one page all the same.
        expression=f"({_of_all('cluster, namespace')} or on () {_of_all('cluster')}"
        f" or on () {_of_all('namespace')} or on () absent({_BUILD})) unless on () {_BUILD}",
        hold="5m",
        why="Without the agent every other alert is silent. Five minutes cover a rollout and "
        "Prometheus's own look-back.",
        summary="No Weir agent is scraped",
        description="Jobs run on: grants expire, and drivers go back to the limits that they "
        "configured; where they configured none, the last one stays, unless rows "
        "could fall late behind it. Nobody sees their backlog meanwhile.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirAgentUnreachable",
        severity="critical",
        subject="agent",
        says="one that was scraped does not answer, others may",
        expression=silent(series),
        hold="15s",
        why="Of its queries nothing is told any more, so their own alerts are silent, however many "
        "agents still answer. Two scrapes that failed are no chance: 150 seconds hold two that are "
        "a minute apart, and the wait for a third. They and 15 s leave out a restart, which takes "
        "seconds; scraped every 15 s it pages within two minutes. Of one that answers between "
        "WeirAgentFlapping tells. One that service discovery lists no more was taken away on "
        "purpose, as with its driver's pod.",
        summary="The Weir agent at {{ or $labels.pod $labels.instance }} does not answer",
        description="Nobody sees the queries that report to it. They run on: their grants expire, "
        "and they go back to the limits that they configured; where they configured none, the last "
        "one stays, unless rows could fall late behind it.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirAgentBlind",
        severity="critical",
        subject="agent",
        says="all queries of an agent fell silent at once",
        expression=f"count without (application, query)"
        f" ({_LAST_GONE} unless {_TERMINATED_TOO} {_UNLESS_OVER}) >= 2"
        f" unless count without (application, query)"
        f" ({_LAST_GONE} and {_TERMINATED_TOO} {_UNLESS_OVER})"
        f" unless count without (application, query) ({_UP} == 1)",
        hold="2m",
        why="Two or more queries fell silent without a word of their end, within two minutes, and "
        "none is left: one cause, so one page. Who had gone before is told already, and where the "
        "last one ended, or another failed, each is told by itself. Two minutes let a driver that "
        "restarts come back, here or at another agent. Kept for five minutes: a scrape that fails "
        "is no end, and would let go of what it holds back.",
        keep=_OVER_A_GAP,
        summary="A Weir agent hears of none of its queries: {{ $value }} fell silent together",
        description="Their drivers died, or cannot reach the agent. If they still run, nobody sees "
        "how.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirAgentFull",
        severity="warning",
        subject="agent",
        says="refuses what it has no room for",
        expression=f"increase({series('weir_agent_rejected_events_total', reason='cardinality')}"
        "[10m]) > 0"
        f" or increase({series('weir_agent_refused_requests_total', reason='full')}[10m]) > 0",
        hold="0s",
        why="The first refused query is one that nobody watches. Whole requests are refused where "
        "all their queries are new.",
        summary="A Weir agent has no room for more",
        description="It knows as many queries as it may, or holds as many requests as it can: "
        "events are refused, so what they tell of is not watched.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirAgentRejectsEvents",
        severity="warning",
        subject="agent",
        says="refuses requests or events for five minutes",
        expression=f"{_goes_on(_REFUSED)} or {_goes_on(_MALFORMED)}",
        hold="5m",
        why="A single refused request may be a probe or a scanner. Five minutes of them are a "
        "driver with a wrong token, or one that speaks another version: it tries again every few "
        "seconds, so three minutes see it, although a scrape fails where one comes each minute.",
        summary="A Weir agent refuses what drivers send",
        description="{{ $value | humanize }} requests or events in the last 10 minutes. Queries "
        "behind them are not judged, or with holes.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirAgentStateNotSaved",
        severity="critical",
        subject="agent",
        says="cannot write its state",
        expression=f"{series('weir_agent_state_writable')} == 0",
        hold="5m",
        why="The agent tries again every second. Five minutes say that the disk is full or gone, "
        "not busy. Nothing is judged meanwhile, so every other alert stands still: a page. Kept "
        "for as long: a scrape that fails is no end.",
        keep=_OVER_A_GAP,
        summary="A Weir agent cannot save its state",
        description="It takes no events in: drivers keep the newest 2,000 each and fall back to "
        "their configured limits, figures and alerts stand still, jobs run on. Only who is alive "
        "is still told.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirAgentMemoryNearLimit",
        severity="warning",
        subject="agent",
        says="90 % of its memory limit",
        expression=f"({_AGENT_USES} or {_AGENT_HOLDS}) > 0.9 * {_AGENT_MAY}"
        f" and {_AGENT_HOLDS} > 0.02 * {_AGENT_MAY}",
        hold="10m",
        why="At the limit the kernel kills the agent, and it comes back to the same queries. All "
        "under the limit counts: each driver's door is a process beside it. Where the agent holds "
        "less than a fiftieth, as on a machine that others fill, its limit is not the trouble. Ten "
        "minutes leave out a large scrape.",
        summary="A Weir agent nears its memory limit",
        description="It and what shares its limit hold {{ $value | humanize1024 }}B, more than "
        "90 % of what they may have.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirAgentRestarting",
        severity="warning",
        subject="agent",
        says="started three times within an hour",
        # At one address: by its name a driver's pod that each run makes anew would be one agent.
        expression=f"{_STARTED} >= 3",
        hold="0s",
        why="An upgrade starts an agent anew, and going back does once more. Three starts within "
        "an hour are one that is killed, or ends, again and again: each begins anew what alerts "
        "wait for, so that those which wait for ten minutes may never be told.",
        summary="The Weir agent at {{ or $labels.pod $labels.instance }} starts again and again",
        description="{{ $value }} times within the last hour. With each start alerts begin anew to "
        "wait, and those that wait for minutes may not be told at all.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirAgentFlapping",
        severity="warning",
        subject="agent",
        says="stopped answering scrapes three times within half an hour",
        expression=flapping(series),
        hold="0s",
        why="A scrape that fails ends all series, and alerts that wait begin anew: one in each ten "
        "minutes keeps most of them from being told, and WeirAgentUnreachable sees none, as the "
        "next one succeeds. An outage is one, however long, and an upgrade and going back are two. "
        "It must not wait, for the same reason.",
        summary="The Weir agent at {{ or $labels.pod $labels.instance }} answers scrapes only now "
        "and then",
        description="It stopped answering three times or more within half an hour. With each "
        "scrape that fails alerts begin anew to wait, and those that wait for minutes may not be "
        "told at all.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirBrokersUnreachable",
        severity="warning",
        subject="agent",
        says="asks Kafka's brokers and gets no answer",
        expression=f"{series('weir_kafka_up')} == 0",
        hold="10m",
        why="What retention is about to delete is known from the brokers alone, so "
        "WeirRetentionLossNear and WeirRetentionLossAhead are silent meanwhile. Ten minutes leave "
        "out a broker that restarts.",
        summary="Kafka's brokers do not answer a Weir agent",
        description="A backlog is what the query's own progress says, and whether retention "
        "deletes unread rows nobody can tell.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirCertificateEnds",
        severity="warning",
        subject="agent",
        says="the certificate that it serves with ends within a week, with less than a "
        "quarter of its life left",
        expression=f"{_ENDS} - time() < 7 * 86400"
        f" unless {_ENDS} - time() >= ({_ENDS} - {_BEGINS}) / 4",
        hold="1h",
        why="What renews certificates does so weeks before; a week that holds a weekend is left to "
        "do it by hand. Those that live for days are renewed where a third of that is left, or "
        "half: at a quarter it is late. An hour leaves out a renewal that is under way.",
        summary="The certificate of a Weir agent ends in {{ $value | humanizeDuration }}",
        description="Then no driver that checks it reports any more, and Prometheus scrapes no "
        "more.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirNamesCollide",
        severity="info",
        subject="agent",
        says="two live applications share a name",
        expression=f"increase({series('weir_agent_name_collisions_total')}[1h]) > 0",
        hold="0s",
        why="Two live applications of one name are told apart by their ids, so each start makes "
        "new series: graphs and alerts lose their past.",
        summary="Two live applications share a name",
        description="{{ $value | humanize }} times in the last hour. The later one goes by its id "
        "until the earlier one is stopped, silent, or retired.",
        dashboard=links.AGENT,
    ),
    Alert(
        name="WeirAgentScrapeErrors",
        severity="warning",
        subject="agent",
        says="leaves queries out of its metrics",
        expression=f"increase({series('weir_agent_scrape_errors_total')}[15m]) > 0",
        hold="0s",
        why="A query left out of a scrape has no series, so none of its alerts can fire.",
        summary="A Weir agent leaves queries out of its metrics",
        description="The view of at least one query fails. Its series are missing, and with them "
        "its alerts.",
        dashboard=links.AGENT,
    ),
)
