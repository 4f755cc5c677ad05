"""Why a query failed, on two axes: where, and what; and from both the one cause that metrics count.

The text is taken apart into its chain of exceptions and judged from the deepest one outwards: the
first that says what happened decides, and the innermost frame that says where. What is known of
conditions, classes, words and frames stands in tables of their own (``failure_conditions``,
``failure_kinds``, ``failure_places``); here stands how they are asked, and the cause of each place
and kind. What no table knows stays unknown. Pure; takes time linear in the text.
"""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

import msgspec

from agent.core.judge.failure import conditions as failure_conditions
from agent.core.judge.failure import kinds as failure_kinds
from agent.core.judge.failure.exception_text import Link, chain_of
from agent.core.judge.failure.places import (
    Place,
    asked_registry,
    missed_in_storage,
    opened_by_client,
    own_end,
    place_of,
    thrown_by_user,
)
from agent.core.judgement import FailureView
from agent.core.names import first_line
from spark_listener.redact import redact

Cause = Literal[
    "user_code",
    "external_sink",
    "memory",
    "machine",
    "state_store",
    "checkpoint_storage",
    "source_data_loss",
    "configuration",
    "unknown",
]
CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)
WHERES: Final = (
    "source",
    "sink",
    "state",
    "checkpoint",
    "shuffle",
    "user_code",
    "driver",
    "machine",
    "unknown",
)
WHATS: Final = (
    "unreachable",
    "throttled",
    "refused",
    "gone",
    "corrupt",
    "memory",
    "disk",
    "setting",
    "schema",
    "bug",
    "killed",
    "unknown",
)
LONGEST_EVIDENCE: Final = 300
_BEFORE: Final = LONGEST_EVIDENCE // 2  # characters shown before the words that tell
_LONGEST_MESSAGE: Final = 4_000  # characters of one message that are searched for words

#: The cause of what a service says, by whose service it is.
_SERVICE: Final[dict[str, Cause]] = {
    "source": "external_sink",
    "sink": "external_sink",
    "user_code": "external_sink",
    "state": "state_store",
    "checkpoint": "checkpoint_storage",
    "*": "unknown",
}

#: The cause of a kind in a place; ``*`` stands for every place that its row does not name.
_CAUSES: Final[dict[str, dict[str, Cause]]] = {
    "memory": {"*": "memory"},
    "disk": {"state": "checkpoint_storage", "checkpoint": "checkpoint_storage", "*": "machine"},
    # A credential, an option, a jar: what a changed setting cures, wherever it is.
    "denied": {"*": "configuration"},
    "setting": {"*": "configuration"},
    "schema": {"state": "state_store", "*": "configuration"},
    # A service that writes or reads elsewhere and does not answer is outside of the job.
    "unreachable": {**_SERVICE, "*": "machine"},
    "throttled": {
        "state": "state_store",
        "checkpoint": "checkpoint_storage",
        "*": "external_sink",
    },
    "refused": {**_SERVICE, "shuffle": "machine", "machine": "machine"},
    "gone": {
        "source": "source_data_loss",
        "sink": "external_sink",
        "state": "state_store",
        "checkpoint": "checkpoint_storage",
        "user_code": "user_code",
        "shuffle": "machine",
        "machine": "machine",
        "*": "unknown",
    },
    "corrupt": {
        "source": "unknown",
        "sink": "external_sink",
        "state": "state_store",
        "checkpoint": "checkpoint_storage",
        "user_code": "user_code",
        "shuffle": "machine",
        "machine": "machine",
        "*": "unknown",
    },
    "bug": {
        "user_code": "user_code",
        "sink": "external_sink",
        "state": "state_store",
        "checkpoint": "checkpoint_storage",
        "*": "unknown",
    },
    "killed": {"machine": "machine", "shuffle": "machine", "*": "unknown"},
    # A service said something that no table knows.
    "said": _SERVICE,
    "": {
        "sink": "external_sink",
        "state": "state_store",
        "checkpoint": "checkpoint_storage",
        "shuffle": "machine",
        "machine": "machine",
        "user_code": "user_code",
        "*": "unknown",
    },
}
#: Kinds that a service gives: in the user's function that writes a batch they are the sink's.
_OUTSIDE: Final = frozenset(("unreachable", "throttled", "denied", "refused", "absent", "said"))
#: Classes of these kinds are thrown for a want of rights, or for a rate, as well: the words tell.
_SPOKEN_OVER: Final = frozenset(("gone", "unreachable", "throttled"))
#: Thrown for whatever the system answers, whose reason the message ends with.
_OF_SYSTEM: Final = frozenset(("FileNotFoundException", "SocketException"))
#: Of a want of rights, too, where Amazon's MSK has too many of its clients connect.
_FOR_A_RATE: Final = "SaslAuthenticationException"
_SHOWN: Final = {"denied": "refused", "absent": "setting", "said": "unknown", "": "unknown"}

