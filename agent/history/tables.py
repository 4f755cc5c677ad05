"""The tables, column by column: what Spark writes, and what docs/history.md says of it.

python -m agent.history.tables     writes the columns into docs/history.md
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import msgspec

BEGIN: Final = "<!-- tables: python -m agent.history.tables -->"
END: Final = "<!-- end of tables -->"
DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "history.md"


class Column(msgspec.Struct, frozen=True):
    """A column; ``kind`` is Spark's type, and ``timestamp`` is made of epoch seconds."""

    name: str
    kind: str
    says: str


class Table(msgspec.Struct, frozen=True):
    """A table; ``dated_by`` is the time that its date is of."""

    name: str
    says: str
    columns: tuple[Column, ...]
    dated_by: str | None


def _columns(text: str) -> tuple[Column, ...]:
    columns = []
    for line in text.strip().splitlines():
        name, kind, says = (part.strip() for part in line.split("|"))
        columns.append(Column(name, kind, says))
    return tuple(columns)


WHOSE: Final = _columns("""
    application    | string | The application's name; a second one that lives at the same time has its id appended
    query          | string | The query's name, else its id
    application_id | string | Spark's id of the application
    log            | string | Address of the log, without the endings that come and go
    query_id       | string | The query's id: of its checkpoint
    run_id         | string | The run's id: anew with each start
""")  # noqa: E501

SOURCE_KIND: Final = (
    "array<struct<source:int,description:string,rows:bigint,admitted_rows:bigint,"
    "backlog_rows:bigint,start_position:bigint,end_position:bigint>>"
)

#: As the judge gives them; ``phases`` and ``sources`` become tables of their own.
BATCH_COLUMNS: Final = WHOSE + _columns(f"""
    event                       | string    | progress: a batch ended; terminated: its run did
    batch_id                    | bigint    | Spark's number of the batch
    time                        | timestamp | When the event happened: a batch's end
    triggered_time              | timestamp | When the batch was triggered
    seconds                     | double    | The batch's whole duration
    rows                        | bigint    | That it read, over all sources
    watermark_time              | timestamp | The watermark during the batch
    backlog_rows                | double    | Left at the sources; null where none tells
    backlog_seconds             | double    | How long the oldest of them has waited
    lag_state                   | string    | OK, WARN, ERR, STOP, STALL, REWIND, UNKNOWN
    state                       | string    | How the time was spent: idle, busy, backpressured, stalled, terminated
    pressure                    | string    | ok, low, high
    throughput_rows_per_second  | double    | μ of the cost of a batch, c0 + rows / μ, as learned by then
    fixed_cost_seconds          | double    | c0 of it
    arrival_rows_per_second     | double    | Rows that arrived per second, over the last minute; null where one of its sources does not tell what waits in rows
    limit_unit                  | string    | As the log tells, which is seldom: of the limit in force
    limit_current               | bigint    | The limit in force
    limit_next                  | bigint    | The limit decided
    limit_reason                | string    | Why
    would_limit_rows            | bigint    | The limit Weir would have had in force for the next batch
    would_reason                | string    | Why
    target_feasible             | boolean   | Whether a batch of the target's duration keeps up
    checkpoint_seconds          | double    | From the offset log to the commit log
    deadline_seconds            | double    | What ends a slow batch: configured, or learned
    deadline_eta_seconds        | double    | Until a batch will pass it, as foreseen then
    checkpoint_failures         | bigint    | Attempts in a row that did not commit
    checkpoint_bytes            | bigint    | Written by the state stores
    spiral_phase                | string    | none, pressured, spiralling, timing_out, dead
    spiral_gain                 | double    | Of the loop: from 1 on it feeds itself
    replay_amplification        | double    | Rows attempted over rows committed
    failure_cause               | string    | Why the run ended, where it failed
    failure_evidence            | string    | What shows it
    judgement                   | string    | The whole line, as `weir replay` prints it
    phases                      | map<string,double> |
    sources                     | {SOURCE_KIND} |
""")  # noqa: E501

