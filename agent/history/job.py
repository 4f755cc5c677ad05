"""The job: log files → kept lines → judged rows → tables, on whatever cluster Spark runs on.

    files ─ plain: split by Spark at lines ──┐
          └ compressed: one task each ───────┴▶ extract ▶ blocks of lines, kept for later runs
    blocks of each application that has new ones, in order ▶ judge ▶ files of the tables

The first step does nearly all of the work and is spread over parts of files, so one large log keeps
every core busy. What it keeps is a fortieth; that is sorted by Spark and judged an application at
a time, as its queries share a cluster and are judged together. The workers make the tables' files;
the driver, which holds a few of them at a time, puts them in their places.

Only the reading is a plan of Spark SQL's: to plan, compile and commit one for every table took
longer than to judge what is in them.

Kept lines stay in the output folder. An application with new lines is judged from its first line
on, so that a table never depends on how many runs it took, and its part of every table is replaced.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent import __version__
from agent.core.names import label
from agent.core.policy import QueryPolicy
from agent.history import extract, manifest, tables
from agent.history.blocks import Told, lines_of, opened, packed
from agent.history.complaints import failures
from agent.history.files import NO_VALUE, File, Files, Unusable
from agent.history.findings import Findings, Gathering, Short, encode, gather
from agent.history.judge import Judge, in_order
from agent.history.logs import LogFile, Read, log_files, plan
from agent.history.manifest import FOLDER, LogInfo, Manifest, Settings
from agent.history.places import GONE, Named, NoSuchPlace, Places, not_to_be_read, within
from agent.replay import MOST_QUERIES
from agent.sources import spark_stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agent.history.extract import Kept
    from agent.history.rows import Row

LINES: Final = "lines"
FINDINGS: Final = "findings"
#: Codecs of Hadoop's that would take a log's ending for their own; none of them can read Spark's.
_NO_CODECS: Final = "org.apache.hadoop.io.compress.DeflateCodec"
#: Files put in their places side by side: most of that is waiting for a file system.
AT_ONCE: Final = 4
#: Logs of one application that may turn out bad, one after the other; then all of it is left out.
MOST_BAD: Final = 5


#: Of lines that tell of a query which came when there were so many of one application's name.
TOO_MANY: Final = "of queries beyond the first {:,} of one application's name: not judged"
#: Of a file of HDFS: so many bytes more than the listing, by which Spark reads.
UNCLOSED: Final = (
    "HDFS lists {:,} bytes of it only once it is closed, and it is too large to be read without: "
    "a run after that reads them; spark.eventLog.rolling.maxFileSize closes one earlier"
)


class Skipped(msgspec.Struct, frozen=True):
    """A file that could not be used, or not all of it."""

    file: str
    lines: int  # 0: nothing of it was read
    reason: str


class Failed(msgspec.Struct, frozen=True):
    """An application that could not be judged with this log; None: nobody knows by which."""

    application: str
    log: str | None
    reason: str


class Outcome(msgspec.Struct):
    """What a run did."""

    out: str
    files: int = 0
    bytes: int = 0
    known: int = 0  # files that were read before
    logs: int = 0
    applications: list[str] = []  # judged anew
    skipped: list[Skipped] = []
    doubled: list[tuple[str, str]] = []  # what tells the same once more, and what counts instead
    queries: dict[str, list[Short]] = {}  # that are known by now, of each application


class NothingToDo(ValueError):  # noqa: N818
    """No log at the places given; the message says where was looked."""


def session(master: str | None, extra: dict[str, str]) -> Any:
    """The Spark session: of the cluster that spark-submit says, or of ``master``."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("weir history")
    if master is not None:
        builder = builder.master(master)
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        # Of SQL there is one short plan: compiling it whole saves nothing that was seen.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        # An application of this name would else be in the next run's logs.
        "spark.eventLog.enabled": "false",
    }
    settings |= extra
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    context = spark.sparkContext
    context.setLogLevel("ERROR")
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # the one that has what this code needs
    return spark