#: An apostrophe between letters is no quote; a ``b`` before one is how Python shows bytes.
_QUOTED: Final = re.compile(r"\"[^\"\n]*\"|(?<!\w)b?'[^'\n]*'(?!\w)")
_CARRIERS: Final = frozenset(("Py4JJavaError", "Py4JException", "PythonException"))
_IN_TASK: Final = re.compile(r"Lost task|ExecutorLostFailure|has failed the maximum allowable")
_REASON: Final = re.compile(r"\) Reason:?\s*")
_OF_DRIVER: Final = re.compile(
    r"MicroBatchExecution|StreamExecution|BroadcastExchange|SparkContext|DAGScheduler|spark\.deploy"
)
#: What makes a query, a reader or a writer: an argument that is refused there is an option.
_MAKES: Final = re.compile(
    r"Data(?:Stream|Frame)(?:Reader|Writer)\b|DataSource\$?\.(?:create|lookup|resolve|source)"
    r"|StreamingRelation\$?\.|\$?logicalPlan|createRelation|inferSchema|getTable\b"
    r"|UnsupportedOperationChecker|SparkContext\.<init>|\.config\."
)
_TABLE_LOG: Final = re.compile(r"_delta_log|_spark_metadata|\.hoodie/")
#: As Spark ends what it says, a wrapped message's own before it.
_OWN_STATE: Final = re.compile(r"(?:\bSQLSTATE: [0-9A-Z]{5} ?){1,3}$")
_TABLE_SOURCE: Final = re.compile(
    r"DeltaSource\b|DeltaSource[A-Z]|CDCReader|io\.delta\.spark\.internal\.v2\.read\."
    r"|hudi\.\S*Source"
)

#: What a path in a message lies in, where no frame tells.
_PATHS: Final = (
    ("sink", re.compile(r"_spark_metadata|_delta_log|_temporary/|\.hoodie")),
    ("state", re.compile(r"/state/\d+/\d+|StateStore|state store")),
    ("checkpoint", re.compile(r"/(?:offsets|commits|sources)/(?:\d|\.)|/metadata\b|[Cc]heckpoint")),
)


class Context(msgspec.Struct, frozen=True):
    """What else is known of the run that ended."""

    checkpoint_location: str = ""
    killed_after_seconds: float | None = None  # it was ended while a batch ran past its deadline
    committed: bool = False  # the query had committed batches before: its source was there


class _Verdict(msgspec.Struct, frozen=True):
    kind: str
    link: int
    where: str = ""  # by the words or the condition alone
    at: int = 0  # of the words in the link's message
    sure: bool = False  # the place is the condition's own, whatever the frames say


def cause_of(
    exception: str | None, error_class: str | None, context: Context | None = None
) -> FailureView:
    """The cause of a run's end, where and what it was, and the line that shows it.

    ``unknown`` where nothing is known. ``error_class`` is the condition that Spark names at the
    run's end, of the outermost exception.
    """
    context = context or Context()
    text = exception or ""
    name = error_class or ""
    chain = chain_of(text)
    verdict = _kind(chain, name)
    if verdict is None:
        return _unknown(text, name, context, chain)
    if verdict.kind == "unreachable":
        verdict = _of_own(chain, verdict)
    where = _where(chain, verdict, name, context.checkpoint_location)
    kind = verdict.kind
    if kind == "absent":  # a name that nobody knows: a wrong one, unless it was there before
        was_there = where in ("state", "checkpoint", "shuffle")
        if where == "source" and context.committed:
            was_there = not asked_registry(_frames(chain, verdict.link))
        kind = "gone" if was_there else "setting"
    if kind == "denied" and where == "" and chain[verdict.link].python:
        where = "user_code"
    by_place = _CAUSES[kind]
    cause = by_place.get(where, by_place["*"])
    return FailureView(
        cause,
        _tidy(_evidence(chain[verdict.link], verdict.at) or text, name),
        where or "unknown",
        _SHOWN.get(kind, kind),
    )


