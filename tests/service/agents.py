"""A real agent process for the tests: started, found by its address file, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from tests.waiting import until

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

ROOT = Path(__file__).parents[2]
START_SECONDS = 90.0
#: The command itself; its machine's clock is ahead by the seconds that a file says, if it is there.
_AHEAD = """
import sys, time
machine, file = time.time, sys.argv[1]
def ahead():
    try:
        return float(open(file).read() or 0)
    except OSError:
        return 0.0
time.time = lambda: machine() + ahead()
from agent import cli
{more}
sys.argv = ["weir", *sys.argv[5:]]
cli.main()
"""


def ahead(file: Path, more: str = "") -> tuple[str, ...]:
    """``prefix`` of an agent whose clock a file moves; ``more`` is run before it starts."""
    return (sys.executable, "-c", _AHEAD.format(more=more), str(file))


def environment(**more: str) -> dict[str, str]:
    """This process's, without options of an agent."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}


def weir(
    *arguments: str, env: dict[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "agent.cli", *arguments],
        env=environment(**(env or {})),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


class AgentProcess:
    """``weir agent`` on a free port of loopback."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        env: dict[str, str] | None = None,
        token: str | None = None,
        port: int = 0,
        prefix: tuple[str, ...] = (),
        verify: Any = True,
    ) -> None:
        self.folder = folder
        self.token = token
        self.log_path = folder / "agent.log"
        self._address_path = folder / "address"
        self._address_path.unlink(missing_ok=True)
        if token is not None:
            (folder / "token").write_text(token + "\n")
            options = (*options, "--token-file", str(folder / "token"))
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *prefix,
                    sys.executable,
                    "-m",
                    "agent.cli",
                    "agent",
                    "--port",
                    str(port),
                    "--address-file",
                    str(self._address_path),
                    "--log-format",
                    "json",
                    *([] if "--doors" in options else ["--doors", "off"]),
                    *options,
                ],
                env=environment(**(env or {})),
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        self.address = self._wait_for_address()
        self.http = httpx.Client(
            base_url=self.address,
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=30,
            trust_env=False,
            verify=verify,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def post(self, body: bytes | dict[str, Any], **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.post(
            "/v1/events",
            content=content,
            headers={"content-type": "application/json", **headers},
        )

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    def metrics(self) -> dict[str, float]:
        """Every sample by its name and labels as written."""
        return samples(self.http.get("/metrics").text)

    def _wait_for_address(self) -> str:
        def address() -> str | None:
            if self._address_path.exists():
                return self._address_path.read_text().strip()
            if self.process.poll() is not None:
                raise AssertionError(f"the agent ended: {self.log_path.read_text()[-2000:]}")
            return None

        try:
            return until(
                address,
                "the agent's address",
                seconds=START_SECONDS,
                every=0.01,
                telling=lambda: self.log_path.read_text()[-2000:],
            )
        except AssertionError:
            self.process.kill()
            raise


def samples(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found
