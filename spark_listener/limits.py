"""What a source may admit to one micro-batch: describe Spark's ``ReadLimit``, replace it safely.

A limit of a class that the source does not know ends the query. So a limit is only ever replaced
by one of the same class as the one the user configured (inside a composite: only that part), and a
source without one gets a limit only where ``sources`` knows that it takes one. Everything that
decides is pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from spark_listener.sources import is_wrapped, known
from spark_listener.wire import Control, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["all", "rows", "files", "bytes", "min_rows", "composite", "other"]

_PACKAGE: Final = "org.apache.spark.sql.connector.read.streaming."
KIND_OF_CLASS: Final[Mapping[str, Kind]] = {
    _PACKAGE + "ReadAllAvailable": "all",
    _PACKAGE + "ReadMaxRows": "rows",
    _PACKAGE + "ReadMaxFiles": "files",
    _PACKAGE + "ReadMaxBytes": "bytes",
    _PACKAGE + "ReadMinRows": "min_rows",
    _PACKAGE + "CompositeReadLimit": "composite",
}

#: What a source written in Python says of its limit, as JSON; it takes no other class (from 4.2).
PYTHON_LIMIT: Final = (
    "org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceReadLimit"
)
_PYTHON_KINDS: Final[Mapping[str, tuple[Kind, str]]] = {
    "ReadMinRows": ("min_rows", "min_rows"),
    "ReadMaxRows": ("rows", "max_rows"),
    "ReadMaxFiles": ("files", "max_files"),
    "ReadMaxBytes": ("bytes", "max_bytes"),
}

#: Delta Lake's own classes; a Scala case class' ``copy`` keeps all that is not given anew.
_DELTA: Final = "org.apache.spark.sql.delta.sources."
DELTA_BYTES: Final = _DELTA + "ReadMaxBytes"
DELTA_COMPOSITE: Final = _DELTA + "CompositeLimit"

#: What Java's parameter holds: ``maxFiles`` takes an int, the others a long.
LARGEST: Final[Mapping[Unit, int]] = {
    "rows": 2**63 - 1,
    "files": 2**31 - 1,
    "bytes": 2**63 - 1,
}
_MAXIMA: Final[tuple[Unit, ...]] = get_args(Unit)


@dataclass(frozen=True)
class Limit:
    """A ``ReadLimit`` as a value. ``value`` is in the unit that ``kind`` names."""

    kind: Kind
    value: int | None = None
    delay_milliseconds: int | None = None  # of min_rows
    parts: tuple[Limit, ...] = ()
    class_name: str = ""  # of kind other, and of any other that is of the source's own class

    def same_class(self, other: Limit) -> bool:
        """Equal but for the numbers."""
        return (
            self.kind == other.kind
            and self.class_name == other.class_name
            and len(self.parts) == len(other.parts)
            and all(mine.same_class(its) for mine, its in zip(self.parts, other.parts, strict=True))
        )


ALL: Final = Limit("all")


class Refused(ValueError):  # noqa: N818 - a decision, not a fault
    """A limit that must not be set; the message says why, in a few words."""


@dataclass(frozen=True)
class Handle:
    """What can be done with one source's limit."""

    control: Control
    unit: Unit
    note: str = ""
    obeyed: bool | None = None  # whether the source keeps to limits that change; None: not known


def handle_of(
    configured: Limit,
    source_class: str,
    *,
    all_at_once: bool = False,
    release: tuple[int, int] | None = None,
) -> Handle:
    """How a source with this configured limit can be steered.

    ``all_at_once``: the trigger admits everything by design, so no limit may be given.
    ``release``: the source's own, where ``sources`` says that it matters; None is unknown.
    """
    unit = _unit_of(configured, source_class)
    if all_at_once:
        return Handle("none", unit, "the trigger takes everything at once")
    if known(source_class).deaf:
        return Handle("advice", unit, "the source does not look at its limit", obeyed=False)
    if misread := known(source_class).misread:
        return Handle("advice", unit, misread)
    obeys_from = known(source_class).obeys_from
    if obeys_from is not None and (release is None or release < obeys_from):
        obeyed = None if release is None else False
        return Handle("advice", unit, _too_old(obeys_from, release), obeyed=obeyed)
    if is_wrapped(source_class):
        return Handle("advice", unit, "under AvailableNow Spark asks this source once, for all")
    try:
        replacement(configured, source_class, unit, 1)
    except Refused as reason:
        return Handle("advice", unit, str(reason))
    return Handle("live", unit, obeyed=known(source_class).obeys or None)


