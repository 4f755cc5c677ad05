"""A scenario: what the synthetic plant does over time, read strictly from its JSON file.

Series are ``[[second, value], ...]``, each value holding until the next. Every complaint names the
file, the line and the field.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from typing import Any, Final, NoReturn

import msgspec

from agent.core.measure.cost import Curve

#: Longer than a year of seconds is a slip of units, and would run for minutes.
MOST_SECONDS: Final = 366 * 86400.0
#: More executors than any cluster has is a slip.
MOST_EXECUTORS: Final = 10_000
#: On Java that just started all takes so many times as long as when it is warm: as measured on four
#: queries of NEXMark on a standalone cluster (Spark 4.2).
COLD_TIMES: Final = 3.0


def cold_times(age_seconds: float, warm_up_seconds: float) -> float:
    """By which what runs on Java of that age takes longer; the excess fades with the warm-up."""
    return 1.0 + (COLD_TIMES - 1.0) * math.exp(-age_seconds / warm_up_seconds)


class ScenarioError(ValueError):
    """The scenario cannot be used; the message is one line: file, line, field, what is wrong."""


class Series(msgspec.Struct, frozen=True):
    """A piecewise constant function of time in seconds."""

    times: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, second: float) -> float:
        """The value that holds at a second from 0."""
        return self.values[bisect_right(self.times, second) - 1]


class Executors(msgspec.Struct, frozen=True, kw_only=True):
    """What the plant runs on; names and units as in the file.

    The serial share of a row's time is the driver's or one task's and stays (Amdahl 1967); the rest
    is ``tasks`` even tasks, which run in waves. Each takes ``executors ** contention`` times as
    long, where all of them wait for the same sink: at 1 more executors bring nothing. A new one is
    cold (``cold_times``).
    """

    present: int  # in the beginning
    maximum: int
    start_seconds: float  # from being asked for to being there
    serial_share: float
    slots: int = 1  # tasks that one runs at once
    tasks: int = 200  # Spark's default of spark.sql.shuffle.partitions
    contention: float = 0.0
    warm_up_seconds: float = 0.0  # in which what cold Java adds falls to a third (by e)

    def waves(self, executors: int) -> int:
        """Of tasks, one after the other."""
        return math.ceil(self.tasks / (executors * self.slots))

    def share(self, executors: int) -> float:
        """The time of a row on so many, over that on one."""
        slower = math.pow(executors, self.contention)
        parallel = slower * self.waves(executors) / self.waves(1)
        return self.serial_share + (1.0 - self.serial_share) * parallel


class Stalls(msgspec.Struct, frozen=True):
    """Batches that are slow by themselves: a pause of a collector, a disk, a neighbour.

    Of small batches of real queries 2 to 8 in 100 took 0.2 to 1.1 s longer than those beside them.
    """

    chance: float  # of each batch, from 0 to 1
    mean_seconds: float  # that such a one takes more, exponentially distributed


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """The plant and its load; names and units as in the file.

    With ``executors`` the throughput is that of one of them, and c0 the driver's.
    """

    name: str
    duration_seconds: float
    trigger_seconds: float
    target_seconds: float
    initial_limit_rows: int
    initial_backlog_rows: int
    arrival_rows_per_second: Series
    fixed_cost_seconds: Series
    throughput_rows_per_second: Series
    congestion_rows: float | None
    noise_sigma: float
    batch_timeout_seconds: float | None
    restart_seconds: float
    #: That a driver's first batch takes beside, whatever it holds: nothing is compiled yet, and
    #: its caches are empty.
    cold_start_seconds: float = 0.0
    #: When the driver is stopped, as for a new version of the job: the batch in hand comes again.
    rollout_seconds: tuple[float, ...] = ()
    executors: Executors | None = None
    stalls: Stalls | None = None

    def seconds(self, rows: float, second: float, executors: int | None = None) -> float:
        """What a batch of so many rows takes when started at a second, but for its noise."""
        return self.curve(second, executors).seconds(rows)

    def driver_seconds(self, rows: float, second: float) -> float:
        """Of that, the time in which no task runs."""
        serial = 0.0 if self.executors is None else self.executors.serial_share
        return self.fixed_cost_seconds.at(second) + serial * rows * self._per_row(second)

    def curve(self, second: float, executors: int | None = None) -> Curve:
        """The true cost of a batch started at a second, on so many executors, else the first."""
        per_row, block = self._per_row(second), self.executors
        if block is not None:
            per_row *= block.share(executors or block.present)
        congestion = 0.0 if self.congestion_rows is None else per_row / self.congestion_rows
        return Curve(self.fixed_cost_seconds.at(second), per_row, congestion)

    def _per_row(self, second: float) -> float:
        return 1.0 / self.throughput_rows_per_second.at(second)


def read_scenario(text: str, file: str) -> Scenario:
    """A scenario from its JSON text; raises ScenarioError naming ``file``, line and field."""
    return _Reader(text, file).scenario()


class _Reader:
    """Knows text and file, so that a complaint can say where."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._data: dict[str, Any] = {}

    def scenario(self) -> Scenario:
        self._parse()
        duration = self._number("duration_seconds", above_zero=True)
        if duration > MOST_SECONDS:
            self._fail("duration_seconds", f"at most {MOST_SECONDS:.0f}, not {duration:.10g}")
        name = self._data.get("name", "scenario")
        if not isinstance(name, str):
            self._fail("name", f"a text is needed, not {_kind(name)}")
        scenario = Scenario(
            name=name,
            duration_seconds=duration,
            trigger_seconds=self._number("trigger_seconds"),
            target_seconds=self._number("target_seconds", above_zero=True),
            initial_limit_rows=self._whole("initial_limit_rows", least=1),
            initial_backlog_rows=self._whole("initial_backlog_rows", least=0),
            arrival_rows_per_second=self._series("arrival_rows_per_second"),
            fixed_cost_seconds=self._series("fixed_cost_seconds"),
            throughput_rows_per_second=self._series("throughput_rows_per_second", above_zero=True),
            congestion_rows=self._optional("congestion_rows"),
            noise_sigma=self._number("noise_sigma"),
            batch_timeout_seconds=self._optional("batch_timeout_seconds"),
            restart_seconds=self._number("restart_seconds"),
            cold_start_seconds=self._number_or_zero("cold_start_seconds"),
            rollout_seconds=self._rollouts(),
            executors=self._executors(),
            stalls=self._stalls(),
        )
        if scenario.noise_sigma > 5.0:
            told = f"of the log of a duration, at most 5, not {scenario.noise_sigma:.10g}"
            self._fail("noise_sigma", told)
        timeout = scenario.batch_timeout_seconds
        if timeout is not None and min(scenario.fixed_cost_seconds.values) > timeout:
            self._fail(
                "batch_timeout_seconds",
                f"contradicts fixed_cost_seconds: no batch ever ends within {timeout:g} s",
            )
        return scenario

    def _rollouts(self) -> tuple[float, ...]:
        field = "rollout_seconds"
        value = self._data.get(field, [])
        if not isinstance(value, list):
            self._fail(field, f"[second, ...] is needed, not {_kind(value)}")
        found: list[float] = []
        for index, item in enumerate(value):
            second = self._check(f"{field}[{index}]", item)
            if found and second <= found[-1]:
                self._fail(f"{field}[{index}]", f"{second:.10g} is not after {found[-1]:.10g}")
            found.append(second)
        return tuple(found)

    def _executors(self) -> Executors | None:
        inner = self._inner("executors", Executors.__struct_fields__)
        return None if inner is None else inner.executors()

    def _stalls(self) -> Stalls | None:
        inner = self._inner("stalls", Stalls.__struct_fields__)
        return None if inner is None else inner.stalls()

    def stalls(self) -> Stalls:
        """Of an object that holds them alone."""
        stalls = Stalls(self._number("chance"), self._number("mean_seconds"))
        if stalls.chance > 1.0:
            self._fail("chance", f"from 0 to 1 is needed, not {stalls.chance:.10g}")
        return stalls

    def _inner(self, field: str, known: tuple[str, ...]) -> _Reader | None:
        """The reader of an object that may be left out."""
        value = self._data.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._fail(field, f"an object is needed, not {_kind(value)}")
        inner = _Reader(self._text, self._file)
        inner._data = value
        for key in value:
            if key not in known:
                inner._fail(key, f"is none of {field}' {', '.join(known)}")
        return inner

    def executors(self) -> Executors:
        """Of an object that holds them alone."""
        block = Executors(
            present=self._whole("present", least=1),
            maximum=self._whole("maximum", least=1),
            start_seconds=self._number("start_seconds"),
            serial_share=self._number("serial_share"),
            **{
                field: self._whole(field, least=1)
                for field in ("slots", "tasks")
                if field in self._data
            },
            contention=self._number_or_zero("contention"),
            warm_up_seconds=self._number_or_zero("warm_up_seconds"),
        )
        if block.present > block.maximum:
            self._fail("present", f"at most the maximum, {block.maximum}, not {block.present}")
        for field in ("serial_share", "contention"):
            share = getattr(block, field)
            if share > 1.0:
                self._fail(field, f"a share from 0 to 1 is needed, not {share:.10g}")
        if block.maximum > MOST_EXECUTORS:
            self._fail("maximum", f"at most {MOST_EXECUTORS}, not {block.maximum}")
        return block

    def _parse(self) -> None:
        try:
            data = json.loads(
                self._text,
                object_pairs_hook=self._pairs,
                parse_constant=self._constant,
                parse_int=_integer,
            )
        except json.JSONDecodeError as error:
            where = f"{self._file}:{error.lineno}: column {error.colno}"
            raise ScenarioError(f"{where}: not JSON: {error.msg}") from None
        except RecursionError:
            raise ScenarioError(f"{self._file}:1: nested too deeply") from None
        if not isinstance(data, dict):
            raise ScenarioError(f"{self._file}:1: an object is needed, not {_kind(data)}")
        self._data = data

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                self._fail(key, "stands there twice", last=True)
            found[key] = value
        return found

    def _constant(self, word: str) -> NoReturn:
        line = self._text[: self._text.find(word)].count("\n") + 1
        raise ScenarioError(f"{self._file}:{line}: {word} is no JSON number")

    def _fail(self, field: str, what: str, *, last: bool = False) -> NoReturn:
        key = field.partition("[")[0]
        places = list(re.finditer(re.escape(json.dumps(key)) + r"\s*:", self._text))
        place = places[-1 if last else 0].start() if places else 0
        line = self._text.count("\n", 0, place) + 1
        raise ScenarioError(f"{self._file}:{line}: {field}: {what}")

    def _get(self, field: str) -> Any:
        if field not in self._data:
            self._fail(field, "is missing")
        return self._data[field]

    def _check(self, field: str, value: Any, *, above_zero: bool = False) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._fail(field, f"a number is needed, not {_kind(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or abs(number) > 1e18:
            self._fail(field, "a number below 1e18 is needed")
        if number < 0.0 or (above_zero and number == 0.0):
            least = "above 0" if above_zero else "from 0"
            self._fail(field, f"a number {least} is needed, not {number:.10g}")
        return number

    def _number(self, field: str, *, above_zero: bool = False) -> float:
        return self._check(field, self._get(field), above_zero=above_zero)

    def _number_or_zero(self, field: str) -> float:
        return self._number(field) if field in self._data else 0.0

    def _whole(self, field: str, *, least: int) -> int:
        number = self._number(field)
        if number != int(number) or number < least:
            self._fail(field, f"a whole number from {least} is needed, not {number:.10g}")
        return int(number)

    def _optional(self, field: str) -> float | None:
        return None if self._get(field) is None else self._number(field, above_zero=True)

    def _series(self, field: str, *, above_zero: bool = False) -> Series:
        value = self._get(field)
        if not isinstance(value, list) or not value:
            self._fail(field, f"[[second, value], ...] is needed, not {_kind(value)}")
        times: list[float] = []
        values: list[float] = []
        for index, item in enumerate(value):
            place = f"{field}[{index}]"
            if not isinstance(item, list) or len(item) != 2:
                self._fail(place, f"[second, value] is needed, not {_kind(item)}")
            time = self._check(f"{place}[0]", item[0])
            if not times and time != 0.0:
                self._fail(f"{place}[0]", f"a series begins at second 0, not {time:.10g}")
            if times and time <= times[-1]:
                self._fail(f"{place}[0]", f"second {time:.10g} is not after {times[-1]:.10g}")
            times.append(time)
            values.append(self._check(f"{place}[1]", item[1], above_zero=above_zero))
        return Series(tuple(times), tuple(values))


def _integer(digits: str) -> float:
    """Of more digits than Python reads as an int, a number beyond what any field may be."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, list):
        return "an empty list" if not value else "a list"
    return "an object"