def outcomes() -> set[tuple[str, str, Cause]]:
    """Every (where, what, cause) that can be told."""
    return {
        (where, _SHOWN.get(kind, kind), by_place.get(where, by_place["*"]))
        for kind, by_place in _CAUSES.items()
        for where in WHERES
    }


# -- what --------------------------------------------------------------------------------------


def _kind(chain: list[Link], error_class: str) -> _Verdict | None:
    """What happened: by a link that knows more than its cause, else by the deepest that tells.

    What many share is believed only where none does.
    """
    outwards = range(len(chain) - 1, -1, -1)
    first = [index for index in outwards if failure_kinds.knows_more(chain[index].message)]
    for index in (*first, *outwards):
        verdict = _told(chain, index, error_class if index == 0 else "")
        if verdict is not None:
            return verdict
    in_task = any(_IN_TASK.search(link.message) for link in chain)
    # An option is refused when a query is made; a task fails on its rows, a function on its own.
    for index in range(len(chain) - 1, -1, -1):
        kind = failure_kinds.kind_of_shared(chain[index].simple)
        if kind == "bug" and place_of(chain[index].java).where in ("source", "sink"):
            return _Verdict("", index)  # what a connector throws by no class of its own
        if kind == "said" and failure_kinds.while_connecting(chain[index].java):
            kind = "unreachable"
        if kind == "argument":
            kind = _argument(chain, index, in_task=in_task)
        if kind:
            return _Verdict(kind, index)
    for index in range(len(chain) - 1, -1, -1):
        link = chain[index]
        if link.python and link.name and link.simple not in _CARRIERS:
            return _Verdict("bug", index)
        for name in failure_conditions.conditions_in(link.message[:_LONGEST_MESSAGE]):
            place = failure_conditions.place_of_condition(name, link.message)
            if place is not None and place[0]:
                return _Verdict("bug" if place[0] == "user_code" else "", index, place[0])
    deepest = len(chain) - 1
    where = place_of(_frames(chain, deepest)).where
    if where in ("state", "checkpoint", "sink", "shuffle"):
        return _Verdict("", deepest)
    if where == "user_code" and chain[deepest].java and chain[deepest].simple not in _CARRIERS:
        return _Verdict("bug", deepest)  # an exception of the user's own making
    return None


def _of_own(chain: list[Link], verdict: _Verdict) -> _Verdict:
    """The same, or what it is where no service but a part of Spark or of the job was asked."""
    link = chain[verdict.link]
    of_socket = link.name.startswith(("java.", "py4j.Py4J"))  # Python has its own
    said = f"{link.name}: {link.message[:_LONGEST_MESSAGE]}"
    told = own_end(_frames(chain, verdict.link), said) if of_socket else None
    if told is None:
        return verdict
    kind, where = told
    return _Verdict(kind, verdict.link, where, verdict.at, sure=True)


def _argument(chain: list[Link], index: int, *, in_task: bool) -> str:
    """What an argument or a state is that nobody took: an option, a fault, or nothing to tell."""
    if in_task or thrown_by_user(chain[index].java):
        return "bug"
    frames = _frames(chain, index)
    return "setting" if any(_MAKES.search(frame) for frame in frames) else ""