STAGES: Final = Table(
    "stages",
    "What each stage of a batch waited for.",
    WHOSE
    + _columns("""
    batch_id       | bigint    | The batch it belongs to
    stage          | bigint    | Spark's number of the stage
    attempt        | bigint    | 0 for the first
    name           | string    | As Spark calls it
    time           | timestamp | When it was submitted
    seconds        | double    | From its submission to its end
    tasks          | bigint    | That it had
    failed_tasks   | bigint    | Attempts that failed or were killed
    failure        | string    | Why it failed, where it did
    wait_seconds   | double    | Slowest task less the median; null with fewer than three tasks
    skew_ratio     | double    | Slowest task over the median
    partition      | bigint    | Of the slowest task
    executor       | string    | That ran it
    host           | string    | It ran on
    why            | string    | skew, slow_host, slow_task, even
    advice         | string    | What would help, with the figures
    input_rows     | bigint    | That its tasks read from a source
    source         | bigint    | Which source that was, where only one fits
    """),
    "time",
)

INCIDENTS: Final = Table(
    "incidents",
    "Stretches in which something was wrong, and failures.",
    WHOSE
    + _columns("""
    kind        | string    | spiral, lag, failure, unfinished (a batch begun and not ended)
    detail      | string    | The worst phase; the last lag state; the cause of the failure
    begin_time  | timestamp | Of the first event that showed it
    end_time    | timestamp | Of the first event that no longer did
    seconds     | double    | Between the two
    events      | bigint    | That showed it
    first_batch | bigint    | Batch at its begin
    last_batch  | bigint    | Batch at its end
    worst       | double    | spiral: the gain; lag: seconds behind; unfinished: its seconds
    evidence    | string    | One sentence with the figures
    """),
    "begin_time",
)

CAPACITY: Final = Table(
    "capacity",
    "Each hour of each query: what it cost, what arrived, how bad it was, the limit that fits.",
    WHOSE
    + _columns("""
    hour_time                  | timestamp | The hour's beginning
    rank                       | bigint    | Among the query's hours, the worst is 1: failures, spirals, batches over the target, lag
    batches                    | bigint    | That ended in it
    empty_batches              | bigint    | Of these, without rows
    rows                       | bigint    | That they read
    busy_share                 | double    | Of the hour, how much they ran
    batch_seconds_p50          | double    | Median duration
    batch_seconds_p95          | double    | 95th percentile
    batch_seconds_max          | double    | The longest
    batch_rows_p50             | double    | Median size
    batch_rows_p95             | double    | 95th percentile
    batches_over_target        | bigint    | That took longer than the target
    failures                   | bigint    | Runs that failed
    spiral_batches             | bigint    | In any phase of a spiral
    arrival_rows_per_second    | double    | 95th percentile; null where one of its sources does not tell what waits in rows, or each run's end is fixed as it begins
    backlog_rows_max           | double    | The most that was left
    backlog_seconds_max        | double    | The longest that rows waited
    fixed_cost_seconds         | double    | c0, at the hour's end
    throughput_rows_per_second | double    | μ, at the hour's end
    required_capacity_ratio    | double    | Capacity needed for those arrivals over what there was
    limit_rows                 | bigint    | The limit that the hour asked for, in Kafka's offsets
    limit_reason               | string    | What set it: target, or a floor or bound
    executors                  | double    | That the application had, on average; null where its log tells of none
    executors_wanted           | double    | That Weir would have asked for, on average
    executors_wanted_max       | bigint    | ... and the most at once
    executors_bound            | string    | What kept more of them from helping, as weir_executors_bound
    """),  # noqa: E501
    "hour_time",
)

DECISIONS: Final = Table(
    "decisions",
    "What Weir would have decided after the batches as they ran, each time it would have moved a "
    "limit.",
    WHOSE
    + _columns("""
    batch_id   | bigint    | After which it was
    time       | timestamp | When
    source     | bigint    | Whose limit
    unit       | string    | rows: a log tells no other
    limit_from | bigint    | The limit before; null: none
    limit_to   | bigint    | The limit after
    reason     | string    | As in `limit_reason`
    detail     | string    | The figures behind it
    """),
    "time",
)

