"""The limit to restart with: what of the agent's knowledge is of which source, and what is none."""

import math
import shutil

import pytest

from agent.checkpoint.folder import LocalFolder
from agent.checkpoint.layout import read_checkpoint
from agent.checkpoint.limit import advise
from agent.checkpoint.soundness import judge
from agent.checkpoint.watched import Watched
from tests.checkpoint.build import OLD, checkpoint, offsets, write

KAFKA, FILES = "KafkaV2[Subscribe[orders]]", "FileStreamSource[file:/in]"


def watched(*sources, rows_per_unit=None, trigger=""):
    """An agent that has learned a batch's time; ``sources`` in the order of the plan."""
    return Watched(
        application="app",
        query="query",
        location="",
        here=True,
        alive=False,
        sink="",
        trigger=trigger,
        deadline_seconds=60.0,
        throughput_rows_per_second=1000.0,
        fixed_cost_seconds=1.0,
        rows_per_unit=rows_per_unit or {},
        sources=list(sources),
        findings=[],
    )


def of_both(root, version="v2", *, kafka="clicks", files="archive"):
    """Of Kafka and files, ``kafka`` before ``files`` in the plan; six batches and one open."""
    checkpoint(root, committed=6)
    logs = shutil.move(root / "sources/0", root.parent / f"{root.name}-files")
    shutil.copytree(logs, root / "sources" / (files if version == "v2" else "1"))
    write(root, f"sources/{kafka if version == 'v2' else 0}/0", 'v1\n{"orders":{"0":0}}')
    for batch in range(7):
        head = offsets(batch, time_ms=int(1000 * (OLD + 10 * batch))).split("\n")[1]
        ends = [(kafka, f'{{"orders":{{"0":{1000 * (batch + 1)}}}}}')]
        ends.append((files, f'{{"logOffset":{batch}}}'))
        lines = [f"{name}:{end}" if version == "v2" else end for name, end in ends]
        write(root, f"offsets/{batch}", "\n".join([version, head, *lines]), age=OLD + 10 * batch)
    return root


def advice(root, known=None, deadline=60.0):
    """By unit."""
    folder = LocalFolder(root)
    seen = read_checkpoint(folder)
    found = advise(seen, folder, open_batch=6, deadline_seconds=deadline, watched=known)
    return {one.unit: one for one in found}


def test_the_agent_s_places_are_the_plan_s_and_named_sources_keep_another_order(tmp_path):
    by_place = advice(
        of_both(tmp_path / "v1", "v1"), watched(KAFKA, FILES, rows_per_unit={0: 1.0, 1: 50.0})
    )
    named = advice(of_both(tmp_path / "v2"), watched(KAFKA, FILES, rows_per_unit={0: 1.0, 1: 50.0}))
    assert {one.learned_from for one in by_place.values()} == {"agent"}
    for unit in ("rows", "files"):
        assert named[unit].limit == by_place[unit].limit
        assert named[unit].option == by_place[unit].option
    assert named["rows"].limit > named["files"].limit
    assert "not Spark's Kafka source" not in named["rows"].detail


@pytest.mark.parametrize(
    "sources", [(KAFKA, FILES, KAFKA), (FILES, FILES, KAFKA), ("EventHubsSource@1f", "Other")]
)
def test_where_the_place_is_not_known_the_checkpoint_alone_tells(tmp_path, sources):
    """More sources of a kind than one, or none of it: which of them it is, nothing tells."""
    root = of_both(tmp_path / "ck")
    told = advice(root, watched(*sources, rows_per_unit={0: 1.0, 1: 50.0, 2: 7.0}))
    alone = advice(root)
    for unit, kind in (("rows", KAFKA), ("files", FILES)):
        if sources.count(kind) == 1:
            assert told[unit].learned_from == "agent"
            continue
        assert told[unit].learned_from == "checkpoint"
        assert told[unit].limit == alone[unit].limit
        assert "which of the agent's sources this is, is not known" in told[unit].detail


def test_no_limit_is_named_to_a_query_that_takes_none(tmp_path):
    """Trigger.Once takes all there is: by then more than the batch that could not finish."""
    root = of_both(tmp_path / "ck")
    ratio = {0: 1.0, 1: 50.0}
    once = advice(root, watched(KAFKA, FILES, rows_per_unit=ratio, trigger="OneTimeTrigger"))
    other = advice(root, watched(KAFKA, FILES, rows_per_unit=ratio, trigger="AvailableNowTrigger"))
    for unit in ("rows", "files"):
        assert once[unit].limit is None
        fits = f"{other[unit].option} = {other[unit].limit}"
        said = "Trigger.Once takes no limit: restart with availableNow=True"
        assert once[unit].detail.startswith(f"{said} and {fits} (")
        assert "Trigger.Once" not in other[unit].detail


