"""Checkpoints & state: from offset log to commit log, event time, and the state operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.core.judgement import SPIRAL_PHASES
from dashboards import links
from dashboards.frame import annotate, choose_one, frame, lay_out
from dashboards.panels import (
    GREEN,
    RED,
    SPIRAL_COLOURS,
    YELLOW,
    graph,
    link,
    number,
    states,
)
from dashboards.promql import ONE, by

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import DashboardLink
    from grafana_foundation_sdk.models.dashboard import Dashboard


def checkpoints(runbooks: str) -> Dashboard:
    """One query's checkpoints and state."""

    def runbook(alert: str) -> list[DashboardLink]:
        return [link("Runbook", links.runbook(alert, runbooks))]

    return lay_out(
        annotate(
            choose_one(
                frame(
                    links.CHECKPOINTS,
                    "Weir / Checkpoints & state",
                    "How long one query's batches take to commit, how near that is to the "
                    "deadline, and what its state holds.",
                )
            ),
            ONE,
        ),
        (
            "Checkpoints",
            [
                number(
                    "Last checkpoint",
                    "From the offset log to the commit log in the last batch.",
                    f"max({ONE('weir_checkpoint_seconds')})",
                    unit="s",
                    span=6,
                ),
                number(
                    "Share of the deadline",
                    "Age of the running batch, or between batches the last one's checkpoint, over "
                    "the deadline after which something kills a batch. Unknown where no deadline "
                    "is configured.",
                    f"(max({ONE('weir_batch_running_seconds')})"
                    f" or max({ONE('weir_checkpoint_seconds')}))"
                    f" / max({ONE('weir_checkpoint_deadline_seconds')})",
                    unit="percentunit",
                    span=6,
                    thresholds=((None, GREEN), (0.8, YELLOW), (1, RED)),
                    links=runbook("WeirDeadlineNear"),
                ),
                number(
                    "Failures in a row",
                    "Batches that were begun and lost since the last one that was committed.",
                    f"max({ONE('weir_checkpoint_failures_consecutive')})",
                    span=6,
                    thresholds=((None, GREEN), (1, YELLOW), (2, RED)),
                    links=runbook("WeirBatchesFailing"),
                ),
                number(
                    "Since the last progress",
                    "Seconds since a batch last ended. An idle query lets it grow.",
                    f"time() - max({ONE('weir_last_progress_timestamp_seconds')})",
                    unit="s",
                    span=6,
                ),
                number(
                    "Time left to the deadline",
                    "Until a batch passes the deadline: the running one, once it is late, or the "
                    "one that the spiral's projection foresees.",
                    f"min({ONE('weir_checkpoint_deadline_eta_seconds')})",
                    unit="s",
                    span=6,
                    none="none known",
                    thresholds=((None, RED), (60, YELLOW), (600, GREEN)),
                    links=runbook("WeirDeadlineNear"),
                ),
                number(
                    "Written by the last checkpoint",
                    "What the state stores uploaded in the last batch. Unknown where they do not "
                    "tell.",
                    f"max({ONE('weir_checkpoint_bytes')})",
                    unit="bytes",
                    span=6,
                ),
                number(
                    "Work done twice",
                    "Rows attempted over rows committed, of the last batches: 1 is none.",
                    f"max({ONE('weir_replay_amplification_ratio')})",
                    unit="none",
                    span=6,
                    thresholds=((None, GREEN), (1.2, YELLOW), (2, RED)),
                    decimals=2,
                    links=runbook("WeirSpiral"),
                ),
                number(
                    "Snapshots behind",
                    "Versions of the state that no uploaded snapshot holds: what a restart must "
                    "replay. Unknown without state.",
                    f"max({ONE('weir_state_snapshot_lag_versions')})",
                    span=6,
                    thresholds=((None, GREEN), (100, YELLOW), (300, RED)),
                    links=runbook("WeirSnapshotsLate"),
                ),
                graph(
                    "Checkpoint time against deadline",
                    "The last checkpoint, the pause between commits, and the deadline.",
                    (f"max({ONE('weir_checkpoint_seconds')})", "checkpoint"),
                    (f"max({ONE('weir_checkpoint_interval_seconds')})", "interval"),
                    (f"max({ONE('weir_checkpoint_deadline_seconds')})", "deadline"),
                    unit="s",
                    dashed=["deadline"],
                    colours={"deadline": RED},
                    links=runbook("WeirDeadlineNear"),
                ),
                graph(
                    "Phases of the last batch",
                    "As Spark reports them. addBatch is the work itself, walCommit and "
                    "commitOffsets write the two logs.",
                    (by("phase", ONE("weir_checkpoint_phase_seconds"), "max"), "{{phase}}"),
                    unit="s",
                    stacked=True,
                ),
                graph(
                    "Checkpoints by result",
                    "Checkpoints per second. Each counts once.",
                    (by("result", ONE.rate("weir_checkpoints_total")), "{{result}}"),
                    unit="cps",
                    colours={"failed": RED, "replayed": YELLOW, "completed": GREEN},
                ),
                graph(
                    "Failures by cause",
                    "Runs that failed, over the range of a point. Empty while none did.",
                    (
                        by("cause", ONE.increase("weir_failures_total")) + " > 0",
                        "{{cause}}",
                    ),
                    unit="short",
                    links=runbook("WeirBatchesFailing"),
                ),
            ],
        ),
        (
            "Alignment",
            [
                graph(
                    "Waiting for the slowest task",
                    "Seconds that the stages of a batch waited for their slowest tasks: what an "
                    "even spread of the work would save. Absent where the driver's REST API may "
                    "not be asked.",
                    (f"max({ONE('weir_alignment_seconds')})", "waiting"),
                    (f"max({ONE('weir_checkpoint_seconds')})", "whole checkpoint"),
                    unit="s",
                ),
                graph(
                    "Slowest task over the median",
                    "Of the stage that waited longest. Above 2 look for skew: in the keys, or in "
                    "the partitions of a source.",
                    (f"max({ONE('weir_task_skew_ratio')})", "skew"),
                    unit="none",
                    thresholds=((None, GREEN), (2, RED)),
                ),
            ],
        ),
        (
            "The way into a spiral",
            [
                states(
                    "Spiral",
                    "Pressured: the backlog grows, batches do not. Spiralling: batches grow "
                    "towards the deadline. Timing out: one was killed and comes again. Dead: the "
                    "same one was lost three times or more.",
                    *(
                        (f"max({ONE('weir_spiral_phase', phase=phase)})", phase)
                        for phase in SPIRAL_PHASES
                    ),
                    colours=SPIRAL_COLOURS,
                    links=runbook("WeirSpiral"),
                ),
                graph(
                    "Gain of the loop",
                    "From a batch's duration to the next one's. Below 1 it settles; from 1 on each "
                    "batch makes the next one longer, unless a limit binds.",
                    (f"max({ONE('weir_spiral_gain')})", "gain"),
                    unit="none",
                    thresholds=((None, GREEN), (1, RED)),
                    links=runbook("WeirSpiral"),
                ),
                graph(
                    "Rows run again",
                    "Rows per second of batches that ran again under their old number, beside all "
                    "rows: work done twice.",
                    (f"sum({ONE.rate('weir_replayed_rows_total')})", "run again"),
                    (f"sum({ONE.rate('weir_rows_total')})", "all"),
                    unit="rowsps",
                    links=runbook("WeirFailingOften"),
                ),
            ],
        ),
        (
            "Consistency",
            [
                graph(
                    "Findings of the audit",
                    "What speaks against exactly once: errors break it or the next start, warnings "
                    "are what is not guaranteed. In words on the status page.",
                    (
                        by("check, severity", ONE("weir_consistency_findings"), "max"),
                        "{{severity}}: {{check}}",
                    ),
                    unit="short",
                    links=runbook("WeirCheckpointUnsound"),
                ),
                number(
                    "Folder audited",
                    "When the checkpoint's folder was last looked through. Never, where the agent "
                    "cannot read it.",
                    f"1000 * max({ONE('weir_consistency_folder_audited_timestamp_seconds')})",
                    unit="dateTimeFromNow",
                    none="never",
                    span=6,
                ),
            ],
        ),
        (
            "Event time",
            [
                graph(
                    "Watermark lag",
                    "How far the watermark was behind at the end of the last batch; the delay that "
                    "the query declares, and how late the latest row came.",
                    (f"max({ONE('weir_watermark_lag_seconds')})", "watermark lag"),
                    (f"max({ONE('weir_watermark_delay_seconds')})", "declared delay"),
                    (f"max({ONE('weir_lateness_seconds')})", "latest row"),
                    unit="s",
                    links=runbook("WeirWatermarkStuck"),
                ),
                graph(
                    "Late rows dropped",
                    "Rows per second that came after the watermark and were dropped: lost to the "
                    "result.",
                    (f"sum({ONE.rate('weir_watermark_dropped_rows_total')})", "dropped"),
                    unit="rowsps",
                    colours={"dropped": RED},
                    links=runbook("WeirLateRowsDropped"),
                ),
            ],
        ),
        (
            "State",
            [
                graph(
                    "State rows",
                    "Rows in each operator's state. A line that only rises has no end: look for a "
                    "missing watermark or time-out.",
                    (by("operator", ONE("weir_state_rows"), "max"), "{{operator}}"),
                    unit="short",
                    links=runbook("WeirStateGrowing"),
                ),
                graph(
                    "State memory",
                    "Memory that each operator's state uses, as Spark reports it.",
                    (by("operator", ONE("weir_state_bytes"), "max"), "{{operator}}"),
                    unit="bytes",
                ),
                graph(
                    "State commit",
                    "Seconds that committing each operator's state took in the last batch, summed "
                    "over tasks.",
                    (by("operator", ONE("weir_state_commit_seconds"), "max"), "{{operator}}"),
                    unit="s",
                ),
                graph(
                    "Snapshots not uploaded yet",
                    "Versions of each operator's state that no uploaded snapshot holds. A "
                    "saw-tooth is as it should be; a line that only rises means that uploads "
                    "fail.",
                    (
                        by("operator", ONE("weir_state_snapshot_lag_versions"), "max"),
                        "{{operator}}",
                    ),
                    unit="short",
                    links=runbook("WeirSnapshotsLate"),
                ),
            ],
        ),
    )
