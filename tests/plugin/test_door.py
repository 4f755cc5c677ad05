"""Door files: which are believed, and what becomes of those that are not."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from agent.service import clock, doors
from agent.service.access import Tokens
from agent.service.config import ConfigError, Settings
from agent.service.doors import AGAIN_SECONDS, MOST_AGAIN_SECONDS, Doors
from agent.service.run import _bind, _doors
from spark_listener import door
from spark_listener.beyond import DONE, LOST, REFUSED
from tests.lacking import program
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Self

TOKEN = "0" * 63 + "a"
DIGEST = f"sha256:{'0' * 64}"
WHOLE = f"weir door 1\nport 4711\ntoken {TOKEN}\napplication app-1\nprocess 77@host\n"


def test_a_whole_one_is_read(tmp_path: Path) -> None:
    path = opened(tmp_path)
    assert door.read(path) == door.DoorFile(4711, TOKEN, "app-1", "77@host")


def opened(folder: Path, name: str = "app-1-77.door", text: str = WHOLE) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_driver_that_takes_no_connection_just_now_is_there() -> None:
    with contextlib.ExitStack() as held:
        frozen = held.enter_context(socket.create_server((door.LOOPBACK, 0), backlog=0))
        found = door.DoorFile(frozen.getsockname()[1], TOKEN, "app-1", "77@host")
        for _ in range(9):  # more than wait for it to accept them
            one = held.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex((door.LOOPBACK, found.port))
        assert found.answers()
    assert not found.answers()


other_users = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="only root can be another user, and only Linux tells",
)


def strangers(port: int) -> socket.socket:
    """Another user's, who listens there."""
    os.seteuid(4242)
    try:
        return socket.create_server((door.LOOPBACK, port))
    finally:
        os.seteuid(0)


def say_yes(server: socket.socket) -> Callable[[], None]:
    """To all that py4j says on the next connection, until what is returned is called."""
    taken: list[socket.socket] = []

    def serve() -> None:
        one, _ = server.accept()
        taken.append(one)
        with contextlib.suppress(OSError):
            while one.recv(4096):
                one.sendall(b"!ybtrue\n")
        one.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def end() -> None:
        taken[0].shutdown(socket.SHUT_RDWR)
        thread.join()

    return end


@other_users
def test_who_takes_the_port_of_a_driver_that_was_killed_is_not_believed(tmp_path: Path) -> None:
    """Nor is the secret said: py4j connects again by itself."""
    with socket.create_server((door.LOOPBACK, 0)) as driver:
        port = driver.getsockname()[1]
        inside = door.Door(opened(tmp_path, text=WHOLE.replace("4711", str(port))))
        kill = say_yes(driver)
        inside.enter()
        assert inside.open
    kill()
    with strangers(port) as stranger:
        say_yes(stranger)
        with pytest.raises(ConnectionRefusedError, match=f"user 4242 listens at port {port}"):
            inside.stay()
        assert not inside.open
    inside.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it does not begin with 'weir door 1'"),
        ("hello\n" * 9, "it does not begin with 'weir door 1'"),
        ("weir door 2\nport 1\n", "it is of another version of the plugin: 'weir door 2'"),
        (WHOLE[:-1], "it is not whole"),
        (WHOLE.replace(TOKEN, "short"), "it is not whole"),
        (WHOLE.replace("4711", "-1"), "it is not whole"),
        (WHOLE.replace("4711", "٤"), "it is not whole"),
        (WHOLE.replace("4711", "65536"), "port 65536 is none"),
        (WHOLE.replace("port 4711\n", ""), "it is not whole"),
        (WHOLE.replace("process 77@host\n", ""), "it is not whole"),
        (WHOLE + "x" * 5000, "it is longer than 4096 bytes"),
        ("weir door 1\naside\n", "the job attaches by itself, and that wins"),
    ],
)
def test_one_that_is_no_door_says_why(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(door.NoDoor) as refused:
        door.read(opened(tmp_path, text=text))
    assert str(refused.value) == why


@given(st.integers(min_value=0, max_value=len(WHOLE) - 1))
def test_a_half_written_one_is_none(length: int) -> None:
    with pytest.raises(door.NoDoor):
        door.parse(WHOLE[:length].encode())


@given(st.binary(max_size=200))
def test_whatever_stands_in_it(data: bytes) -> None:
    with pytest.raises(door.NoDoor):
        door.parse(data)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601, 0o620])
