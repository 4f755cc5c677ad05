"""What a signal's handler raises while Weir attaches reaches the job, as anywhere else in it."""

from __future__ import annotations

import functools
import json
import logging
import os
import signal
import sys
import threading
from threading import Thread
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

import spark_listener
from spark_listener import attachment, handlers, lease, run
from spark_listener.complaints import Complaints
from spark_listener.driver import _RESTORED_WITHIN_SECONDS, FLUSH_SECONDS, Driver
from spark_listener.handlers import WhileOursRuns, leave_to_the_job
from spark_listener.sessions import Session, Sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from py4j.java_gateway import JavaGateway


class TooLongError(Exception):
    """As of a limit on time."""


def fail(*_: object) -> None:
    raise TooLongError


class Limit:
    """One that is called by its method, or itself."""

    def fail(self, *_: object) -> None:
        self.deeper()

    def deeper(self) -> None:
        fail()

    __call__ = fail


HANDLERS = [
    fail,
    Limit().fail,
    Limit(),
    functools.partial(fail, "more"),
    lambda *_: fail(),
    functools.lru_cache(fail),
    functools.partial(functools.lru_cache(Limit().fail), "more"),
]


@pytest.fixture(params=HANDLERS)
def handler(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    before = signal.signal(signal.SIGUSR1, request.param)
    yield request.param
    signal.signal(signal.SIGUSR1, before)


def as_py4j_does(*_: object) -> None:
    try:
        signal.raise_signal(signal.SIGUSR1)
    except Exception as error:
        raise ConnectionError("while receiving") from error


def as_pyspark_does() -> None:
    try:
        as_py4j_does()
    except Exception:
        raise RuntimeError("converted") from None


def call(what: Callable[[], object]) -> None:
    """As code of ours does that never raises."""
    try:
        what()
    except Exception as error:
        leave_to_the_job(error)


WAYS = [lambda *_: signal.raise_signal(signal.SIGUSR1), as_py4j_does, as_pyspark_does]


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("way", WAYS)
def test_it_is_found_behind_what_others_made_of_it(way: Callable[[], None]) -> None:
    with pytest.raises(TooLongError) as caught, WhileOursRuns():
        call(way)
    assert caught.value.__context__ is None, "what was made of it is no news of the job's"


@pytest.mark.usefixtures("handler")
def test_what_no_handler_raised_is_nobodys() -> None:
    round_in_circles = ValueError()
    round_in_circles.__cause__ = ConnectionError()
    round_in_circles.__cause__.__cause__ = round_in_circles
    with WhileOursRuns():
        call(lambda: 1 / 0)
        leave_to_the_job(round_in_circles)


class Raises:
    """The class is the handler: what is called is C, and names no code."""

    __init__ = fail


class Decorated:
    """Called in C, and fails itself, as what wrapt's decorators make may: not what it wraps."""

    __slots__ = ("__wrapped__",)
    __call__ = staticmethod(functools.partial(fail))

    def __init__(self, wrapped: Any) -> None:
        self.__wrapped__ = wrapped


cached_itself = functools.lru_cache(Raises)
cached_itself.__wrapped__ = cached_itself

#: Of which nobody knows what they run.
UNKNOWN = [
    Raises,
    Decorated(fail),
    Decorated(lambda *_: None),
    functools.lru_cache(Raises),
    functools.lru_cache(Decorated(fail)),
    cached_itself,
]


@pytest.mark.parametrize("handler", UNKNOWN)
def test_where_nobody_knows_what_a_handler_runs_what_came_through_the_jobs_code_is_the_jobs(
    monkeypatch: pytest.MonkeyPatch, handler: Any
) -> None:
    of_py4j = {"__name__": "py4j.protocol", "signal": signal}
    way = FunctionType(as_py4j_does.__code__, of_py4j)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        monkeypatch.setattr(attachment, "_attach", way)
        with pytest.raises(TooLongError):
            spark_listener.attach(object())
        for ours in (functools.partial(json.loads, "{"), spark_listener.why_off):
            monkeypatch.setattr(attachment, "_attach", ours)
            assert not spark_listener.attach(object()).active
    finally:
        signal.signal(signal.SIGUSR1, before)


def fails_itself(_: object) -> bool:
    """As a filter or a handler of the job's log may."""
    raise ValueError


class FailsToo(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        fails_itself(record)


@pytest.mark.parametrize("handler", [fail, *UNKNOWN])
@pytest.mark.parametrize("of", ["filters", "handlers"])
def test_what_the_jobs_log_raises_is_no_signals(
    monkeypatch: pytest.MonkeyPatch, handler: Any, of: str
) -> None:
    logger = logging.getLogger("weir")
    monkeypatch.setattr(logger, of, [fails_itself if of == "filters" else FailsToo()])
    monkeypatch.setattr(attachment, "_complaints", Complaints())
    monkeypatch.setattr(attachment, "_attach", lambda *_: attachment._off("weir is off: odd"))
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert spark_listener.attach(object()).reason == "odd"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_handler_is_asked_for_nothing_that_may_fail() -> None:
    class Odd:
        """Of a mocking library, say."""

        def __getattr__(self, _: str) -> None:
            raise ValueError

        @property
        def __class__(self) -> Any:
            raise ValueError

        def __call__(self, *_: object) -> None:
            fail()

    before = signal.signal(signal.SIGUSR1, Odd())
    try:
        with pytest.raises(TooLongError), WhileOursRuns():
            call(lambda: signal.raise_signal(signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("way", WAYS)
def test_what_the_job_handles_already_is_not_raised_into_it_again(
    monkeypatch: pytest.MonkeyPatch, way: Callable[[], None]
) -> None:
    """A query that is started once a limit is over, where Weir then fails on its own account."""
    from pyspark.sql.streaming import DataStreamWriter

    monkeypatch.setattr(attachment, "_attach", lambda *_: 1 / 0)
    monkeypatch.setattr(DataStreamWriter, "start", lambda _: "a query")
    monkeypatch.setattr(attachment, "attach_started", lambda _: 1 / 0)
    run.install_hooks()
    writer: Any = SimpleNamespace(_df=SimpleNamespace(sparkSession=Limit()))
    try:
        way()
    except Exception:
        assert not spark_listener.attach(object()).active
        assert DataStreamWriter.start(writer) == "a query"  # type: ignore[comparison-overlap]
        monkeypatch.setattr(attachment, "_attach", lambda *_: way())
        with pytest.raises(TooLongError):  # the next one is
            spark_listener.attach(object())


@pytest.mark.parametrize("then", [signal.SIG_DFL, signal.SIG_IGN, lambda *_: None])
def test_a_handler_that_takes_itself_off_is_known(
    monkeypatch: pytest.MonkeyPatch, then: Any
) -> None:
    def once(*_: object) -> None:
        signal.signal(signal.SIGUSR1, then)
        fail()

    monkeypatch.setattr(attachment, "_attach", lambda *_: as_py4j_does())
    before = signal.signal(signal.SIGUSR1, once)
    try:
        with pytest.raises(TooLongError):
            spark_listener.attach(object())
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("way", WAYS)
def test_neither_attach_nor_weir_run_keeps_it_from_the_job(
    monkeypatch: pytest.MonkeyPatch, way: Callable[..., None]
) -> None:
    from pyspark.sql.streaming import DataStreamWriter

    def started(_: Any) -> str:
        return "a query"

    monkeypatch.setattr(attachment, "_attach", lambda *_: way())
    with pytest.raises(TooLongError):
        spark_listener.attach(object())
    monkeypatch.setattr(DataStreamWriter, "start", started)
    monkeypatch.setattr(attachment, "attach_started", lambda _: attachment.attach(object()))
    run.install_hooks()
    writer: Any = SimpleNamespace(_df=SimpleNamespace(sparkSession=Limit()))
    with pytest.raises(TooLongError):
        DataStreamWriter.start(writer)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    monkeypatch.setattr(attachment, "_attach", lambda *_: 1 / 0)
    assert not spark_listener.attach(object()).active
    assert DataStreamWriter.start(writer) == "a query"  # type: ignore[comparison-overlap]


@pytest.fixture
def one_that_waits(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], object]:
    """What a thread of a handler's comes to, for which the handler waits."""
    monkeypatch.setattr(handlers, "LONGEST_WAIT_SECONDS", 0.01)

    def begin(what: Callable[[], object]) -> object:
        came_to: list[object] = []
        thread = Thread(target=lambda: came_to.append(what()), daemon=True)
        thread.start()
        thread.join(10)
        assert came_to, "it waits for what waits for it"
        return came_to[0]

    return begin


def test_a_handler_may_wait_for_a_query_of_another_thread(
    monkeypatch: pytest.MonkeyPatch,
    one_that_waits: Callable[[Callable[[], object]], object],
) -> None:
    from pyspark.sql.streaming import DataStreamWriter

    writer: Any = SimpleNamespace(_df=SimpleNamespace(sparkSession=Limit()))
    attached: list[Any] = []

    def attach_started(session: Any) -> None:
        if not attached:
            attached.append("begun")
            assert one_that_waits(lambda: DataStreamWriter.start(writer)) == "a query"
        attached.append(session)

    monkeypatch.setattr(DataStreamWriter, "start", lambda _: "a query")
    monkeypatch.setattr(attachment, "attach_started", attach_started)
    run.install_hooks()
    assert DataStreamWriter.start(writer) == "a query"  # type: ignore[comparison-overlap]
    assert attached == ["begun", writer._df.sparkSession]


def test_a_handler_may_wait_for_what_another_thread_asks_of_weir(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    one_that_waits: Callable[[Callable[[], object]], object],
) -> None:
    def attaches(*_: object) -> attachment.Attachment:
        other = one_that_waits(lambda: spark_listener.attach(object()))
        one_that_waits(spark_listener.detach)
        assert isinstance(other, attachment.Attachment)
        return other

    monkeypatch.setattr(attachment, "_complaints", Complaints())
    monkeypatch.setattr(attachment, "_attach", attaches)
    other = spark_listener.attach(object())
    assert other.reason.endswith("another call of Weir has not ended; call again once it has")
    assert [one.split(":")[1] for one in caplog.messages] == [
        " attaching failed",
        " detaching failed and was skipped; the job is not affected",
    ]


def test_what_is_waited_for_has_ended_by_then_where_no_handler_waits() -> None:
    """Detaching from a Spark that does not answer takes longest: limits, then each thread."""
    longest = _RESTORED_WITHIN_SECONDS + 3 * FLUSH_SECONDS
    assert longest < handlers.LONGEST_WAIT_SECONDS < 2 * longest


class Failing:
    """Of py4j's, or Spark's: asking it for anything does this."""

    def __init__(self, way: Callable[..., object]) -> None:
        self._way = way

    def __getattr__(self, _: str) -> Any:
        return self._way()


def with_attributes(made: type, **attributes: object) -> Any:
    """An object with these attributes alone."""
    bare: Any = made.__new__(made)
    vars(bare).update(attributes)
    return bare


def importing(failing: Any) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "spark_listener.attachment")
        patch.setattr(sys, "meta_path", [failing])
        return spark_listener.why_off()


def detaching_all(failing: Any) -> None:
    from pyspark import SparkContext

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkContext, "_active_spark_context", failing)
        attachment._take_off(None, every=True)


def detaching_from(failing: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attachment, "_drivers", {"an application": failing})
        attachment.Attachment(None, None, "").detach()


def forgetting(failing: Any, left: Any) -> bool:
    one = Session(failing, "1", None, control=False)
    return with_attributes(Sessions, _known={"1": one}, _keys=set(), _lease=left).remove(one)


def at_first(failing: Any) -> Mock:
    """Fails once: what is tried next does not."""
    ways = iter([lambda: failing.once])
    return Mock(constructor=lambda *_: next(ways, lambda: None)())


def standing_where_the_door_was(failing: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease.Own, "begin", lambda *_: None)
        with_attributes(lease.Heir, _door=failing, _estate=Mock()).begin(None)


#: Each place on the job's thread where an error ends that the job does not hear of.
PLACES: dict[str, Callable[[Any], object]] = {
    "import": importing,
    "active": lambda failing: attachment.Attachment(None, failing, "").active,
    "all": detaching_all,
    "session": attachment._id_of,
    "driver": detaching_from,
    "connect": lambda failing: attachment._where_of_connect(SimpleNamespace(conf=failing)),
    "door": lambda failing: attachment._close_the_door(
        SimpleNamespace(sparkContext=Context(failing)), None
    ),
    "process": lambda failing: with_attributes(
        Driver, _gateway=failing, _spark=SimpleNamespace(beyond=False)
    )._process_report(),
    "listener": lambda failing: with_attributes(
        Driver, _spark=SimpleNamespace(stopped=lambda: True)
    )._take_listener_out(SimpleNamespace(java=failing)),
    "lease": lambda failing: forgetting(None, failing),
    "scheduler": lambda failing: lease._scheduler(Mock(), at_first(failing)),
    "leaving": lambda failing: lease.Own().begin(failing),
    "taking over": lambda failing: with_attributes(lease.Own, _estate=Mock()).take_over(
        None, failing
    ),
    "after the door": standing_where_the_door_was,
    "keys": lambda failing: forgetting(failing, SimpleNamespace(forget=lambda _: None)),
}


@pytest.mark.parametrize("place", ["listener", "lease"])
def test_limits_go_back_where_a_handler_raises_while_weir_detaches(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    interrupted = Failing(as_py4j_does)
    quiet = SimpleNamespace(forget=lambda _: None)
    one = Session(SimpleNamespace(get=lambda: interrupted), "1", None, control=True)
    left: list[object] = []
    closed: list[bool] = []
    driver = with_attributes(
        Driver,
        application_id="an application",
        _process_id=os.getpid(),
        session=lambda _: one,
        close=lambda *, ending: closed.append(ending),
        _spark=SimpleNamespace(stopped=lambda: True),
        _observer=SimpleNamespace(leave_sessions=lambda known, _: left.extend(known)),
        _sessions=with_attributes(
            Sessions,
            _known={"1": one},
            _keys=set(),
            _lease=interrupted if place == "lease" else quiet,
        ),
    )
    drivers = {driver.application_id: driver}
    monkeypatch.setattr(attachment, "_drivers", drivers)
    before = signal.signal(signal.SIGUSR1, fail)
    try:
        with pytest.raises(TooLongError):
            attachment.Attachment(None, driver, "").detach()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (left, closed, drivers) == ([one], [False], {})


def as_py4j_does_without_pinned_threads() -> None:
    """It shuts a connection down by what that one does not have."""
    try:
        signal.raise_signal(signal.SIGUSR1)
    except KeyboardInterrupt as interrupt:
        interrupt.shutdown_socket()  # type: ignore[attr-defined]


@pytest.fixture
def interrupting() -> Iterator[None]:
    """A handler of which no frame tells, as a notebook sets it for each cell."""
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("interrupting")
@pytest.mark.parametrize("place", PLACES)
def test_no_place_keeps_an_interrupt_from_the_job(place: str) -> None:
    with pytest.raises(KeyboardInterrupt), WhileOursRuns():
        PLACES[place](Failing(as_py4j_does_without_pinned_threads))


@pytest.mark.usefixtures("interrupting")
@pytest.mark.parametrize(
    "way", [lambda: signal.raise_signal(signal.SIGUSR1), as_py4j_does_without_pinned_threads]
)
def test_an_interrupt_that_the_job_handles_already_is_not_raised_into_it_again(
    way: Callable[[], None],
) -> None:
    try:
        way()
    except (KeyboardInterrupt, AttributeError):
        for place in PLACES.values():
            with WhileOursRuns():
                place(Failing(lambda: 1 / 0))


@pytest.mark.usefixtures("interrupting")
def test_an_interrupt_within_a_call_into_the_jvm_reaches_the_job(
    monkeypatch: pytest.MonkeyPatch, gateway: JavaGateway
) -> None:
    main = threading.main_thread().ident
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(main or 0, signal.SIGUSR1))
    sleep = gateway.jvm.java.lang.Thread.sleep

    def sleeps(*_: object) -> None:
        timer.start()
        sleep(5_000)

    monkeypatch.setattr(attachment, "_attach", sleeps)
    with pytest.raises(KeyboardInterrupt):
        spark_listener.attach(object())
    timer.join()


class Context:
    """A context that PySpark is asked for the configuration of."""

    def __init__(self, failing: Any) -> None:
        self.getConf = lambda: failing.getConf


@pytest.mark.parametrize("place", PLACES)
def test_no_place_keeps_it_or_raises_anything_else(place: str) -> None:
    before = signal.signal(signal.SIGUSR1, fail)
    try:
        with WhileOursRuns():
            PLACES[place](Failing(lambda: 1 / 0))
        for way in WAYS:
            with pytest.raises(TooLongError), WhileOursRuns():
                PLACES[place](Failing(way))
    finally:
        signal.signal(signal.SIGUSR1, before)
