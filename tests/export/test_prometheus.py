"""The exposition: its golden file, both formats read back, isolation, expiry, names, speed."""

from __future__ import annotations

import math
import os
import subprocess
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.core.measure.flow import DURATION_BUCKETS_SECONDS
from agent.core.names import label as fit
from agent.export.catalogue import METRICS, metric
from agent.export.metrics.batches import BUCKETS
from agent.export.prometheus import (
    OPENMETRICS_TYPE,
    TEXT_TYPE,
    EventTimer,
    Exporter,
    fixed_labels,
)
from agent.service.config import MAX_LABEL_VALUE
from tests.export import views
from tests.lacking import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import Metric as Family

    from agent.core.fleet import Key
    from agent.core.judgement import QueryView

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "metrics.txt"
PROMETHEUS_ACCEPT = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,*/*;q=0.1"
)


# prometheus_client's OpenMetrics side has no types.
parse_openmetrics: Callable[[str], Iterable[Family]] = (
    openmetrics_parser.text_string_to_metric_families
)
encode_openmetrics: Callable[[_Families], bytes] = openmetrics_exposition.generate_latest


def exporter() -> Exporter:
    return Exporter(timer=views.Clock(), python_version="3.11.9")


def series(text: str, name: str) -> dict[tuple[str, ...], float]:
    """The named series of a text exposition: label values in the labels' order → value."""
    found = {}
    for family in parse_text(text):
        for sample in family.samples:
            if sample.name == name:
                found[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def test_golden() -> None:
    text, _ = views.scrape(exporter(), views.golden_fleet())
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), (
        "the exposition changed; look at the difference, then UPDATE_GOLDEN=1 pytest tests/export"
    )


@pytest.mark.parametrize("fleet", ["golden", "empty"])
def test_promtool_finds_nothing_to_say(fleet: str) -> None:
    promtool = program("promtool")
    text, _ = views.scrape(exporter(), views.golden_fleet() if fleet == "golden" else [])
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text.encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


class _Families:
    """What a prometheus_client encoder wants: something with ``collect``."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = list(families)

    def collect(self) -> list[Family]:
        return self._families


def _unordered(text: str) -> list[str]:
    """Lines with their labels sorted: the order of labels means nothing."""
    lines = []
    for line in text.splitlines():
        if line.startswith("#"):
            lines.append(line)
            continue
        (sample,) = next(iter(parse_text(line + "\n"))).samples
        lines.append(f"{sample.name} {sorted(sample.labels.items())} {float(sample.value)}")
    return lines


def test_reads_back_as_prometheus_text() -> None:
    text, content_type = views.scrape(exporter(), views.golden_fleet())
    assert content_type == TEXT_TYPE
    again = generate_latest(_Families(parse_text(text))).decode()
    assert _unordered(again) == _unordered(text)


def test_reads_back_as_openmetrics() -> None:
    text, content_type = views.scrape(exporter(), views.golden_fleet(), PROMETHEUS_ACCEPT)
    assert content_type == OPENMETRICS_TYPE
    families = list(parse_openmetrics(text))  # strict: raises on any departure from the format
    again = encode_openmetrics(_Families(families)).decode()
    assert _unordered(again) == _unordered(text)
    assert text.endswith("\n# EOF\n")
    plain, _ = views.scrape(exporter(), views.golden_fleet())
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert samples == [line for line in plain.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", TEXT_TYPE),
        ("*/*", TEXT_TYPE),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT_TYPE),
        ("text/plain;version=0.0.4", TEXT_TYPE),
        ("application/openmetrics-text", OPENMETRICS_TYPE),
        ("application/openmetrics-text; version=1.0.0", OPENMETRICS_TYPE),
        ("application/openmetrics-text;version=0.0.1", OPENMETRICS_TYPE),
        (PROMETHEUS_ACCEPT, OPENMETRICS_TYPE),
        ("text/plain;q=0.9,application/openmetrics-text;q=0.1", TEXT_TYPE),
        ("application/openmetrics-text;q=0", TEXT_TYPE),
        ("application/openmetrics-text;version=9.0.0", TEXT_TYPE),
        ("application/openmetrics-text;version=x;q=y", TEXT_TYPE),
        ("application/openmetrics-text;q=y", TEXT_TYPE),
        (";;=,,;q=", TEXT_TYPE),
        ("\x00" * 1000, TEXT_TYPE),
    ],
)
def test_accept(accept: str, wanted: str) -> None:
    assert views.scrape(exporter(), [], accept)[1] == wanted


