"""The small parts: rates, the lag table, credit, time by state, names, triggers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.decide.credit import EXCLUSIVE_SHARE, share
from agent.core.measure.decaying import DecayingRate
from agent.core.measure.flow import DURATION_BUCKETS_SECONDS, bucket, trigger_seconds
from agent.core.measure.lag_table import MOST_POINTS, LagTable
from agent.core.measure.occupancy import Occupancy
from agent.core.names import LONGEST_NAME, first_line, label
from agent.core.policy import Policy, QueryPolicy, Rule

# -- rates --------------------------------------------------------------------------------------


@given(
    st.floats(min_value=0.0, max_value=1e6),
    st.lists(st.floats(min_value=1e-3, max_value=1e4), min_size=1, max_size=50),
)
def test_a_steady_rate_is_told_exactly_from_the_first_observation(
    rate: float, spans: list[float]
) -> None:
    decaying = DecayingRate()
    for seconds in spans:
        decaying.add(rate * seconds, seconds, 60.0)
        assert decaying.value == pytest.approx(rate, rel=1e-6)


def test_a_step_is_followed_within_its_time_constant() -> None:
    decaying = DecayingRate()
    for _ in range(100):
        decaying.add(10.0, 10.0, 60.0)
    for _ in range(18):
        decaying.add(100.0, 10.0, 60.0)
    assert decaying.value == pytest.approx(10.0, rel=0.1)


def test_one_long_observation_counts_like_many_short_ones() -> None:
    one, many = DecayingRate(), DecayingRate()
    one.add(600.0, 60.0, 60.0)
    for _ in range(600):
        many.add(1.0, 0.1, 60.0)
    one.add(0.0, 30.0, 60.0)
    many.add(0.0, 30.0, 60.0)
    assert one.value == pytest.approx(many.value, rel=1e-3)


def test_nothing_observed_is_unknown() -> None:
    assert DecayingRate().value is None


# -- lag in time ---------------------------------------------------------------------------------


def test_the_age_of_the_last_admitted_row_is_interpolated() -> None:
    table = LagTable()
    for time, rows in [(0.0, 0.0), (10.0, 100.0), (20.0, 300.0)]:
        table.add(time, rows)
    assert table.age_seconds(300.0, 25.0) == 0.0
    assert table.age_seconds(200.0, 25.0) == pytest.approx(10.0)
    assert table.age_seconds(50.0, 25.0) == pytest.approx(20.0)


def test_before_the_first_point_nothing_is_known() -> None:
    table = LagTable()
    table.add(100.0, 1000.0)
    table.add(110.0, 1100.0)
    assert table.age_seconds(500.0, 120.0) is None
    assert LagTable().age_seconds(0.0, 0.0) is None


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0, 1000)), min_size=1, max_size=300))
def test_the_table_stays_small_ordered_and_its_answers_bounded(
    steps: list[tuple[float, float]],
) -> None:
    table, time, rows = LagTable(), 0.0, 0.0
    for seconds, arrived in steps:
        time, rows = time + seconds, rows + arrived
        table.add(time, rows)
    assert len(table.times) <= MOST_POINTS + 1
    assert table.times.tolist() == sorted(table.times)
    assert table.rows.tolist() == sorted(table.rows)
    previous = None
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        admitted = table.rows[0] + part * (table.rows[-1] - table.rows[0])
        age = table.age_seconds(admitted, time)
        assert age is not None
        assert 0.0 <= age <= time - table.times[0] + 1e-6
        if previous is not None:
            assert age <= previous + 1e-6  # more admitted is never older
        previous = age


@pytest.mark.parametrize("every_seconds", [1.0, 5.0, 60.0])
@pytest.mark.parametrize("days", [1, 7])
def test_however_long_it_is_looked_a_row_is_as_old_as_it_is(
    every_seconds: float, days: int
) -> None:
    """To a third: of a look each second for a week 48 points are left."""
    table = LagTable()
    looks = int(days * 86_400 / every_seconds)
    for look in range(looks):
        table.add(look * every_seconds, float(look))
    now = table.times[-1]
    assert len(table.times) <= MOST_POINTS
    for age in (20.0 * 1.1**power for power in range(1000)):
        if age > 0.9 * now:
            break
        admitted = (now - age) / every_seconds
        behind = table.unread_seconds(admitted, now)
        assert behind is not None
        assert 0.66 * age - every_seconds <= behind <= age
        assert table.age_seconds(admitted, now) == pytest.approx(age, rel=0.01, abs=every_seconds)


def test_a_full_table_makes_room_for_more_than_one_look() -> None:
    """With thousands of partitions that is done with every look."""
    table, lengths = LagTable(), set[int]()
    for look in range(1000):
        table.add(5.0 * look, float(look))
        lengths.add(len(table.times))
    assert max(lengths) == MOST_POINTS
    for look in range(1000, 1100):
        table.add(5.0 * look, float(look))
        lengths.discard(len(table.times))
    assert len(lengths) == MOST_POINTS - 4


def test_the_end_of_a_quiet_time_is_kept() -> None:
    """Else what came at once would lie between it and the days before."""
    table = LagTable()
    for time, rows in [(0.0, 0.0), (5.0, 10.0), (200_000.0, 10.0), (200_005.0, 5_000_000.0)]:
        table.add(time, rows)
    for time in range(200_010, 230_000, 5):
        table.add(float(time), 5_000_000.0 + time)
    behind = table.age_seconds(20.0, 230_000.0)
    assert behind == pytest.approx(30_000.0, rel=0.01)


# -- credit --------------------------------------------------------------------------------------

needs = st.lists(st.none() | st.floats(min_value=0.0, max_value=1e9), min_size=1, max_size=12)


@given(st.floats(min_value=1.0, max_value=1e9), needs)
def test_credit_is_conserved_and_nobody_starves(total: float, wanted: list[float | None]) -> None:
    shares = share(total, wanted)
    assert sum(part.rows for part in shares) == pytest.approx(total, rel=1e-6)
    least = total / len(wanted) * (EXCLUSIVE_SHARE if len(wanted) > 1 else 1.0)
    assert all(part.rows >= least * (1 - 1e-9) for part in shares)


@given(st.floats(min_value=1.0, max_value=1e9), needs, st.data())
def test_more_need_never_gets_less(
    total: float, wanted: list[float | None], data: st.DataObject
) -> None:
    known = [index for index, need in enumerate(wanted) if need is not None]
    if not known:
        return
    index = data.draw(st.sampled_from(known))
    more = list(wanted)
    need = wanted[index]
    assert need is not None
    more[index] = need + data.draw(st.floats(min_value=0.0, max_value=1e9))
    before, after = share(total, wanted)[index].rows, share(total, more)[index].rows
    # Unknown needs count as the mean of the known ones, and grow with it: hence the tolerance.
    if None not in wanted:
        assert after >= before * (1 - 1e-9)


@given(st.floats(min_value=1.0, max_value=1e9), needs, st.data())
def test_what_presses_is_owned_as_far_as_there_is_room(
    total: float, wanted: list[float | None], data: st.DataObject
) -> None:
    rows = st.floats(min_value=0.0, max_value=1e9)
    pressing = data.draw(st.lists(rows, min_size=len(wanted), max_size=len(wanted)))
    shares = share(total, wanted, pressing)
    assert sum(part.rows for part in shares) == pytest.approx(total, rel=1e-6)
    least = total / len(wanted) * EXCLUSIVE_SHARE
    assert all(part.rows >= least * (1 - 1e-9) for part in shares)
    if sum(max(own, least) for own in pressing) <= total:
        parts = zip(shares, pressing, strict=True)
        assert all(part.rows >= own * (1 - 1e-9) for part, own in parts)


def test_floating_credit_goes_where_the_backlog_is() -> None:
    small, large = share(1000.0, [100.0, 900.0])
    assert small.exclusive_rows == large.exclusive_rows == pytest.approx(100.0)
    assert (small.floating_rows, large.floating_rows) == (80.0, 720.0)
    assert share(10.0, []) == []


# -- time by state -------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.floats(min_value=-50.0, max_value=50.0),
            st.sampled_from(["busy", "idle", "backpressured"]),
        ),
        max_size=50,
    )
)
def test_every_second_is_accounted_once(steps: list[tuple[float, str]]) -> None:
    spent, time, latest = Occupancy(), 1000.0, 1000.0
    spent.begin(time)
    for change, on in steps:
        time += change
        spent.spend(time, on)  # type: ignore[arg-type]
        latest = max(latest, time)
    whole = spent.busy_seconds + spent.idle_seconds + spent.backpressured_seconds
    assert whole == pytest.approx(latest - 1000.0)


@pytest.mark.parametrize(("held", "pressure"), [(0.05, "ok"), (0.3, "low"), (0.7, "high")])
def test_pressure_has_flinks_steps(held: float, pressure: str) -> None:
    spent = Occupancy()
    spent.begin(0.0)
    for second in range(200):
        spent.spend(second + held, "backpressured")
        spent.spend(second + 1.0, "idle")
    assert spent.pressure == pressure


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["orders", "a/b c", '"><script>', "наблюдатель", "🦫"])
def test_a_fit_name_is_left_alone(name: str) -> None:
    assert label(name) == name


@pytest.mark.parametrize(
    "name", ["a\nb", "\x1b[31mred", "x" * 10_000, "abc\u202edef", "\ud800", "a\u2028b"]
)
def test_an_unfit_name_is_made_fit_and_stays_its_own(name: str) -> None:
    fit = label(name)
    assert len(fit) <= LONGEST_NAME
    assert fit.isprintable()
    assert fit != label(name + "!")
    assert label(name) == fit


@given(st.text(max_size=300), st.text(max_size=300))
def test_two_names_never_become_one(one: str, other: str) -> None:
    if one != other:
        assert label(one) != label(other)


def test_only_the_first_line_of_an_exception_is_shown() -> None:
    assert first_line("boom\n\tat x") == "boom"
    assert len(first_line("y" * 5000)) <= 300
    assert first_line("no a.password\thunter2 there\n") == "no a.password\ufffd*** there"


# -- triggers, buckets, policy -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("ProcessingTimeTrigger(500)", 0.5),
        ("ProcessingTimeTrigger(0)", 0.0),
        ("AvailableNowTrigger", 0.0),
        ("OneTimeTrigger", 0.0),
        ("ProcessingTimeTrigger(x)", 0.0),
        ("", 0.0),
    ],
)
def test_trigger_interval(text: str, seconds: float) -> None:
    assert trigger_seconds(text) == seconds


@given(st.floats(min_value=0.0, max_value=1e5))
def test_buckets_are_bounded_above_and_inclusive(seconds: float) -> None:
    index = bucket(seconds)
    if index < len(DURATION_BUCKETS_SECONDS):
        assert seconds <= DURATION_BUCKETS_SECONDS[index]
    if index > 0:
        assert seconds > DURATION_BUCKETS_SECONDS[index - 1]


def test_a_later_rule_wins_and_unset_settings_stay() -> None:
    policy = Policy(
        default=QueryPolicy(target_seconds=7.0),
        rules=(
            Rule(match="shop/*", mode="dry-run", deadline_seconds=60.0),
            Rule(match="orders", mode="off"),
        ),
    )
    settings = policy.of("shop", "orders")
    assert (settings.mode, settings.target_seconds, settings.deadline_seconds) == ("off", 7.0, 60.0)
    assert policy.of("bank", "x") == policy.default
    assert policy.ruled_mode("bank", "x") is None
    assert policy.ruled_mode("shop", "y") == "dry-run"