RECOMMENDATIONS: Final = Table(
    "recommendations",
    "One row for each query: the limit it should have had.",
    WHOSE
    + _columns("""
    from_time                  | timestamp | End of the first batch
    to_time                    | timestamp | End of the last batch
    batches                    | bigint    | With rows
    target_seconds             | double    | What a batch should take
    deadline_seconds           | double    | What ends a slow one, where given
    fixed_cost_seconds         | double    | c0, as learned at the end
    throughput_rows_per_second | double    | μ, as learned at the end
    noise                      | double    | Standard deviation of a duration's logarithm
    trigger_seconds            | double    | The trigger interval, as told or as the batches' starts show it; 0: none; null: unknown
    arrival_rows_per_second    | double    | Of its busiest hour; null where one of its sources does not tell what waits in rows, or each run's end is fixed as it begins
    batch_rows_p50             | double    | Median size as it ran
    batch_rows_max             | double    | The largest
    batch_seconds_p50          | double    | Median duration as it ran
    batch_seconds_p95          | double    | 95th percentile
    batch_seconds_max          | double    | The longest
    over_target_share          | double    | Of the batches, how many took longer than the target
    limit_rows                 | bigint    | The limit to have, of all sources together, in Kafka's offsets; null where too little is known of it
    sources                    | bigint    | Of its newest run, that had rows: what each should have of the limit is in `advice`
    limit_reason               | string    | What set it: target, or a floor or bound
    expected_seconds           | double    | Of a batch of that size
    doubt_seconds              | double    | By how much the model may be off there
    target_feasible            | boolean   | Whether batches of the target's duration keep up
    required_capacity_ratio    | double    | Capacity its busiest hour needs over what it has
    surely_required_ratio      | double    | The same, less what may be wrong with it; null where no limit is advised
    decisions                  | bigint    | How often Weir would have moved its limit
    advice                     | string    | The same in a sentence
    executor_hours_a_day       | double    | Of its application while the query ran, for a day of 24 hours
    executor_hours_a_day_wanted | double   | ... and with those that Weir would have asked for
    executors_wanted_max       | bigint    | The most of them at once
    executors_bound            | string    | What kept more of them from helping, in the end
    """),  # noqa: E501
    None,
)

_PLAIN: Final = tuple(one for one in BATCH_COLUMNS if one.name not in ("phases", "sources"))
BATCHES: Final = Table("batches", "One row for each judged event of each query.", _PLAIN, "time")

_OF_BATCH: Final = WHOSE + _columns("""
    batch_id | bigint    | The batch
    time     | timestamp | Its end
""")
PHASES: Final = Table(
    "phases",
    "Where each batch's time went.",
    _OF_BATCH
    + _columns("""
    phase    | string | walCommit, addBatch, commitOffsets, …, as Spark names them
    seconds  | double | It took
    """),
    "time",
)
SOURCES: Final = Table(
    "sources",
    "What each batch read from each source.",
    _OF_BATCH
    + _columns("""
    source         | int    | Its place in the progress
    description    | string | As the progress gives it
    rows           | bigint | That the batch read
    admitted_rows  | bigint | Offsets that it covers, where they count (Kafka)
    backlog_rows   | bigint | Left, where the source tells
    start_position | bigint | Sum of the offsets at its start (Kafka)
    end_position   | bigint | Sum of the offsets at its end
    """),
    "time",
)

TABLES: Final = (
    BATCHES,
    PHASES,
    SOURCES,
    STAGES,
    INCIDENTS,
    CAPACITY,
    DECISIONS,
    RECOMMENDATIONS,
)


def documented() -> str:
    """All tables in Markdown."""
    parts = []
    for table in TABLES:
        parts.append(f"### {table.name}\n\n{table.says}\n")
        parts.append("| column | type | |\n|---|---|---|")
        own = table.columns[len(WHOSE) :]
        parts.extend(f"| `{one.name}` | {one.kind} | {one.says} |" for one in own)
        parts.append("")
    head = ["Every table begins with:\n", "| column | type | |\n|---|---|---|"]
    head += [f"| `{one.name}` | {one.kind} | {one.says} |" for one in WHOSE]
    return "\n".join([*head, "", *parts]).rstrip() + "\n"


def main() -> None:
    """Writes the columns into the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or END not in rest:
        sys.exit(f"{DOCUMENT}: the marks around the tables are gone")
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{documented()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