def test_every_family_is_in_the_catalogue_with_its_labels_and_every_entry_is_exported() -> None:
    text, _ = views.scrape(exporter(), views.golden_fleet(), PROMETHEUS_ACCEPT)
    fixed = {"cluster", "namespace"}
    seen: dict[str, set[str]] = {}
    kinds = {}
    for family in parse_openmetrics(text):
        for sample in family.samples:
            name = sample.name
            for end in ("_bucket", "_sum", "_count") if family.type == "histogram" else ():
                name = name.removesuffix(end)
            entry = metric(name)
            kinds[name] = family.type
            assert entry.help == family.documentation
            assert entry.family == family.name
            labels = set(sample.labels) - {"le"}
            assert labels == fixed | set(entry.label_names), name
            seen.setdefault(name, set()).update(labels)
            for label in entry.labels:
                if label.values:
                    assert sample.labels[label.name] in label.values, (name, label.name)
    assert set(seen) == {entry.name for entry in METRICS}
    as_text = {"state set": "gauge", "info": "gauge"}
    assert kinds == {entry.name: as_text.get(entry.kind, entry.kind) for entry in METRICS}


def test_a_collector_of_opentelemetry_renames_nothing() -> None:
    """It takes the suffix off an info's name, and adds each word of a unit that the name lacks."""
    text, _ = views.scrape(exporter(), views.golden_fleet(), PROMETHEUS_ACCEPT)
    said = [line.split() for line in text.splitlines() if line.startswith(("# TYPE", "# UNIT"))]
    assert {kind for _, what, _, kind in said if what == "TYPE"} == {
        "counter", "gauge", "histogram"
    }  # fmt: skip
    units = {family: unit for _, what, family, unit in said if what == "UNIT"}
    assert set(units.values()) == {"seconds", "rows", "bytes", "ratio", "files"}
    assert all(unit in family.split("_") for family, unit in units.items())


def test_every_state_set_has_exactly_one_1() -> None:
    text, _ = views.scrape(exporter(), views.golden_fleet())
    sets = [entry for entry in METRICS if entry.kind == "state set"]
    assert sets
    for entry in sets:
        ones: Counter[tuple[str, str]] = Counter()
        for family in parse_text(text):
            for sample in family.samples:
                if sample.name == entry.name:
                    assert sample.value in {0.0, 1.0}
                    ones[sample.labels["application"], sample.labels["query"]] += int(sample.value)
        assert set(ones.values()) == {1}
        fleet = [one for one in views.golden_fleet() if one.up or not entry.running]
        assert len(ones) == len(fleet)


def test_unknown_is_absent_and_zero_is_zero() -> None:
    text, _ = views.scrape(exporter(), [views.unheard()])
    names = {sample.name for family in parse_text(text) for sample in family.samples}
    for name in (
        "weir_backlog_seconds",
        "weir_throughput_rows_per_second",
        "weir_target_feasible",
        "weir_checkpoint_seconds",
        "weir_batch_running_seconds",
        "weir_last_progress_timestamp_seconds",
        "weir_capacity_short_since_timestamp_seconds",
    ):
        assert name not in names
    zero, _ = views.scrape(exporter(), [views.view(backlog_seconds=0.0, target_feasible=False)])
    key = ("orders", "eu-1", "streams", "enrich")
    assert series(zero, "weir_backlog_seconds") == {key: 0.0}
    assert series(zero, "weir_target_feasible") == {key: 0.0}
    nan, _ = views.scrape(exporter(), [views.view(backlog_seconds=float("nan"))])
    assert series(nan, "weir_backlog_seconds") == {}
    inf, _ = views.scrape(exporter(), [views.view(required_capacity_ratio=float("inf"))])
    assert series(inf, "weir_required_capacity_ratio") == {key: float("inf")}


