"""What a signal's handler raises while Weir attaches reaches the job, as anywhere else in it."""

from __future__ import annotations

import functools
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import spark_listener
from spark_listener import attachment, run
from spark_listener.handlers import raised_by_a_handler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


HANDLERS = [fail, Limit().fail, Limit(), functools.partial(fail, "more"), lambda *_: fail()]


@pytest.fixture(params=HANDLERS)
def handler(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    before = signal.signal(signal.SIGUSR1, request.param)
    yield request.param
    signal.signal(signal.SIGUSR1, before)


def as_py4j_does() -> None:
    try:
        signal.raise_signal(signal.SIGUSR1)
    except Exception as error:
        raise ConnectionError("while receiving") from error


def as_pyspark_does() -> None:
    try:
        as_py4j_does()
    except Exception:
        raise RuntimeError("converted") from None


WAYS = [lambda *_: signal.raise_signal(signal.SIGUSR1), as_py4j_does, as_pyspark_does]


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("way", WAYS)
def test_it_is_found_behind_what_others_made_of_it(way: Callable[[], None]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each way has another
        way()
    assert isinstance(raised_by_a_handler(caught.value), TooLongError)


@pytest.mark.usefixtures("handler")
def test_what_no_handler_raised_is_nobodys() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert raised_by_a_handler(caught.value) is None
    round_in_circles = ValueError()
    round_in_circles.__cause__ = ConnectionError()
    round_in_circles.__cause__.__cause__ = round_in_circles
    assert raised_by_a_handler(round_in_circles) is None


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
