"""What tests ask of Spark, in a process of its own: other tests need a Spark with other jars."""

from __future__ import annotations

import atexit
import json
import tempfile
from typing import TYPE_CHECKING, Any

from agent.history import manifest
from agent.history.job import History, Outcome, session, ship
from agent.history.manifest import Settings
from agent.history.tables import TABLES

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = Settings(target_seconds=1.0)
_running: list[Any] = []


def spark() -> Any:
    if not _running:
        made = session("local[2]", {"spark.ui.enabled": "false"})
        made.sparkContext.setLogLevel("OFF")
        ship(made, tempfile.mkdtemp(prefix="weir-history-"))
        atexit.register(made.stop)
        _running.append(made)
    return _running[0]


def run(logs: Path, out: Path, *, killed: bool = False) -> Outcome:
    """``killed``: just before the run would be remembered."""
    history = History(spark(), str(out), SETTINGS, lambda _: None)
    save = manifest.save
    if killed:

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        manifest.save = die  # type: ignore[assignment]
    try:
        return history.run([str(logs)])
    except KeyboardInterrupt as error:
        raise InterruptedError from error
    finally:
        manifest.save = save


def everything(out: Path) -> dict[str, list[str]]:
    """All rows of all tables; the log's address says where it lay."""
    found: dict[str, list[str]] = {}
    for one in TABLES:
        if (out / one.name).exists():
            frame = spark().read.parquet(str(out / one.name)).drop("log")
            found[one.name] = sorted(repr(row.asDict()) for row in frame.collect())
    return found


def judgements(out: Path) -> list[dict[str, Any]]:
    frame = spark().read.parquet(str(out / "batches")).select("judgement")
    return [json.loads(row.judgement) for row in frame.collect()]
