"""weir-run without a Spark session: the job's arguments, exit code and traceback are its own."""

from __future__ import annotations

import inspect
import logging
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import spark_listener
from spark_listener import attachment, run

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]


def weir_run(
    *arguments: str, cwd: Path | None = None, path: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spark_listener.run", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))},
        check=False,
    )


def as_under_python(
    path: str, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """What a job did under weir-run: all that it says, and its end, are as without."""
    plain = as_python_does(path, *arguments, cwd=cwd)
    ours = weir_run(path, *arguments, cwd=cwd)
    assert ours.returncode == plain.returncode
    assert ours.stdout == plain.stdout
    assert ours.stderr == plain.stderr
    return ours


def as_python_does(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        check=False,
    )


def job(folder: Path, text: str) -> str:
    path = folder / "job.py"
    path.write_text(text)
    return str(path)


def test_the_job_is_main_with_its_own_arguments_and_folder(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'found'\n")
    path = job(
        tmp_path,
        "import sys, beside, __main__\n"
        "def f(): return beside.WORD\n"
        "print(__name__, __file__ == sys.argv[0], sys.argv[1:], __main__.f())\n",
    )
    done = weir_run(path, "--flag", "a b", cwd=Path("/"))
    assert done.stdout.split("\n")[0] == "__main__ True ['--flag', 'a b'] found"
    assert done.returncode == 0
    assert done.stderr == ""


def test_the_folder_of_another_launcher_stays_behind_that_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a program that lives on when the job has ended, and import what it needs then."""
    name = job(tmp_path, "import sys; print(sys.path)")
    monkeypatch.setattr(sys, "argv", ["/opt/platform/kernel.py"])
    monkeypatch.setattr(sys, "path", ["/opt/platform", *sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(run, "install_hooks", lambda: None)
    assert run.main([name]) == 0
    assert sys.path[:2] == [str(tmp_path), "/opt/platform"]


@pytest.mark.parametrize("flags", [(), ("-P",), ("-I",)])
def test_the_import_path_is_the_one_python_itself_would_have(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """By a launcher elsewhere than Python, which a link leads to, and out of no folder at all."""
    if "-P" in flags and sys.version_info < (3, 11):
        pytest.skip("Python 3.10 has no -P")
    for name in ("bin", "local", "kept", "gone"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "weir-run").write_text(
        # -I takes nothing from PYTHONPATH.
        f"import sys\nsys.path.append({str(ROOT)!r})\n"
        "from spark_listener.run import main\nsys.path.pop()\nsys.exit(main())\n"
    )
    (tmp_path / "local" / "weir-run").symlink_to("../bin/weir-run")
    path = job(tmp_path / "kept", "import sys; print(sys.path, __file__, sys.argv)")

    def out_of_nowhere(*arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "gone").mkdir(exist_ok=True)
        return subprocess.run(
            ["sh", "-c", 'rmdir ../gone && exec "$@"', "sh", sys.executable, *flags, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path / "gone",
            check=False,
        )

    plain = out_of_nowhere(path)
    ours = out_of_nowhere(str(tmp_path / "local" / "weir-run"), path)
    assert ours.stderr == plain.stderr
    assert ours.stdout == plain.stdout
    assert (str(tmp_path / "kept") + "'," in ours.stdout) is not bool(flags)
    assert ours.returncode == plain.returncode == 0


#: Of names that Weir imports too: each tells that it runs, and one would end the job.
BESIDE = {
    "email.py": "print('email runs'); ENDS = True\nimport sys; sys.exit(0)\n",
    "quopri.py": "print('quopri runs'); MINE = True\n",
    "http/__init__.py": "print('http runs'); MINE = True\n",
    "socket/notes.txt": "no module\n",
    "_ast.py": "print('_ast runs')\n",
}
USES = """
import sys
print("begins", flush=True)
import quopri, http
print(quopri.MINE, http.MINE, "http.client" in sys.modules)
import ast, socket, ssl
print(ast.Module is sys.modules["_ast"].Module, ssl.socket is socket.socket)
import email
print("never")
"""


@pytest.mark.parametrize("launched", ["elsewhere", "beside", "by its path"])
def test_a_file_beside_the_job_is_the_jobs_to_import_and_no_one_elses(
    tmp_path: Path, launched: str
) -> None:
    for name, text in BESIDE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    path = job(tmp_path, USES)
    plain = as_python_does(path)
    if launched == "by its path":
        (tmp_path / "linked").symlink_to(tmp_path)
        ours = weir_run(path, path=[tmp_path / "linked"])
    else:
        ours = weir_run(path, cwd=tmp_path if launched == "beside" else None)
    assert ours.stdout == plain.stdout
    assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr) == (0, "")
    assert ours.stdout.startswith("begins\nquopri runs\nhttp runs\nTrue True False\nTrue True\n")
    assert ours.stdout.endswith("\nemail runs\n")


@pytest.mark.parametrize("where", ["beside", "elsewhere"])
@pytest.mark.parametrize("package", [False, True])
def test_a_module_of_the_jobs_may_be_called_as_weirs_is(
    tmp_path: Path, where: str, *, package: bool
) -> None:
    """As a listener that somebody wrote for jobs of theirs, found where the job says that it is."""
    folder = tmp_path if where == "beside" else tmp_path / "lib"
    text = "print('its own runs')\ndef register():\n    return 7\n"
    if package:
        (folder / "spark_listener").mkdir(parents=True)
        (folder / "spark_listener" / "__init__.py").write_text(
            "from spark_listener.config import *"
        )
        (folder / "spark_listener" / "config.py").write_text(text)
    else:
        folder.mkdir(exist_ok=True)
        (folder / "spark_listener.py").write_text(text)
    uses = f"""
import sys
sys.path.insert(0, {str(folder)!r})
import pyspark.sql.streaming
from spark_listener import register
import spark_listener
print(register(), spark_listener.__file__, hasattr(spark_listener, "attach"))
"""
    done = as_under_python(job(tmp_path, uses))
    assert done.stdout.startswith("its own runs\n7 ")
    assert done.returncode == 0


def test_where_the_job_has_no_other_one_weirs_name_is_weirs(tmp_path: Path) -> None:
    uses = """
import spark_listener, spark_listener.attachment
import spark_listener.attachment as attachment
from spark_listener import attach, detach
print(spark_listener.attachment is attachment, attach is spark_listener.attach)
print(spark_listener.__spec__.name, spark_listener.__file__, sorted(spark_listener.__path__))
"""
    ours = weir_run(job(tmp_path, uses))
    assert (ours.returncode, ours.stderr) == (0, "")
    assert ours.stdout.startswith("True True\nspark_listener ")


def test_what_a_launcher_has_imported_from_beside_the_job_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tmp_path)
    (tmp_path / "beside.py").write_text("print('runs')\n")
    path = job(tmp_path, "import beside; print('ends')")
    lines = "from spark_listener.run import main\nimport beside\nraise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", lines, path],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'linked'}{os.pathsep}{ROOT}"},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "runs\nends\n", "")


@pytest.mark.parametrize(
    ("text", "code"),
    [("import sys; sys.exit(7)", 7), ("raise SystemExit('bye')", 1), ("pass", 0)],
)
def test_the_exit_code_is_the_jobs(tmp_path: Path, text: str, code: int) -> None:
    assert weir_run(job(tmp_path, text)).returncode == code


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        ("sys.version_info = (3, 9, 18, 'final', 0)", "Python is 3.9, and 3.10 or newer is needed"),
        ("sys.modules['spark_listener.attachment'] = None", "it cannot be imported: "),
    ],
)
def test_where_weir_cannot_be_imported_the_job_runs_without(
    tmp_path: Path, spoilt: str, why: str
) -> None:
    """By the two lines that spark-submit takes, under a Python that no pip would have let pass."""
    path = job(tmp_path, "import sys; print(__name__, sys.argv[1:]); sys.exit(7)")
    lines = f"import sys\n{spoilt}\nfrom spark_listener.run import main\nraise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", lines, path, "a"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "__main__ ['a']\n")
    assert done.stderr.startswith("weir is off: ")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "pyspark"),
    [
        ("def f():\n    return 1 / 0\nf()\n", ""),
        ("x = = 3\n", ""),
        ("x = " + "-" * 100_000 + "1\n", ""),
        ("x = 1" + " + 1" * 20_000 + "\n", ""),
        ("import pyspark.sql\n", "1 / 0\n"),
        ("import pyspark.sql\n", "import none_of_this_name\n"),
    ],
)
def test_a_traceback_is_the_one_python_itself_would_give(
    tmp_path: Path, text: str, pyspark: str
) -> None:
    if pyspark:
        text = f"import sys\nsys.path.insert(0, {a_pyspark(tmp_path, sql=pyspark)!r})\n{text}"
    path = job(tmp_path, text)
    plain = as_python_does(path)
    ours = weir_run(path)
    assert ours.returncode == plain.returncode == 1
    assert ours.stderr == plain.stderr


@pytest.mark.parametrize("call", ["start()", "toTable('t')", "interval(raises=True)"])
def test_no_frame_of_ours_stands_in_the_traceback_of_what_pyspark_raises(
    tmp_path: Path, call: str
) -> None:
    """A query that is refused is where a job fails first; a job may bring its own ``start``."""
    streaming = (
        "class DataStreamWriter:\n"
        "    def __init__(self, df): self._df = df\n"
        "    def start(self, raises=True): return 1 / 0 if raises else 'a query'\n"
        "    def toTable(self, name): return self.start()\n"
    )
    text = (
        f"import sys\nsys.path.insert(0, {a_pyspark(tmp_path, **{'sql/streaming': streaming})!r})\n"
        "from pyspark.sql.streaming import DataStreamWriter\n"
        "class Mine(DataStreamWriter):\n"
        "    def interval(self, raises): return super().start(raises)\n"
        f"print(Mine(None).start(raises=False), flush=True)\nMine(None).{call}\n"
    )
    path = job(tmp_path, text)
    plain = as_python_does(path)
    ours = weir_run(path)
    assert plain.returncode == ours.returncode == 1
    assert ours.stdout == plain.stdout == "a query\n"
    assert ours.stderr == plain.stderr
    assert "ZeroDivisionError" in ours.stderr


#: What is the module's own, of what a job may use, and how it ends.
TELLS = """
import atexit, os, signal, sys
from pyspark_functions import *
print({name: type(of).__name__ for name, of in sorted(globals().items()) if name[:2] == "__"})
print(__builtins__.sum([1, 2]), __loader__.get_filename("__main__") == __file__)
def told():
    last = [getattr(sys, f"last_{what}", None) for what in ("type", "value", "exc")]
    trace = getattr(sys, "last_traceback", None)
    print(*last, trace and trace.tb_frame.f_code.co_name)
atexit.register(told)
def fail():
    os.kill(os.getpid(), signal.SIGINT) if "int" in sys.argv else 1 / 0
def hook(kind, error, trace):
    print("hook", kind, trace.tb_next.tb_frame.f_code.co_name, sys.exc_info(), flush=True)
    sys.exit(9) if "exit" in sys.argv else open("/none/of/this") if "bad" in sys.argv else None
if "hook" in sys.argv:
    sys.excepthook = hook
if len(sys.argv) > 1:
    fail()
"""


@pytest.mark.parametrize(
    "arguments", [(), ("int",), ("int", "hook"), ("hook",), ("hook", "bad"), ("hook", "exit")]
)
def test_a_job_finds_in_its_module_and_at_its_end_what_it_does_under_python(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "pyspark_functions.py").write_text("def sum(column): raise TypeError\n")
    path = job(tmp_path, TELLS)
    ours = as_under_python(path, *arguments)
    assert "'module'" in ours.stdout
    assert "3 True" in ours.stdout


#: What is left of how Python shows an exception.
LEFT = """
import atexit, sys
atexit.register(lambda: print(sys.last_type))
def hook(kind, error, trace):
    open("/none/of/this")
if "none" in sys.argv:
    del sys.excepthook
else:
    sys.excepthook = hook
    if "deleted" in sys.argv: del sys.stderr
    else: sys.stderr.close()
if "int" in sys.argv: raise KeyboardInterrupt
1 / 0
"""


@pytest.mark.parametrize("arguments", [("none",), ("none", "int"), ("closed",), ("deleted",)])
def test_an_error_is_shown_as_under_python_by_what_the_job_left_for_it(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    path = job(tmp_path, LEFT)
    plain = as_python_does(path, *arguments)
    ours = weir_run(path, *arguments)
    assert ours.returncode == plain.returncode
    assert ours.stdout == plain.stdout

    def told(stderr: str) -> list[str]:  # Python 3.11 and newer tell what they cannot show
        return [line for line in stderr.splitlines() if "object " not in line or "name" in line]

    assert told(ours.stderr) == told(plain.stderr)


#: An exception of which nothing can be set, as of a frozen dataclass.
FROZEN = """
import sys
class Frozen(KeyboardInterrupt if "int" in sys.argv else Exception):
    def __setattr__(self, name, value): raise TypeError(name)
def hook(kind, error, trace):
    print(kind, error, trace.tb_lineno, error.__traceback__ is trace, flush=True)
    if "bad" in sys.argv: raise Frozen("in the hook")
if "hook" in sys.argv:
    sys.excepthook = hook
raise Frozen("mine")
"""


@pytest.mark.parametrize("arguments", [(), ("hook",), ("hook", "bad"), ("int",)])
def test_an_exception_that_lets_nothing_be_set_is_shown_as_under_python(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    path = job(tmp_path, FROZEN)
    as_under_python(path, *arguments)


#: What its frames hold writes what it was given as it is released, as a file or a client does.
HOLDS = """
import atexit, sys
class Sink:
    def __init__(self, name): self.name = name
    def __del__(self): print(END, self.name, len(self.name), flush=True)
END = "released"
kept = Sink("kept")
def work():
    sink = Sink("sink")
    if "int" in sys.argv: raise KeyboardInterrupt
    sys.exit(3) if "exit" in sys.argv else 1 / 0
def hook(kind, error, trace):
    open("/none/of/this")
if "bad" in sys.argv:
    sys.excepthook = hook
atexit.register(print, "at the exit", flush=True)
work()
"""


@pytest.mark.parametrize("arguments", [(), ("bad",), ("int",), ("int", "bad"), ("exit",)])
def test_what_a_failed_job_holds_is_released_as_under_python(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    path = job(tmp_path, HOLDS)
    ours = as_under_python(path, *arguments)
    assert "released sink 4" in ours.stdout


@pytest.mark.parametrize("last", ["", "1 / 0\n", "x = = 3\n"])
def test_a_job_by_a_relative_name_is_where_python_itself_has_it(tmp_path: Path, last: str) -> None:
    """Its ``__file__`` is absolute, and leads to it once the job has changed its directory."""
    (tmp_path / "kept").mkdir()
    job(
        tmp_path / "kept",
        f"import inspect, os, sys\nos.chdir('/')\n"
        f"print(__file__, sys.argv, inspect.stack()[0].filename)\n{last}",
    )
    (tmp_path / "linked").symlink_to("kept")
    name = "./linked/../kept/job.py"
    ours = as_under_python(name, cwd=tmp_path)
    assert ours.returncode == (1 if last else 0)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "usage: weir-run JOB.py"),
        (("/no/such/job.py",), 2, "weir-run: /no/such/job.py cannot be read"),
        (("--help",), 0, ""),
        (("--version",), 0, ""),
    ],
)
def test_usage(arguments: tuple[str, ...], code: int, said: str) -> None:
    done = weir_run(*arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


#: What of PySpark hooks hold on to, made by nobody before.
PYSPARK = {
    "pyspark/__init__.py": "",
    "pyspark/sql/__init__.py": "from pyspark.sql.session import SparkSession\n",
    "pyspark/sql/session.py": (
        "from pyspark.sql.streaming import DataStreamWriter\n"
        "class SparkSession:\n"
        "    class Builder:\n"
        "        def getOrCreate(self): return SparkSession()\n"
    ),
    "pyspark/sql/streaming/__init__.py": (
        "class DataStreamWriter:\n"
        "    def __init__(self, df): self._df = df\n"
        "    def start(self): return 'a query'\n"
        "    toTable = start\n"
    ),
}


def a_pyspark(folder: Path, *, zipped: bool = False, **changed: str) -> str:
    """One in a place of its own, for ``sys.path``; ``changed``: its modules that are otherwise."""
    files = PYSPARK | {f"pyspark/{name}/__init__.py": text for name, text in changed.items()}
    place = folder / "spark" / "python"
    if zipped:
        place.mkdir(parents=True)
        with zipfile.ZipFile(place / "pyspark.zip", "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        return str(place / "pyspark.zip")
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return str(place)


#: A job that says itself where PySpark is, as ``findspark.init()`` does, and then streams.
BRINGS_IT = """
import importlib, importlib.util, pkgutil, sys
from types import SimpleNamespace
assert "pyspark" not in sys.modules
try:
    import pyspark.sql
    print("another PySpark is in reach")
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        del sys.modules[name]
except ImportError:
    pass
sys.path.insert(0, sys.argv[1])
importlib.invalidate_caches()
found = importlib.util.find_spec("pyspark.sql")
assert found.origin.startswith(sys.argv[1]), found
assert "SparkSession" in found.loader.get_source("pyspark.sql")

from pyspark.sql import SparkSession
import pyspark.sql.streaming
from pyspark.sql.streaming import DataStreamWriter

def as_python_has_them():
    for name in ("pyspark", "pyspark.sql", "pyspark.sql.session", "pyspark.sql.streaming"):
        module = sys.modules[name]
        assert module.__spec__.loader is module.__loader__, name
        assert type(module.__loader__).__name__ == sys.argv[2], module.__loader__
        assert "exec_module" not in vars(module.__loader__), name
        assert module.__spec__.origin == module.__file__, name

as_python_has_them()
from spark_listener import attachment
attached = []
attachment.attach_started = attached.append

def stream():
    session = SparkSession.Builder().getOrCreate()
    writer = DataStreamWriter(SimpleNamespace(sparkSession=session))
    assert writer.start() == writer.toTable() == "a query"
    return session

assert attached == []
sessions = [stream()]
importlib.reload(pyspark.sql)
assert pyspark.sql.SparkSession is SparkSession
sessions.append(stream())
assert attached == sessions, attached
as_python_has_them()
print("streamed")
sys.exit(5)
"""


@pytest.mark.parametrize("in_reach", [False, True])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_job_that_brings_pyspark_in_by_its_own_code_is_watched(
    tmp_path: Path, *, in_reach: bool, zipped: bool
) -> None:
    """As ``findspark`` does, also past another PySpark that pip installed. Nothing is imported
    before the job does, and the modules, their specs and loaders are as without Weir."""
    path = [str(ROOT)]
    if in_reach:
        path.append(a_pyspark(tmp_path / "another"))
    place = a_pyspark(tmp_path, zipped=zipped)
    loader = "zipimporter" if zipped else "SourceFileLoader"
    # -S: without this Python's own packages, of which PySpark is one.
    done = subprocess.run(
        [sys.executable, "-S", "-m", "spark_listener.run", job(tmp_path, BRINGS_IT), place, loader],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        check=False,
    )
    assert done.stderr == ""
    said = ["another PySpark is in reach"] if in_reach else []
    assert (done.returncode, done.stdout.splitlines()) == (5, [*said, "streamed"])


def test_a_client_of_spark_connect_is_told_with_its_first_query_and_goes_on(
    tmp_path: Path,
) -> None:
    """Nothing is asked of its server before: a job that streams nothing hears nothing."""
    of_connect = {
        "sql/connect": "",
        "sql/connect/session": (
            "class Conf:\n    def get(self, name, default): print('asked'); return default\n"
            "class SparkSession:\n    conf = Conf()\n"
        ),
        "sql/connect/streaming": "",
        "sql/connect/streaming/readwriter": (
            "class DataStreamWriter:\n"
            "    def __init__(self, plan, session): self._session = session\n"
            "    def start(self): return 'a query'\n"
            "    toTable = start\n"
        ),
    }
    path = job(
        tmp_path,
        f"import sys\nsys.path.insert(0, {a_pyspark(tmp_path, **of_connect)!r})\n"
        "from pyspark.sql.connect.session import SparkSession\n"
        "from pyspark.sql.connect.streaming.readwriter import DataStreamWriter\n"
        "writer = DataStreamWriter(None, SparkSession())\n"
        "sys.stderr.write('made\\n')\n"
        "print(writer.start(), writer.toTable())\nsys.exit(5)\n",
    )
    done = weir_run(path)
    assert (done.returncode, done.stdout) == (5, "asked\nasked\na query a query\n"), done.stderr
    made, said = done.stderr.splitlines()
    assert made == "made"
    assert said.startswith("weir is off: this is a Spark Connect session")


def test_a_job_without_pyspark_needs_none(tmp_path: Path) -> None:
    path = job(tmp_path, "import sys; print('pyspark' in sys.modules); sys.exit(5)")
    done = weir_run(path)
    assert (done.returncode, done.stdout, done.stderr) == (5, "False\n", "")


ANOTHER_FINDER = """
import sys, importlib.machinery as m
class Another(m.PathFinder): pass
sys.meta_path[sys.meta_path.index(m.PathFinder)] = Another
"""
ANOTHER_LOADER = """
import sys, importlib.machinery as m
class Own:
    def __init__(self, *of): self.of = m.SourceFileLoader(*of)
    def create_module(self, spec): return None
    def exec_module(self, module): self.of.exec_module(module)
    def is_package(self, name): return self.of.is_package(name)
hook = m.FileFinder.path_hook((Own, ['.py']))
def only_it(path):
    if 'pyspark' not in path: raise ImportError(path)
    return hook(path)
sys.path_hooks.insert(0, only_it)
"""


@pytest.mark.parametrize(
    ("before", "changed", "why"),
    [
        (
            "",
            {"sql/streaming": "DataStreamWriter = None\n"},
            "AttributeError: 'NoneType' object has no attribute 'start'",
        ),
        (ANOTHER_FINDER, {}, "ValueError: "),
        (ANOTHER_LOADER, {}, "TypeError: PySpark is loaded by a Own"),
    ],
)
def test_a_pyspark_that_is_not_as_it_is_known_is_left_to_the_job(
    tmp_path: Path, before: str, changed: dict[str, str], why: str
) -> None:
    place = a_pyspark(tmp_path, **changed)
    path = job(
        tmp_path,
        f"import sys\nsys.path.insert(0, {place!r})\nimport pyspark.sql, pyspark.sql.streaming\n"
        "print(pyspark.sql.__file__, pyspark.sql.streaming.__name__)\nsys.exit(5)\n",
    )
    lines = f"{before}\nfrom spark_listener.run import main\nraise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", lines, path],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 5, done.stderr
    assert done.stdout == f"{place}/pyspark/sql/__init__.py pyspark.sql.streaming\n"
    assert done.stderr.startswith(f"weir is off: it finds no hold in PySpark: {why}"), done.stderr
    assert done.stderr.count("\n") == 1, "one warning, and no more"


def test_a_session_is_attached_with_its_first_query_however_it_came_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    class Session:
        """One that the job's own builder makes, or that ``foreachBatch`` wraps."""

    attached: list[Any] = []
    monkeypatch.setattr(attachment, "attach_started", attached.append)
    made, further = Session(), Session()
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: made)
    monkeypatch.setattr(SparkSession, "newSession", lambda _: further)
    for name in ("start", "toTable"):
        monkeypatch.setattr(DataStreamWriter, name, lambda _: "a query")
    run.install_hooks()

    def start(session: Session) -> None:
        writer: Any = SimpleNamespace(_df=SimpleNamespace(sparkSession=session))
        for begin in (DataStreamWriter.start, DataStreamWriter.toTable):
            assert begin(writer) == "a query"  # type: ignore[call-arg, comparison-overlap]

    builder: Any = None
    assert SparkSession.Builder.getOrCreate(builder) is made  # type: ignore[comparison-overlap]
    assert SparkSession.newSession(builder) is further  # type: ignore[comparison-overlap]
    assert attached == [], "what it is asked it makes, of what the job has said until then"
    for session in (made, further):
        start(session)
    assert attached == [made, further]
    wrapped = Session()
    start(wrapped)
    start(wrapped)
    assert attached == [made, further, wrapped]


#: What tests of a job do with the method that starts a query, and inspection of a class.
MOCKED = """
import inspect, sys, types
from unittest import mock
sys.path.insert(0, sys.argv[1])
from pyspark.sql.streaming import DataStreamWriter
before = vars(DataStreamWriter)["start"]
made = mock.create_autospec(DataStreamWriter)(None)
made.start.return_value = made.toTable.return_value = "mocked"
print(made.start(), made.toTable())
for how in ({"autospec": True}, {}):
    with mock.patch.object(DataStreamWriter, "start", return_value="mocked", **how) as start:
        print(DataStreamWriter(None).start(), start.call_count)
        try:
            print(DataStreamWriter(None).start("a", "b", "c"))
        except TypeError as error:
            print(error)
print(vars(DataStreamWriter)["start"] is before, DataStreamWriter(None).start())
print(before(DataStreamWriter(None)), inspect.signature(before))
print(isinstance(before, types.FunctionType))
print([kind[:3] for kind in inspect.classify_class_attrs(DataStreamWriter) if "start" in kind[0]])
print(before.__name__, before.__qualname__, before.__code__.co_name, before.__defaults__)
"""


def test_a_test_of_a_job_puts_a_mock_in_the_place_of_what_starts_a_query(tmp_path: Path) -> None:
    path = job(tmp_path, MOCKED)
    plain = as_python_does(path, a_pyspark(tmp_path))
    ours = weir_run(path, a_pyspark(tmp_path))
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, plain.stdout, "")
    assert ours.stdout.startswith("mocked")