def maximum_of(limit: Limit, unit: Unit) -> int | None:
    """The most that ``limit`` admits in ``unit``; None where it sets no such maximum."""
    if limit.kind == unit:
        return limit.value
    found = [part.value for part in limit.parts if part.kind == unit and part.value is not None]
    return min(found) if found else None


def _too_old(obeys_from: tuple[int, int], release: tuple[int, int] | None) -> str:
    first = ".".join(map(str, obeys_from))
    if release is None:
        return f"the source looks at a changed limit from {first} on, and does not say which it is"
    return f"the source looks at a changed limit from {first} on, and is {release[0]}.{release[1]}"


def replacement(configured: Limit, source_class: str, unit: Unit, maximum: int) -> Limit:
    """The limit that admits ``maximum`` units, of the class that this source is known to take.

    Raises Refused where there is none.
    """
    if isinstance(maximum, bool) or maximum < 1:
        raise Refused(f"a limit of {maximum} {unit} would stop the query")
    largest = LARGEST["files"] if unit in known(source_class).ints else LARGEST[unit]
    new = Limit(unit, min(maximum, largest))
    if configured.kind == "all":
        takes = known(source_class).takes
        if takes != unit:
            raise Refused(
                "the source has no limit and is not known to take one"
                if takes is None
                else f"the source takes limits in {takes}, not in {unit}"
            )
        return new
    if configured.kind == "min_rows":
        if not _beside_minimum(source_class, unit):
            raise Refused("the source has a minimum and is not known to take a maximum beside it")
        return Limit("composite", parts=(configured, _not_below(new, (configured,))))
    if configured.kind in _MAXIMA:
        if configured.kind != unit:
            raise Refused(f"the source's limit is in {configured.kind}, not in {unit}")
        return Limit(unit, new.value, class_name=configured.class_name)
    if configured.kind == "composite":
        return _replaced_part(configured, source_class, unit, new)
    name = configured.class_name.rpartition(".")[2] or "unknown"
    raise Refused(f"the limit is of the source's own class {name[:80]}")


def _replaced_part(configured: Limit, source_class: str, unit: Unit, new: Limit) -> Limit:
    places = [index for index, part in enumerate(configured.parts) if part.kind == unit]
    if len(places) > 1:
        raise Refused(f"the composite limit has {len(places)} parts in {unit}")
    if places:
        parts = list(configured.parts)
        value = _not_below(new, configured.parts).value
        parts[places[0]] = Limit(unit, value, class_name=parts[places[0]].class_name)
        return Limit("composite", parts=tuple(parts), class_name=configured.class_name)
    only_minima = all(part.kind == "min_rows" for part in configured.parts)
    if configured.parts and only_minima and _beside_minimum(source_class, unit):
        new = _not_below(new, configured.parts)
        return Limit("composite", parts=(*configured.parts, new))
    raise Refused(f"the composite limit has no part in {unit}")


def _beside_minimum(source_class: str, unit: Unit) -> bool:
    source = known(source_class)
    return source.beside_minimum and source.takes == unit


def _not_below(new: Limit, beside: tuple[Limit, ...]) -> Limit:
    """No maximum below a minimum beside it: Spark refuses such a pair where it is configured."""
    minima = [part.value for part in beside if part.kind == "min_rows" and part.value is not None]
    if new.kind != "rows" or not minima or new.value is None:
        return new
    return Limit(new.kind, max(new.value, *minima))


def may_follow(present: Limit, configured: Limit, source_class: str, unit: Unit) -> bool:
    """True where ``present`` is the configured limit or one that we could have set ourselves."""
    if present == configured:
        return True
    maximum = maximum_of(present, unit)
    if maximum is None or maximum < 1:
        return False
    try:
        return replacement(configured, source_class, unit, maximum) == present
    except Refused:
        return False


def _unit_of(configured: Limit, source_class: str) -> Unit:
    # In a composite of several maxima: rows before files before bytes, unless the source's row
    # says another.
    source = known(source_class)
    for unit in _MAXIMA if source.unit_first is None else (source.unit_first, *_MAXIMA):
        if configured.kind == unit or any(part.kind == unit for part in configured.parts):
            return unit
    return source.takes or "rows"


# -- Java's side -----------------------------------------------------------------------------------


