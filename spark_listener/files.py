"""What waits in a file source's directory, which progress does not tell.

Spark's own list of unread files is a cache: new arrivals are missing from it until it is drained.
So the directory is listed by a thread of its own, at a bounded rate, and what the source has seen
is taken off. Every figure is a lower bound or better; the largest holds.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from spark_listener.handles import OBJECT, Handles
from spark_listener.wire import format_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_listener.complaints import Complaints

#: Of the time at most this share goes into listing directories, however many there are. On this
#: machine's own disk that is a core's time, which the job's tasks may want: half of the 2 % that
#: Weir may cost a batch.
LOCAL_SHARE: Final = 0.01
#: Elsewhere a listing mostly waits for a network: what takes a second is looked at every 20.
REMOTE_SHARE: Final = 0.05
#: What listings took keeps others waiting so long at most: storage that did not answer for ten
#: minutes, or a query that starts over and over, would else leave all of a driver's directories
#: unseen for hours. A listing of less than 6 s here, as of 100,000 entries, or of 30 s elsewhere
#: keeps the share.
MOST_REST_SECONDS: Final = 600.0
#: Names that Spark does not pass over, but for those with this end, which are being copied still:
#: its ``HadoopFSUtils.shouldFilterOutPathName``.
_VISIBLE: Final = "{[^._]*,_*=*,_metadata*,_common_metadata*}"
_COPYING: Final = "._COPYING_"
_PARTITION: Final = "[^.]*=*"
_LONGEST_WAIT_SECONDS: Final = 60.0
#: Of a run's batches, those that may have been planned when the source was first looked at: the one
#: that ended first after it, and the next, which Spark may have planned before we heard of that.
_PLANNED_BEFORE: Final = 2
_O: Final = "Ljava/lang/Object;"
_STREAM: Final = "java.util.stream.Stream"
_STATUS: Final = "org.apache.hadoop.fs.FileStatus"
_GLOB_CHARACTERS: Final = frozenset("*?[{")


@dataclass(frozen=True)
class Listing:
    """A directory as listed: files in it, and files the source had seen right after, and before."""

    files: int
    seen: int
    epoch_seconds: float
    exact: bool
    seen_before: int | None = None  # a walk of many folders takes its time; None: as many
    oldest_gone: bool = False  # that of some listing before, which the source had not forgotten
    oldest_milliseconds: int | None = None  # when the first of them was modified; None: none is

    @property
    def removed(self) -> bool:
        """Whether somebody removes files that were read, fewer than come or more."""
        fewer = self.files < (self.seen if self.seen_before is None else self.seen_before)
        return fewer or self.oldest_gone


@dataclass(frozen=True)
class Waiting:
    """What a file source has before it."""

    backlog: int | None
    arrived: int | None
    observed_time: str | None
    bound: str  # exact, lower


@dataclass
class _Taken:
    """Files that a source took since it knew ``known``; that it forgets old ones takes none off."""

    known: int
    files: int = 0

    def until(self, known: int) -> int:
        """So many by now, when it knows ``known``."""
        self.files += max(0, known - self.known)
        self.known = known
        return self.files


@dataclass
class FileBacklog:
    """Keeps the best known lower bound between listings; arrivals never decrease."""

    deletes: bool = False  # the source removes files it has read, so a listing misses some
    _ended: int = 0  # batches
    _admitted: int = 0  # by those planned since the first look
    _arrived: int | None = None  # until what waits was looked at
    _listing: Listing | None = None
    _removed: bool = False  # somebody else removes files that were read
    _since_first: _Taken | None = None  # since the first look or listing
    _since_listing: _Taken | None = None

    def listed(self, listing: Listing | None) -> None:
        """Takes the newest listing; None: what the directory holds cannot be told by now."""
        if listing is self._listing:
            return
        self._listing = listing
        self._removed = self._removed or (listing is not None and listing.removed)
        # From when it was made: the source may have gone on, and forgotten files, before this look.
        self._since_listing = None if listing is None else _Taken(listing.seen)
        if self._since_first is None and listing is not None:
            self._since_first = _Taken(listing.seen)

    def ended(self, admitted: int | None) -> None:
        """Takes in a batch that has ended, and its files; None where nobody could say."""
        self._ended += 1
        if self._ended > _PLANNED_BEFORE:
            self._admitted += admitted or 0

    def waiting(self, seen: int, unread: int | None) -> Waiting:
        """From the files that the source has seen by now and its own list of unread ones."""
        if self._since_first is None:
            self._since_first = _Taken(seen)
        # A source with more history than `maxFileAge` forgets files in the planning that takes
        # others, so that what it has seen hardly grows: what batches admitted tells then.
        taken = max(self._since_first.until(seen), self._admitted)
        listing = self._listing
        listed: int | None = None
        if listing is not None and self._since_listing is not None:
            listed = listing.files - listing.seen - self._since_listing.until(seen)
            # Where files that were read go, by the source or by somebody else, no more files than
            # were read do not tell that nothing waits.
            gone = self.deletes or self._removed
            listed = None if gone and listed <= 0 else max(0, listed)
        known = [count for count in (unread, listed) if count is not None]
        if not known:
            if listing is not None or self._arrived is not None:
                self._arrived = max(self._arrived or 0, taken)  # it has arrived, whatever waits
            return Waiting(None, self._arrived, None, "lower")
        backlog = max(known)
        self._arrived = max(self._arrived or 0, taken + backlog)
        if listing is None or listed != backlog:
            return Waiting(backlog, self._arrived, None, "lower")
        whole = listing.files >= listing.seen  # what came while folders were walked is missing
        exact = listing.exact and whole and not (self.deletes or self._removed)
        moment = format_time(listing.epoch_seconds)
        return Waiting(backlog, self._arrived, moment, "exact" if exact else "lower")


class FilePrograms:
    """What is asked of each file source all the time, each in one exchange with the JVM.

    Made once an application, of the first source that comes; may raise what py4j raises.
    """

    def __init__(self, gateway: Any, source: Any) -> None:
        jvm = gateway.jvm
        h = self._handles = Handles(gateway)
        self.path: Any = jvm.org.apache.hadoop.fs.Path
        self._comparator = jvm.java.util.Comparator
        java_class = source.getClass()
        self.fields = {
            name: _field(java_class, name)
            for name in ("unreadFiles", "metadataLog", "fs", "qualifiedBasePath", "sourceOptions")
        }
        self.purged = _field(source.seenFiles().getClass(), "lastPurgeTimestamp")
        self.unread = h.function(self._unread(self.fields["unreadFiles"]))
        self._of_batch = self._admitted(self.fields["metadataLog"].get(source))
        self.oldest = h.function(self._oldest())
        self.files = h.function(self._files())
        self.whole = h.as_interface("org.apache.hadoop.fs.PathFilter", self._whole())

    def admitted(self, log: Any) -> Any:
        """``(first, last)``: files in the one batch that the log holds between these."""
        return self._handles.function(self._of_batch.bindTo(log))

    def _unread(self, field: Any) -> Any:
        """``(source)``: how many files it kept for later batches; null where it kept no list."""
        h = self._handles
        size = h.loose(h.chained(field.getType(), "size"))
        return h.piped(h.loose(h.field(field)), h.unless_null(size))

    def _admitted(self, log: Any) -> Any:
        """``(log, first, last)``; null where the log holds not just one batch between these."""
        h = self._handles
        # Scala's Option[Long]: a boxed Long, which py4j alone cannot make.
        some = h.method(h.java_class("scala.Option"), "apply", OBJECT)
        boxed = h.loose(h.methods.identity(h.type("()J").returnType()))
        option = h.loose(h.piped(boxed, some))
        get = h.loose(h.method_of(log, "get", "scala.Option", "scala.Option"))
        batches = h.methods.collectArguments(h.methods.collectArguments(get, 2, option), 1, option)
        files = h.piped(h.place(0), h.chained(h.java_class("scala.Tuple2"), "_2"))
        length = h.static("java.lang.reflect.Array", "getLength", f"({_O})I")
        one = h.static("java.util.Objects", "equals", f"({_O}{_O})Z")
        is_one = h.piped(h.loose(length), h.given(one, 1, 1))
        nothing = h.methods.dropArguments(
            h.methods.constant(h.java_class(OBJECT), None), 0, is_one.type().parameterList()
        )
        return h.piped(batches, h.either(is_one, h.loose(h.piped(files, length)), nothing))

    def _oldest(self) -> Any:
        """``(entries of a directory)``: the one that was modified first; null where none is."""
        h = self._handles
        each, order = "java.util.function.ToLongFunction", "java.util.Comparator"
        modified = h.chained(h.java_class(_STATUS), "getModificationTime").asType(
            h.type(f"({_O})J")
        )
        by_time = self._comparator.comparingLong(h.as_interface(each, modified))
        least = h.virtual(_STREAM, "min", f"(L{_path(order)};)Ljava/util/Optional;")
        known = h.virtual("java.util.Optional", "orElse", f"({_O}){_O}")
        first = h.piped(self._streamed(), h.given(least, 1, by_time))
        return h.piped(first, h.given(known, 1, None))

    def _files(self) -> Any:
        """``(entries of a directory)``: those that are files."""
        h = self._handles
        which = "java.util.function.Predicate"
        is_file = h.chained(h.java_class(_STATUS), "isFile").asType(h.type(f"({_O})Z"))
        kept = h.virtual(_STREAM, "filter", f"(L{_path(which)};)L{_path(_STREAM)};")
        of_all = h.piped(self._streamed(), h.given(kept, 1, h.as_interface(which, is_file)))
        return h.piped(of_all, h.virtual(_STREAM, "toArray", f"()[{_O}"))

    def _whole(self) -> Any:
        """``(path)``: whether it is not one that is being copied still."""
        h = self._handles
        ends = h.virtual("java.lang.String", "endsWith", "(Ljava/lang/String;)Z")
        name = h.chained(h.java_class("org.apache.hadoop.fs.Path"), "getName")
        copying = h.piped(name, h.given(ends, 1, _COPYING))
        equal = h.static("java.util.Objects", "equals", f"({_O}{_O})Z")
        return h.piped(h.loose(copying), h.given(equal, 1, False))

    def _streamed(self) -> Any:
        return self._handles.static("java.util.Arrays", "stream", f"([{_O})L{_path(_STREAM)};")


class FileSource:
    """Reads one JVM ``FileStreamSource`` by reflection; every method may raise what py4j raises."""

    def __init__(self, gateway: Any, source: Any, programs: FilePrograms, max_entries: int) -> None:
        self._max_entries = max_entries
        self._gateway = gateway
        self._source = source
        self._programs = programs
        held = {name: one.get(source) for name, one in programs.fields.items()}
        self._seen = source.seenFiles()
        self._log = held["metadataLog"]
        self._admitted = programs.admitted(self._log)
        self._file_system = held["fs"]
        self._base = str(held["qualifiedBasePath"].toString())
        local = str(self._file_system.getUri().getScheme()) == "file"
        self.share = LOCAL_SHARE if local else REMOTE_SHARE
        options = held["sourceOptions"]
        given = options.optionMapWithoutPath()
        pattern = given.get("pathglobfilter")
        glob_filter = gateway.jvm.org.apache.hadoop.fs.GlobFilter
        self._selects = pattern.isDefined()
        visible = glob_filter(_VISIBLE, programs.whole)
        self._read = glob_filter(str(pattern.get()), visible) if self._selects else visible
        recursive = given.get("recursivefilelookup")
        self._recursive = recursive.isDefined() and str(recursive.get()).lower() == "true"
        self.deletes = str(options.cleanSource().toString()).upper() != "OFF"
        self._by_name_only = bool(options.fileNameOnly())
        self._oldest: Any = None  # of the files counted in the last look
        self._oldest_gone = False  # at any look: not every listing is taken

    def seen(self) -> int:
        """Files that the source knows; those of the batch being planned are among them."""
        return int(self._seen.size())

    def unread(self) -> int | None:
        """Files listed by Spark and left for later batches; None says nothing at all."""
        kept = self._programs.unread.apply(self._source)
        return None if kept is None else int(kept)

    def entries(self) -> int:
        """Files that Spark knows to be there."""
        return self.seen() + (self.unread() or 0)

    def admitted(self, start: int | None, end: int) -> int:
        """Files in the batch that took the source's log from ``start`` (exclusive) to ``end``.

        Reads the batch's entry of that log, as Spark did when it ran the batch.
        """
        first = 0 if start is None else start + 1
        if end < first:
            return 0
        if end == first:
            files = self._admitted.apply(first, end)
            if files is not None:
                return int(files)
        ends = self._gateway.new_array(self._gateway.jvm.long, 2)
        ends[0], ends[1] = first, end
        boxed = self._gateway.jvm.scala.Predef.wrapLongArray(ends)
        batches = self._log.get(boxed.headOption(), boxed.lastOption())
        return sum(len(batch._2()) for batch in batches)

    def list_files(self, clock: Callable[[], float]) -> Listing | None:
        """Lists the directory; None where what it holds cannot be told from a listing."""
        metadata = self._source.sourceHasMetadata()
        if metadata.isDefined() and bool(metadata.get()):
            return None  # the output of a Spark sink: its log says which files count
        last = self._oldest
        # The time before which files are too old only rises: one that is stays it.
        if self._past_age(last) and self._is_there(last):
            return None
        self._oldest = None
        moment, before = clock(), self.seen()
        counted = self._count()
        if counted is None:
            return None
        files, all_of_them = counted
        seen = self.seen()
        # Spark may have forgotten some of those counted while folders were walked.
        if self._past_age(self._oldest):
            return None
        if last is not None and not self._past_age(last) and not self._is_there(last):
            self._oldest_gone = True
        exact = all_of_them and not self.deletes
        oldest = self._oldest
        return Listing(
            files,
            seen,
            moment,
            exact,
            seen_before=before,
            oldest_gone=self._oldest_gone,
            oldest_milliseconds=None if oldest is None else int(oldest.getModificationTime()),
        )

    def still_holds(self, listing: Listing | None) -> Listing | None:
        """A listing; None once the source forgot some of it, read or unread, as too old."""
        if listing is None or listing.oldest_milliseconds is None:
            return listing
        return None if listing.oldest_milliseconds < self._least_time() else listing

    def _count(self) -> tuple[int, bool] | None:
        """Files that Spark reads, and whether these are all; None where nobody can tell.

        As ``PartitioningAwareFileIndex.allFiles`` has it: what lies in folders below is read with
        ``recursiveFileLookup``, or where folders are partitions. Goes no further once there are
        more entries than are to be listed, and says so many.
        """
        at, files = self._base, 0
        if _GLOB_CHARACTERS & set(at):  # it may name files
            here = self._programs.files.apply(self._glob(at, self._read))
            if self._aged(here):
                return None
            files = len(here)
        top = at = f"{at}/{_VISIBLE}"
        while True:
            found = self._glob(at, self._programs.whole)
            if files + len(found) > self._max_entries:
                return files + len(found), False
            here = self._programs.files.apply(found)
            folders = len(found) - len(here)
            if self._selects:
                here = self._programs.files.apply(self._glob(at, self._read))
            # Of files alone: a folder's time says nothing of what lies in it.
            if self._aged(here):
                return None
            files += len(here)
            if folders == 0:
                return files, True
            if at == top and not self._recursive:
                partitions = self._partitions()
                if partitions == 0:
                    return files, False  # there may be some below one that is none
                if partitions < folders:
                    return None  # Spark reads them where the others hold no file, else it fails
            if self._by_name_only:
                return None  # files of one name count once
            at += f"/{_VISIBLE}"

    def _partitions(self) -> int:
        """Folders at the top that are named as partitions are, ``key=value``."""
        found = self._glob(f"{self._base}/{_PARTITION}", self._programs.whole)
        return len(found) - len(self._programs.files.apply(found))

    def _aged(self, files: Any) -> bool:
        """True where some of these, or of those before, are too old for the source to look at."""
        oldest = self._programs.oldest.apply(files)
        if oldest is not None:
            both = [one for one in (self._oldest, oldest) if one is not None]
            self._oldest = min(both, key=lambda one: int(one.getModificationTime()))
        return self._past_age(self._oldest)

    def _past_age(self, file: Any) -> bool:
        """Whether a file is too old for the source to look at by now; None is none."""
        if file is None:
            return False
        return int(file.getModificationTime()) < self._least_time()

    def _least_time(self) -> int:
        """Of files that the source does not take for too old; epoch milliseconds."""
        return int(self._programs.purged.get(self._seen))

    def _is_there(self, file: Any) -> bool:
        return bool(self._file_system.exists(file.getPath()))

    def _glob(self, pattern: str, path_filter: Any) -> Any:
        found = self._file_system.globStatus(self._programs.path(pattern), path_filter)
        return self._gateway.new_array(self._gateway.jvm.Object, 0) if found is None else found


def _path(class_name: str) -> str:
    return class_name.replace(".", "/")


def rest_seconds(taken_seconds: float, share: float) -> float:
    """What is to follow a listing before the next one, so that they take this share of the time."""
    return taken_seconds * (1.0 / share - 1.0)


def _field(java_class: Any, name: str) -> Any:
    found = java_class.getDeclaredField(name)
    found.setAccessible(True)
    return found


Key = tuple[str, int]  # (run id, source's index)


class Listed(Protocol):
    """A source of which something is learned by looking at a file system."""

    share: float  # of the time that may be spent on such as it

    def entries(self) -> int:
        """How many a directory that is listed is known to hold."""

    def list_files(self, clock: Callable[[], float]) -> Listing | None:
        """Looks; ``clock`` tells epoch seconds. May take long, and may raise what py4j raises."""


@dataclass
class _Watched:
    source: Listed
    due: float
    listing: Listing | None = None
    looked: bool = False

    def next_look(self, rests_until: float) -> float:
        """When to look again; the first time at once, of which the thread rests afterwards."""
        if not self.looked:
            return self.due
        return max(self.due, min(rests_until, self.due + MOST_REST_SECONDS))


@dataclass
class _Question:
    key: Key
    ask: Callable[[], int]
    answered: threading.Event = field(default_factory=threading.Event)
    answer: int | None = None


class FileWatcher:
    """The thread ``weir-files``: what may be slow on a remote file system happens here."""

    def __init__(
        self,
        *,
        pause_seconds: float,
        max_entries: int,
        list_directories: bool,
        complaints: Complaints,
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        """``ended``: the last that the thread does."""
        self._ended = ended
        self._pause_seconds = pause_seconds
        self._max_entries = max_entries
        self._list_directories = list_directories
        self._complaints = complaints
        self._changed = threading.Condition()
        self._watched: dict[Key, _Watched] = {}
        self._questions: list[_Question] = []
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._rests_until = 0.0  # from listing any directory; monotonic seconds

    def watch(self, key: Key, source: Listed) -> None:
        """Looks at what this source reads from now on, first at once."""
        with self._changed:
            self._watched[key] = _Watched(source, due=time.monotonic())
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="weir-files", daemon=True)
                thread.start()
                self._thread = thread
            self._changed.notify_all()

    def forget(self, run_id: str) -> None:
        """Stops listing for this run."""
        with self._changed:
            for key in [key for key in self._watched if key[0] == run_id]:
                del self._watched[key]

    def listing(self, key: Key) -> Listing | None:
        """The newest listing; None where the last look told nothing."""
        watched = self._watched.get(key)
        return None if watched is None else watched.listing

    def ask(self, key: Key, count: Callable[[], int], *, timeout_seconds: float) -> int | None:
        """What ``count`` counts of a source; None where it does not within ``timeout_seconds``."""
        question = _Question(key, count)
        with self._changed:
            if key not in self._watched:
                return None
            self._questions.append(question)
            self._changed.notify_all()
        if not question.answered.wait(timeout_seconds):
            with self._changed:
                if question in self._questions:
                    self._questions.remove(question)
            return None
        return question.answer

    def stop(self) -> None:
        """Ends the thread once it is done with what it does."""
        with self._changed:
            self._stopping = True
            self._watched.clear()
            self._questions.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    break
                if self._questions:
                    question, due = self._questions.pop(0), None
                else:
                    question, due = None, self._next_due()
                    if due is None:
                        continue
            if question is not None:
                self._answer(question)
            elif due is not None:
                self._list(due)
        self._ended()

    def _next_due(self) -> _Watched | None:
        """What to list now; waits, with the lock given up, where nothing is due."""
        if self._watched and self._list_directories:
            rest = self._rests_until
            watched = min(self._watched.values(), key=lambda one: (one.next_look(rest), one.due))
            wait = watched.next_look(rest) - time.monotonic()
            if wait <= 0:
                return watched
            self._changed.wait(min(wait, _LONGEST_WAIT_SECONDS))
        else:
            self._changed.wait(_LONGEST_WAIT_SECONDS)
        return None

    def _answer(self, question: _Question) -> None:
        try:
            if question.key in self._watched:
                question.answer = question.ask()
        except Exception as error:
            self._complaints.error("counting a batch's files", error)
        question.answered.set()

    def _list(self, watched: _Watched) -> None:
        begun = time.monotonic()
        listing: Listing | None = None
        stop = False
        try:
            # Listing costs memory in the driver's JVM: a directory that Spark already knows to
            # be too large is left alone, and one that turns out to be is not listed again.
            if watched.source.entries() > self._max_entries:
                stop = True
            else:
                listing = watched.source.list_files(time.time)
                if listing is not None and listing.files > self._max_entries:
                    listing, stop = None, True
        except Exception as error:
            self._complaints.error("listing a source's directory", error)
        ended = time.monotonic()
        rest = rest_seconds(ended - begun, watched.source.share)
        owed = max(begun, self._rests_until) + (ended - begun) + rest
        self._rests_until = min(owed, ended + MOST_REST_SECONDS)
        watched.looked = True
        with self._changed:
            watched.listing = listing
            watched.due = float("inf") if stop else ended + max(self._pause_seconds, rest)
        if stop:  # said without the lock: the job's handlers of its log may take their time
            self._complaints.warn(
                "files:large",
                f"weir: a source's directory holds more than {self._max_entries} entries and "
                "is not listed; its backlog is a lower bound (spark.weir.files.max.entries)",
            )