class Raises(logging.Handler):
    """As of a job that takes each warning for an error."""

    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError(record.getMessage())


def test_nothing_that_a_handler_of_the_jobs_log_raises_comes_out_of_weir(tmp_path: Path) -> None:
    logger, raises = logging.getLogger("weir"), Raises()
    logger.addHandler(raises)
    try:
        assert not spark_listener.attach(object()).active
        spark_listener.detach(object())
    finally:
        logger.removeHandler(raises)
    place = a_pyspark(tmp_path, **{"sql/streaming": "DataStreamWriter = None\n"})
    path = job(
        tmp_path,
        f"import logging, sys\nsys.path.insert(0, {place!r})\n{inspect.getsource(Raises)}"
        "logging.getLogger().addHandler(Raises())\nimport pyspark.sql.streaming\nprint('there')\n",
    )
    done = weir_run(path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "there\n", "")


def test_a_job_that_sets_up_its_log_hears_of_weir(tmp_path: Path) -> None:
    """Python's default turns off each logger that is there before."""
    path = job(
        tmp_path,
        "import logging.config\n"
        "log = {'class': 'logging.StreamHandler'}\n"
        "root = {'handlers': ['log'], 'level': 'WARNING'}\n"
        "logging.config.dictConfig({'version': 1, 'handlers': {'log': log}, 'root': root})\n"
        "import spark_listener\n"
        "spark_listener.attach(object())\n",
    )
    done = weir_run(path)
    assert done.stderr.startswith("weir is off: attaching failed: AttributeError: ")


