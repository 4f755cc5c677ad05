"""``weir-run JOB.py ARG…``: runs a PySpark job with Weir attached to sessions that stream.

The job is not changed and does not notice: it is ``__main__``, has its own arguments, its exit code
and tracebacks are its own.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import sys
import types
import weakref
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    BuiltinImporter,
    ExtensionFileLoader,
    FileFinder,
    FrozenImporter,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipimport import zipimporter

from spark_listener import __version__, why_off
from spark_listener.handlers import BoundedLock, WhileOursRuns, leave_to_the_job, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

USAGE: Final = """\
usage: weir-run JOB.py [ARG ...]

Runs the PySpark job JOB.py with its arguments, Weir attached. Configure by WEIR_* in the
environment (WEIR_AGENT_URL, WEIR_TOKEN_FILE, ...) or spark.weir.* in Spark's configuration.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 2 where there is no job to run; else the job's own."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        stream = sys.stdout if given else sys.stderr
        stream.write(USAGE)
        return 0 if given else 2
    if given[0] == "--version":
        sys.stdout.write(f"weir-run {__version__}\n")
        return 0
    job = Path(given[0])
    path = given[0]
    with contextlib.suppress(OSError):  # the working directory is gone: an absolute name is enough
        # As Python has it: absolute, and else as typed, since ".." behind a link leads elsewhere.
        path = os.path.join(Path.cwd(), path)  # noqa: PTH118
    try:
        code = compile(job.read_bytes(), path, "exec", dont_inherit=True)
    except OSError as error:
        sys.stderr.write(f"weir-run: {job} cannot be read: {error.strerror or error}\n")
        return 2
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        _show(error)
        return 1
    folder = str(job.resolve().parent)
    # Where Python starts a script, it puts the script's folder first; with -m and -c the working
    # directory. Neither is the job's.
    here = _real("")
    launchers, launcher = os.path.split(_real((sys.argv or [""])[0]) or "")
    sys.argv = given
    _attach_apart({folder, here, launchers})
    # Python puts no folder first where it was told to by -P, -I or PYTHONSAFEPATH.
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        # Another launcher than `weir-run` may live on, and import from its own folder.
        _set_import_path(folder, {here, launchers} if "weir-run" in launcher else {here})
        _leave_names_to(folder)
    _leave_own_name()
    return _run(code, path)


def _run(code: types.CodeType, path: str) -> int:
    python_made = vars(sys.modules["__main__"])
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = SourceFileLoader("__main__", path)
    # A job may say `__builtins__.sum` where PySpark's functions have taken the name: in any other
    # module than `__main__`, such as this one, it is a dictionary.
    module.__dict__["__builtins__"] = builtins
    module.__dict__["__cached__"] = None
    if "__annotations__" in python_made:  # up to 3.13
        module.__annotations__ = {}
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)  # noqa: S102 - running it is what was asked for
    except SystemExit:
        raise
    except BaseException as failed:
        error = failed
    else:
        return 0
    try:
        _show(error)
        if isinstance(error, KeyboardInterrupt):
            _say_nothing_of(error)
            raise error  # Python ends by the signal, as it does where a job is interrupted
    finally:
        # Its traceback leads to this frame: held here, what the job's frames hold would be released
        # once nothing that a `__del__` uses is there any more, and what that writes would be lost.
        del error
    return 1