def _told(chain: list[Link], index: int, error_class: str) -> _Verdict | None:
    link = chain[index]
    message = link.message[:_LONGEST_MESSAGE]
    if failure_kinds.lost_executor(link.name, message) or link.name == "FetchFailed":
        words = failure_kinds.kind_of_words(message)
        if words is not None and words[0] in ("memory", "disk"):
            kind, _, at = words
        else:
            reason = _REASON.search(message)  # on Kubernetes it begins on the next line
            kind, at = "killed", reason.end() if reason else 0
        if link.name == "FetchFailed":
            return _Verdict("gone" if kind == "killed" else kind, index, "shuffle", at)
        return _Verdict(kind, index, "machine", at)
    if failure_kinds.spark_timed_out(message):
        return _Verdict("unreachable", index, "machine")
    if failure_kinds.wrongly_installed(message):
        return _Verdict("setting", index)
    by_name, by_state = _of_condition(link, index, error_class)
    if by_name is not None:
        return by_name
    if link.simple == "NotSerializableException":  # it names what the function holds
        return _Verdict("bug", index, "user_code", sure=True)
    kind = failure_kinds.kind_of_class(link.simple)
    if kind == "bug":  # it shows the row or name that it met: what that says happened to nobody
        message = _QUOTED.sub(lambda quoted: " " * len(quoted[0]), message)
    words = failure_kinds.kind_of_words(message)
    if by_state is not None and words is None:
        return by_state
    if link.simple in _OF_SYSTEM:
        by_system = failure_kinds.kind_of_system(message)
        if by_system is not None:
            return _Verdict(by_system[0], index, by_system[1], by_system[2])
    if kind == "gone" and opened_by_client(link.java):
        return _Verdict("setting", index)
    if words is not None and words[0] == "absent" and missed_in_storage(link.java):
        words = ("gone", *words[1:])
    if not kind and words is None:
        kind = failure_kinds.kind_of_frames(link.simple, link.java)
        if not kind and not failure_kinds.kind_of_shared(link.simple):
            kind = failure_kinds.kind_of_name(link.simple)
    if words is not None and (
        not kind
        or words[0] in ("disk", "memory")
        or (kind in _SPOKEN_OVER and words[0] in ("denied", "throttled"))
        or (link.simple == _FOR_A_RATE and words[0] == "throttled")
        or (kind == "absent" and words[0] == "gone")
        or kind == words[0]
        or (words[1] in ("state", "checkpoint") and kind != "memory")
    ):
        return _Verdict(words[0], index, words[1], words[2], words[1] == "driver")
    return _Verdict(kind, index) if kind else None


def _of_condition(
    link: Link, index: int, error_class: str
) -> tuple[_Verdict | None, _Verdict | None]:
    """What a link's conditions say by their names, else by the SQLSTATE: words tell more then."""
    message = link.message[:_LONGEST_MESSAGE]
    names = [*failure_conditions.conditions_in(message), *([error_class] if error_class else [])]
    by_state: _Verdict | None = None
    for name in names:
        at = max(0, message.find(name))
        if link.simple.startswith("PySpark"):
            kind = failure_conditions.kind_in_pyspark(name)
            if kind:
                return _Verdict(kind, index, "user_code", at), None
            continue
        family = failure_conditions.family_of(name)
        if family is not None and family.kind:
            sure = family.where in ("source", "sink")
            return _Verdict(family.kind, index, family.where, at, sure), None
        place = failure_conditions.place_by_state(name, message)
        if place is not None and by_state is None:
            by_state = _Verdict(place[1], index, place[0], at, place[0] in ("source", "sink"))
    return None, by_state


# -- where -------------------------------------------------------------------------------------


def _frames(chain: list[Link], index: int) -> list[str]:
    """The stack under a link, innermost first: its own frames, then those of what it caused."""
    frames: list[str] = []
    named = []  # Java's own classes: whoever threw them tells more
    for link in reversed(chain[: index + 1]):
        if link.name.startswith(("java.", "javax.")):
            named.append(f"{link.name}.")
        elif "." in link.name:
            frames.append(f"{link.name}.")
        frames += link.python
        frames += link.java
    frames += named
    for link in chain:
        frames += (f"{name}." for name in link.mentions)
        if link.simple in ("ClassNotFoundException", "NoClassDefFoundError") and link.message:
            frames.append(link.message.split()[0].replace("/", ".") + ".")
    return frames


