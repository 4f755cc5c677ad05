"""The host: what the agent's own process and a driver's process use, against their memory limit."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import psutil

ProcessRole = Literal["agent", "jvm", "python"]
LimitSource = Literal["cgroup2", "cgroup1", "rlimit", "host"]
DriverProcess = int | Literal["off", "auto"]

#: cgroup v1 says "no limit" with the largest page-aligned number; nothing real is that large.
_V1_UNLIMITED: Final = 2**60
_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


class MemoryLimit(msgspec.Struct, frozen=True):
    """The tightest memory limit that holds for a process, and how full it is, in bytes."""

    limit_bytes: int
    source: LimitSource
    used_bytes: int | None  # of everything under that limit, without cache that can be dropped
    oom_kills_total: int | None  # processes killed under that limit; cgroup v2 alone tells


class ProcessSample(msgspec.Struct, frozen=True):
    """One process at one moment. None is unknown: the process belongs to someone else."""

    role: ProcessRole
    application: str  # the driver's application label; empty for the agent
    pid: int
    sampled_time: float
    start_time: float
    cpu_seconds_total: float
    resident_bytes: int
    threads: int | None
    open_files: int | None
    open_files_limit: int | None
    memory: MemoryLimit | None


class EventSeconds(msgspec.Struct, frozen=True):
    """How long events took in the agent; ``counts`` not cumulative, one more than ``bounds``."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum_seconds: float


class Extras(msgspec.Struct, frozen=True, kw_only=True):
    """What the metrics tell beside the fleet: the service's part."""

    version: str
    started_time: float
    labels: dict[str, str]  # fixed, on every series: namespace, cluster
    agent_process: ProcessSample | None
    driver_processes: tuple[ProcessSample, ...]
    event_seconds: EventSeconds
    refused_requests: dict[str, int]  # by reason: malformed, unauthorized, too_large, …
    state_writable: bool
    state_write_failures_total: int
    state_bytes: int | None  # on disk; None: kept in memory
    recorded_events_total: int
    record_failures_total: int
    kafka_up: bool | None = None  # whether brokers answered; None: none was asked yet
    kafka_groups: dict[str, int] | None = None  # by state; None: none are written
    doors: dict[str, int] | None = None  # of drivers, by state; None: none is looked for
    certificate_not_before_time: float | None = None  # of the one it serves with; None: it has none
    certificate_expiry_time: float | None = None  # of the same


class DriverCandidate(msgspec.Struct, frozen=True):
    """A driver process that a listener named: on ``host``, by process ids of that host."""

    application: str
    host: str
    jvm_pid: int | None
    python_pid: int | None


def memory_limit(
    pid: int, *, proc: Path = _PROC, cgroups: Path = _CGROUPS, rlimit_bytes: int | None = None
) -> MemoryLimit | None:
    """The tightest of the process's cgroups' limits and its address-space limit.

    Without any of them, the machine's own memory. None where even that cannot be read.
    """
    found = [
        limit
        for limit in (
            _cgroup2(pid, proc, cgroups),
            _cgroup1(pid, proc, cgroups),
            None
            if rlimit_bytes is None
            else MemoryLimit(rlimit_bytes, "rlimit", _address_space_bytes(pid, proc), None),
            _host(proc),
        )
        if limit is not None
    ]
    return min(found, key=lambda limit: limit.limit_bytes, default=None)


def sample(
    process: psutil.Process, role: ProcessRole, application: str, now: float
) -> ProcessSample | None:
    """One process now; None where it is gone or may not be read."""
    import psutil

    try:
        with process.oneshot():
            times = process.cpu_times()
            resident = process.memory_info().rss
            start = process.create_time()
            threads = _or_none(process.num_threads)
        open_files = _or_none(process.num_fds)
        files_limit: int | None = None
        address_limit: int | None = None
        try:
            files_limit = _limit(process.rlimit(psutil.RLIMIT_NOFILE)[0])
            address_limit = _limit(process.rlimit(psutil.RLIMIT_AS)[0])
        except (psutil.Error, OSError, AttributeError):
            pass  # another user's process: its limits stay unknown
        return ProcessSample(
            role=role,
            application=application,
            pid=process.pid,
            sampled_time=now,
            start_time=start,
            cpu_seconds_total=times.user + times.system,
            resident_bytes=resident,
            threads=threads,
            open_files=open_files,
            open_files_limit=files_limit,
            memory=memory_limit(process.pid, rlimit_bytes=address_limit),
        )
    except (psutil.Error, OSError):
        return None


