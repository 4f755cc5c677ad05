"""One simulation: a scenario, a controller, a seed; the summary comes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from agent.simulation import best_static, plant, summary
from agent.simulation.live import Live, policy_of
from agent.simulation.oracle import Oracle
from agent.simulation.scenario import ScenarioError, read_scenario
from agent.simulation.yardsticks import Flip183, Pid, Static

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.simulation.plant import Attempt, Controller
    from agent.simulation.scenario import Scenario

ControllerName = Literal["weir", "static", "pid", "flip183", "oracle"]
CONTROLLERS: Final[tuple[ControllerName, ...]] = ("weir", "static", "pid", "flip183", "oracle")


class CannotSimulate(ValueError):  # noqa: N818
    """The scenario or a file cannot be used; one line that says which and why."""


class Watched:
    """A controller with Weir watching beside it, to tell when it would have raised the alarm."""

    def __init__(self, controller: Controller, watcher: Live) -> None:
        self._controller = controller
        self._watcher = watcher

    @property
    def limit_rows(self) -> int | None:
        """The limit last decided by the one that steers."""
        return self._controller.limit_rows

    @property
    def executors(self) -> int | None:
        """The number of executors last decided by it."""
        steers = self._controller
        return steers.executors if isinstance(steers, plant.Scales) else None

    def started(self, second: float) -> None:
        """Tells both."""
        self._controller.started(second)
        self._watcher.started(second)

    def ended(self, attempt: Attempt) -> None:
        """Tells both."""
        self._controller.ended(attempt)
        self._watcher.ended(attempt)

    def idle(self, second: float, until: float) -> None:
        """Tells both."""
        self._controller.idle(second, until)
        self._watcher.idle(second, until)


def controller_of(name: ControllerName, scenario: Scenario) -> Controller:
    """A controller of the scenario by its name."""
    if name == "weir":
        return Live(scenario)
    if name == "pid":
        return Pid(scenario.initial_limit_rows, scenario.target_seconds)
    if name == "flip183":
        return Flip183(scenario.initial_limit_rows, scenario.target_seconds)
    if name == "oracle":
        return Oracle(scenario, policy_of(scenario))
    return Static(scenario.initial_limit_rows)


def simulate(
    scenario: Scenario,
    name: ControllerName,
    seed: int,
    on_event: Callable[[dict[str, Any]], object] | None = None,
) -> summary.Summary:
    """Runs a controller and both references on the same noise.

    ``on_event`` gets each event as a driver would send it. Raises plant.TooManyBatches.
    """
    noise = plant.Noise.of(scenario, seed)
    live = Live(scenario, steer=name == "weir", on_event=on_event)
    controller: Controller
    controller = live if name == "weir" else Watched(controller_of(name, scenario), live)
    trace = plant.run(scenario, noise, controller)
    oracle = summary.reference(plant.run(scenario, noise, controller_of("oracle", scenario)))
    return summary.summarise(
        scenario,
        trace,
        controller=name,
        seed=seed,
        best_static=best_static.search(scenario, noise, oracle.p95_batch_seconds),
        oracle=oracle,
        first_alarm_seconds=live.first_alarm_seconds,
    )


def simulate_file(path: str, name: str, seed: int, events_path: str | None = None) -> str:
    """Simulates a scenario's file; the summary as JSON. Raises CannotSimulate.

    With ``events_path`` the events of the run are written there, one a line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        scenario = read_scenario(text, path)
        chosen = next(one for one in CONTROLLERS if one == name)
        if events_path is None:
            done = simulate(scenario, chosen, seed)
        else:
            with Path(events_path).open("wb") as out:
                encode = msgspec.json.Encoder().encode
                done = simulate(
                    scenario, chosen, seed, lambda event: out.write(encode(event) + b"\n")
                )
    except UnicodeDecodeError as error:
        raise CannotSimulate(f"{path}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise CannotSimulate(f"{error.filename or path}: {error.strerror or error}") from None
    except (ScenarioError, plant.TooManyBatches) as error:
        where = "" if isinstance(error, ScenarioError) else f"{path}: duration_seconds: "
        raise CannotSimulate(f"{where}{error}") from None
    return msgspec.json.encode(done).decode()
