"""Queries as the agent shows them, made by hand: every state that page and terminal must draw."""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec

from agent.core.judge import attention
from agent.core.judgement import (
    UNJUDGED,
    CheckpointView,
    Decision,
    FailureView,
    LimitView,
    OperatorView,
    OrderView,
    Point,
    QueryView,
    SourceView,
    SpiralView,
    Totals,
)

NOW = 1_795_251_302.0

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
HOSTILE_NAMES = (
    HOSTILE,
    "two\nlines\r\n\tand \x1b[31mred\x1b[0m \x07bell",
    "gnp.\u202eexe\u2066 turned\u200b around",
    "long" * 2500,
    "👩‍💻🔥 données 数据流 ἀγορά",
    "../../etc/passwd?x=1#y%2F",
    " ",
    "Z̷̢̛͔̯̗̬̳̪̰̓͐̊̈́̕͝ä̶̡̘̳̙͙́̽l̸̛̞͖̮̈́g̶̢̪̱̈́̕o",
)


def point(
    age: float,
    seconds: float | None,
    rows: int,
    backlog: float | None,
    limit: int | None,
    *,
    limited: bool = True,
    credit: float | None = None,
) -> Point:
    return Point(
        time=NOW - age,
        batch_seconds=seconds,
        rows=rows,
        backlog_rows=backlog,
        limit=limit,
        credit_rows=limit if credit is None and limit is not None else credit,
        limited=limited,
    )


def source(index: int = 0, **changes: Any) -> SourceView:
    given: dict[str, Any] = {
        "index": index,
        "description": "KafkaV2[Subscribe[orders]]",
        "unit": "rows",
        "control": "live",
        "note": "",
        "backlog": 0,
        "backlog_bound": "exact",
        "limit": 20_000,
        "limit_known": True,
        "configured": 20_000,
        "granted": None,
        "grant_expires_time": None,
        "exclusive_rows": 2_000.0,
        "floating_rows": 18_000.0,
        "rows": 12_000,
        "rows_per_unit": 1.0,
        "arrival_rows_per_second": 3_900.0,
    }
    return SourceView(**{**given, **changes})


def view(query: str, application: str = "orders", **changes: Any) -> QueryView:
    """A healthy query; changes by field."""
    steady = [
        point(5.0 * (60 - n), 3.4 + 0.5 * math.sin(n / 3), 12_000, 4_000.0, 20_000, limited=False)
        for n in range(60)
    ]
    given: dict[str, Any] = {
        "application": application,
        "query": query,
        "application_id": "spark-3f2a9c",
        "spark_version": "4.2.0",
        "query_id": "6f0d7f0a-6d3e-4a53-8e0c-0f6b3b7f9a11",
        "run_id": "0b9f2f4e-1d0a-4c66-9d39-7b5a2b1f8c22",
        "trigger": "ProcessingTimeTrigger(5000)",
        "control": "live",
        "output_mode": "update",
        "sink": "DeltaSink[s3://lake/orders/enriched]",
        "checkpoint_location": "s3://lake/checkpoints/enrich",
        "ui_url": "http://driver:4040",
        "up": True,
        "gone_since_time": None,
        "mode": "on",
        "held": False,
        "manual_limit": None,
        "state": "busy",
        "pressure": "ok",
        "pressure_ratio": 0.02,
        "lag_state": "OK",
        "last_event_time": NOW - 1.2,
        "last_progress_time": NOW - 1.2,
        "batch_id": 1_841,
        "batch_seconds": 3.4,
        "batch_rows": 12_000,
        "batch_limited": False,
        "running_batch_id": 1_842,
        "running_seconds": 1.2,
        "target_seconds": 5.0,
        "deadline_seconds": 60.0,
        "target_feasible": True,
        "required_capacity_ratio": 0.62,
        "throughput_rows_per_second": 6_200.0,
        "fixed_cost_seconds": 1.1,
        "arrival_rows_per_second": 3_900.0,
        "processed_rows_per_second": 3_850.0,
        "backlog_rows": 4_000.0,
        "backlog_seconds": 1.0,
        "estimated_time_to_consume_seconds": 1.7,
        "watermark_lag_seconds": 14.0,
        "limit": LimitView("rows", 20_000, 20_000, "hold:not_limited", True),
        "checkpoint": CheckpointView(
            3.3,
            {
                "latestOffset": 0.041,
                "getBatch": 0.006,
                "queryPlanning": 0.19,
                "walCommit": 0.12,
                "addBatch": 2.86,
                "commitOffsets": 0.14,
            },
            60.0,
            None,
            0,
            5.0,
        ),
        "spiral": SpiralView(gain=0.31),
        "failure": None,
        "sources": [source(backlog=4_000)],
        "operators": [OperatorView(0, "stateStoreSave", 412_000, 98_000_000, 0.21, 0)],
        "totals": Totals(rows=22_000_000, state_seconds={"busy": 900.0, "idle": 300.0}),
        "decisions": [
            Decision(
                NOW - 420,
                1_760,
                0,
                "rows",
                10_000,
                20_000,
                "bound:doubt",
                True,
                "wants 24,300 rows for 5 s at 6,200 rows/s and 1.1 s fixed cost",
            ),
            Decision(
                NOW - 210,
                1_800,
                0,
                "rows",
                20_000,
                20_000,
                "hold:not_limited",
                True,
                "the last batch left nothing behind",
            ),
        ],
        "history": steady,
        "missing": [],
    }
    return judged(QueryView(**{"attention": UNJUDGED, **given, **changes}))