def test_what_a_job_names_relatively_is_sought_where_weir_run_was_started(tmp_path: Path) -> None:
    path = job(
        tmp_path,
        "import os\n"
        "os.chdir('/')\n"
        "from types import SimpleNamespace as Some\n"
        "from spark_listener import attachment\n"
        "resolve = attachment.resolve\n"
        "attachment.resolve = lambda *given: print(resolve(*given).ca_file)\n"
        "attachment.conf_of = lambda _: {'spark.weir.ca.file': 'ca.pem'}\n"
        "context = Some(applicationId='app-1', _jsc='')\n"
        "attachment.attach_started(Some(sparkContext=context, _jsparkSession=None))\n",
    )
    assert weir_run(path, cwd=tmp_path).stdout == f"{tmp_path / 'ca.pem'}\n"


def test_a_query_does_not_start_while_another_thread_still_attaches_its_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first batch would be as configured."""
    from pyspark.sql.streaming import DataStreamWriter

    attaches, goes_on, attached = Event(), Event(), Event()

    def attach_started(_: Any) -> None:
        attaches.set()
        assert goes_on.wait(60)
        attached.set()

    class Session:
        """Of both queries."""

    writer: Any = SimpleNamespace(_df=SimpleNamespace(sparkSession=Session()))
    monkeypatch.setattr(attachment, "attach_started", attach_started)
    monkeypatch.setattr(DataStreamWriter, "start", lambda _: attached.is_set())
    run.install_hooks()
    with ThreadPoolExecutor(2) as pool:
        starts = [pool.submit(DataStreamWriter.start, writer)]
        assert attaches.wait(60)
        starts.append(pool.submit(DataStreamWriter.start, writer))
        done, _ = wait(starts, timeout=0.5)
        goes_on.set()
    assert not done
    assert [one.result() for one in starts] == [True, True]


def test_a_query_that_a_signal_starts_meanwhile_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its handler runs in the thread that attaches, and nothing goes on before it returns."""
    from pyspark.sql.streaming import DataStreamWriter

    class Session:
        """Of both queries."""

    writer: Any = SimpleNamespace(_df=SimpleNamespace(sparkSession=Session()))
    begun: list[Any] = []

    def attach_started(session: Any) -> None:
        if not begun:
            begun.append(session)
            begun.append(DataStreamWriter.start(writer))

    monkeypatch.setattr(attachment, "attach_started", attach_started)
    monkeypatch.setattr(DataStreamWriter, "start", lambda _: "a query")
    run.install_hooks()
    starts = Thread(target=DataStreamWriter.start, args=(writer,), daemon=True)
    starts.start()
    starts.join(60)
    assert not starts.is_alive()
    assert begun == [writer._df.sparkSession, "a query"]