def test_a_failing_view_is_counted_and_hides_no_other() -> None:
    told: list[tuple[Key, str]] = []
    out = Exporter(timer=views.Clock(), on_error=lambda key, error: told.append((key, str(error))))
    fleet = {
        ("orders", "a"): views.view("a"),
        ("orders", "bad"): views.view("bad", state="nonsense"),
        ("orders", "c"): views.view("c"),
    }

    def view_of(key: Key) -> QueryView:
        if key[1] == "raises":
            raise RuntimeError("broken")
        return fleet[key]

    for times in (1, 2):
        body, _ = out.exposition(
            [*fleet, ("orders", "raises")],
            view_of,
            totals=views.agent_totals(),
            listeners=[],
            extras=views.extras(labels={}),
        )
        text = body.decode()
        assert series(text, "weir_query_up") == {("orders", "a"): 1.0, ("orders", "c"): 1.0}
        assert 'query="bad"' not in text  # whole or not at all
        assert series(text, "weir_agent_scrape_errors_total") == {(): 2.0 * times}
        assert series(text, "weir_agent_queries") == {(): 4.0}
    assert told[0][0] == ("orders", "bad")
    assert "nonsense" in told[0][1]
    assert told[1] == (("orders", "raises"), "broken")


def test_series_end_with_their_query() -> None:
    out = exporter()
    both, _ = views.scrape(out, [views.view("stays"), views.view("goes")])
    assert 'query="goes"' in both
    one, _ = views.scrape(out, [views.view("stays")])
    assert 'query="goes"' not in one
    assert series(one, "weir_query_up")


def test_run_ids_stand_on_info_only_and_batch_ids_nowhere() -> None:
    one = views.view(batch_id=987_654_321, running_batch_id=987_654_322)
    text, _ = views.scrape(exporter(), [one])
    for line in text.splitlines():
        if one.run_id in line or one.query_id in line:
            assert line.startswith("weir_query_info{")
    assert "98765432" not in text


def test_a_label_never_grows_beyond_its_list() -> None:
    wild = {f"phase{number}": 1.0 for number in range(1_000)}
    one = views.view(totals=views.totals(phase_seconds=wild, grants={"x": 1, "y": 2}))
    text, _ = views.scrape(exporter(), [one], labels={})
    assert series(text, "weir_batch_phase_seconds_total") == {("orders", "other", "enrich"): 1000.0}
    assert series(text, "weir_grants_total") == {("orders", "enrich", "other"): 3.0}