def judged(one: QueryView, now: float = NOW) -> QueryView:
    """The view with the attention that the agent would give it."""
    batches = [(p.backlog_rows, p.rows) for p in one.history if p.backlog_rows is not None]
    return attention.judged(one, now, growing=attention.grows(batches))


def hung(**changes: Any) -> QueryView:
    history = [point(372 - 5.0 * n, 4.1, 14_000, 9_000.0 + 40 * n, 20_000) for n in range(25)]
    given: dict[str, Any] = {
        "state": "stalled",
        "running_batch_id": 913,
        "batch_id": 912,
        "batch_seconds": 4.1,
        "running_seconds": 252.0,
        "pressure": "high",
        "pressure_ratio": 1.0,
        "backlog_rows": 993_000.0,
        "backlog_seconds": 252.0,
        "estimated_time_to_consume_seconds": None,
        "sources": [source(backlog=993_000, rows=14_000)],
        "history": history,
        "last_progress_time": NOW - 252.0,
    }
    return view("sessions", "clicks", **{**given, **changes})


def failed(**changes: Any) -> QueryView:
    given: dict[str, Any] = {
        "state": "terminated",
        "up": False,
        "gone_since_time": NOW - 95.0,
        "running_seconds": None,
        "running_batch_id": None,
        "failure": FailureView(
            "external_sink",
            "org.postgresql.util.PSQLException: Connection to warehouse:5432 refused. "
            "Check that the hostname and port are correct",
            "sink",
            "unreachable",
        ),
        "history": [
            point(400 - 5.0 * n, 3.0, 9_000, 0.0, 20_000, limited=False) for n in range(60)
        ],
        "sink": "ForeachBatchSink",
        "missing": ["running batch: the query has ended"],
    }
    return view("to-warehouse", "billing", **{**given, **changes})