def ship(spark: Any, folder: str) -> None:
    """Gives the workers this code; the folder must last as long as the session.

    What it needs beside itself must be there already (docs/history.md).
    """
    import agent
    import spark_listener

    bundle = Path(folder) / "weir.zip"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in (agent, spark_listener):
            root = Path(str(package.__file__)).parent
            for path in sorted(root.rglob("*.py")):
                packed.write(path, Path(root.name) / path.relative_to(root))
    spark.sparkContext.addPyFile(str(bundle))


class History:
    """One run over some logs into one folder."""

    def __init__(
        self, spark: Any, out: str, settings: Settings, say: Callable[[str], None]
    ) -> None:
        self._spark = spark
        self._places = Places(spark)
        self._out = self._places.whole(out)
        self._settings = settings
        self._say = say

    @property
    def out(self) -> str:
        """The folder in full."""
        return self._out

    def run(self, addresses: Iterable[str]) -> Outcome:
        """Reads what is new and judges whose it is.

        Raises NoSuchPlace, NothingToDo, NotOurs.
        """
        self._say("looking for logs")
        known = manifest.load(self._places, self._out)
        addresses = list(addresses)
        unread: dict[str, str] = {}
        found = [file for address in addresses for file in self._places.files(address, unread)]
        files = [file for file in log_files(found) if not within(file.path, self._out)]
        unread |= {file.path: said for file in files if (said := not_to_be_read(file.path))}
        files = [file for file in files if file.path not in unread]
        if not files and not known.files:
            why = "".join(f"; {path}: {said}" for path, said in islice(unread.items(), 1))
            raise NothingToDo(f"no event log at {', '.join(addresses)}{why}")
        chosen = plan(map(self._to_its_end, files), known.files)
        outcome = Outcome(self._out, known=len(files) - len(chosen.to_read) - len(chosen.refused))
        outcome.skipped = [
            Skipped(path, 0, reason) for path, reason in (*unread.items(), *chosen.refused)
        ]
        to_read = list(self._readable(chosen.to_read, outcome))
        outcome.doubled = list(chosen.doubled)
        now = Manifest(
            weir=__version__,
            run=known.run + 1,
            settings=self._settings,
            files={key: read for key, read in known.files.items() if key in chosen.valid},
            logs={log: msgspec.structs.replace(info) for log, info in known.logs.items()},
            queries=dict(known.queries),
            bad={} if known.weir != __version__ else dict(known.bad),
        )
        lines = f"{self._out}/{FOLDER}/{LINES}"
        self._forget_unfinished(lines, known)
        read = self._read(to_read, f"{lines}/run={now.run:06d}", now, outcome)
        changed = {file.log for file in read} | (known.bad.keys() - now.bad.keys())
        now.bad = {log: reason for log, reason in now.bad.items() if log not in changed}
        anew = known.settings != self._settings
        if anew:
            now.bad = {}
        touched = {info.application for log, info in now.logs.items() if anew or log in changed}
        # A log may say its application's name later than its first lines.
        touched |= {known.logs[log].application for log in changed if log in known.logs}
        outcome.applications = sorted(touched)
        if touched:
            outcome.skipped += self._judge(now, touched)
        outcome.skipped += [Skipped(log, 0, reason) for log, reason in now.bad.items()]
        outcome.doubled += doubled(now).items()
        if touched or read:
            manifest.save(self._places, self._out, now)
        outcome.logs, outcome.queries = len(now.logs), now.queries
        return outcome

    def findings(self, outcome: Outcome) -> Findings:
        """What people read of the folder, after a run. Raises NoSuchPlace."""
        return gather(self._places, outcome.queries, self._findings)

    def _findings(self, application: str) -> str:
        return f"{self._out}/{FOLDER}/{FINDINGS}/{self._escaped(application)}.json"

    # -- reading ----------------------------------------------------------------------------

    def _to_its_end(self, file: LogFile) -> LogFile:
        """A file that is written to, with what HDFS shows of it to those who open it."""
        if file.in_progress:
            with suppress(NoSuchPlace):  # gone meanwhile, or another's, which is said later
                more = self._places.unclosed_bytes(file.path, file.size)
                return msgspec.structs.replace(file, size=file.size + more, unlisted=more)
        return file

    def _readable(self, files: Iterable[LogFile], outcome: Outcome) -> Iterator[LogFile]:
        """Those that this user may read; says what they hold that is not to be seen yet."""
        for file in files:
            said = self._places.not_to_be_read(file.path)
            if said:
                outcome.skipped.append(Skipped(file.path, 0, said))
                continue
            if file.unlisted and not file.whole:
                outcome.skipped.append(Skipped(file.path, 0, UNCLOSED.format(file.unlisted)))
            yield file

    def _read(
        self, files: list[LogFile], lines: str, now: Manifest, outcome: Outcome
    ) -> list[LogFile]:
        """Reads files, and those that are there to the end; gives these."""
        while files:
            told = failed = None
            try:
                told = self._extract(files, lines, now.run, outcome)
            except failures() as error:
                failed = error
            gone = {file.path for file in files if not self._places.is_there(file.path)}
            if failed is not None and not gone:
                raise failed
            outcome.skipped += [Skipped(path, 0, GONE) for path in gone]
            files = [file for file in files if file.path not in gone]
            if told is not None:
                self._note(told, files, now, outcome)
                break
        return files

    def _extract(
        self, files: list[LogFile], lines: str, run: int, outcome: Outcome
    ) -> dict[tuple[str, int], Told]:
        """The lines of new files, and what they say of their applications."""
        outcome.files, outcome.bytes = len(files), sum(file.size for file in files)
        plural = "s" if outcome.files > 1 else ""
        self._say(f"reading {outcome.files} file{plural}, {outcome.bytes / 1e6:,.0f} MB")
        plain = [file for file in files if not file.whole and file.size]
        packed = [file for file in files if file.whole and file.size]
        told = self._spark.sparkContext.accumulator({}, _Merged())
        parts = []
        if plain:
            parts.append(self._plain(plain, run, told))
        if packed:
            parts.append(self._packed(packed, run, told))
        if parts:
            self._places.delete(lines)
            self._spark.sparkContext.union(parts).saveAsTextFile(lines)
        return dict(told.value)

    @staticmethod
    def _note(
        told: dict[tuple[str, int], Told], files: list[LogFile], now: Manifest, outcome: Outcome
    ) -> None:
        """Remembers what was read, which counts from here on."""
        if told:
            _learn(told, files, now, outcome)
        events: dict[str, int] = defaultdict(int)
        for (key, _), one in told.items():
            events[key] += one.events
        for file in files:
            now.files[file.key] = Read(now.run, file.size, file.modified, events[file.key])

    def _plain(self, files: list[LogFile], run: int, told: Any) -> Any:
        from pyspark.sql import functions as f

        names = Named(files)
        frame = (
            self._spark.read.option("lineSep", "\n")
            .option("io.compression.codecs", _NO_CODECS)
            .option("mapreduce.input.linerecordreader.line.maxlength", extract.MOST_LINE_BYTES)
            # One is renamed or cleaned away while all others are read; see _read.
            .option("ignoreMissingFiles", "true")
            .text([_no_glob(file.path) for file in files])
        )
        value = f.col("value")
        passed = f.lit(False)
        for beginning in extract.NOT_WANTED:
            passed = passed | value.startswith(beginning)
        # As one piece of bytes each, lines go to Python as they are. Addresses hold no tab.
        place = (f.col("_metadata.file_path"), f.col("_metadata.file_block_start").cast("string"))
        texts = frame.where(~(passed & value.endswith("}"))).select(
            f.concat_ws("\t", *place, _shortened(value)).cast("binary").alias("value")
        )
        return _lines(self._spark, texts).mapPartitions(_Plain(names, run, told))

    def _packed(self, files: list[LogFile], run: int, told: Any) -> Any:
        names = Named(files)
        paths = ",".join(_no_comma(_no_glob(file.path)) for file in files)
        context = self._spark.sparkContext
        most = max(context.defaultParallelism, min(len(files), 10_000))
        return context.binaryFiles(paths, most).flatMap(_Packed(names, run, told))

    def _forget_unfinished(self, lines: str, known: Manifest) -> None:
        """Deletes what runs wrote that did not come to their end."""
        for folder in self._places.folders(lines):
            number = folder.removeprefix("run=")
            if number.isdecimal() and int(number) > known.run:
                self._places.delete(f"{lines}/{folder}")

    # -- judging ----------------------------------------------------------------------------

    def _judge(self, now: Manifest, touched: set[str]) -> list[Skipped]:
        """Judges applications; a log that breaks it is left out, and its application done anew.

        Gives what was left out of those that are judged.
        """
        self._say(f"judging {len(touched)} application{'s' if len(touched) > 1 else ''}")
        broken: dict[str, int] = defaultdict(int)
        left, skipped = touched, []
        while left:
            said = self._judge_once(now, left)
            skipped += [one for one in said if isinstance(one, Skipped)]
            failed = [one for one in said if isinstance(one, Failed)]
            for one in failed:
                broken[one.application] += 1
                whole = one.log is None or broken[one.application] > MOST_BAD
                of_it = (log for log, i in now.logs.items() if i.application == one.application)
                now.bad |= dict.fromkeys(of_it if whole else [one.log or ""], one.reason)
            left = {one.application for one in failed}
        return skipped

    def _judge_once(self, now: Manifest, touched: set[str]) -> list[Failed | Skipped]:
        from pyspark import StorageLevel

        context = self._spark.sparkContext
        order = _order(now, touched)
        of_order = {key: one for key, one in now.files.items() if _log_of(key) in order}
        runs = sorted({one.run for one in of_order.values() if one.size})
        if not runs:
            self._write(None, now, touched, set())
            return []
        base = _no_comma(_no_glob(f"{self._out}/{FOLDER}/{LINES}"))
        paths = ",".join(f"{base}/run={run:06d}" for run in runs)
        kept = context.textFile(paths, 1, use_unicode=False)
        cores = context.defaultParallelism
        count = max(1, min(len(touched), 4 * cores))
        sizes: dict[str, int] = defaultdict(int)
        for key, one in of_order.items():
            sizes[order[_log_of(key)].application] += one.size
        chosen = _Chosen(
            order, _spread(sizes, count), {key: one.run for key, one in of_order.items()}
        )
        settings = QueryPolicy(
            target_seconds=self._settings.target_seconds,
            deadline_seconds=self._settings.deadline_seconds,
        )
        judged = (
            kept.coalesce(max(1, min(kept.getNumPartitions(), 4 * cores)))
            .mapPartitions(chosen)
            .repartitionAndSortWithinPartitions(count, _partition)
            .mapPartitions(_Judging(settings, MOST_QUERIES))
            .persist(StorageLevel.DISK_ONLY)
        )
        try:
            # All at once; what follows takes one after the other.
            told = judged.filter(_is_said).collect()
            said: list[Failed | Skipped] = [one for _, one in told]
            failed = {application for application, one in told if isinstance(one, Failed)}
            self._say("writing the tables")
            self._write(judged, now, touched, failed)
        finally:
            judged.unpersist()
        return said

    def _write(self, judged: Any, now: Manifest, touched: set[str], failed: set[str]) -> None:
        """Replaces the touched applications' part of every table, and what is said of them.

        Of those that have failed nothing is written.
        """
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="write") as pool:
            gone = [
                f"{self._out}/{table.name}/application={self._escaped(name)}"
                for name in _labels(now, touched)
                for table in tables.TABLES
            ]
            list(pool.map(self._places.delete, gone))
            for application in touched:
                now.queries.pop(application, None)
            if judged is None:
                return
            # In groups, so that only so many are in memory.
            files = enumerate(judged.filter(_Good(failed)).toLocalIterator())
            while some := list(islice(files, 4 * AT_ONCE)):
                list(pool.map(partial(self._put, now.run), some))
                said = [one for _, (_, one) in some if isinstance(one, tuple)]
                now.queries |= {one[0]: one[1] for one in said}

    def _put(
        self, run: int, numbered: tuple[int, tuple[str, File | tuple[str, list[Short], bytes]]]
    ) -> None:
        number, (_, one) = numbered
        if isinstance(one, tuple):
            application, _, content = one
            self._places.replace(self._findings(application), content)
            return
        place = f"{self._out}/{one.table}/application={self._escaped(one.application)}"
        if one.date is not None:
            place += f"/date={one.date}"
        name = f"part-{run:06d}-{number:06d}.zstd.parquet"
        self._places.write(f"{place}/{name}", one.content)

    def _escaped(self, name: str) -> str:
        """As Spark writes a value into a folder's name."""
        jvm = self._spark.sparkContext._jvm  # noqa: SLF001 - no other way to Spark's Java
        escape = jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.escapePathName
        return str(escape(name)) if name else NO_VALUE


