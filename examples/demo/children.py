"""The demo's two child processes, the agent and the job; whatever happens, they end with it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from examples.demo.job import APPLICATION

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
WEIR = Path(sys.executable).parent / "weir"
PR_SET_PDEATHSIG = 1  # Linux, prctl(2): a signal for when the parent is gone


class DemoFailed(Exception):  # noqa: N818
    """The demo cannot go on; the message says why, the log named in it says the rest."""


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """One process in a group of its own, so that Ctrl-C reaches it through us, in order."""

    def __init__(
        self, name: str, command: list[str], log: Path, environ: dict[str, str], *, pipes: bool
    ) -> None:
        self.name = name
        self.log = log
        pipe = subprocess.PIPE if pipes else None
        with log.open("ab") as sink:
            self.process: subprocess.Popen[str] = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environ,
                stdin=pipe or subprocess.DEVNULL,
                stdout=pipe or sink,
                stderr=sink,
                text=True,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - no threads yet
            )

    def failure(self, what: str) -> DemoFailed:
        """What went wrong, with the end of the log."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            tail = "\n".join(f"    {line[:200]}" for line in lines[-8:])
            return DemoFailed(f"{what}\n  The end of {self.log}:\n{tail}")
        return DemoFailed(f"{what} Its log is {self.log}.")

    def check(self) -> None:
        """Raises DemoFailed where it has ended."""
        code = self.process.poll()
        if code is not None:
            raise self.failure(f"The {self.name} ended by itself, exit code {code}.")

    def end(self, patience_seconds: float = 10.0) -> None:
        """Ask, then insist; the whole group, so that nothing it started stays."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        for ask, seconds in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, 5.0)):
            if self.process.stdin is not None and ask is signal.SIGTERM:
                # its input has ended: that is the word to leave in order
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(seconds)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, ask)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
                break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)  # Java, where Python left it behind


class Agent(Child):
    """A real `weir agent` on a free loopback port, for the demo's own application alone."""

    def __init__(self, work: Path, logs: Path, target_seconds: float, *options: str) -> None:
        address = work / "agent.address"
        environ = {name: text for name, text in os.environ.items() if not name.startswith("WEIR_")}
        command = [str(WEIR), "agent", "--port", "0"]
        command += ["--state-dir", str(work / "agent-state"), "--address-file", str(address)]
        command += ["--doors", "off"]  # behind them are this user's own jobs; the demo's attaches
        command += ["--target-seconds", str(target_seconds), "--mode", "dry-run", *options]
        super().__init__("agent", command, logs / "agent.log", environ, pipes=False)
        self._address = address

    def wait_until_ready(self, patience_seconds: float = 30.0) -> str:
        """Its address. Raises DemoFailed where it doesn't come up."""
        give_up = time.monotonic() + patience_seconds
        while time.monotonic() < give_up:
            self.check()
            with contextlib.suppress(OSError):
                if text := self._address.read_text("utf-8").strip():
                    return text
            time.sleep(0.05)
        raise self.failure(f"The agent did not listen within {patience_seconds:.0f} s.")

    def turn_on(self, query: str, reason: str, say: Callable[[str], object] | None = None) -> None:
        """`weir mode on` for a query of the demo's job, as one would type it; ``say``: that.

        Raises DemoFailed.
        """
        order = ["mode", "on", f"{APPLICATION}/{query}"]
        typed = f"weir {' '.join(order)}"
        if say is not None:
            say(f"$ {typed}")
        done = subprocess.run(
            [str(WEIR), *order, "--url", self.wait_until_ready(), "--reason", reason],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=30,
        )
        if done.returncode != 0:
            raise self.failure(f"`{typed}` failed: {(done.stderr or done.stdout).strip()}")


class Job(Child):
    """The Spark job, spoken to in lines of JSON."""

    def __init__(self, logs: Path, agent_url: str) -> None:
        environ = {name: text for name, text in os.environ.items() if not name.startswith("WEIR_")}
        environ |= {"WEIR_AGENT_URL": agent_url, "PYSPARK_PYTHON": sys.executable}
        environ.pop("SPARK_HOME", None)  # the PySpark of this .venv, not another one
        command = [sys.executable, "-m", "examples.demo.job"]
        super().__init__("Spark job", command, logs / "job.log", environ, pipes=True)
        self._answers: queue.Queue[str | None] = queue.Queue()
        assert self.process.stdout is not None
        threading.Thread(target=self._read, args=[self.process.stdout], daemon=True).start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._answers.put(line)
        self._answers.put(None)

    def wait_until_ready(self, patience_seconds: float = 120.0) -> str:
        """The version of Spark."""
        return str(self._answer(patience_seconds, "start", None)["version"])

    def ask(
        self,
        do: str,
        patience_seconds: float = 120.0,
        *,
        meanwhile: Callable[[], None] | None = None,
        **arguments: str,
    ) -> Any:
        """Have it do something and give the result; ``meanwhile`` is called as time goes by."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise self.failure("The Spark job has ended.") from None
        return self._answer(patience_seconds, do, meanwhile).get("result")

    def _answer(
        self, patience_seconds: float, what: str, meanwhile: Callable[[], None] | None
    ) -> dict[str, Any]:
        give_up = time.monotonic() + patience_seconds
        while True:
            try:
                line = self._answers.get(timeout=0.2)
            except queue.Empty:
                if meanwhile is not None:
                    meanwhile()
                if time.monotonic() > give_up:
                    raise self.failure(
                        f"The Spark job did not manage to {what} within {patience_seconds:.0f} s."
                    ) from None
                continue
            if line is None:
                raise self.failure("The Spark job ended by itself.")
            answer: dict[str, Any] = json.loads(line)
            if not answer.get("ok"):
                raise self.failure(f"The Spark job could not {what}: {answer.get('error')}")
            return answer