def test_without_an_agent_the_trigger_is_not_known(tmp_path):
    root = of_both(tmp_path / "ck")
    said = "; Trigger.Once passes over it, availableNow does not"
    assert all(said in one.detail for one in advice(root).values())
    assert all(said in one.detail for one in advice(root, watched(KAFKA, FILES)).values())
    assert all("Trigger.Once" not in one.detail for one in advice(root, deadline=None).values())
    few = watched(KAFKA, FILES, trigger="OneTimeTrigger")
    [one] = {one.detail for one in advice(root, few, deadline=None).values() if one.unit == "files"}
    assert one.startswith("Trigger.Once takes no limit: restart with availableNow=True (")


@pytest.mark.parametrize("whole", [False, True])
def test_the_times_of_a_plain_copy_tell_nothing_of_batches(tmp_path, whole):
    """Its offsets were all written before the first commit; Spark plans a batch after a commit."""
    root = of_both(tmp_path / "ck")
    for batch in range(7 if whole else 3):
        for at, log in ((0.0, "offsets"), (0.01, "commits")):
            if (path := root / log / str(batch)).exists():
                write(root, f"{log}/{batch}", path.read_bytes(), age=OLD + 100 + at + batch / 1000)
    found = advice(root)["files"]
    if whole:
        assert found.limit is None
        assert "only 0 finished batches" in found.detail
    else:
        assert found.detail.startswith("3 batches took")


def test_the_next_batch_is_the_first_of_a_driver_and_is_to_be_through(tmp_path):
    """Half of the deadline is left for its start: what a warm one ends in time would be killed."""
    root = of_both(tmp_path / "ck")
    told = advice(root, watched(KAFKA, FILES, rows_per_unit={0: 1.0, 1: 50.0}))["rows"]
    warm = 1.0 + 2 * told.limit / 1000.0  # two sources share the batch
    noise = math.exp(2.0 * 0.2)
    assert warm * noise == pytest.approx(30.0, rel=0.01)
    assert f"{warm:.3g} s and, as the first of a driver, {2 * warm:.3g} s" in told.detail
    assert "to 60 of the 60 s" in told.detail


@pytest.mark.parametrize("finished", [2, 3, 5])
def test_a_limit_takes_three_finished_batches(tmp_path, finished):
    """As of a query that was killed soon after its first start."""
    root = checkpoint(tmp_path / "ck", committed=finished)
    folder = LocalFolder(root)
    [told] = advise(read_checkpoint(folder), folder, open_batch=finished, deadline_seconds=60.0)
    if finished < 3:
        assert (told.limit, told.learned_from) == (None, "nothing")
        assert told.detail.startswith("only 2 finished batches to learn from")
    else:
        assert told.learned_from == "checkpoint"
        assert told.detail.startswith(f"{finished} batches took")


def test_a_limit_is_held_to_four_times_the_largest_batch_seen(tmp_path):
    """Batches of 2 files that take 4 s: ten minutes would hold hundreds, as far as a line goes."""
    root = checkpoint(tmp_path / "ck", committed=6)
    folder = LocalFolder(root)
    [told] = advise(read_checkpoint(folder), folder, open_batch=6, deadline_seconds=600.0)
    assert told.limit == 8
    assert "; held to 4 times the largest batch seen (2)" in told.detail


def test_a_copy_without_its_times_is_not_taken_for_one_in_real_time_mode(tmp_path):
    shutil.copytree(checkpoint(tmp_path / "ck"), tmp_path / "copy", copy_function=shutil.copyfile)
    folder = LocalFolder(tmp_path / "copy")
    assert "real-time" not in judge(read_checkpoint(folder), folder).restart.detail


@pytest.mark.parametrize(("planned", "learned"), [(0.2, "checkpoint"), (300.2, "nothing")])
def test_a_batch_whose_offsets_come_at_its_end_tells_not_how_long_it_took(
    tmp_path, planned, learned
):
    """As in real-time mode (SPARK-53915): by them five minutes of rows were read in no time."""
    root = tmp_path / "ck"
    write(root, "metadata", '{"id":"9efb0370-ef1d-44dc-b650-de9f432e20e7"}')
    write(root, "sources/0/0", 'v1\n{"orders":{"0":0}}')
    for batch in range(9):
        start = OLD + 301 * batch
        head = offsets(0, time_ms=int(1000 * start)).split("\n")[1]
        end = (batch + 1) * 300_000 + batch % 3
        write(
            root, f"offsets/{batch}", f'v1\n{head}\n{{"orders":{{"0":{end}}}}}', age=start + planned
        )
        if batch < 8:
            write(root, f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}', age=start + 300.5)
    folder = LocalFolder(root)
    seen = read_checkpoint(folder)
    [told] = advise(seen, folder, open_batch=8, deadline_seconds=120.0)
    assert told.learned_from == learned
    assert (told.limit is None) is (learned == "nothing")
    said = judge(seen, folder).restart.detail
    assert ("in real-time mode" in said) is (learned == "nothing")