def _learn(
    told: dict[tuple[str, int], Told], files: list[LogFile], now: Manifest, outcome: Outcome
) -> None:
    """Who wrote each log, when, and which lines could not be used."""
    pieces: dict[str, list[Told]] = defaultdict(list)
    for (key, _), one in sorted(told.items(), key=lambda item: item[0]):
        pieces[key].append(one)
    for file in files:
        own = pieces[file.key]
        bad = [one for one in own if one.bad_lines]
        if bad and not any(one.events for one in own):
            outcome.skipped.append(Skipped(file.path, 0, "not a Spark event log"))
            continue
        if bad:
            count = sum(one.bad_lines for one in bad)
            outcome.skipped.append(Skipped(file.path, count, bad[0].reason))
        short = file.log.rpartition("/")[2].removeprefix("eventlog_v2_")
        info = now.logs.get(file.log)
        if info is None:
            info = now.logs[file.log] = LogInfo(label(short), short)
        for one in own:
            if one.name:
                info.application, info.application_id = label(one.name), one.application_id
                info.start = one.start
            if one.begin is not None and one.end is not None:
                info.begin = min(one.begin, info.begin or one.begin)
                info.end = max(one.end, info.end)


def _shortened(value: Any) -> Any:
    """A task's line without its accumulables and the memory of its executor: most of it.

    A quote stands bare before a name's colon only where the name is a key.
    """
    from pyspark.sql import functions as f

    first, last = '"Accumulables":', '"Task Metrics":'
    head, tail = f.substring_index(value, first, 1), f.substring_index(value, last, -1)
    # Where one is not there, or they stand in another order, the parts are longer than the whole.
    fits = f.octet_length(head) + f.octet_length(tail) < f.octet_length(value)
    task = value.startswith(spark_stages.TASK_END.decode()) & fits
    return f.when(task, f.concat(head, f.lit(f"{first}[]}},{last}"), tail)).otherwise(value)


