"""Checkpoints & state: from offset log to commit log, event time, and the state operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import links
from dashboards.frame import choose_one, frame, lay_out
from dashboards.panels import GREEN, RED, YELLOW, graph, link, number
from dashboards.promql import ONE, by

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import DashboardLink
    from grafana_foundation_sdk.models.dashboard import Dashboard


def checkpoints(runbooks: str) -> Dashboard:
    """One query's checkpoints and state."""

    def runbook(alert: str) -> list[DashboardLink]:
        return [link("Runbook", links.runbook(alert, runbooks))]

    return lay_out(
        choose_one(
            frame(
                links.CHECKPOINTS,
                "Weir / Checkpoints & state",
                "How long one query's batches take to commit, how near that is to the deadline, "
                "and what its state holds.",
            )
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
                    "Age of the running batch over the deadline after which something kills it. "
                    "Unknown where no deadline is configured or no batch runs.",
                    f"max({ONE('weir_batch_running_seconds')})"
                    f" / max({ONE('weir_checkpoint_deadline_seconds')})",
                    unit="percentunit",
                    span=6,
                    thresholds=((None, GREEN), (0.8, YELLOW), (1, RED)),
                    links=runbook("WeirDeadlineNear"),
                ),
                number(
                    "Failures in a row",
                    "Runs that ended with an exception since the last batch that was committed.",
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
                    "Failures by cause",
                    "Runs that ended with an exception, over the range of a point.",
                    (
                        by("cause", ONE.increase("weir_failures_total")),
                        "{{cause}}",
                    ),
                    unit="short",
                    links=runbook("WeirBatchesFailing"),
                ),
                graph(
                    "Rows run again",
                    "Rows per second of batches that ran again under their old number, beside all "
                    "rows: work done twice.",
                    (f"sum({ONE.rate('weir_replayed_rows_total')})", "run again"),
                    (f"sum({ONE.rate('weir_rows_total')})", "all"),
                    unit="rowsps",
                ),
            ],
        ),
        (
            "Event time",
            [
                graph(
                    "Watermark lag",
                    "How far the watermark was behind at the end of the last batch.",
                    (f"max({ONE('weir_watermark_lag_seconds')})", "watermark lag"),
                    unit="s",
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
                    span=8,
                ),
                graph(
                    "State memory",
                    "Memory that each operator's state uses, as Spark reports it.",
                    (by("operator", ONE("weir_state_bytes"), "max"), "{{operator}}"),
                    unit="bytes",
                    span=8,
                ),
                graph(
                    "State commit",
                    "Seconds that committing each operator's state took in the last batch, summed "
                    "over tasks.",
                    (by("operator", ONE("weir_state_commit_seconds"), "max"), "{{operator}}"),
                    unit="s",
                    span=8,
                ),
            ],
        ),
    )
