"""Python's own parser, where a collection in the middle of it does no harm."""

from __future__ import annotations

import ast
import gc
from typing import Any


def syntax_of(source: str, *arguments: Any, **how: Any) -> ast.Module:
    """What ``ast.parse`` gives.

    Finalizers that run in the middle and parse themselves, as where pytest tells of a warning, make
    CPython before 3.13 raise SystemError ("AST constructor recursion depth mismatch", gh-106905).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source, *arguments, **how)
    finally:
        if collects:
            gc.enable()
