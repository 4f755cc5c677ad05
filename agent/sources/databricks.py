"""How Databricks keeps a driver's event log: in parts, all in one folder.

A part that is closed bears its time and is packed by gzip; ``eventlog`` is the open one. It gets
such a name when it is closed, and another is begun.
"""

from __future__ import annotations

import re
from typing import Final

#: What is being written.
OPEN_PART: Final = "eventlog"
#: Its place among the parts: behind every time, of which these are the digits.
OPEN_INDEX: Final = 10**14
_CLOSED: Final = re.compile(
    r"^eventlog-(\d{4})-(\d\d)-(\d\d)--(\d\d)-(\d\d)(?:-(\d\d))?(?:\.gz)?$", re.ASCII
)


def index_of(name: str) -> int | None:
    """The place of a file among the parts of its folder, by its name; None: it is none."""
    if name == OPEN_PART:
        return OPEN_INDEX
    named = _CLOSED.match(name)
    return int("".join(named.groups(default="00"))) if named else None
