"""Names from outside, made fit for labels, terminals, pages and logs.

Metrics and pages escape by themselves; what cannot be escaped is a name of ten kilobytes, a line
break in a log, a terminal's escape sequence, or a right-to-left override that turns a line around.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from spark_listener.redact import redact

LONGEST_NAME: Final = 120
#: Control characters, lone surrogates, and the invisible ones that change a text's direction.
_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


#: Where the checkpoint lies of a query that has none of its own, on the default file system; Spark
#: removes it at the end.
OF_ONE_RUN: Final = re.compile(r"/temporary-[0-9a-f-]{36}")


def plain(text: str) -> str:
    """A text of any length, such as one with a file's name, that steers no terminal."""
    return _UNFIT.sub("\ufffd", text)


def label(name: str) -> str:
    """A name as a label: no control characters, at most 120 characters.

    A name that had to be changed carries eight digits of its digest, so that two names never
    become one series.
    """
    clean = plain(name)
    if clean == name and len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{clean[: LONGEST_NAME - 9]}~{digest}"


def first_line(text: str, longest: int = 300) -> str:
    """The first line of an exception or description, fit to show, secrets struck out."""
    # Cut before and after: what strikes secrets out takes long over a long line, and a value that
    # is cut in its middle is still behind its name.
    line = text.lstrip()[: 4 * longest].split("\n", 1)[0].rstrip()
    return plain(redact(line))[:longest]  # a tab, too, joins a name and its value
