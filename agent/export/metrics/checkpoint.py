"""Metrics of checkpoints: what committing takes, what threatens it, and what its audit found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agent.core.judgement import SPIRAL_PHASES
from agent.export.metrics.batches import PHASES
from agent.export.metrics.row import CHECKPOINT, FINDINGS, OTHER, QUERY, SPIRAL, STAGES, Label

if TYPE_CHECKING:
    from agent.export.metrics.row import Metric

METRICS: Final[tuple[Metric, ...]] = (
    QUERY.gauge(
        "weir_checkpoint_seconds",
        "Seconds from the offset log to the commit log in the last batch.",
        lambda view: view.checkpoint.seconds,
        unit="seconds",
        running=True,
        formula=CHECKPOINT.of("checkpoint_seconds"),
    ),
    QUERY.gauge_by(
        "weir_checkpoint_phase_seconds",
        "Seconds of each phase in the last batch.",
        Label("phase", PHASES),
        lambda view: view.checkpoint.phases,
        unit="seconds",
        running=True,
        note="Phases as Spark reports them in `durationMs`; a phase unknown here is under `other`.",
    ),
    QUERY.gauge(
        "weir_checkpoint_interval_seconds",
        "Seconds between the last two commits.",
        lambda view: view.checkpoint.interval_seconds,
        unit="seconds",
        running=True,
        formula=CHECKPOINT.of("Monitor.complete"),
    ),
    QUERY.gauge(
        "weir_checkpoint_deadline_seconds",
        "Seconds after which something kills a batch, as configured or learned.",
        lambda view: view.checkpoint.deadline_seconds,
        unit="seconds",
        note="Learned where one batch was ended twice at one age. Absent where neither is known, "
        "and in real-time mode, where it counts from when a batch was told to end.",
        formula=CHECKPOINT.of("Monitor.deadline"),
    ),
    QUERY.gauge(
        "weir_checkpoint_failures_consecutive",
        "Batches in a row that were begun and not committed; a committed batch resets it.",
        lambda view: view.checkpoint.failures_consecutive,
        note="By an exception or a time-out. Stopping the query is none.",
        formula=CHECKPOINT.of("Monitor.fail"),
    ),
    QUERY.gauge(
        "weir_checkpoint_deadline_eta_seconds",
        "Estimated seconds until a batch passes the deadline.",
        lambda view: view.checkpoint.eta_seconds,
        unit="seconds",
        running=True,
        note="Absent while none is on its way there.",
        formula=CHECKPOINT.of("Monitor.eta_seconds"),
    ),
    QUERY.gauge(
        "weir_checkpoint_bytes",
        "Bytes that the state stores wrote to the checkpoint in the last batch.",
        lambda view: view.checkpoint.bytes,
        unit="bytes",
        running=True,
        note="Absent where the state store does not tell.",
    ),
    QUERY.counter_by(
        "weir_checkpoints_total",
        "Checkpoints by result.",
        Label("result", ("completed", "failed", "replayed", OTHER)),
        lambda view: view.totals.checkpoints,
        from_start=True,
        note="Each counts once. `replayed`: completed, of a batch that had been begun before.",
    ),
    QUERY.states(
        "weir_spiral_phase",
        "Where the query stands on the way into a checkpoint-timeout spiral.",
        Label("phase", SPIRAL_PHASES),
        lambda view: view.spiral.phase,
        note="Exactly one is 1. `pressured`: the backlog grows, batches do not. `spiralling`: "
        "batches grow towards the deadline. `timing_out`: a batch was timed out and comes again. "
        "`dead`: the same batch was lost three times or more.",
        formula=SPIRAL.of("judge"),
    ),
    QUERY.gauge(
        "weir_spiral_gain",
        "Gain of the loop from a batch's duration to the next one's.",
        lambda view: view.spiral.gain,
        running=True,
        note="Below 1 it settles, from 1 on it runs away unless a limit binds. Absent while "
        "arrivals or costs are unknown.",
        formula=SPIRAL.of("gain"),
    ),
    QUERY.gauge(
        "weir_alignment_seconds",
        "What the stages of a batch waited for their slowest tasks.",
        lambda view: view.alignment.seconds,
        unit="seconds",
        running=True,
        note="Slowest task less the median one, over the batch's stages. Looked at now and then, "
        "where the driver's REST API may be asked (`spark_ui_hosts`); else absent.",
        formula=STAGES.of("align"),
    ),
    QUERY.gauge(
        "weir_task_skew_ratio",
        "Slowest task over the median one, of the stage that waited longest.",
        lambda view: view.alignment.skew_ratio,
        unit="ratio",
        running=True,
        note="Absent where `weir_alignment_seconds` is.",
        formula=STAGES.of("align"),
    ),
    QUERY.gauge(
        "weir_replay_amplification_ratio",
        "Rows attempted over rows committed, of the last batches.",
        lambda view: view.spiral.replay_amplification,
        unit="ratio",
        note="1 where nothing is replayed.",
        formula=SPIRAL.of("Spiral.replay_amplification"),
    ),
    FINDINGS.gauge(
        "weir_consistency_findings",
        "What the consistency audit found against exactly once, by check and severity.",
        len,
        note="A series only where something was found; it goes when that is mended. The findings "
        "in words are on the status page and at `/v1/queries`.",
    ),
    QUERY.gauge(
        "weir_consistency_folder_audited_timestamp_seconds",
        "When the checkpoint folder was last audited.",
        lambda view: view.folder_audited_time,
        unit="seconds",
        note="Absent where it was not: not on this machine, or `audit_folder_seconds` is 0.",
    ),
)