def test_one_that_others_may_read_or_write_is_none(tmp_path: Path, mode: int) -> None:
    path = opened(tmp_path)
    path.chmod(mode)
    with pytest.raises(door.NoDoor, match=f"its mode is {mode:04o}: others can"):
        door.read(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_is_none(tmp_path: Path) -> None:
    path = opened(tmp_path)
    os.chown(path, 4242, -1)
    with pytest.raises(door.NoDoor, match="it is of user 4242, and this process runs as 0"):
        door.read(path)


def test_what_is_no_plain_file_is_none_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.door", 0o600)
    (tmp_path / "link.door").symlink_to(opened(tmp_path))
    (tmp_path / "folder.door").mkdir(0o700)
    for name in ("fifo", "link", "folder"):
        with pytest.raises(door.NoDoor, match="no plain file"):
            door.read(tmp_path / f"{name}.door")
    with pytest.raises(FileNotFoundError):
        door.read(tmp_path / "none.door")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Keeper:
    """Doors of a folder, with a small program for each instead of a Spark to go into."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder = folder
        self.clock = Clock()
        self.started: list[str] = []
        self.code = code
        self.doors = Doors(folder, self._command, clock=self.clock)
        self.driver: socket.socket | None = socket.create_server((door.LOOPBACK, 0))
        self.port = self.driver.getsockname()[1]

    def opened(self, name: str = "app-1-77.door") -> Path:
        """A door at whose port somebody listens."""
        return opened(self.folder, name, WHOLE.replace("4711", str(self.port)))

    def close(self) -> None:
        self.doors.close()
        self.leave()

    def leave(self) -> None:
        """As a driver that is killed."""
        if self.driver is not None:
            self.driver.close()
            self.driver = None

    def _command(self, path: Path) -> Sequence[str]:
        self.started.append(path.name)
        return [sys.executable, "-S", "-c", self.code]

    def look(self, after_seconds: float = 0.0) -> int:
        self.clock.now += after_seconds
        self.doors.look()
        return len(self.started)

    def until(self, state: str) -> None:
        until(lambda: self.look() and self.doors.states().get(state), f"a door that is {state}")

    def until_ended(self) -> None:
        until(lambda: self.look() and not self.doors.states()["attached"], "the process's end")


@pytest.fixture
def keeper(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Keeper]:
    def made(code: str) -> Keeper:
        one = Keeper(tmp_path, code)
        request.addfinalizer(one.close)
        return one

    return made


STAYS = "import sys; sys.stdin.read()"


def test_each_door_has_a_process_which_ends_with_the_agent(
    tmp_path: Path, keeper: Callable[[str], Keeper]
) -> None:
    here = keeper(STAYS)
    assert here.look() == 0
    here.opened("a.door")
    here.opened("b.door")
    opened(tmp_path, ".hidden.door")
    opened(tmp_path, "c.new")
    assert here.look() == here.look() == 2
    assert here.doors.states() == {"attached": 2, "waiting": 0, "refused": 0}
    here.doors.close()
    assert here.doors.states()["attached"] == 0


@pytest.mark.parametrize(("code", "state"), [(DONE, None), (REFUSED, "refused")])
def test_one_that_is_done_is_left_until_its_door_is_another(
    tmp_path: Path, keeper: Callable[[str], Keeper], code: int, state: str | None
) -> None:
    here = keeper(f"raise SystemExit({code})")
    path = here.opened()
    here.look()
    here.until_ended()
    assert here.look(3600.0) == 1
    assert here.doors.states().get(state or "refused", 0) == (state is not None)
    again = here.opened("new")
    again.replace(path)
    assert here.look() == 2


def test_one_behind_whom_another_door_was_opened_is_in_no_more(
    keeper: Callable[[str], Keeper],
) -> None:
    """The plugin opens it where a process has not said for ten seconds that it is there."""
    here = keeper(STAYS)
    path = here.opened()
    here.look()
    assert here.doors.states()["attached"] == 1
    another = path.read_text().replace(TOKEN, "b" * 64)
    opened(here.folder, "new", another).replace(path)
    assert here.look() == 1, "it may still end by itself"
    assert here.doors.states() == {"attached": 0, "waiting": 1, "refused": 0}


def test_one_whose_file_is_written_anew_or_touched_is_in_still(
    keeper: Callable[[str], Keeper],
) -> None:
    """The plugin writes it again, with the same words, where a cleaner of /tmp took it away."""
    here = keeper(STAYS)
    path = here.opened()
    here.look()
    path.unlink()
    here.look()
    here.opened("new").replace(path)
    here.look()
    assert here.doors.states() == {"attached": 1, "waiting": 0, "refused": 0}
    path.chmod(0o644)  # nobody goes through this one
    here.look()
    assert here.doors.states() == {"attached": 0, "waiting": 1, "refused": 0}
    path.chmod(0o600)
    os.utime(path, (1.0, 1.0))
    here.look()
    assert here.doors.states() == {"attached": 1, "waiting": 0, "refused": 0}
    assert len(here.started) == 1


@pytest.mark.parametrize("code", [LOST, 1, "kill"])
def test_one_that_breaks_is_started_again_less_and_less_often(
    tmp_path: Path, keeper: Callable[[str], Keeper], code: int | str
) -> None:
    killed = "import os; os.kill(os.getpid(), 9)"
    here = keeper(killed if code == "kill" else f"raise SystemExit({code})")
    here.opened()
    here.look()
    pause = AGAIN_SECONDS
    for turn in range(1, 9):
        here.clock.now += MOST_AGAIN_SECONDS  # on a busy machine it took so long to break
        here.until_ended()
        assert here.look(pause - 0.01) == turn
        assert here.look(0.01) == turn + 1
        pause = min(2 * pause, MOST_AGAIN_SECONDS)
    assert pause == MOST_AGAIN_SECONDS


def test_where_nobody_listens_nothing_is_started_until_somebody_does(
    keeper: Callable[[str], Keeper],
) -> None:
    """A driver that was killed leaves its door, for ever where nobody deletes it."""
    here = keeper(STAYS)
    here.opened()
    here.leave()
    with structlog.testing.capture_logs() as told:
        for _ in range(20):
            assert here.look(MOST_AGAIN_SECONDS) == 0
    (one,) = told
    assert one["door"] == "app-1-77.door"
    assert here.doors.states() == {"attached": 0, "waiting": 1, "refused": 0}
    here.driver = socket.create_server((door.LOOPBACK, here.port))
    assert here.look(MOST_AGAIN_SECONDS) == 1


@other_users
def test_where_another_user_listens_nothing_is_started_until_this_one_does(
    keeper: Callable[[str], Keeper],
) -> None:
    """A driver that was killed leaves its port too, to whoever takes it."""
    here = keeper(STAYS)
    here.opened()
    here.leave()
    here.driver = strangers(here.port)
    with structlog.testing.capture_logs() as told:
        for _ in range(3):
            assert here.look(MOST_AGAIN_SECONDS) == 0
    (one,) = told
    assert one["event"].startswith("another user (4242) answers at this door")
    assert here.doors.states()["waiting"] == 1
    here.leave()
    here.driver = socket.create_server((door.LOOPBACK, here.port))
    assert here.look(MOST_AGAIN_SECONDS) == 1


@pytest.mark.parametrize("code", [LOST, REFUSED])
def test_a_driver_without_a_process_is_unattended_for_as_long_as_it_is_there(
    keeper: Callable[[str], Keeper], code: int
) -> None:
    here = keeper(f"raise SystemExit({code})")
    here.opened()
    here.look()
    assert not here.doors.unattended, "the process is in still"
    here.until_ended()
    assert here.doors.unattended
    here.leave()
    here.look(MOST_AGAIN_SECONDS)
    assert not here.doors.unattended
    here.driver = socket.create_server((door.LOOPBACK, here.port))
    here.look(MOST_AGAIN_SECONDS)
    here.until_ended()
    assert here.doors.unattended, "somebody answers again"


@pytest.mark.parametrize("code", [STAYS, f"raise SystemExit({DONE})"])
def test_where_each_driver_has_its_process_or_needs_none_nobody_is_unattended(
    keeper: Callable[[str], Keeper], code: str
) -> None:
    here = keeper(code)
    assert not here.doors.unattended, "there is no door"
    here.opened()
    here.look()
    if code != STAYS:
        here.until_ended()
    assert not here.doors.unattended


def test_a_door_that_a_killed_driver_left_hides_no_other(
    tmp_path: Path, keeper: Callable[[str], Keeper]
) -> None:
    here = keeper(f"raise SystemExit({LOST})")
    here.opened()
    here.leave()
    here.look()
    assert here.doors.states()["waiting"] == 1
    assert not here.doors.unattended
    opened(tmp_path, "b.door").chmod(0o644)  # whether its driver is there nobody knows
    here.look()
    assert here.doors.unattended


def test_what_is_no_door_is_named_once_and_tried_when_it_changes(
    tmp_path: Path, keeper: Callable[[str], Keeper]
) -> None:
    here = keeper(STAYS)
    path = here.opened()
    path.chmod(0o644)
    with structlog.testing.capture_logs() as told:
        for _ in range(3):
            assert here.look(3600.0) == 0
    (one,) = told
    assert one["door"] == "app-1-77.door"
    assert one["log_level"] == "warning"
    assert "0644" in one["reason"]
    assert here.doors.states()["refused"] == 1
    path.chmod(0o600)
    until(here.look, "the door that is one now")


def test_a_folder_that_is_none_or_gone_is_nothing(
    tmp_path: Path, keeper: Callable[[str], Keeper]
) -> None:
    here = Keeper(tmp_path / "none", STAYS)
    assert here.look() == 0
    shutil.rmtree(tmp_path)
    assert here.look() == 0


@pytest.mark.parametrize(
    ("platform", "says", "parent"),
    [
        ("linux", "/never/asked", "/tmp"),
        ("freebsd14", "/never/asked", "/tmp"),
        ("darwin", "/var/folders/zz/zyxw/T/", "/var/folders/zz/zyxw/T"),
        ("darwin", None, "/var/tmp"),
        ("darwin", OSError(22, "Invalid argument"), "/var/tmp"),
    ],
)
def test_the_folder_by_default_is_where_java_puts_the_plugins(
    monkeypatch: pytest.MonkeyPatch, platform: str, says: str | OSError | None, parent: str
) -> None:
    monkeypatch.setenv("TMPDIR", "/never/looked/at")

    def confstr(name: int) -> str | None:
        assert name == 65537, "_CS_DARWIN_USER_TEMP_DIR"
        if isinstance(says, OSError):
            raise says
        return says

    found = doors.default_folder(platform, confstr)
    assert found.parent == Path(parent)
    assert found.name == f"weir-{pwd.getpwuid(os.geteuid()).pw_name}"


def test_java_itself_says_so() -> None:
    done = subprocess.run(
        [program("java"), "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": "/never/looked/at"},
        check=True,
    )
    said = dict(re.findall(r"^ +(java\.io\.tmpdir|user\.name) = (.*)$", done.stderr, re.MULTILINE))
    assert Path(said["java.io.tmpdir"], f"weir-{said['user.name']}") == doors.default_folder()


def test_where_doors_are_looked_for_is_said_once(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as told:
        looked_for = Doors(tmp_path, lambda _: [], clock=Clock())
        for _ in range(3):
            looked_for.look()
    assert [(one["log_level"], one["directory"]) for one in told] == [("info", str(tmp_path))]


def test_a_folder_by_default_that_another_user_may_have_made_is_not_looked_into(
    tmp_path: Path, keeper: Callable[[str], Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir(0o700)
    folder = tmp_path / "weir-me"
    folder.symlink_to("elsewhere")
    monkeypatch.setattr(doors, "default_folder", lambda: folder)
    here = keeper(STAYS)
    command, clock = here.doors._command, here.clock
    named, here.doors = Doors(folder, command, clock=clock), Doors(None, command, clock=clock)
    opened(folder, text="")
    with structlog.testing.capture_logs() as told:
        for _ in range(3):
            here.look()
    assert [one["reason"] for one in told] == ["it is a link"]
    named.look()
    assert named.states()["refused"] == 1, "whoever names a folder says what it is"
    folder.unlink()
    (tmp_path / "elsewhere").rename(folder)
    if os.geteuid() == 0:
        os.chown(folder, 4242, -1)
        with structlog.testing.capture_logs() as told:
            for _ in range(3):
                here.look()
        assert [one["reason"] for one in told] == ["it is of user 4242, and this process runs as 0"]
        os.chown(folder, 0, -1)
    assert here.doors.states()["refused"] == 0
    here.look()
    assert here.doors.states()["refused"] == 1


class Entries:
    """As ``os.scandir`` gives them."""

    def __init__(self, of: Iterator[SimpleNamespace]) -> None:
        self._of = of

    def __iter__(self) -> Iterator[SimpleNamespace]:
        return self._of

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_folder_of_many_files_is_not_looked_through_to_its_end(
    keeper: Callable[[str], Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is said, once; in which order a folder gives them is its own."""
    here = keeper(STAYS)
    taken = 0

    def endless(_: Path) -> Entries:
        def names() -> Iterator[SimpleNamespace]:
            nonlocal taken
            while True:
                taken += 1
                yield SimpleNamespace(name=f"{taken}.txt")

        return Entries(names())

    monkeypatch.setattr(os, "scandir", endless)
    with structlog.testing.capture_logs() as told:
        for _ in range(3):
            here.look()
    assert taken == 3 * 10_000, "some 20 ms of work each time"
    assert [one["looked_at"] for one in told] == [10_000]


def test_of_too_many_doors_the_newest_are_looked_at_and_it_is_said_once(
    tmp_path: Path, keeper: Callable[[str], Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed drivers leave theirs, which are no reason to pass over one that lives."""
    monkeypatch.setattr(doors, "MOST_DOORS", 4)
    here = keeper(STAYS)

    def aged(name: str, seconds: int) -> None:
        """Not to be read, so it is refused at once."""
        os.utime(opened(tmp_path, name, text=""), (seconds, seconds))

    here.opened("in-use.door")
    os.utime(tmp_path / "in-use.door", (1, 1))
    here.look()
    for number in range(8):
        aged(f"dead-{number}.door", 10 + number)
    live = here.opened("live.door")
    os.utime(live, (30, 30))
    with structlog.testing.capture_logs() as told:
        for _ in range(3):
            here.look()
    (said,) = [one for one in told if "directory" in one]
    assert said["directory"] == str(tmp_path)
    assert (said["doors"], said["looked_at"]) == (10, 4)
    assert here.started == ["in-use.door", "live.door"]
    assert here.doors.states() == {"attached": 2, "waiting": 0, "refused": 2}, "the newest"

    here.opened("new.door")
    assert here.look() == 3, "what was not there is looked at at once"
    again = here.opened("again")
    again.replace(tmp_path / "dead-0.door")
    assert here.look(9.9) == 3, "to ask all for their times takes long"
    with structlog.testing.capture_logs() as told:
        assert here.look(0.2) == 4
        for path in tmp_path.glob("dead-[1-7].door"):
            path.unlink()
        here.look()
        aged("dead-1.door", 1)
        here.look()
    assert not [one for one in told if "directory" in one], "said an hour ago at most"


def test_the_most_doors_that_are_looked_at(keeper: Callable[[str], Keeper]) -> None:
    here = keeper(STAYS)
    many = [cast("os.DirEntry[str]", SimpleNamespace(name=f"{one}")) for one in range(1000)]
    assert len(here.doors._newest(many)) == 1000


def test_what_a_process_says_is_said_by_the_agent(
    tmp_path: Path, keeper: Callable[[str], Keeper]
) -> None:
    here = keeper(
        "import sys; print('WARNING weir: a\\x1b[31m thing', file=sys.stderr); sys.stdin.read()"
    )
    here.opened()
    with structlog.testing.capture_logs() as told:
        here.look()
        until(lambda: [one for one in told if one["log_level"] == "warning"], "the warning")
    said = next(one for one in told if one["log_level"] == "warning")
    assert said["application"] == "app-1"
    assert said["event"] == "a\\x1b[31m thing"


@pytest.mark.parametrize(
    ("all_of_it", "of_events", "sent"),
    [
        ("all", "events", "events"),
        ("all", None, "all"),
        (DIGEST, "events", "events"),
        ("all", DIGEST, "all"),
        (None, None, None),
    ],
)
def test_the_process_is_given_no_more_than_a_token_for_events_where_there_is_one(
    tmp_path: Path, all_of_it: str | None, of_events: str | None, sent: str | None
) -> None:
    held = [tokens_of(tmp_path, text) for text in (of_events, all_of_it)]
    settings = Settings(port=0, doors=tmp_path)
    with _bind(settings) as listening:
        found = _doors(settings, listening, clock.Clock(), held)
    assert found is not None
    command = list(found._command(tmp_path / "app-1-77.door"))
    assert ("--token-file" in command) == (sent is not None)
    if sent is not None:
        assert Path(command[command.index("--token-file") + 1]).read_text() == sent


def tokens_of(folder: Path, text: str | None) -> Tokens | None:
    if text is None:
        return None
    path = folder / hashlib.sha256(text.encode()).hexdigest()
    path.write_text(text)
    return Tokens(path)


def test_who_has_digests_alone_has_nothing_to_send_through_a_door(tmp_path: Path) -> None:
    held = [None, tokens_of(tmp_path, DIGEST)]
    by_default = Settings(port=0)
    with _bind(by_default) as listening:
        with structlog.testing.capture_logs() as told:
            assert _doors(by_default, listening, clock.Clock(), held) is None
        assert [one["event"].partition(":")[0] for one in told] == ["no doors are looked for"]
        with pytest.raises(ConfigError, match=r"^doors: the token files hold digests alone"):
            _doors(Settings(doors=tmp_path), listening, clock.Clock(), held)


def test_the_process_runs_nothing_that_lies_where_the_agent_was_started(tmp_path: Path) -> None:
    """Others may write there, and the agent itself does not."""
    for module in ("uuid", "queue", "random", "runpy", "spark_listener", "py4j"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('ran ' + __file__)\n")
    command = doors.command("http://127.0.0.1:1", token_file=None, certificate_file=None)
    agents, held = os.pipe()
    done = subprocess.run(
        command(opened(tmp_path, text=WHOLE[:-1])),
        cwd=tmp_path,
        stdin=agents,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(agents)
    os.close(held)
    assert (done.returncode, done.stderr) == (
        REFUSED,
        "WARNING weir: app-1-77.door: it is not whole\n",
    )