def describe(java_limit: Any) -> Limit:
    """A Java ``ReadLimit`` as a value; a class we do not know becomes ``other``, by its name."""
    class_name = str(java_limit.getClass().getName())
    kind = KIND_OF_CLASS.get(class_name, "other")
    if kind == "rows":
        return Limit(kind, int(java_limit.maxRows()))
    if kind == "files":
        return Limit(kind, int(java_limit.maxFiles()))
    if kind == "bytes":
        return Limit(kind, int(java_limit.maxBytes()))
    if kind == "min_rows":
        return Limit(kind, int(java_limit.minRows()), int(java_limit.maxTriggerDelayMs()))
    if kind == "composite":
        return Limit(kind, parts=tuple(describe(part) for part in java_limit.getReadLimits()))
    if kind == "all":
        return ALL
    if class_name == PYTHON_LIMIT:
        return _of_python(str(java_limit.json()))
    if class_name == DELTA_BYTES:
        return Limit("bytes", int(java_limit.maxBytes()), class_name=class_name)
    if class_name == DELTA_COMPOSITE:
        parts = (describe(java_limit.bytes()), describe(java_limit.maxFiles()))
        return Limit("composite", parts=parts, class_name=class_name)
    return Limit("other", class_name=class_name)


def _of_python(text: str) -> Limit:
    """A limit as a Python source's runner writes it; what it does not write now is other."""
    unknown = Limit("other", class_name=PYTHON_LIMIT)
    try:
        said = json.loads(text)
        if said == {"_type": "ReadAllAvailable"}:  # of each that names none
            return Limit("all", class_name=PYTHON_LIMIT)
        kind, field = _PYTHON_KINDS[said["_type"]]
        value = said[field]
    except (ValueError, KeyError, TypeError):
        return unknown
    if isinstance(value, bool) or not isinstance(value, int) or set(said) != {"_type", field}:
        return unknown
    return Limit(kind, value, class_name=PYTHON_LIMIT)


def build(gateway: Any, wanted: Limit, configured: Limit, java_configured: Any) -> Any:
    """The Java ``ReadLimit`` for ``wanted``; parts that stay are the configured objects themselves.

    Raises Refused where what was built is not, class for class, what was wanted.
    """
    factory = gateway.jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
    if wanted == configured:
        return java_configured
    if wanted.class_name == DELTA_COMPOSITE:
        size, files = wanted.parts
        built = java_configured.copy(
            _maximum(gateway, factory, size, java_configured.bytes()),
            _maximum(gateway, factory, files, java_configured.maxFiles()),
            *_min_files(java_configured),
        )
    elif wanted.kind == "composite":
        if configured.kind == "composite":
            originals = list(zip(configured.parts, java_configured.getReadLimits(), strict=True))
        else:
            originals = [(configured, java_configured)]
        array = gateway.new_array(factory, len(wanted.parts))
        for index, part in enumerate(wanted.parts):
            kept = [original for limit, original in originals if limit == part]
            like = [original for limit, original in originals if limit.same_class(part)]
            array[index] = (
                kept[0] if kept else _maximum(gateway, factory, part, like[0] if like else None)
            )
        built = factory.compositeLimit(array)
    else:
        built = _maximum(gateway, factory, wanted, java_configured)
    if describe(built) != wanted:
        raise Refused("Spark built another limit than was asked for")
    return built


def _python_maximum(gateway: Any, limit: Limit) -> Any:
    named = next(
        (name, field) for name, (kind, field) in _PYTHON_KINDS.items() if kind == limit.kind
    )
    text = json.dumps({named[1]: limit.value, "_type": named[0]})
    package = gateway.jvm.org.apache.spark.sql.execution.datasources.v2.python
    return package.PythonStreamingSourceReadLimit(text)


def _min_files(composite: Any) -> tuple[Any, ...]:
    """The third part of Delta's composite, of releases that have it."""
    return (composite.minFiles(),) if "minFiles" in dir(composite) else ()


def _maximum(gateway: Any, factory: Any, limit: Limit, configured: Any) -> Any:
    """``configured``: Java's own object in the place of which it comes."""
    if limit.class_name == PYTHON_LIMIT:
        return _python_maximum(gateway, limit)
    if limit.class_name == DELTA_BYTES:
        return configured.copy(limit.value)
    if limit.kind == "rows":
        return factory.maxRows(limit.value)
    if limit.kind == "files":
        return factory.maxFiles(limit.value)
    if limit.kind == "bytes":
        return factory.maxBytes(limit.value)
    raise Refused(f"a limit of kind {limit.kind} cannot be built")