def _show(error: BaseException) -> None:
    """Says of an error of the job's own what Python itself would: no frame of ours stands first.

    What runs at the exit finds it where it looks. The hook may be the job's own, and may fail.
    """
    trace = _without_our_frame(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    if not hasattr(sys, "excepthook"):
        _say("sys.excepthook is missing\n")
        sys.__excepthook__(type(error), error, trace)
        return
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit:
        raise
    except BaseException as another:
        of_hook = _without_our_frame(another)
        _say("Error in sys.excepthook:\n")
        sys.__excepthook__(type(another), another, of_hook)
        _say("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)


def _say(text: str) -> None:
    """Where Python says it: also where the job has closed ``sys.stderr``."""
    try:
        sys.stderr.write(text)
    except Exception:
        with contextlib.suppress(OSError):
            os.write(2, text.encode())


def _without_our_frame(error: BaseException) -> types.TracebackType | None:
    """Its traceback less the first entry, which it has from now on."""
    trace = error.__traceback__
    trace = trace.tb_next if trace is not None else None
    # Not by setting it: a class of the job's may refuse that, as a frozen dataclass does.
    BaseException.with_traceback(error, trace)
    return trace


def _say_nothing_of(error: BaseException) -> None:
    """It was shown; what Python shows once it has passed through here has frames of ours."""
    hook, trace = getattr(sys, "excepthook", sys.__excepthook__), error.__traceback__

    def silent(*_: object) -> None:
        sys.excepthook = hook
        sys.last_traceback = trace
        BaseException.with_traceback(error, trace)

    sys.excepthook = silent


def _attach_apart(folders: set[str | None]) -> None:
    """Puts the hooks in, and imports Weir for that: by no file in the job's or a launcher's folder.

    An ``email.py`` beside the job is the job's to import, and may do anything.
    """
    path = sys.path[:]
    sys.path[:] = [entry for entry in path if _real(entry) not in folders]
    try:
        install_hooks()
    finally:
        sys.path[:] = path


def _real(entry: Any) -> str | None:
    try:
        real: str = os.path.realpath(entry)
    except (OSError, TypeError, ValueError):  # no name, or from a working directory that is gone
        return None
    return real


def _leave_names_to(folder: str) -> None:
    """What Weir brought in, and the job has a file of its own for, the job imports as its own.

    As it would without Weir; who has the other one by then keeps it.
    """
    loaders = (
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (SourceFileLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )
    # One of our own: what Python's remembers of the folder may be older than the job's next file.
    finder = FileFinder(folder, *loaders)
    with contextlib.suppress(Exception):
        # In the order in which they were imported to their end; what `__init__` needs, and PySpark
        # too, came before it.
        names = list(sys.modules)
        for name in names[names.index("spark_listener") + 1 :]:
            if name == "__main__" or "." in name:
                continue
            if BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name):
                continue  # these come before any file
            spec = finder.find_spec(name)
            if spec is None or spec.loader is None:  # a mere folder comes after all files
                continue
            if _real(getattr(sys.modules[name], "__file__", None)) == _real(spec.origin):
                continue  # it is that one
            for one in names:
                if one == name or one.startswith(f"{name}."):
                    sys.modules.pop(one, None)


def _leave_own_name() -> None:
    """What the job imports as ``spark_listener`` is what it would be without Weir.

    Others call a module of theirs so, and may say in the job where it is.
    """
    with contextlib.suppress(Exception):
        there = sys.modules["spark_listener"]
        sys.meta_path.insert(sys.meta_path.index(PathFinder), _OwnName(there))
        del sys.modules["spark_listener"]


class _OwnName:
    """Finds Weir under its name where Python finds no other one, and gives the name away else.

    All of Weir is imported by then, and holds what it needs of itself.
    """

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Weir's own spec; None for any other name, and where the job has one of this name."""
        if name != "spark_listener" or target is not None:
            return None
        try:
            found = PathFinder.find_spec(name, path)
        except Exception:
            return None  # as it says itself, when it is asked next
        ours = self._module.__spec__
        if found is None or ours is None or _real(found.origin) == _real(ours.origin):
            spec = ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
            spec.origin = self._module.__file__
            spec.submodule_search_locations = list(self._module.__path__)
            return spec
        for one in list(sys.modules):
            if one.startswith(f"{name}."):
                del sys.modules[one]
        return None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:  # noqa: ARG002
        """The one that there is."""
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        """It was executed."""


def _set_import_path(folder: str, in_the_place_of: set[str | None]) -> None:
    """The job's folder stands first, as when Python runs it."""
    if sys.path and _real(sys.path[0]) in in_the_place_of:
        sys.path[0] = folder
    else:
        sys.path.insert(0, folder)


def install_hooks() -> None:
    """Attaches each session with its first streaming query from Python, however it came to be.

    Not before: what a session is asked, it makes, of what the job has said until then. One that
    streams nothing is left alone: Spark would keep what it makes for a listener. So is one whose
    queries JVM code alone starts, of which nothing is heard here. None is where Weir cannot be
    imported, or PySpark is not as it is known: then the job runs without, and a warning says why.
    PySpark is the job's to import, which may say first where it is: hooks come in with that.
    """
    if reason := why_off():
        warn("weir is off: %s", reason)
        return
    from spark_listener import attachment

    lock = BoundedLock()  # what a signal calls comes in between, and may start a query too
    met: weakref.WeakSet[Any] = weakref.WeakSet()

    def say_where(writer: Any) -> None:
        if writer._session not in met:
            met.add(writer._session)
            attachment.attach(writer._session)  # which asks its server

    def attach_streaming(writer: Any) -> None:
        session = writer._df.sparkSession
        # A query of another thread starts no sooner than its session is attached. Where it starts
        # without, as that lasts too long, its next one attaches it.
        with lock:
            if session not in met:
                attachment.attach_started(session)
                met.add(session)

    def before_starts(hook: Callable[[Any], object]) -> Callable[[Any], None]:
        def put_in(module: Any) -> None:
            for start in ("start", "toTable"):
                _before(module.DataStreamWriter, start, hook)

        return put_in

    _AtImport(
        {
            "pyspark.sql.streaming": before_starts(attach_streaming),
            "pyspark.sql.connect.streaming.readwriter": before_starts(say_where),
        }
    ).begin()


#: Python's own: what is set on one is what importing calls. Another's may hand it to one it wraps.
_PYTHONS_LOADERS: Final = (SourceFileLoader, SourcelessFileLoader, zipimporter)


class _AtImport:
    """Has hooks see modules: those that are there at once, others as soon as they are executed.

    It stands right before Python's own finder of paths, and finds what that one finds: whoever else
    finds modules is asked as ever, in the same order. Their specs and loaders are Python's own too;
    a loader has an ``exec_module`` of its own from when it is found until it has executed.
    """

    def __init__(self, hooks: dict[str, Callable[[Any], object]]) -> None:
        """``hooks``: by the full name of the module that each is to see."""
        self._hooks = hooks
        self._warned = False

    def begin(self) -> None:
        """Never raises: a hook that cannot be put in is left out, and the first says why."""
        try:
            there = [sys.modules[name] for name in self._hooks if name in sys.modules]
            if len(there) < len(self._hooks):
                sys.meta_path.insert(sys.meta_path.index(PathFinder), self)
        except Exception as error:
            self._give_up(error)
            return
        for module in there:
            self._executed(module)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """As ``PathFinder`` finds it; None for all that is nobody's here, and what is reloaded."""
        if name not in self._hooks or target is not None:
            return None
        try:
            spec = PathFinder.find_spec(name, path)
        except Exception:
            return None  # as it says itself, when it is asked next
        if spec is not None:
            try:
                self._follow(spec.loader)
            except Exception as error:
                self._give_up(error)
        return spec

    def _follow(self, loader: Any) -> None:
        if not issubclass(type(loader), _PYTHONS_LOADERS):
            raise TypeError(f"PySpark is loaded by a {type(loader).__name__}")
        if "exec_module" in vars(loader):  # found before, and not executed yet
            return
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            ours = module.__name__ in self._hooks  # of a zip one loader loads all in a folder
            try:
                execute(module)
            finally:
                if ours:
                    vars(loader).pop("exec_module", None)
            if ours:
                self._executed(module)

        # So Python leaves it out of the traceback of what the module raises, as all of importing.
        exec_module.__code__ = exec_module.__code__.replace(
            co_filename=ModuleSpec.__init__.__code__.co_filename
        )
        loader.exec_module = exec_module

    def _executed(self, module: Any) -> None:
        try:
            self._hooks[module.__name__](module)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            why = f"{type(error).__name__}: {error}"
            warn("weir is off: it finds no hold in PySpark: %s", why)


def _before(owner: Any, name: str, hook: Callable[[Any], object]) -> None:
    """Has ``hook`` see what a method is about to be called on."""
    method = getattr(owner, name)
    if not hasattr(method, "weir_hook"):
        setattr(owner, name, _Seen(method, hook))


class _Seen:
    """A method of which a hook sees each object that it is taken from.

    What is called is the method itself: a function around it would stand in the traceback of
    whatever it raises. Only who takes it from the class, to put one of his own there, has one.
    """

    def __init__(self, method: Callable[..., Any], hook: Callable[[Any], object]) -> None:
        @functools.wraps(method)
        def hooked(*arguments: Any, **options: Any) -> Any:
            if arguments:
                self._see(arguments[0])
            return method(*arguments, **options)

        hooked.weir_hook = True  # type: ignore[attr-defined]
        self._method, self._hook, self._hooked = method, hook, hooked
        # A test that puts a mock in its place asks what the class itself holds: for all that looks
        # at it without taking it, it is the function.
        functools.update_wrapper(self, method)

    @property  # type: ignore[misc]  # as a class of one's own may have it
    def __class__(self) -> Any:
        return types.FunctionType

    def __getattr__(self, name: str) -> Any:
        if name == "_method":  # it is being made, or copied
            raise AttributeError(name)
        return getattr(self._method, name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._hooked(*arguments, **options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self._hooked
        self._see(instance)
        return types.MethodType(self._method, instance)

    def _see(self, instance: Any) -> None:
        with WhileOursRuns():
            try:
                self._hook(instance)
            except Exception as error:
                leave_to_the_job(error)


if __name__ == "__main__":
    sys.exit(main())