@given(st.text(max_size=300), st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_name_reads_back_in_both_formats(application: str, query: str) -> None:
    one = views.view(query, application, sources=[], operators=[])
    text, _ = views.scrape(exporter(), [one], labels={})
    assert series(text, "weir_query_up") == {(fit(application), fit(query)): 1.0}
    openmetrics, _ = views.scrape(exporter(), [one], "application/openmetrics-text", labels={})
    found = [
        sample.labels
        for family in parse_openmetrics(openmetrics)
        for sample in family.samples
        if sample.name == "weir_query_up"
    ]
    assert found == [{"application": fit(application), "query": fit(query)}]


@given(st.one_of(st.floats(), st.integers(-(2**70), 2**70), st.booleans()))
@settings(max_examples=300, deadline=None)
def test_any_number_reads_back_and_nan_is_absent(value: float) -> None:
    one = views.view(backlog_seconds=value, sources=[], operators=[])
    for parse, accept in ((parse_text, ""), (parse_openmetrics, "application/openmetrics-text")):
        text, _ = views.scrape(exporter(), [one], accept, labels={})
        told = [
            float(sample.value)
            for family in parse(text)
            for sample in family.samples
            if sample.name == "weir_backlog_seconds"
        ]
        assert told == ([] if math.isnan(value) else [float(value)])


def test_a_name_of_ten_kilobytes_is_cut() -> None:
    text, _ = views.scrape(exporter(), [views.view(views.HOSTILE)])
    assert max(map(len, text.splitlines())) < 1_000


def test_two_processes_of_one_name_are_one_series() -> None:
    body, _ = exporter().exposition(
        [],
        dict[object, object]().__getitem__,  # type: ignore[arg-type]
        totals=views.agent_totals(),
        listeners=[],
        extras=views.extras(
            labels={},
            driver_processes=(
                views.process("jvm", "orders", start_time=views.NOW),
                views.process("jvm", "orders", start_time=views.NOW - 9),
            ),
        ),
    )
    text = body.decode()
    assert series(text, "weir_driver_process_start_time_seconds") == {("orders", "jvm"): views.NOW}
    lines = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize("name", ["query", "le", "__name__", "1st", "a-b", "", "job", "é"])
def test_fixed_labels_that_cannot_be(name: str) -> None:
    with pytest.raises(ValueError, match="label") as caught:
        fixed_labels({name: "x"})
    assert repr(name) in str(caught.value)


def test_fixed_labels_are_escaped() -> None:
    text, _ = views.scrape(exporter(), [], labels={"cluster": 'a"b\\c'})
    assert series(text, "weir_agent_queries") == {('a"b\\c',): 0.0}


def test_fixed_labels_are_as_configured_however_long() -> None:
    """Routes and rules match them; a name of a query is cut at 120 characters."""
    longest = "x" * MAX_LABEL_VALUE
    assert fixed_labels({"cluster": longest}) == f'cluster="{longest}",'


def test_histograms_are_cumulative_and_the_core_agrees_on_the_buckets() -> None:
    assert tuple(map(float, BUCKETS)) == DURATION_BUCKETS_SECONDS
    text, _ = views.scrape(exporter(), [views.view()], labels={})
    buckets = series(text, "weir_batch_duration_seconds_bucket")
    by_bound = {float(key[1]): count for key, count in buckets.items()}
    counts = [by_bound[bound] for bound in sorted(by_bound)]
    assert counts == sorted(counts)
    assert by_bound[5.0] == 33.0
    assert counts[-1] == series(text, "weir_batch_duration_seconds_count")["orders", "enrich"] == 39


def test_event_timer() -> None:
    timer = EventTimer()
    timer.observe(0.0002)
    timer.observe(0.0040, events=40)  # 0.1 ms each: on the bound, so in its bucket
    timer.observe(5.0)
    timer.observe(1.0, events=0)
    taken = timer.snapshot()
    assert sum(taken.counts) == 42
    assert taken.counts[taken.bounds.index(0.0001)] == 40
    assert taken.counts[taken.bounds.index(0.00025)] == 1
    assert taken.counts[-1] == 1
    assert taken.sum_seconds == pytest.approx(5.0042)
    text, _ = views.scrape(exporter(), [], labels={}, event_seconds=taken)
    assert series(text, "weir_agent_event_seconds_count") == {(): 42.0}


def test_memory_is_bounded_by_the_text() -> None:
    """Views come one at a time and are let go: what stays is the text, twice while it is joined."""
    out = exporter()
    keys = [("orders", f"query-{number}") for number in range(500)]
    tracemalloc.start()
    try:
        body, _ = out.exposition(
            keys,
            lambda key: views.view(key[1], totals=views.grown(2)),
            totals=views.agent_totals(),
            listeners=[],
            extras=views.extras(),
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * len(body)


def test_a_query_costs_a_scrape_as_much_among_a_thousand_as_among_a_hundred() -> None:
    """80 series a query; the best of three, in processor time, since the machine is shared."""
    fleet = [
        views.view(
            f"query-{number}",
            sources=[views.source(index) for index in range(3)],
            operators=[views.operator(index) for index in range(2)],
        )
        for number in range(1_000)
    ]
    each: dict[int, float] = {}
    for count in (100, len(fleet)):
        out, times = exporter(), []
        for _ in range(3):
            started = time.process_time()
            text, _ = views.scrape(out, fleet[:count])
            times.append(time.process_time() - started)
        assert text.count("\n") > 80 * count
        each[count] = min(times) / count
    assert each[1_000] < 2 * each[100]
