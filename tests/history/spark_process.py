"""What tests ask of Spark, in a process of its own: other tests need a Spark with other jars."""

from __future__ import annotations

import atexit
import itertools
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agent.history import job, manifest
from agent.history.job import History, Outcome, session, ship
from agent.history.manifest import Settings
from agent.history.places import Places, bare
from agent.history.tables import TABLES
from agent.replay import MOST_QUERIES

if TYPE_CHECKING:
    from agent.history.logs import Found

SETTINGS = Settings(target_seconds=1.0)
_running: list[Any] = []
_mounts = itertools.count()


def spark() -> Any:
    if not _running:
        made = session("local[2]", {"spark.ui.enabled": "false"})
        made.sparkContext.setLogLevel("OFF")
        folder = tempfile.mkdtemp(prefix="weir-history-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # after the session's end
        ship(made, folder)
        atexit.register(made.stop)
        _running.append(made)
    return _running[0]


def mounted(folder: Path) -> str:
    """The folder's address in a file system that is not this machine's own, as Hadoop sees it."""
    conf = spark().sparkContext._jsc.hadoopConfiguration()
    name = f"weir{next(_mounts)}"
    conf.set(f"fs.viewfs.mounttable.{name}.link./mounted", folder.as_uri())
    return f"viewfs://{name}/mounted"


class OfHdfs(Places):
    """Tells of each file as HDFS of one that is written to: less than whoever opens it reads."""

    def __init__(self, spark: Any, listed_bytes: int) -> None:
        super().__init__(spark)
        self._listed_bytes = listed_bytes

    def files(self, address: str, refused: dict[str, str]) -> list[Found]:
        found = super().files(address, refused)
        return [msgspec.structs.replace(one, size=self._listed_bytes, modified=1) for one in found]

    def unclosed_bytes(self, address: str, listed_bytes: int) -> int:
        return Path(bare(address)).stat().st_size - listed_bytes


def run(
    logs: Path | str | list[Path],
    out: Path | str,
    *,
    killed: bool = False,
    moved: dict[Path, Path] | None = None,
    listed_bytes: int | None = None,
    most_queries: int = MOST_QUERIES,
) -> Outcome:
    """``killed``: just before the run would be remembered; ``moved``: as it begins to read.

    ``listed_bytes``: all that a listing tells of a file, as HDFS of one that is written to.
    ``most_queries``: of one application's name.
    """

    def say(what: str) -> None:
        if what.startswith("reading"):
            for path, place in (moved or {}).items():
                if path.exists():
                    path.rename(place)

    history = History(spark(), str(out), SETTINGS, say)
    if listed_bytes is not None:
        history._places = OfHdfs(spark(), listed_bytes)
    save = manifest.save
    job.MOST_QUERIES = most_queries  # type: ignore[misc]
    if killed:

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        manifest.save = die  # type: ignore[assignment]
    try:
        return history.run([str(one) for one in (logs if isinstance(logs, list) else [logs])])
    except KeyboardInterrupt as error:
        raise InterruptedError from error
    finally:
        manifest.save, job.MOST_QUERIES = save, MOST_QUERIES  # type: ignore[misc]


def counts(out: Path) -> dict[str, int]:
    """Rows of each table as Spark reads it, which must find the columns documented."""
    found: dict[str, int] = {}
    for one in TABLES:
        frame = spark().read.parquet(str(out / one.name))
        told = dict(frame.dtypes)
        assert told.pop("date", None) == ("date" if one.dated_by else None)
        assert told == {column.name: column.kind for column in one.columns}
        found[one.name] = frame.where("application = 'orders'").count()
    return found


def judgements(out: Path) -> list[dict[str, Any]]:
    frame = spark().read.parquet(str(out / "batches")).select("judgement")
    return [json.loads(row.judgement) for row in frame.collect()]


def applications(out: Path) -> dict[str, int]:
    """Judged events of each application."""
    frame = spark().read.parquet(str(out / "batches"))
    return {
        row["application"]: row["count"] for row in frame.groupBy("application").count().collect()
    }