class DriverProcesses:
    """The driver processes on this host, looked up as they are wanted, kept while they live."""

    def __init__(self, wanted: DriverProcess) -> None:
        self._wanted = wanted
        self._hostname = socket.gethostname()
        self._known: dict[tuple[str, ProcessRole, int], psutil.Process] = {}

    def sample(self, candidates: Iterable[DriverCandidate], now: float) -> list[ProcessSample]:
        """What every driver process uses now.

        ``auto`` takes the process ids that listeners on this host gave. A process id may belong
        to another container's view, so the process must also look like what it should be.
        """
        if self._wanted == "off":
            return []
        if isinstance(self._wanted, int):
            names = {candidate.application for candidate in candidates}
            application = names.pop() if len(names) == 1 else ""
            wanted: list[tuple[str, ProcessRole, int]] = [(application, "jvm", self._wanted)]
        else:
            wanted = [
                (candidate.application, role, pid)
                for candidate in candidates
                if candidate.host == self._hostname
                for role, pid in _roles(candidate)
            ]
        self._known = {key: process for key, process in self._known.items() if key in wanted}
        samples: list[ProcessSample] = []
        for key in dict.fromkeys(wanted):
            process = self._known.get(key) or self._find(key)
            if process is None:
                continue
            taken = sample(process, key[1], key[0], now)
            if taken is None or not process.is_running():
                self._known.pop(key, None)
                continue
            self._known[key] = process
            samples.append(taken)
        return samples

    def _find(self, key: tuple[str, ProcessRole, int]) -> psutil.Process | None:
        import psutil

        _, role, pid = key
        try:
            process = psutil.Process(pid)
            name = process.name().lower()
        except (psutil.Error, OSError, ValueError):
            return None
        if isinstance(self._wanted, int):
            return process  # the operator named it
        looks_right = "java" in name if role == "jvm" else "python" in name or "pyspark" in name
        return process if looks_right else None


def _roles(candidate: DriverCandidate) -> Sequence[tuple[ProcessRole, int]]:
    pairs: list[tuple[ProcessRole, int]] = []
    if candidate.jvm_pid is not None and candidate.jvm_pid > 0:
        pairs.append(("jvm", candidate.jvm_pid))
    if candidate.python_pid is not None and candidate.python_pid > 0:
        pairs.append(("python", candidate.python_pid))
    return pairs


def _cgroup2(pid: int, proc: Path, cgroups: Path) -> MemoryLimit | None:
    """Every level from the process's group up to the mount can limit it: the least one wins."""
    path = _cgroup_path(pid, proc, controller="")
    if path is None:
        return None
    root = cgroups / "unified" if (cgroups / "unified").is_dir() else cgroups
    best: MemoryLimit | None = None
    for level in _levels(root, path):
        limit = _integer(level / "memory.max")  # "max" is no number: no limit
        if limit is None or (best is not None and limit >= best.limit_bytes):
            continue
        used = _without_cache(level, _integer(level / "memory.current"), "")
        kills = _stat(level / "memory.events", "oom_kill")
        best = MemoryLimit(limit, "cgroup2", used, kills)
    return best


def _cgroup1(pid: int, proc: Path, cgroups: Path) -> MemoryLimit | None:
    path = _cgroup_path(pid, proc, controller="memory")
    root = cgroups / "memory"
    if path is None or not root.is_dir():
        return None
    for level in _levels(root, path):
        # The stat file gives the least limit of all levels above, as the kernel sees it.
        limit = _stat(level / "memory.stat", "hierarchical_memory_limit")
        if limit is None:
            limit = _integer(level / "memory.limit_in_bytes")
        if limit is None or limit >= _V1_UNLIMITED:
            continue
        used = _without_cache(level, _integer(level / "memory.usage_in_bytes"), "total_")
        return MemoryLimit(limit, "cgroup1", used, None)
    return None


def _without_cache(level: Path, used: int | None, prefix: str) -> int | None:
    """Less the files that the kernel drops before it kills: those in use too, at the limit."""
    if used is None:
        return None
    lists = (f"{prefix}inactive_file", f"{prefix}active_file")
    return max(0, used - sum(_stat(level / "memory.stat", name) or 0 for name in lists))


def _host(proc: Path) -> MemoryLimit | None:
    text = _read(proc / "meminfo")
    if text is None:
        return None
    figures = {
        name: int(kilobytes) * 1024
        for name, kilobytes in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)
    }
    total = figures.get("MemTotal")
    if not total:
        return None
    available = figures.get("MemAvailable")
    return MemoryLimit(total, "host", None if available is None else total - available, None)


def _cgroup_path(pid: int, proc: Path, *, controller: str) -> str | None:
    text = _read(proc / str(pid) / "cgroup")
    for line in (text or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and controller in parts[1].split(","):
            return parts[2]
    return None


def _levels(root: Path, path: str) -> list[Path]:
    """From the group up to the mount; the mount alone where a container hides its own path.

    None where the group is not below the mount: of a container beside this one in a pod that shares
    its processes, whose mount shows this one's own groups.
    """
    if ".." in path.split("/"):
        return []
    names = [name for name in path.split("/") if name]
    return [root.joinpath(*names[:depth]) for depth in range(len(names), -1, -1)]


def _address_space_bytes(pid: int, proc: Path) -> int | None:
    text = _read(proc / str(pid) / "status") or ""
    match = re.search(r"^VmSize:\s+(\d+) kB$", text, re.MULTILINE)
    return None if match is None else int(match.group(1)) * 1024


def _integer(path: Path) -> int | None:
    text = (_read(path) or "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _stat(path: Path, name: str) -> int | None:
    for line in (_read(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return None


def _limit(value: int) -> int | None:
    return value if 0 < value < 2**62 else None  # RLIM_INFINITY is -1


def _or_none(read: Callable[[], int]) -> int | None:
    import psutil

    try:
        return read()
    except (psutil.Error, OSError):
        return None