def _lines(spark: Any, frame: Any) -> Any:
    """A frame of one column of bytes, as an RDD of them."""
    from pyspark.rdd import RDD
    from pyspark.serializers import NoOpSerializer

    encoder = spark._jvm.org.apache.spark.sql.Encoders.BINARY()  # noqa: SLF001
    lines = getattr(frame._jdf, "as")(encoder)  # noqa: SLF001
    return RDD(lines.toJavaRDD(), spark.sparkContext, NoOpSerializer())


class _Merged:
    """How Spark adds up what pieces say: by piece, so that none counts twice. Its names."""

    def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:  # noqa: ARG002
        return {}

    def addInPlace(self, value1: dict[Any, Any], value2: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802
        value1.update(value2)
        return value1


class _Plain:
    """Pieces of plain files to blocks of kept lines; what Spark sends to its workers."""

    def __init__(self, files: Named, run: int, told: Any) -> None:
        self._files = files
        self._run = run
        self._told = told

    def __call__(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        parts = (line.split(b"\t", 2) for line in lines)
        for (path, begin), piece in groupby(parts, key=itemgetter(0, 1)):
            file = self._files.of_url(path.decode())
            block = int(begin)
            texts = map(itemgetter(2), piece)
            kept = extract.of_lines(texts, block, in_progress=file.in_progress)
            yield from packed(file, self._run, block, kept, _noted(self._told, file, block))


class _Packed:
    """Files that are read whole to blocks of kept lines."""

    def __init__(self, files: Named, run: int, told: Any) -> None:
        self._files = files
        self._run = run
        self._told = told

    def __call__(self, named: tuple[str, bytes]) -> Iterator[bytes]:
        file = self._files.of(named[0])
        if file is None:
            return  # a glob for a comma found more
        name = file.path.rpartition("/")[2]
        kept = (
            extract.of_compressed(named[1], name, in_progress=file.in_progress)
            if file.codec
            else extract.of_whole(named[1], in_progress=file.in_progress)
        )
        yield from packed(file, self._run, 0, kept, _noted(self._told, file, 0))


def _noted(told: Any, file: LogFile, block: int) -> Callable[[Told], None]:
    return lambda one: told.add({(file.key, block): one})


class _Chosen:
    """Of blocks as they were kept those that count, with their place among all."""

    def __init__(
        self, order: dict[str, _Place], partitions: dict[str, int], runs: dict[str, int]
    ) -> None:
        self._order = order
        self._partitions = partitions
        self._runs = runs

    def __call__(self, texts: Iterable[bytes]) -> Iterator[tuple[tuple[Any, ...], bytes]]:
        for text in texts:
            head, lines = opened(text)
            if self._runs.get(head.file) != head.run:
                continue  # read anew since
            place = self._order[head.log]
            key = (
                self._partitions[place.application],
                place.application,
                place.cluster,
                place.alone,
                head.log,
                place.end,
                head.part,
                head.block,
                head.number,
            )
            yield key, lines


def _partition(key: tuple[Any, ...]) -> int:
    return int(key[0])


class _Judging:
    """Sorted blocks of applications to files of all tables, and what is said of the queries."""

    def __init__(self, settings: QueryPolicy, most_queries: int = MOST_QUERIES) -> None:
        self._settings = settings
        self._most_queries = most_queries

    def __call__(
        self, blocks: Iterable[tuple[tuple[Any, ...], bytes]]
    ) -> Iterator[tuple[str, File | tuple[str, list[Short], bytes] | Skipped | Failed]]:
        """Each with its application, under which it is written only if nothing of it failed."""
        for application, of_application in groupby(blocks, key=lambda block: str(block[0][1])):
            for one in self._whatever(application, of_application):
                yield application, one

    def _whatever(
        self, application: str, blocks: Iterable[tuple[tuple[Any, ...], bytes]]
    ) -> Iterator[File | tuple[str, list[Short], bytes] | Skipped | Failed]:
        try:
            yield from self._application(application, blocks)
        except Unusable as error:
            yield Failed(application, error.log, error.reason)
        except Exception as error:  # noqa: BLE001 - one application may not end all the others
            yield Failed(application, None, f"{type(error).__name__}: {error}"[:300])

    def _application(
        self, application: str, blocks: Iterable[tuple[tuple[Any, ...], bytes]]
    ) -> Iterator[File | tuple[str, list[Short], bytes] | Skipped]:
        files, gathering = Files(), Gathering()
        judge = Judge(self._settings, self._most_queries)
        for row in self._judged(judge, blocks):
            gathering.add(row)
            yield from files.add(row)
        yield from files.end()
        shorts, full = gathering.end()
        yield application, shorts, encode(full)
        for log, lines in judge.left_out.items():
            yield Skipped(log, lines, TOO_MANY.format(self._most_queries))

    @staticmethod
    def _judged(judge: Judge, blocks: Iterable[tuple[tuple[Any, ...], bytes]]) -> Iterator[Row]:
        for (_, alone), cluster in groupby(blocks, key=lambda block: block[0][2:4]):
            told = _told(judge, cluster)
            if not alone:  # held in memory: what lives at once under one name is little
                logs = [list(log) for _, log in groupby(told, key=itemgetter(0))]
                told = (item for item in in_order(logs))
            for log, kept in told:
                try:
                    rows = list(judge.hear(log, kept))
                except Exception as error:
                    raise _unusable(log, error) from error
                yield from rows
        yield from judge.end()


def _told(
    judge: Judge, blocks: Iterable[tuple[tuple[Any, ...], bytes]]
) -> Iterator[tuple[str, Kept]]:
    """The lines in blocks, each with its log, of which the judge is told how long it lasts."""
    for key, lines in blocks:
        log, end = key[4:6]
        judge.lasts(log, end)
        for one in _lines_of(log, lines):
            yield log, one


def _lines_of(log: str, block: bytes) -> list[Kept]:
    try:
        return lines_of(block)
    except Exception as error:
        raise _unusable(log, error) from error


def _unusable(log: str, error: Exception) -> Unusable:
    return Unusable(log, f"cannot be judged: {type(error).__name__}: {error}"[:300])


def _is_said(one: tuple[str, Any]) -> bool:
    return isinstance(one[1], Failed | Skipped)


class _Good:
    """What is written: all of the applications of which nothing failed."""

    def __init__(self, failed: set[str]) -> None:
        self._failed = failed

    def __call__(self, one: tuple[str, Any]) -> bool:
        return one[0] not in self._failed and not _is_said(one)


class _Place(msgspec.Struct, frozen=True):
    """Where a log stands among those judged."""

    application: str
    cluster: int
    alone: bool  # in its cluster
    end: float  # of its last line; epoch seconds


def _log_of(key: str) -> str:
    """The log of a file's key."""
    return key.rpartition("#")[0]


def _spread(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """A partition for each application, the largest first, each to where least is yet."""
    loads = [(0, partition) for partition in range(count)]
    chosen = {}
    for application, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        load, partition = heappop(loads)
        chosen[application] = partition
        heappush(loads, (load + size, partition))
    return chosen


def _order(now: Manifest, touched: set[str]) -> dict[str, _Place]:
    """Each log's application, its cluster there, and whether it is alone in it.

    Logs of one name that overlap in time are one cluster; clusters are numbered by their begin.
    """
    left_out = now.bad.keys() | doubled(now).keys()
    by_application: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for log, info in now.logs.items():
        if info.application in touched and log not in left_out:
            by_application[info.application].append((info.begin, info.end, log))
    places: dict[str, _Place] = {}
    for application, logs in by_application.items():
        clusters: list[list[str]] = []
        until = float("-inf")
        for begin, end, log in sorted(logs):
            if begin > until:
                clusters.append([])
            clusters[-1].append(log)
            until = max(until, end)
        for number, members in enumerate(clusters):
            for log in members:
                alone = len(members) == 1
                places[log] = _Place(application, number, alone, now.logs[log].end)
    return places


def doubled(now: Manifest) -> dict[str, str]:
    """Logs that tell of a start of an application which another one tells of, too, and that one.

    The one that holds most counts.
    """
    events: dict[str, int] = defaultdict(int)
    for key, one in now.files.items():
        events[_log_of(key)] += one.events
    starts: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for log, info in now.logs.items():
        if info.start and log not in now.bad:
            starts[info.application, info.application_id, info.start].append(log)
    found: dict[str, str] = {}
    for logs in starts.values():
        counted, *others = sorted(logs, key=lambda log: (-events[log], log))
        found |= dict.fromkeys(others, counted)
    return found


def _labels(now: Manifest, touched: set[str]) -> set[str]:
    """Under which names the tables may hold what these applications' logs told.

    A second one that lives at the same time has its id appended to its name.
    """
    names = set(touched)
    others = {info.application for info in now.logs.values()} - touched
    for info in now.logs.values():
        if info.application in touched:
            names.add(label(f"{info.application}-{info.application_id}"))
    return names - others


def _no_glob(path: str) -> str:
    """A path as Hadoop reads it without taking any of its characters for a pattern."""
    return "".join("\\" + mark if mark in "{}[]*?\\" else mark for mark in path)


def _no_comma(path: str) -> str:
    """No path with a comma gets through Hadoop's list of paths; a glob for it does."""
    return path.replace(",", "?")
