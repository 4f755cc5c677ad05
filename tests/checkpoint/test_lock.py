"""The lock of rescues and savepoints, where a file of another user's is there already."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from agent.checkpoint import lock
from agent.checkpoint.folder import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def anothers(refused: Callable[[int], bool]) -> Callable[..., int]:
    """Opens nothing that is there already in a way that another user's file refuses."""
    real = os.open

    def opened(path: Any, flags: int, *more: int) -> int:
        if not flags & os.O_CREAT and refused(flags):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *more)

    return opened


def to_write(flags: int) -> bool:
    return bool(flags & os.O_RDWR)


def test_what_another_user_was_killed_with_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".weir-lock"
    path.touch()
    monkeypatch.setattr(lock.os, "open", anothers(to_write))
    with lock.locked_by(path, str(tmp_path), "rescue"):
        pass
    assert not path.exists()


def test_while_another_user_is_at_it_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".weir-lock"
    with lock.locked_by(path, str(tmp_path), "rescue"):
        monkeypatch.setattr(lock.os, "open", anothers(to_write))
        with (
            pytest.raises(CheckpointError, match="another rescue is at work"),
            lock.locked_by(path, str(tmp_path), "rescue"),
        ):
            pass
    assert not path.exists()


@pytest.mark.parametrize("readable", [True, False])
def test_where_nobody_can_tell_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, readable: bool
) -> None:
    """NFS locks for writing only what is open for it."""
    path = tmp_path / ".weir-lock"
    path.touch()
    held = to_write if readable else (lambda _: True)
    monkeypatch.setattr(lock.os, "open", anothers(held))

    def nfs(*_: object) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(lock.fcntl, "flock", nfs)
    with (
        pytest.raises(CheckpointError, match=r"another user's.*remove it if none is"),
        lock.locked_by(path, str(tmp_path), "rescue"),
    ):
        pass
    assert path.exists()


def test_another_user_may_have_the_file(tmp_path: Path) -> None:
    path = tmp_path / ".weir-lock"
    before = os.umask(0o077)
    try:
        with lock.locked_by(path, str(tmp_path), "rescue"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
    finally:
        os.umask(before)
