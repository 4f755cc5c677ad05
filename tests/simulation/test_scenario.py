from __future__ import annotations

import json

import pytest

from agent.simulation.scenario import ScenarioError, read_scenario
from tests.simulation.scenarios import EXECUTORS, STEP, scenario_of, text_of


def complaint(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        read_scenario(text, "plant.json")
    message = str(caught.value)
    assert "\n" not in message
    return message


def line_of(text: str, field: str) -> int:
    return next(n for n, line in enumerate(text.split("\n"), 1) if f'"{field}"' in line)


def test_the_contracts_example_is_read():
    scenario = scenario_of()
    assert scenario.arrival_rows_per_second.at(0) == 2000
    assert scenario.arrival_rows_per_second.at(299.9) == 2000
    assert scenario.arrival_rows_per_second.at(300) == 6000
    assert scenario.congestion_rows is None


@pytest.mark.parametrize("field", [key for key in STEP if key != "name"])
def test_a_missing_field_is_named(field):
    text = json.dumps({key: value for key, value in STEP.items() if key != field})
    assert complaint(text) == f"plant.json:1: {field}: is missing"


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("duration_seconds", 0, "above 0"),
        ("duration_seconds", 1e12, "at most"),
        ("trigger_seconds", -1, "from 0"),
        ("target_seconds", "5", "the text '5'"),
        ("target_seconds", True, "truth value"),
        ("initial_limit_rows", 0, "from 1"),
        ("initial_limit_rows", 1.5, "whole number"),
        ("initial_limit_rows", None, "null"),
        ("initial_backlog_rows", -1, "from 0"),
        ("arrival_rows_per_second", [], "empty list"),
        ("arrival_rows_per_second", 5, "the number 5"),
        ("arrival_rows_per_second", [[5, 1]], "begins at second 0"),
        ("arrival_rows_per_second", [[0, 1], [5, 2], [5, 3]], "not after 5"),
        ("arrival_rows_per_second", [[0, 1], [5, -2]], "from 0"),
        ("arrival_rows_per_second", [[0, 1], [5]], "[second, value]"),
        ("fixed_cost_seconds", [[0, "x"]], "the text 'x'"),
        ("throughput_rows_per_second", [[0, 0]], "above 0"),
        ("congestion_rows", 0, "above 0"),
        ("noise_sigma", -0.1, "from 0"),
        ("noise_sigma", 50, "at most 5"),
        ("batch_timeout_seconds", 1, "contradicts fixed_cost_seconds"),
        ("restart_seconds", None, "null"),
        ("cold_start_seconds", -0.1, "from 0"),
        ("cold_start_seconds", None, "null"),
        ("rollout_seconds", 5, "[second, ...] is needed, not the number 5"),
        ("rollout_seconds", [10, 10], "10 is not after 10"),
        ("rollout_seconds", ["x"], "the text 'x'"),
        ("name", 5, "a text"),
    ],
)
def test_a_bad_value_is_named_with_file_line_and_field(field, value, what):
    text = text_of(**{field: value})
    message = complaint(text)
    assert message.startswith(f"plant.json:{line_of(text, field)}: {field}")
    assert what in message


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("{", "plant.json:1: column 2", "not JSON"),
        ('{"name": "x",\n "a": }', "plant.json:2: column 7", "not JSON"),
        ("[]", "plant.json:1", "an object is needed"),
        ("", "plant.json:1", "not JSON"),
        ('{\n"noise_sigma": NaN}', "plant.json:2", "NaN"),
        ('{"name": "a",\n"name": "b"}', "plant.json:2: name", "twice"),
        ("[" * 100_000, "plant.json:1", "nested too deeply"),
        (text_of().replace("0.15", "1e999"), "noise_sigma", "below 1e18"),
        (text_of().replace("0.15", "9" * 5000), "noise_sigma", "below 1e18"),
    ],
)
def test_broken_text_is_located(text, where, what):
    message = complaint(text)
    assert where in message
    assert what in message


def test_too_much_noise_is_named_with_its_value():
    with pytest.raises(ScenarioError, match=r":\d+: noise_sigma: .* at most 5, not 7\.5"):
        read_scenario(text_of(noise_sigma=7.5), "s.json")


def test_the_contracts_executors_are_read():
    block = {"present": 2, "maximum": 8, "start_seconds": 60, "serial_share": 0.1}
    read = scenario_of(executors=block).executors
    assert read is not None
    assert (read.present, read.maximum, read.start_seconds, read.serial_share) == (2, 8, 60, 0.1)
    assert (read.slots, read.tasks, read.contention, read.warm_up_seconds) == (1, 200, 0.0, 0.0)
    assert scenario_of(executors=None).executors is None


@pytest.mark.parametrize(
    ("change", "field", "what"),
    [
        ({"present": 0}, "present", "from 1"),
        ({"present": 13}, "present", "at most the maximum, 12, not 13"),
        ({"maximum": 2.5}, "maximum", "whole number"),
        ({"maximum": 10**6}, "maximum", "at most 10000"),
        ({"start_seconds": -1}, "start_seconds", "from 0"),
        ({"serial_share": 1.5}, "serial_share", "from 0 to 1"),
        ({"slots": 0}, "slots", "from 1"),
        ({"tasks": None}, "tasks", "null"),
        ({"contention": 2}, "contention", "from 0 to 1"),
        ({"warm_up_seconds": -30}, "warm_up_seconds", "from 0"),
        ({"cores": 4}, "cores", "is none of executors' present, maximum,"),
    ],
)
def test_a_bad_value_of_executors_is_named_where_it_stands(change, field, what):
    text = text_of(executors={**EXECUTORS, **change})
    message = complaint(text)
    assert message.startswith(f"plant.json:{line_of(text, field)}: {field}: ")
    assert what in message


def test_stalls_are_read_and_a_bad_value_is_named_where_it_stands():
    read = scenario_of(stalls={"chance": 0.04, "mean_seconds": 0.5}).stalls
    assert read is not None
    assert (read.chance, read.mean_seconds) == (0.04, 0.5)
    assert scenario_of(stalls=None).stalls is None
    for stalls, told in (
        (3, "stalls: an object is needed, not the number 3"),
        ({"chance": 1.5, "mean_seconds": 1}, "chance: from 0 to 1 is needed, not 1.5"),
        ({"chance": 0.1}, "mean_seconds: is missing"),
        ({"chance": 0.1, "mean_seconds": 1, "sigma": 2}, "sigma: is none of stalls' chance, mean_"),
    ):
        assert told in complaint(text_of(stalls=stalls))


def test_executors_are_an_object_and_whole():
    assert "executors: an object is needed, not the number 3" in complaint(text_of(executors=3))
    missing = complaint(text_of(executors={"present": 2, "maximum": 3, "start_seconds": 1}))
    assert missing.endswith("serial_share: is missing")
