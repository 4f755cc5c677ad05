"""A process of the agent's that runs a module of ours, and nothing that lies where it was started.

In the agent's working directory others may write, as in ``/tmp``, and what such a process is told
opens drivers and brokers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

#: ``python -m``, but for the working directory, which that looks into first (``-P`` of Python
#: 3.11). Of modules only one that is built in is imported before it is left out.
_PROGRAM: Final = (
    "import sys; sys.path[:] = [one for one in sys.path if one] + [sys.argv.pop(1)]; import runpy; "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def command_of(module: str, *arguments: str) -> list[str]:
    """``python -m module argument …``, as this Python finds it; its package is imported here."""
    package = sys.modules[module.partition(".")[0]].__file__
    assert package is not None  # its __init__.py
    here = str(Path(package).absolute().parents[1])
    return [sys.executable, "-c", _PROGRAM, here, module, *arguments]
