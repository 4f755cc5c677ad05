"""Memory that is freed goes back to the system: an exposition of many queries is megabytes."""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1  # the numbers of glibc's malloc.h
_M_MMAP_THRESHOLD: Final = -3


def tune() -> None:
    """Large buffers are given back when they are freed.

    By itself glibc raises the size from which it does so as such buffers come and go, and keeps
    them in a heap that stays as large as its fullest moment. Other C libraries need nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, 256 * 1024)
    mallopt(_M_TRIM_THRESHOLD, 1024 * 1024)


def trim() -> None:
    """Gives back what lies free between things still in use; takes milliseconds."""
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return
    malloc_trim(0)
