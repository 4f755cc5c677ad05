"""Random histories of a file source: what is told of it against what its model holds.

The model is Spark's ``FileStreamSource`` with its ``SeenFilesMap``: the oldest file first, a list
of unread ones kept until it is nearly used up, and files older than the newest one read by
``maxFileAge`` forgotten at each planning. Anything may happen while a directory is listed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_listener.files import FileBacklog, Waiting
from tests.driver.test_files import Options, Text, source_of

BASE: Final = "/in"
DISCARDED: Final = 0.2  # of a limit: fewer files than that are not kept for the next batch
DAYS: Final = 3  # partitions
AGES: Final = (1_000, 10**9)  # milliseconds; the longer one is never reached


@dataclass(frozen=True, order=True)
class File:
    modified: int
    path: str
    is_file = True

    def getModificationTime(self) -> int:
        return self.modified

    def getPath(self) -> str:
        return self.path


@dataclass(frozen=True)
class Folder:
    path: str
    is_file = False


@dataclass
class Spark:
    """A source: what it has seen, keeps for later, and logs."""

    files: dict[str, File]  # on the disk, shared by all runs
    log: list[list[File]]  # of the checkpoint, shared by all runs
    age: int
    seen: dict[str, File] = field(default_factory=dict)
    unread: list[File] | None = None
    purged: int = 0
    latest: int = 0

    def __post_init__(self) -> None:
        for batch in self.log:
            self._take(batch)
        self._purge()

    def _take(self, batch: list[File]) -> None:
        self.seen.update((file.path, file) for file in batch)
        self.latest = max([self.latest, *(file.modified for file in batch)])

    def _purge(self) -> None:
        self.purged = self.latest - self.age
        self.seen = {key: file for key, file in self.seen.items() if file.modified >= self.purged}

    def new(self) -> list[File]:
        """Files that it will read."""
        fresh = (f for f in self.files.values() if f.modified >= self.purged)
        return sorted(f for f in fresh if f.path not in self.seen)

    def plan(self, limit: int | None) -> list[File]:
        new = self.unread if self.unread is not None else self.new()
        batch = new if limit is None else new[:limit]
        rest = new[len(batch) :]
        self.unread = (
            rest if limit is not None and rest and len(rest) >= limit * DISCARDED else None
        )
        self._take(batch)
        self._purge()
        if batch:
            self.log.append(batch)
        return batch


@dataclass
class World:
    """A disk, the query that reads it, and its driver's side of Weir."""

    age: int
    cleans: bool
    files: dict[str, File] = field(default_factory=dict)
    log: list[list[File]] = field(default_factory=list)
    now: int = 10_000
    named: int = 0
    came: int = 0  # files that a source reads, since the run began, or waited then
    removed: bool = False
    unseen: bool = False  # of what no look had seen: nobody can tell that it is gone
    looked: set[str] = field(default_factory=set)  # what was there at the last look that told
    planned: tuple[int, int] | None = None  # the log's length before and after
    mid_look: list[list[Any]] = field(default_factory=list)
    #: Of each moment since the last look began, that look's own first: what waited, and what had
    #: been taken since the run began.
    moments: list[tuple[int, int]] = field(default_factory=list)
    look_ends: int = 0  # index into them
    taken: int = 0
    told: list[Waiting] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A run: a new driver, from the checkpoint."""
        spark = self.spark = Spark(self.files, self.log, self.age)
        self.state = FileBacklog(deletes=self.cleans)
        self.source = source_of(
            BASE,
            self,
            _Cleaning() if self.cleans else Options(),
            max_entries=10**6,
            purged=lambda: spark.purged,
            seen=lambda: spark.seen,
            unread=lambda: spark.unread,
            log=self.log,
        )
        self.listing: Any = None
        self.planned, self.taken, self.told, self.moments = None, 0, [], []
        self.look_ends, self.looked = 0, set()
        self.unseen = self.removed
        self.came = len(self.spark.new())

    # -- as Hadoop's file system ----------------------------------------------------------------

    def getUri(self) -> Any:
        return SimpleNamespace(getScheme=lambda: "file")

    def exists(self, path: str) -> bool:
        return path in self.files

    def globStatus(self, pattern: str, _: Any) -> list[Any] | None:
        deep = pattern.count("/")
        found: list[Any] = [f for f in self.files.values() if f.path.count("/") == deep]
        found += [Folder(p) for p in {f.path.rsplit("/", 1)[0] for f in self.files.values()}
                  if p.count("/") == deep]  # fmt: skip
        for step in self.mid_look.pop(0) if self.mid_look else []:
            self.do(step)
        return found or None

    # -- what happens ---------------------------------------------------------------------------

    def do(self, step: tuple[Any, ...]) -> None:
        name, *given_ = step
        getattr(self, name)(*given_)
        self.moments.append((len(self.spark.new()), self.taken))
        self.now += 1

    def come(self, count: int, day: int, older: int) -> None:
        for _ in range(count):
            self.named += 1
            folder = f"{BASE}/day={day}" if day else BASE
            file = File(self.now - older, f"{folder}/{self.named}")
            self.files[file.path] = file
            if file.modified >= self.spark.purged:
                self.came += 1

    def later(self, milliseconds: int) -> None:
        self.now += milliseconds

    def plan(self, limit: int | None) -> None:
        if self.planned is None:
            before = len(self.log)
            self.taken += len(self.spark.plan(limit))
            if len(self.log) > before:
                self.planned = before, len(self.log)

    def end(self) -> None:
        """A batch ends: its progress comes, and what is told beside it."""
        if self.planned is None:
            return
        first, last = self.planned
        self.planned = None
        self.state.ended(self.source.admitted(first - 1, last - 1))
        self.tell()
        if self.cleans:
            for file in self.log[first]:
                self.files.pop(file.path, None)

    def retire(self, count: int) -> None:
        """Retention: somebody removes what is older than some time, of which all was read."""
        ages = sorted(file.modified for file in self.files.values())[:count]
        old = [file for file in self.files.values() if ages and file.modified <= ages[-1]]
        if set(old) & set(self.spark.new()):
            return
        for file in old:
            del self.files[file.path]
            self.removed = True
            self.unseen = self.unseen or file.path not in self.looked

    def look(self, mid_look: list[list[Any]]) -> None:
        self.moments = [(len(self.spark.new()), self.taken)]
        self.mid_look, there = list(mid_look), set(self.files)
        self.listing = self.source.list_files(lambda: 0.0)
        self.mid_look = []
        self.look_ends = len(self.moments)
        self.looked = set() if self.listing is None else there & self.files.keys()

    def restart(self) -> None:
        self.start()

    def tell(self) -> Waiting:
        seen, unread = self.source.seen(), self.source.unread()
        self.state.listed(self.source.still_holds(self.listing))
        told = self.state.waiting(seen, unread)
        self._check(told)
        self.told.append(told)
        return told

    def _check(self, told: Waiting) -> None:
        now = len(self.spark.new())
        if told.backlog is not None:
            assert told.backlog <= max([now, *(count for count, _ in self.moments)])
        if told.bound == "exact" and not self.unseen:
            # What waited at some moment of the look, less what was taken since.
            of_look = self.moments[: max(1, self.look_ends)]
            left = [max(0, count - (self.taken - taken)) for count, taken in of_look]
            assert min(left) <= (told.backlog or 0) <= max(left)
        before = self.told[-1].arrived if self.told else None
        if before is not None:
            assert told.arrived is not None
            assert told.arrived >= before
        assert (told.arrived or 0) <= self.came


class _Cleaning(Options):
    def cleanSource(self) -> Text:
        return Text("DELETE")


LIMITS: Final = st.one_of(st.none(), st.integers(1, 8))
COME: Final = st.tuples(
    st.just("come"), st.integers(1, 12), st.integers(0, DAYS), st.sampled_from([0, 0, 0, 300, 900])
)
CHANGES: Final = st.one_of(
    COME,
    COME,
    st.tuples(st.just("plan"), LIMITS),
    st.tuples(st.just("plan"), LIMITS),
    st.tuples(st.just("retire"), st.integers(1, 12)),
    st.tuples(st.just("later"), st.sampled_from([1, 400, 1_200])),
)
STEPS: Final = st.one_of(
    CHANGES,
    CHANGES,
    st.tuples(st.just("end")),
    st.tuples(st.just("end")),
    st.tuples(st.just("look"), st.lists(st.lists(CHANGES, max_size=2), max_size=3)),
    st.tuples(st.just("tell")),
    st.sampled_from([("restart",), ("tell",), ("end",), ("end",)]),
)


@example(  # the first planning forgets one of the two that it takes
    steps=[
        ("come", 1, 0, 0),
        ("later", 1_200),
        ("come", 1, 0, 0),
        ("look", []),
        ("plan", None),
        ("end",),
    ],
    age=1_000,
    cleans=False,
)
@settings(max_examples=1000, deadline=None)
@given(steps=st.lists(STEPS, max_size=40), age=st.sampled_from(AGES), cleans=st.booleans())
def test_what_is_told_holds(steps: list[tuple[Any, ...]], age: int, cleans: bool) -> None:
    """No more waits than is told, exactly where it says so; what has arrived never goes back."""
    world = World(age, cleans)
    for step in steps:
        world.do(step)
    world.look([])
    told = world.tell()
    if told.bound == "exact" and not world.unseen:
        assert told.backlog == len(world.spark.new())
    too_old = any(f.modified < world.spark.purged for f in world.files.values())
    if not (cleans or world.removed or too_old):
        assert told.bound == "exact"
        assert told.arrived is not None
