"""The text of an exception, taken apart: what caused what, each with its message and its frames.

Java prints what failed last first and its ``Caused by`` below; Python prints a cause above what it
caused; Spark carries an executor's whole trace in the message of the driver's exception, py4j a
Python traceback in a Java exception's message and a Java trace in a Python exception's. All of them
come out as one chain here, the outermost first, the deepest cause last. Texts over 16,000
characters lack their middle, so nothing may rely on it. Pure, and linear in the text's length.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

LONGEST_TEXT: Final = 32 * 1024
"""Characters that are looked at. Twice what a driver sends, so that no cause of ours is cut."""

#: A class of Java or Python with its package, such as ``redis.clients.jedis.Connection``.
_QUALIFIED: Final = re.compile(
    r"(?<![\w.$/@])((?:[A-Za-z_][\w$]{0,79}\.){1,14}[A-Z_][\w$]{0,99})(?=:|\s|$|\(|\))"
)
_FAILS: Final = re.compile(
    r"(?:Exception|Error|Failure|Fault|Throwable|Timeout|Interrupt|Exit|Unavailable|Exceeded"
    r"|Exhausted|Unauthenticated|Denied|Forbidden|Throttled|Expired|Conflict|NotFound|Refused"
    r"|Aborted|Cancelled|Busy|StateSchemaNotCompatible|SchemaNotCompatible)$"
)
#: The same without a package, as Python prints its own and PySpark those of the JVM.
_BARE: Final = re.compile(
    r"([A-Z]\w{0,99}(?:Exception|Error|Failure|Warning|Exit|Interrupt|Timeout))(?=:|\s*$)"
)
_PYTHON_HEADER: Final = re.compile(r"((?:[A-Za-z_]\w{0,99}\.){0,14}[A-Za-z_]\w{0,99})(?:: |:?$)")
_JAVA_FRAME: Final = re.compile(
    r"\s*at (?:[\w.@-]{0,99}/){0,3}([\w.$<>]{3,400}(?:/0x\w{1,16})?[\w.$<>]{0,99})(?:\(|\s*$)"
    # as some print a stack within a message
    r"|\s+([\w.$<>]{3,400})\("
    r"(?:[\w$]{1,99}\.(?:java|scala|kt)(?::\d+)?|Native Method|Unknown Source)\)"
)
_PYTHON_FRAME: Final = re.compile(r'\s*File "([^"\n]{1,400})", line \d+(?:, in (\S{1,200}))?')
_LOST_EXECUTOR: Final = re.compile(r"\b(ExecutorLostFailure|FetchFailed)\b ?\(")
_TRACEBACK: Final = "Traceback (most recent call last)"
_PYTHON_CAUSES: Final = (
    "The above exception was the direct cause of",
    "During handling of the above exception",
)


class Link(msgspec.Struct):
    """One exception of a chain: its class, what it says, and where it was thrown, innermost first.

    A frame of Java is ``package.Class.method``, one of Python ``path:function``.
    """

    name: str = ""
    message: str = ""
    java: list[str] = msgspec.field(default_factory=list)
    python: list[str] = msgspec.field(default_factory=list)
    mentions: list[str] = msgspec.field(default_factory=list)  # other classes that it names

    @property
    def simple(self) -> str:
        """The class without its package and the class that it is nested in."""
        return self.name.rsplit(".", 1)[-1].rsplit("$", 1)[-1]


def chain_of(text: str) -> list[Link]:
    """The exceptions of a text, the outermost first; at least one."""
    reader = _Reader()
    for line in text[:LONGEST_TEXT].split("\n"):
        reader.read(line)
    return reader.done()


class _Reader:
    """Goes through the lines of a text once."""

    def __init__(self) -> None:
        self.chain: list[Link] = [Link()]
        self.messages: list[list[str]] = [[]]
        self.place = 0  # of the link that is being read
        self.group = 0  # of the first link of the Python traceback that is being read
        self.frames_to: int | None = None  # the link that frames belong to, where another's
        self.in_traceback = False
        self.in_plan = False  # what a StreamingQueryException tells of its query is no cause
        self.suppressed = False
        self.cause_comes = False  # Python told a cause; what it caused comes next

    def read(self, line: str) -> None:
        frame = _JAVA_FRAME.match(line)
        if frame:
            self.in_traceback = self.in_plan = False
            if not self.suppressed:
                self._frames().append(frame[1] or frame[2])
            return
        stripped = line.strip()
        if not stripped or stripped.startswith("... "):
            return
        frame = _PYTHON_FRAME.match(line)
        if frame:
            self.in_traceback = True
            # Python's innermost frame comes last.
            self.chain[self.place].python.insert(0, f"{frame[1]}:{frame[2] or ''}")
            return
        if stripped.startswith("Suppressed: "):
            self.suppressed = True
            return
        if stripped.startswith("Caused by: "):
            if line[:1].isspace() and self.suppressed:
                return
            self.suppressed = self.in_plan = self.in_traceback = False
            self._open()
            self._said(stripped[11:], header=True)
            return
        if self.suppressed:
            return
        if stripped.startswith("Driver stacktrace"):
            self.frames_to = 0
            return
        if stripped.startswith("=== Streaming Query ==="):
            self.in_plan = True
        if self.in_plan:
            return
        if any(stripped.startswith(words) for words in _PYTHON_CAUSES):
            self.cause_comes = True
            return
        if self.in_traceback and not line.startswith(("    ", "\t", "  ")):
            self.in_traceback = False
            header = _PYTHON_HEADER.match(stripped)
            if header:
                self.chain[self.place].name = header[1]
                self.messages[self.place] = []
                self._said(stripped[header.end() :], header=False)
                return
        if self.in_traceback:
            return  # a line of source
        header = _QUALIFIED.match(stripped.removeprefix(": "))
        bare = _BARE.match(stripped)
        self._said(stripped, header=bool(header or bare))

    def done(self) -> list[Link]:
        chain = []
        for link, said in zip(self.chain, self.messages, strict=True):
            link.message = "\n".join(said)
            if link.name or link.message or link.java or link.python:
                chain.append(link)
        return chain or [Link()]

    # -- parts -----------------------------------------------------------------------------------

    def _frames(self) -> list[str]:
        return self.chain[self.place if self.frames_to is None else self.frames_to].java

    def _open(self) -> None:
        """A cause of the link that is being read, unless that one is still empty."""
        link = self.chain[self.place]
        self.frames_to = None
        if not link.name and not self.messages[self.place] and not link.java and not link.python:
            return
        self.place += 1
        self.chain.insert(self.place, Link())
        self.messages.insert(self.place, [])

    def _open_traceback(self) -> None:
        if self.cause_comes:  # what the one above caused: outside of it
            self.cause_comes = False
            self.place = self.group
            self.chain.insert(self.place, Link())
            self.messages.insert(self.place, [])
            self.frames_to = None
        else:
            self._open()
            self.group = self.place
        self.in_traceback = True

    def _said(self, text: str, *, header: bool) -> None:
        """A part of a message, with the exceptions that it names each a cause of the one before."""
        traceback = text.find(_TRACEBACK)
        if traceback >= 0:
            self._said_of_java(text[:traceback], header=header)
            self._open_traceback()
            return
        self._said_of_java(text, header=header)

    def _said_of_java(self, text: str, *, header: bool) -> None:
        start = 0
        if header:
            bare = _BARE.match(text)
            if bare:
                if self.chain[self.place].name:
                    self._open()
                self.chain[self.place].name = bare[1]
                start = bare.end()
        for found in _QUALIFIED.finditer(text):
            named = header and found.start() <= 2 and start == 0
            if not named and not (_FAILS.search(found[1]) and _begins(text, found)):
                self.chain[self.place].mentions.append(found[1])
                continue
            self._word(text[start : found.start()])
            if self.chain[self.place].name:
                self._open()
            self.chain[self.place].name = found[1]
            start = found.end()
        lost = _LOST_EXECUTOR.search(text, start)
        if lost:
            self._word(text[start : lost.start()])
            self._open()
            self.chain[self.place].name = lost[1]
            start = lost.end()
        self._word(text[start:])

    def _word(self, text: str) -> None:
        text = text.removeprefix("): ").strip(" :\t")  # what Hadoop puts a class in
        if text:
            self.messages[self.place].append(text)


def _begins(text: str, found: re.Match[str]) -> bool:
    """Whether a class named within a message begins an exception that is told there."""
    after = text[found.end() : found.end() + 2]
    if after == "):":  # Hadoop's RemoteException(what.the.ServerException): its message
        return True
    after = after[:1]
    if text[found.start() - 1 : found.start()] in ("'", '"'):  # a row or a name that is shown
        return False
    before = text[max(0, found.start() - 2) : found.start()]
    return after == ":" or (not after and (not before or before.endswith((": ", "\n"))))