def overloaded(**changes: Any) -> QueryView:
    history = [
        point(
            300 - 6.5 * n,
            5.2 + 1.1 * math.sin(n),
            24_000,
            40_000.0 + 9_000 * n,
            24_000 + 500 * (n // 6),
        )
        for n in range(46)
    ]
    given: dict[str, Any] = {
        "pressure": "high",
        "state": "backpressured",
        "pressure_ratio": 0.97,
        "target_feasible": False,
        "required_capacity_ratio": 1.42,
        "arrival_rows_per_second": 7_100.0,
        "processed_rows_per_second": 4_700.0,
        "throughput_rows_per_second": 5_000.0,
        "batch_seconds": 5.9,
        "backlog_rows": 454_000.0,
        "backlog_seconds": 64.0,
        "estimated_time_to_consume_seconds": None,
        "limit": LimitView("rows", 27_500, 28_000, "bound:deadline", False),
        "history": history,
        "sources": [
            source(
                0, backlog=402_000, limit=20_000, granted=24_000, arrival_rows_per_second=5_900.0
            ),
            source(
                1,
                description="FileStreamSource[s3://lake/landing/corrections]",
                unit="files",
                backlog=310,
                backlog_bound="lower",
                limit=40,
                configured=40,
                arrival_rows_per_second=1_100.0,
                exclusive_rows=None,
                floating_rows=None,
            ),
            source(
                2,
                description="RateStreamV2[rowsPerSecond=100]",
                unit=None,
                control="advice",
                note="this source takes no limit",
                backlog=None,
                limit=None,
                limit_known=False,
                configured=None,
                arrival_rows_per_second=100.0,
                exclusive_rows=None,
                floating_rows=None,
            ),
        ],
        "decisions": [
            Decision(
                NOW - 240,
                801,
                0,
                "rows",
                10_000,
                20_000,
                "bound:doubt",
                True,
                "wants 41,000 rows to keep up with 7,100 rows/s",
            ),
            Decision(
                NOW - 120,
                822,
                0,
                "rows",
                20_000,
                24_000,
                "floor:stability",
                True,
                "5 s would take 19,500 rows, arrivals need more than any batch can give",
            ),
            Decision(
                NOW - 31,
                838,
                1,
                "files",
                60,
                40,
                "lower",
                True,
                "split by backlog: 402,000 of 454,000 rows wait at source 0",
            ),
            Decision(
                NOW - 6,
                841,
                0,
                "rows",
                24_000,
                24_000,
                "bound:deadline",
                True,
                "a larger batch would take over 48 s, 0.8 of the deadline",
            ),
        ],
        "missing": ["source 2: its backlog is unknown: rate sources do not tell"],
    }
    return view("enrich", "orders", **{**given, **changes})


def pressured(**changes: Any) -> QueryView:
    history = [
        point(
            290 - 4.9 * n,
            4.7 + 0.6 * math.sin(2.1 * n),
            22_000 + 300 * (n % 7),
            max(0.0, 260_000.0 - 3_900 * n),
            14_000 if n < 12 else 22_000 if n < 30 else 26_000,
        )
        for n in range(59)
    ]
    given: dict[str, Any] = {
        "pressure": "high",
        "state": "backpressured",
        "pressure_ratio": 0.83,
        "batch_seconds": 4.6,
        "backlog_rows": 31_000.0,
        "backlog_seconds": 8.4,
        "estimated_time_to_consume_seconds": 44.0,
        "limit": LimitView("rows", 22_000, 26_000, "raise", True),
        "history": history,
        "sources": [source(backlog=31_000, limit=22_000, granted=26_000)],
    }
    return view("dedupe", "clicks", **{**given, **changes})


def spiralling(**changes: Any) -> QueryView:
    """Batches that grow, without a limit and with nobody allowed to set one."""
    seconds = [9.0, 9.4, 8.8, 9.1, 11.0, 16.0, 24.0, 37.0, 55.0]
    ends = [sum(seconds[n + 1 :]) + 1.2 for n in range(len(seconds))]
    given: dict[str, Any] = {
        "mode": "dry-run",
        "state": "busy",
        "pressure": "low",
        "batch_seconds": 55.0,
        "backlog_rows": 2_000_000.0,
        "backlog_seconds": 56.0,
        "estimated_time_to_consume_seconds": None,
        "required_capacity_ratio": 0.8,
        "limit": LimitView("rows", None, 171_000, "lower", True),
        "spiral": SpiralView(
            "spiralling",
            2.31,
            1.0,
            "batches took 9.1 s, now take 55 s; the next passes the deadline of 60 s; 40,000 rows "
            "arrive per second, and the gain is 2.31: each makes the next one longer; 3.4 times as "
            "many rows arrive as before",
            1,
        ),
        "history": [
            msgspec.structs.replace(
                point(age, took, int(40_000 * took), 36_000.0 * took, None, limited=False),
                would_be_limit=None if n < 4 else 171_000,
            )
            for n, (age, took) in enumerate(zip(ends, seconds, strict=True))
        ],
        "sources": [
            source(backlog=2_000_000, limit=None, configured=None, would_be=171_000, rows=2_200_000)
        ],
        "arrival_rows_per_second": 40_000.0,
        "processed_rows_per_second": 40_000.0,
        "batch_rows": 2_200_000,
    }
    return view("ranks", "games", **{**given, **changes})


def dry_run(**changes: Any) -> QueryView:
    """A configured limit in force, and one fourteen times as large that Weir would set."""
    history = [
        msgspec.structs.replace(
            point(300 - 2.6 * n, 2.5, 12_000, 90_000.0 + 2_000 * n, 12_000, credit=171_000.0),
            would_be_limit=None if n < 9 else min(171_000, 24_000 * 2 ** ((n - 9) // 6)),
        )
        for n in range(115)
    ]
    given: dict[str, Any] = {
        "mode": "dry-run",
        "mode_by": OrderView(NOW - 900, "kim (10.0.3.7)", "mode dry-run", "first look"),
        "state": "backpressured",
        "pressure": "high",
        "pressure_ratio": 0.95,
        "batch_seconds": 2.5,
        "backlog_rows": 320_000.0,
        "backlog_seconds": 66.0,
        "estimated_time_to_consume_seconds": None,
        "limit": LimitView("rows", 12_000, 171_000, "raise", True),
        "history": history,
        "sources": [source(backlog=320_000, limit=12_000, configured=12_000, would_be=171_000)],
        "decisions": [
            Decision(
                NOW - 100,
                30,
                0,
                "rows",
                12_000,
                171_000,
                "raise",
                False,
                "12,000 rows took 2.5 s; model: 2.4 s + 1 s per 80,000 rows; wants 171,000 rows",
            )
        ],
    }
    return view("loads", "shop", **{**given, **changes})


def everything() -> list[QueryView]:
    """One of each, the worst last."""
    growing = [point(300 - 5 * n, 4.0, 5_000, 2_000.0 + 700 * n, 20_000) for n in range(60)]
    return [
        view(
            "done",
            "backfill",
            up=False,
            state="terminated",
            stopped=True,
            running_seconds=None,
            gone_since_time=NOW - 900,
        ),
        view(
            "nightly",
            "reports",
            state="idle",
            running_seconds=None,
            running_batch_id=None,
            arrival_rows_per_second=0.0,
            processed_rows_per_second=None,
            backlog_rows=0.0,
            sources=[source(backlog=0, limit=None, configured=None, arrival_rows_per_second=0.0)],
            limit=LimitView(None, None, None, "hold:empty"),
            mode="dry-run",
            history=[point(3000 - 300 * n, 2.0, 500, 0.0, None, limited=False) for n in range(9)],
        ),
        view(
            "enrich-eu",
            "orders",
            held=True,
            held_by=OrderView(NOW - 7_200, "kim (10.0.3.7)", "hold", "deploy"),
        ),
        view(
            "fraud",
            "payments",
            pressure="low",
            pressure_ratio=0.31,
            manual_limit=8_000,
            held_by=OrderView(NOW - 240, "lee", "limit 8000 rows", ""),
            limit=LimitView("rows", 8_000, 8_000, "manual", True),
        ),
        view("late-joins", "payments", batch_seconds=11.8, running_seconds=13.0),
        view(
            "audit",
            "payments",
            history=growing,
            backlog_rows=43_300.0,
            backlog_seconds=11.0,
            estimated_time_to_consume_seconds=None,
            control="advice",
            missing=["limit: this Spark gives no live limit, advice only"],
        ),
        view(
            "slow-state",
            "ads",
            target_feasible=False,
            fixed_cost_seconds=6.4,
            batch_seconds=7.2,
            required_capacity_ratio=0.71,
        ),
        pressured(),
        overloaded(),
        view(
            "heatmap",
            "geo",
            up=False,
            gone_since_time=NOW - 31.0,
            running_seconds=None,
            last_event_time=NOW - 46.0,
        ),
        view(
            "scores",
            "ads",
            spiral=SpiralView(
                "timing_out",
                1.7,
                2.4,
                "batch 7 was begun 3 times and not committed, twice past its time",
            ),
            pressure="high",
        ),
        failed(),
        hung(),
    ]


def many(number: int) -> list[QueryView]:
    """A fleet of a thousand: mostly well, a few not; the same each time."""
    rng = random.Random(7)
    views = everything()
    for n in range(number - len(views)):
        base = 2.0 + rng.random() * 2.5
        views.append(
            view(
                f"query-{n:04d}",
                f"application-{n % 37:02d}",
                batch_seconds=base,
                history=[
                    point(
                        5.0 * (120 - k),
                        base + 0.4 * rng.random(),
                        9_000 + n,
                        1_000.0,
                        20_000,
                        limited=rng.random() < 0.05,
                    )
                    for k in range(120)
                ],
            )
        )
    return views


def answer(views: list[QueryView], *, now: float = NOW, history: int = 120) -> bytes:
    """``GET /v1/queries`` as the agent writes it."""
    trimmed = [
        msgspec.structs.replace(
            judged(
                msgspec.structs.replace(
                    v,
                    running_seconds=(
                        None if v.running_seconds is None else v.running_seconds + now - NOW
                    ),
                ),
                now,
            ),
            history=v.history[-history:] if history else [],
        )
        for v in views
    ]
    return msgspec.json.encode(
        {
            "time": now,
            "agent": {
                "version": "0.1.0",
                "mode": "on",
                "started_time": now - 86_400.0,
                "queries": len(views),
                "max_queries": 2_000,
                "state": "disk",
                "state_writable": True,
                "labels": {"cluster": "eu-1"},
                "events": {"progress": 400},
                "refused": {},
                "duplicates": 0,
                "name_collisions": 0,
                "orders": [],
            },
            "listeners": [],
            "queries": trimmed,
        }
    )