def _where(chain: list[Link], verdict: _Verdict, error_class: str, checkpoint_location: str) -> str:
    kind = verdict.kind
    frames = _frames(chain, verdict.link)
    if kind == "memory":
        return _whose_memory(chain, frames, verdict)
    if kind == "killed" and verdict.where:  # a service may cancel what was asked of it
        by_service = place_of(chain[verdict.link].java).where
        return by_service if by_service in ("source", "sink") else verdict.where
    by_condition = _condition_place(chain, verdict.link, error_class)
    of_table = _TABLE_LOG.search(chain[verdict.link].message[:_LONGEST_MESSAGE]) is not None
    for where in (by_condition, verdict.where):
        if where == "state" or (where == "checkpoint" and not of_table):
            return where
    if verdict.sure and not of_table:
        return verdict.where
    place = place_of(frames)
    if not place.where:  # what stands behind a class that a message names is thrown there, too
        place = place_of(_frames(chain, len(chain) - 1))
    if place.handed and kind in _OUTSIDE:
        return "sink"
    if of_table and place.where in ("source", "checkpoint"):
        # Spark reads the log of the table it writes as it reads files.
        return "source" if any(_TABLE_SOURCE.search(frame) for frame in frames) else "sink"
    if place.where in ("user_code", "client", ""):
        by_path = _path_place(chain, verdict.link, checkpoint_location)
        for where in (verdict.where, by_condition, place.where, by_path):
            if where and where != "client":
                return where
        name = chain[verdict.link].name
        of_python = kind == "bug" and name.endswith("Error") and "." not in name
        if place.where or of_python or name.endswith(("AnalysisException", "ParseException")):
            return "user_code"
    return place.where


def _whose_memory(chain: list[Link], frames: list[str], verdict: _Verdict) -> str:
    if verdict.where == "driver":
        return "driver"
    if verdict.where == "user_code" or chain[verdict.link].python:
        return "user_code"  # a Python worker has a process of its own
    if any(_IN_TASK.search(link.message) for link in chain):
        return "machine"
    return "driver" if any(_OF_DRIVER.search(frame) for frame in frames) else "machine"


def _condition_place(chain: list[Link], index: int, error_class: str) -> str:
    """The place of the innermost condition around a link that has one."""
    for number in range(index, -1, -1):
        message = chain[number].message[:_LONGEST_MESSAGE]
        names = failure_conditions.conditions_in(message)
        for name in [*names, *([error_class] if number == 0 and error_class else [])]:
            place = failure_conditions.place_of_condition(name, message)
            if place is not None and place[0]:
                return place[0]
    return ""


def _path_place(chain: list[Link], index: int, checkpoint_location: str) -> str:
    for link in reversed(chain[: index + 1]):
        message = link.message[:_LONGEST_MESSAGE]
        for where, pattern in _PATHS:
            if pattern.search(message):
                return where
        if checkpoint_location and checkpoint_location in message:
            return "checkpoint"
    return ""


# -- evidence ----------------------------------------------------------------------------------


def _unknown(text: str, name: str, context: Context, chain: list[Link]) -> FailureView:
    where = place_of(_frames(chain, len(chain) - 1))
    if context.killed_after_seconds is not None:
        said = f"ended from outside after a batch had run {context.killed_after_seconds:.0f} s"
        evidence = f"{said}: {first_line(text, 120)}" if text.strip() else said
    else:
        said = _OWN_STATE.sub("", first_line(text, LONGEST_EVIDENCE)).rstrip()
        evidence = _tidy(said, name) if said or name else "no exception was told"
    return FailureView("unknown", evidence, _place_shown(where), "unknown")


def _place_shown(place: Place) -> str:
    return place.where if place.where in WHERES else "unknown"


def _evidence(link: Link, at: int) -> str:
    """The link's class and the line of its message that tells, cut before the words if long."""
    line = link.message.rfind("\n", 0, at) + 1
    end = link.message.find("\n", at)
    begin = max(line, at - 2 * _BEFORE)
    said = _OWN_STATE.sub("", link.message[begin : len(link.message) if end < 0 else end]).rstrip()
    if begin > line:
        # Struck out before it is cut: a value may stand behind a name that the cut takes away.
        said = redact(said[: 4 * LONGEST_EVIDENCE])
        said = said[said.find(" ", _BEFORE) + 1 :]
    return f"{link.name}: {said}" if link.name and said else link.name or said


def _tidy(evidence: str, error_class: str) -> str:
    line = first_line(evidence.strip(), LONGEST_EVIDENCE)
    if error_class and error_class not in line:
        line = f"{error_class}: {line}" if line else error_class
    return line[:LONGEST_EVIDENCE]
