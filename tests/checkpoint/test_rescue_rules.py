"""When a rescue is refused, what it moves, and that being killed at any step does no harm."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

import pytest

from agent.checkpoint import journal
from agent.checkpoint.folder import CheckpointError, LocalFolder
from agent.checkpoint.layout import passed_by, read_checkpoint
from agent.checkpoint.rescue import plan_rescue
from agent.checkpoint.rescue_command import RescueOptions, rescue
from agent.checkpoint.sink import advise_rollback, empty_entries, judge_sink, recognise
from agent.checkpoint.soundness import judge
from tests.checkpoint.build import OLD, checkpoint, file_entry, killed_at, offsets, tree, write
from tests.checkpoint.kills import rescue_quietly

UPSERT = {"sink": "upsert"}


def refusals(report):
    return [refusal["check"] for refusal in report["plan"]["refusals"]]


def moved(report):
    return {move["path"] for move in report["plan"]["moves"] if not move["path"].endswith(".crc")}


def test_a_dry_run_names_everything_of_the_open_batch_and_touches_nothing(tmp_path):
    root = checkpoint(tmp_path)
    before = tree(root)
    code, report = rescue_quietly(root, **UPSERT)
    assert code == 0
    state = {f"state/0/{p}/4.{kind}" for p in (0, 1) for kind in ("delta", "snapshot")}
    assert moved(report) == {"offsets/3", "sources/0/3"} | state
    assert tree(root) == before


def test_the_order_is_state_offsets_source_and_checksums_go_first(tmp_path):
    _, report = rescue_quietly(checkpoint(tmp_path), **UPSERT)
    moves = report["plan"]["moves"]
    groups = [move["group"] for move in moves]
    assert groups == sorted(groups, key=["state", "offsets", "source"].index)
    paths = [move["path"] for move in moves]
    assert paths.index("offsets/.3.crc") < paths.index("offsets/3")


def test_apply_then_undo_gives_the_same_folder(tmp_path):
    root = checkpoint(tmp_path)
    before = tree(root)
    code, report = rescue_quietly(root, apply=True, **UPSERT)
    assert code == 0
    assert report["applied"]
    assert not (root / "offsets/3").exists()
    after = judge(read_checkpoint(LocalFolder(root)), LocalFolder(root))
    assert after.sound
    assert after.restart.batch_id == 3
    assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 0
    assert tree(root) == before


def test_nothing_open_is_nothing_to_do(tmp_path):
    root = checkpoint(tmp_path, opened=False)
    before = tree(root)
    code, report = rescue_quietly(root, apply=True)
    assert (code, report["applied"], report["plan"]["moves"]) == (0, False, [])
    assert tree(root) == before


def test_a_batch_that_was_listed_but_never_planned_is_listed_anew(tmp_path):
    root = checkpoint(tmp_path, opened=False)
    write(root, "sources/0/3", file_entry(3))
    code, report = rescue_quietly(root, apply=True)
    assert code == 0
    assert moved(report) == {"sources/0/3"}


def test_a_compacted_entry_of_the_open_batch_moves_and_the_rest_is_whole(tmp_path):
    root = checkpoint(tmp_path)
    for name in ("3", ".3.crc"):
        (root / "sources/0" / name).unlink()
    everything = "v1\n" + "\n".join(file_entry(n).split("\n", 1)[1] for n in range(4))
    write(root, "sources/0/3.compact", everything)
    code, report = rescue_quietly(root, **UPSERT)
    assert code == 0
    assert "sources/0/3.compact" in moved(report)
    (root / "sources/0/1").unlink()
    code, report = rescue_quietly(root, **UPSERT)
    assert code == 1
    assert "source_log_incomplete" in refusals(report)


def test_what_moves_must_not_leave_a_log_that_spark_would_look_for_elsewhere(tmp_path):
    """39.compact and 59.compact tell Spark their interval; 39.compact alone makes it guess 10."""
    root = checkpoint(tmp_path)
    shutil.rmtree(root / "sources")
    for name in ("39.compact", *range(40, 59), "59.compact"):
        write(root, f"sources/0/{name}", file_entry(0))
    write(root, "offsets/1", offsets(57))
    write(root, "offsets/2", offsets(58))
    write(root, "offsets/3", offsets(59))
    before = tree(root)
    code, report = rescue_quietly(root, apply=True, **UPSERT)
    assert code == 1
    assert refusals(report) == ["source_log_incomplete"]
    assert "looks for 49.compact" in report["plan"]["refusals"][0]["evidence"]
    assert tree(root) == before
    write(root, "sources/0/19.compact", file_entry(0))
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0


def test_kafka_s_first_offsets_stay(tmp_path):
    root = checkpoint(tmp_path, committed=0)
    shutil.rmtree(root / "sources")
    kafka = '{"topic":{"0":5}}'
    write(root, "sources/0/0", f"v1\n{kafka}")
    text = (root / "offsets/0").read_text().rsplit("\n", 1)[0]
    write(root, "offsets/0", f"{text}\n{kafka}")
    code, report = rescue_quietly(root, apply=True, **UPSERT)
    assert code == 0
    assert (root / "sources/0/0").exists()
    assert moved(report) == {"offsets/0", "state"}


def of_source(root, offset, *own):
    """A checkpoint whose source plans by its own offsets, and keeps these files for itself."""
    shutil.rmtree(checkpoint(root) / "sources")
    for batch in range(4):
        head = offsets(0).rpartition("\n")[0]
        write(root, f"offsets/{batch}", f"{head}\n{offset % batch}", age=OLD + 10 * batch)
    for path in own:
        write(root, f"sources/0/{path}", "{}")
    return root


KINESIS = '{"metadata":{"batchId":"%d","streamName":"s"},"shardId-0":{"iteratorPosition":"49"}}'
ICEBERG = '{"version":1,"snapshot_id":%d,"position":0,"scan_all_files":false}'


@pytest.mark.parametrize(
    ("offset", "own", "refused"),
    [
        (KINESIS, ["shard-source/3/shardId-0"], True),
        (KINESIS, ["3"], True),
        ('{"seqNum":%d}', ["rocksdb/logs/1.log", "metadata"], True),
        (ICEBERG, ["offsets/0"], False),
        ('{"orders":{"0":%d}}', ["0"], False),
        ('{"orders":{"0":%d}}', ["0", "batches/3"], True),
    ],
)
def test_a_source_that_keeps_what_weir_does_not_know_is_left_alone(tmp_path, offset, own, refused):
    """By it the batch may come back as it was, whatever was moved and whatever the limit."""
    root = of_source(tmp_path, offset, *own)
    before = tree(root)
    code, report = rescue_quietly(root, apply=True, **UPSERT)
    assert (code, refusals(report)) == ((1, ["source_log_unknown"]) if refused else (0, []))
    assert (tree(root) == before) is refused


@pytest.mark.parametrize(
    ("offset", "known"),
    [(KINESIS, False), ("%d", False), ('{"orders":{"0":%d}}', True), (ICEBERG, True)],
)
def test_a_connector_that_weir_does_not_know_is_named(tmp_path, offset, known):
    _, report = rescue_quietly(of_source(tmp_path, offset), **UPSERT)
    told = "source 0 is of a connector that Weir does not know"
    assert (told in " ".join(report["plan"]["notes"])) is not known
    assert report["plan"]["conditional"] is (not known or offset == ICEBERG)


def test_what_iceberg_passes_over_at_a_start_from_a_time_is_a_doubt(tmp_path):
    """The batch that was set aside waits again, and so is passed over with all that waits."""
    code, report = rescue_quietly(of_source(tmp_path, ICEBERG, "offsets/0"), **UPSERT)
    assert code == 0
    [said] = [note for note in report["plan"]["notes"] if "stream-from-timestamp" in note]
    assert said.startswith("source 0: ")
    assert "the time of the start that planned this batch" in said
    assert report["plan"]["conditional"]


DELTA = '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":%d,"index":%d,'
LATER, WHOLE = DELTA + '"isStartingVersion":false}', DELTA + '"isStartingVersion":true}'


@pytest.mark.parametrize(
    ("offset", "own", "doubt"),
    [
        (LATER % (8, -1), None, "no later than version 7"),
        (LATER % (8, -100), None, "no later than version 7"),
        (LATER % (8, 2), None, "no later than version 8"),
        (WHOLE % (8, 2), None, None),  # it began with the table as it was
        (KINESIS % 1, None, "begins at what is newest"),
        ('{"orders":{"0":5}}', None, "begins at what is newest"),  # its note is gone
        ('{"orders":{"0":5}}', "0", None),
        (ICEBERG % 5, "offsets/0", None),
        ("-", None, None),
    ],
)
@pytest.mark.parametrize("committed", [0, 3])
def test_a_first_batch_whose_beginning_nothing_keeps(tmp_path, committed, offset, own, doubt):
    """Without its offsets a source that begins at what is newest would begin behind the batch."""
    root = checkpoint(tmp_path, committed=committed)
    write(root, f"offsets/{committed}", f"{offsets(committed)}\n{offset}")
    for batch in range(committed):
        write(root, f"offsets/{batch}", f"{offsets(batch)}\n-")
    if own:
        write(root, f"sources/1/{own}", "{}")
    code, report = rescue_quietly(root, **UPSERT)
    assert code == 0
    [said] = [note for note in report["plan"]["notes"] if "where it began" in note] or [""]
    assert (doubt or "") in said
    assert bool(said) is bool(doubt)
    if doubt:
        assert said.startswith("source 1: ")
        assert report["plan"]["conditional"]


def test_a_source_that_had_an_offset_before_goes_on_from_it(tmp_path):
    root = of_source(tmp_path, LATER.replace('"index":%d', '"index":2'))
    _, report = rescue_quietly(root, **UPSERT)
    assert "where it began" not in " ".join(report["plan"]["notes"])


def test_a_first_batch_leaves_no_trace_in_state_or_logs(tmp_path):
    root = checkpoint(tmp_path, committed=0)
    write(root, "commits/.0.1234.tmp", "v1")
    (root / "state/0/7").mkdir()
    before = tree(root)
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0
    assert not (root / "state").exists()
    assert list((root / "offsets").iterdir()) == list((root / "commits").iterdir()) == []
    assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 0
    assert tree(root) == before
    assert (root / "state/0/7").is_dir()


@pytest.mark.parametrize(
    ("options", "safe"),
    [
        ({}, False),
        ({"sink": "append"}, False),
        ({"sink": "upsert"}, True),
        ({"sink": "none"}, True),
        ({"accept_duplicates": True}, True),
    ],
)
def test_a_sink_that_may_hold_the_batch(tmp_path, options, safe):
    root = checkpoint(tmp_path)
    before = tree(root)
    code, report = rescue_quietly(root, apply=True, **options)
    assert (code == 0) is safe
    assert refusals(report) == ([] if safe else ["sink_may_hold_batch"])
    assert (tree(root) == before) is not safe


@pytest.mark.parametrize(("ends_at", "safe"), [(2, True), (3, False), (1, False), (None, False)])
def test_a_file_sink_is_asked(tmp_path, ends_at, safe):
    root, out = checkpoint(tmp_path / "ck"), tmp_path / "out"
    out.mkdir()
    for batch in range(0 if ends_at is None else ends_at + 1):
        write(out, f"_spark_metadata/{batch}", "v1\n")
    code, _ = rescue_quietly(root, sink_path=str(out))
    assert (code == 0) is safe


@pytest.mark.parametrize("ends_at", [3, 4])
def test_no_word_on_duplicates_overrides_a_sink_that_would_drop_the_new_batch(tmp_path, ends_at):
    root, out = checkpoint(tmp_path / "ck"), tmp_path / "out"
    for batch in range(ends_at + 1):
        write(out, f"_spark_metadata/{batch}", "v1\n")
    before = tree(root)
    code, report = rescue_quietly(root, apply=True, sink_path=str(out), accept_duplicates=True)
    assert code == 1
    assert tree(root) == before
    [refusal] = report["plan"]["refusals"]
    assert refusal["check"] == "sink_may_hold_batch"
    assert "holds batch 3" in refusal["evidence"]
    assert "dropped" in refusal["evidence"]
    assert "restart the query" in refusal["remedy"]


@pytest.mark.parametrize("sink", ["upsert", "none", "append"])
def test_a_file_sinks_folder_is_never_passed_over_for_another_kind(tmp_path, sink):
    root = checkpoint(tmp_path / "ck")
    write(tmp_path, "out/_spark_metadata/3", "v1\n")
    before = tree(root)
    with pytest.raises(CheckpointError, match="leave one of them out"):
        rescue_quietly(root, apply=True, sink=sink, sink_path=str(tmp_path / "out"))
    assert tree(root) == before


def test_accepting_duplicates_says_that_rows_can_be_lost_and_is_not_called_safe(tmp_path, capsys):
    root = checkpoint(tmp_path)
    options = RescueOptions(accept_duplicates=True, unchanged_seconds=0)
    assert rescue(str(root), options) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "rows are lost" in said
    assert "Safe only as the notes say" in said
    _, report = rescue_quietly(root)
    assert "rows are lost" in report["plan"]["refusals"][0]["remedy"]


def watermark(root, *, planned=0, ended=0, newest=2):
    """The watermark that the newest commit tells, and the open batch's offsets."""
    text = (root / f"offsets/{newest + 1}").read_text()
    told = text.replace('"batchWatermarkMs": 0', f'"batchWatermarkMs": {planned}')
    write(root, f"offsets/{newest + 1}", told)
    write(root, f"commits/{newest}", f'v1\n{{"nextBatchWatermarkMs":{ended}}}')
    return root


def verdict(root, capsys, **options):
    """What is printed: rescued for real."""
    options = {"sink": "upsert", "unchanged_seconds": 0, **options}
    assert rescue(str(root), RescueOptions(**options)) == 0
    return " ".join(capsys.readouterr().out.split())


LATE = "drop rows as late that one would count"


@pytest.mark.parametrize("told", [{"planned": 1}, {"ended": 1}])
def test_a_watermark_is_said_where_smaller_batches_may_drop_rows_behind_it(tmp_path, capsys, told):
    root = watermark(checkpoint(tmp_path), **told)
    said = verdict(root, capsys)
    assert (
        f"note: this query has a watermark, which moves once a batch: several batches {LATE}"
        in said
    )
    assert "Safe only as the notes say." in said
    said = verdict(root, capsys, apply=True)
    assert "Restart it only as the notes say." in said


def test_without_a_watermark_or_without_state_no_batch_drops_rows(tmp_path, capsys):
    said = verdict(checkpoint(tmp_path / "ck"), capsys)
    assert LATE not in said
    assert "Safe. Dry run" in said
    stateless = watermark(checkpoint(tmp_path / "stateless"), planned=1, ended=1)
    shutil.rmtree(stateless / "state")
    said = verdict(stateless, capsys)
    assert LATE not in said
    assert "Safe. Dry run" in said
    assert "notes say" not in verdict(stateless, capsys, apply=True)


def test_before_any_batch_with_rows_nobody_knows_of_a_watermark(tmp_path, capsys):
    """Its first rows make it, and a batch without rows tells nothing of it."""
    first = checkpoint(tmp_path / "first", committed=0)
    empty = checkpoint(tmp_path / "empty", committed=1)
    shutil.rmtree(empty / "sources")
    for batch, end in ((0, 5), (1, 500)):
        write(
            empty,
            f"offsets/{batch}",
            offsets(0).replace("logOffset", 't":{"0').replace(":0}", f":{end}}}}}"),
        )
    for root in (first, empty):
        said = verdict(root, capsys)
        assert (
            f"note: where this query has a watermark, it moves once a batch: several batches {LATE}"
            in said
        )
        assert "Safe only as the notes say." in said


def test_a_first_batch_that_took_files_tells_that_there_is_no_watermark(tmp_path, capsys):
    said = verdict(checkpoint(tmp_path, committed=1), capsys)
    assert LATE not in said
    assert "Safe. Dry run" in said


@pytest.mark.parametrize(
    ("note", "doubted"),
    [
        ('\0v1\n{"orders":{"0":5}}', True),
        ('\0v1\n{"orders":{"0":4}}', False),
        ('{"orders":{"0":4}}', False),
        ("\0v1\n{", True),
        ("\0v1\n{}", True),
        (None, True),
    ],
)
def test_where_kafka_began_tells_whether_its_first_batch_had_rows(tmp_path, note, doubted):
    root = checkpoint(tmp_path, committed=1)
    shutil.rmtree(root / "sources")
    head = offsets(0).rpartition("\n")[0]
    for batch, end in ((0, 5), (1, 500)):
        write(root, f"offsets/{batch}", f'{head}\n{{"orders":{{"0":{end}}}}}')
    if note is not None:
        write(root, "sources/0/0", note)
    _, report = rescue_quietly(root, **UPSERT)
    assert (LATE in " ".join(report["plan"]["notes"])) is doubted


@pytest.mark.parametrize(("begins", "doubted"), [(3, True), (2, False)])
def test_a_source_that_was_not_read_yet_holds_the_watermark_at_zero(
    tmp_path, capsys, begins, doubted
):
    """Spark's is the least of all sources' (WatermarkTracker): one without rows leaves it at 0."""
    root = of_source(tmp_path, '{"a":{"0":%d}}')
    for batch in range(4):
        planned = (root / f"offsets/{batch}").read_text()
        end = 5000 if batch >= begins else 0
        write(root, f"offsets/{batch}", f'{planned}\n{{"b":{{"0":{end}}}}}')
    said = verdict(root, capsys)
    assert (
        f"where this query has a watermark, it moves once a batch: several batches {LATE}" in said
    ) is doubted
    assert ("Safe only as the notes say." in said) is doubted


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        ("MemorySink", "none"),
        ("ContinuousMemorySink", "none"),
        ("org.apache.spark.sql.execution.streaming.ConsoleTable$@1f2e3d", "none"),
        ("org.apache.spark.sql.execution.streaming.ConsoleTable", "none"),
        ("org.apache.spark.sql.execution.datasources.noop.NoopTable$@1f2e3d", "none"),
        ("NoopTable", "none"),
        ("noop-table", "none"),
        ("FileSink[/lake/memory/orders]", "file"),
        ("DeltaSink[/lake/memory/orders]", "append"),
        ("DeltaSink[s3a://lake/noop/x]", "append"),
        ("DeltaSink[/lake/MemorySink]", "append"),
        ("org.apache.iceberg.spark.source.SparkTable prod.in-memory.orders", "append"),
        ("prod.MemorySink", "append"),
        ("ForeachBatchSink", "append"),
        ("org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1f2e3d", "append"),
        ("", "unknown"),
    ],
)
def test_only_spark_s_own_sinks_keep_nothing(description, kind):
    """A rescue takes these for safe, so a path or a table's name must not make a sink one."""
    assert recognise(description)[0] == kind
    if kind != "file":
        verdict = judge_sink(kind, None, base_batch=4, open_batch=5)
        assert verdict.safe is (kind == "none")


def test_a_rollback_that_a_compacted_entry_prevents(tmp_path):
    for batch in range(5):
        name = "4.compact" if batch == 4 else str(batch)
        write(tmp_path, f"_spark_metadata/{name}", f'v1\n{{"path":"file:///out/{batch}"}}')
    advice = advise_rollback(tmp_path, 2)
    assert advice.possible
    assert advice.log_entries == ["3", "4.compact"]
    assert advice.data_files == ["file:///out/3", "file:///out/4"]
    (tmp_path / "_spark_metadata/1").unlink()
    assert not advise_rollback(tmp_path, 2).possible


@pytest.mark.parametrize(
    ("batch", "entries"),
    [
        (0, ["0"]),
        (8, [str(n) for n in range(9)]),
        (9, ["9.compact"]),
        (21, ["19.compact", "20", "21"]),
    ],
)
def test_an_empty_file_sink_needs_entries_for_the_batches_before(tmp_path, batch, entries):
    advice = advise_rollback(tmp_path, batch)
    assert advice.possible
    assert advice.missing_entries == entries
    assert advice.log_entries == advice.data_files == []


def test_spark_finds_every_entry_that_an_empty_file_sink_is_given():
    for batch in range(200):
        names = empty_entries(batch)
        entries = [(int(name.removesuffix(".compact")), "." in name) for name in names]
        assert passed_by(entries) is None, batch


def test_recent_writes_hold_it(tmp_path):
    root = checkpoint(tmp_path)
    os.utime(root / "state/0/0/1.delta", None)
    assert rescue(str(root), RescueOptions(sink="upsert", unchanged_seconds=60)) == 1
    os.utime(root / "state/0/0/1.delta", (OLD, OLD))
    assert rescue(str(root), RescueOptions(sink="upsert", unchanged_seconds=60)) == 0


def test_recent_writes_hold_it_by_the_clock_that_dates_them(tmp_path, monkeypatch):
    """Of a server that is two minutes behind: a query that writes to it looks stopped here."""
    root, make, server = checkpoint(tmp_path), tempfile.NamedTemporaryFile, time.time() - 120.0

    def dated(**options):
        file = make(**options)
        os.utime(file.name, (server, server))
        return file

    def tried(written, **options):
        os.utime(root / "state/0/0/1.delta", (written, written))
        return rescue(str(root), RescueOptions(sink="upsert", unchanged_seconds=60, **options))

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", dated)
    before = set(tree(root))
    assert tried(server - 5.0, apply=True) == 1
    assert set(tree(root)) == before
    assert tried(server - 90.0, apply=True) == 0
    assert tried(server - 5.0, undo=True) == 1
    assert tried(server - 90.0, undo=True) == 0
    assert set(tree(root)) == before


def test_where_no_file_can_be_made_this_machines_clock_tells(tmp_path):
    before = time.time()
    assert before <= journal.storage_time(tmp_path / "gone") <= time.time()


def test_more_than_one_open_batch_is_refused(tmp_path):
    root = checkpoint(tmp_path)
    (root / "commits/2").unlink()
    code, report = rescue_quietly(root, **UPSERT)
    assert code == 1
    assert "offsets_without_commits" in refusals(report)


@pytest.mark.parametrize("planned", [1, 2, 8])
def test_without_commits_a_rescue_would_repeat_the_batch_before(tmp_path, planned):
    """A start without a commit runs the newest offsets again, and nobody asked the sink of those.

    Batch 0 alone may be planned anew: there is none before it.
    """
    root = checkpoint(tmp_path, committed=planned - 1)
    shutil.rmtree(root / "commits", ignore_errors=True)
    before = tree(root)
    code, report = rescue_quietly(root, apply=True, accept_duplicates=True, **UPSERT)
    if planned == 1:
        assert (code, moved(report)) == (0, {"state", "offsets/0", "sources/0/0"})
        return
    assert (code, refusals(report)) == (1, ["commits_missing"])
    assert f"batch {planned - 2} again" in report["plan"]["refusals"][0]["evidence"]
    assert "restart the query as it is" in report["plan"]["refusals"][0]["remedy"]
    assert tree(root) == before


@pytest.mark.parametrize(
    ("holes", "uncommitted", "wanted"), [((2,), (), None), ((2, 4), (), 4), ((4,), (3,), 4)]
)
def test_asynchronous_progress_is_refused(tmp_path, holes, uncommitted, wanted):
    """And nobody is told to turn it off where Spark then wants offsets that are not there."""
    root = checkpoint(tmp_path, committed=5)
    shutil.rmtree(root / "state")  # with which Spark refuses it
    for path in root.glob("*/*"):
        number = path.name.removesuffix(".crc").removeprefix(".")
        gone = holes + uncommitted * (path.parent.name == "commits")
        if path.parent.name in ("offsets", "commits") and number in map(str, gone):
            path.unlink()
    code, report = rescue_quietly(root, **UPSERT)
    assert code == 1
    assert refusals(report) == ["asynchronous_progress"]
    remedy = report["plan"]["refusals"][0]["remedy"]
    assert "restart the query as it was" in remedy
    assert "tracking off" not in remedy
    assert "minBatchesToRetain" in remedy
    found = judge(read_checkpoint(LocalFolder(root)), LocalFolder(root)).findings
    said = [remedy, *(one.remedy for one in found if "asynchronous" in one.check + one.remedy)]
    assert len(said) == 2
    for one in said:
        assert (f"without, Spark wants offsets/{wanted} and fails" in one) is bool(wanted)


def test_offsets_that_cannot_be_read_are_never_planned_over(tmp_path):
    root = checkpoint(tmp_path)
    write(root, "offsets/2", "")
    code, report = rescue_quietly(root, **UPSERT)
    assert code == 1
    assert "offsets_missing" in refusals(report)


@pytest.mark.parametrize("damage", ["gone", "unreadable"])
def test_the_offsets_before_the_newest_commit_are_needed_too(tmp_path, damage):
    """Once the open batch is aside a start reads them: with one batch retained they are purged."""
    root = checkpoint(tmp_path)
    for name in ("0", ".0.crc", "1", ".1.crc"):
        (root / "offsets" / name).unlink()
    if damage == "unreadable":
        write(root, "offsets/1", "")
    before = tree(root)
    code, report = rescue_quietly(root, apply=True, **UPSERT)
    assert code == 1
    assert refusals(report) == ["offsets_missing"]
    assert report["plan"]["refusals"][0]["evidence"].startswith("offsets/1: ")
    assert tree(root) == before


def test_the_first_batch_has_no_offsets_before_it(tmp_path):
    assert rescue_quietly(checkpoint(tmp_path, committed=1), apply=True, **UPSERT)[0] == 0


@pytest.mark.parametrize("committed", [0, 3])
def test_a_batch_whose_offsets_were_removed_by_hand_has_run_all_the_same(tmp_path, committed):
    root = checkpoint(tmp_path, committed=committed)
    for name in (f"{committed}", f".{committed}.crc"):
        (root / "offsets" / name).unlink()
    before = tree(root)
    code, report = rescue_quietly(root, apply=True)
    assert code == 1
    assert refusals(report) == ["sink_may_hold_batch"]
    assert f"batch {committed}" in report["plan"]["refusals"][0]["evidence"]
    assert f"offsets/{committed} is gone" in " ".join(report["plan"]["notes"])
    assert tree(root) == before
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0


def sink_log(folder, batches):
    for batch in range(batches):
        write(folder, f"_spark_metadata/{batch}", "v1")
    return str(folder)


def test_nobody_is_sent_into_a_restart_that_a_sink_drops(tmp_path):
    """Only a batch that is planned already may come again under an id that the sink has."""
    root = checkpoint(tmp_path / "ck")
    ahead = sink_log(tmp_path / "ahead", 21)
    level = sink_log(tmp_path / "level", 4)

    def remedy(**options):
        code, report = rescue_quietly(root, apply=True, **options)
        assert code == 1
        assert refusals(report) == ["sink_may_hold_batch"]
        return report["plan"]["refusals"][0]["remedy"]

    assert remedy(sink_path=level).startswith("restart the query as it is")
    assert "do not restart the query: it would plan batches up to 20" in remedy(sink_path=ahead)
    assert "Take the sink back to batch 2" in remedy(sink_path=ahead)
    assert "source must still hold what those batches read" in remedy(sink_path=ahead)
    assert remedy(sink="append").endswith("restart the query instead")
    for name in ("3", ".3.crc"):
        (root / "offsets" / name).unlink()
    assert "do not restart the query" in remedy(sink_path=level)
    assert "or put offsets/3 back as it was, and restart then" in remedy(sink_path=level)
    assert remedy(sink="append").endswith(
        "put offsets/3 back as it was and restart the query instead"
    )


def test_what_is_damaged_and_moves_aside_stops_no_rescue(tmp_path):
    root = checkpoint(tmp_path / "ck")
    write(root, "sources/0/3", "")
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0
    root = checkpoint(tmp_path / "other")
    write(root, "sources/0/2", "")
    code, report = rescue_quietly(root, apply=True, **UPSERT)
    assert (code, refusals(report)) == (1, ["file_damaged"])
    root = checkpoint(tmp_path / "first", committed=0)
    write(root, "state/0/0/_metadata/schema", "")
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0


def test_a_sink_folder_without_a_log_is_not_the_query_s(tmp_path):
    """The file sink makes its log before it has a batch: a wrong path says nothing of the sink."""
    root = checkpoint(tmp_path / "ck", committed=0)
    before = tree(root)
    (tmp_path / "other").mkdir()
    code, report = rescue_quietly(root, apply=True, sink_path=str(tmp_path / "other"))
    assert (code, refusals(report)) == (1, ["sink_may_hold_batch"])
    with pytest.raises(CheckpointError, match="no folder is there"):
        rescue_quietly(root, apply=True, sink_path=str(tmp_path / "typo"))
    assert tree(root) == before
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    assert rescue_quietly(root, apply=True, sink_path=str(tmp_path / "out"))[0] == 0


def test_a_sink_that_is_known_is_asked_where_nothing_else_tells_of_a_batch(tmp_path):
    """Without state a batch leaves no trace in the checkpoint once its offsets were removed."""
    root = checkpoint(tmp_path / "ck", opened=False)
    shutil.rmtree(root / "state")
    write(root, "sources/0/3", file_entry(3))
    has = sink_log(tmp_path / "has", 4)
    code, report = rescue_quietly(root, apply=True, sink_path=has)
    assert (code, refusals(report)) == (1, ["sink_may_hold_batch"])
    lacks = sink_log(tmp_path / "lacks", 3)
    code, report = rescue_quietly(root, apply=True, sink_path=lacks)
    assert code == 0
    assert "twice" not in " ".join(report["plan"]["notes"])


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("out", ["dbfs:/mnt/out", "hdfs://nn/out", "s3a://lake/out"])
def test_a_sink_that_was_named_and_cannot_be_asked_is_never_passed_over(tmp_path, opened, out):
    root = checkpoint(tmp_path, opened=opened)
    shutil.rmtree(root / "state")
    write(root, "sources/0/3", file_entry(3))
    before = tree(root)
    with pytest.raises(CheckpointError, match=f"{out}: only a local folder can be asked"):
        rescue_quietly(root, apply=True, sink_path=out)
    assert tree(root) == before


def test_a_sink_that_passes_over_a_batch_stops_state_of_format_2_for_good(tmp_path):
    """No task runs then that could report its state's id, which the commit wants of each."""
    root = checkpoint(tmp_path / "ck")
    shutil.rmtree(root / "state")
    for partition in range(2):
        write(root, f"state/0/{partition}/3_{'ab'[partition]}1.zip", "")
    level = sink_log(tmp_path / "level", 4)
    _, report = rescue_quietly(root, sink_path=level)
    (said,) = [one for one in report["plan"]["refusals"] if one["check"] == "sink_may_hold_batch"]
    assert said["remedy"].startswith("Take the sink back to batch 2")
    assert "CheckpointInfo length" in said["remedy"]


def test_entries_that_no_batch_has_taken_leave_a_doubt_that_is_said(tmp_path):
    root = checkpoint(tmp_path, opened=False)
    write(root, "sources/0/3", file_entry(3))
    _, report = rescue_quietly(root)
    notes = " ".join(report["plan"]["notes"])
    assert "if somebody removed offsets/3" in notes
    assert "drops all of the new batch where it has the old one" in notes
    assert report["plan"]["conditional"]


def test_it_cannot_be_undone_once_the_query_has_gone_on(tmp_path):
    root = checkpoint(tmp_path)
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0
    write(root, "offsets/3", "v1\n{}\n{}")
    before = tree(root)
    assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 1
    assert tree(root) == before


def test_what_an_undo_did_is_told_as_data(tmp_path, capsys):
    root = checkpoint(tmp_path)
    options = RescueOptions(undo=True, unchanged_seconds=0, as_json=True)

    def undone():
        code = rescue(str(root), options)
        return code, json.loads(capsys.readouterr().out)

    nothing = {"checkpoint": str(root), "undone": False, "moved_from": None}
    assert undone() == (0, nothing | {"moved": [], "refusals": []})
    _, report = rescue_quietly(root, apply=True, **UPSERT)
    capsys.readouterr()
    write(root, "offsets/3", "v1\n{}\n{}")
    code, refused = undone()
    assert (code, refused["undone"], refused["moved"]) == (1, False, [])
    assert [one["check"] for one in refused["refusals"]] == ["rescue_gone_on"]
    for path in ("offsets/3", "offsets/.3.crc"):
        (root / path).unlink(missing_ok=True)
    code, told = undone()
    assert (code, told["undone"], told["moved_from"]) == (0, True, report["moved_to"])
    assert sorted(told["moved"]) == sorted(move["path"] for move in report["plan"]["moves"])


def plan(root):
    folder = LocalFolder(root)
    seen = read_checkpoint(folder)
    return plan_rescue(
        seen,
        judge(seen, folder),
        sink=None,
        accept_duplicates=False,
        held_by=[],
        state_folder=(root / "state").is_dir(),
        now=time.time(),
        unchanged_seconds=0,
    )


@pytest.mark.parametrize("committed", [0, 3])
def test_apply_killed_at_any_step_can_be_finished_or_undone(tmp_path, committed):
    pristine = checkpoint(tmp_path / "pristine", committed=committed)
    before = tree(pristine)
    step, killed = 0, True
    while killed:
        for way in ("finish", "undo"):
            root = shutil.copytree(pristine, tmp_path / f"{way}-{step}")
            wanted = plan(root)
            killed = killed_at(
                step,
                lambda say, r=root, w=wanted: journal.apply_plan(r, w, now=1e9, on_step=say),
            )
            now = judge(read_checkpoint(LocalFolder(root)), LocalFolder(root))
            assert now.sound, (step, now.errors)
            if way == "undo":
                assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 0
                assert tree(root) == before
            else:
                assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0
                assert not plan(root).moves
                assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 0
                assert tree(root) == before
        step += 1
    assert step > len(plan(pristine).moves)


def test_what_was_moved_before_a_kill_stays_aside_where_going_on_fails(tmp_path):
    pristine = checkpoint(tmp_path / "pristine")
    before, failed = tree(pristine), 0
    for step in range(len(plan(pristine).moves) + 3):
        root = shutil.copytree(pristine, tmp_path / str(step))
        wanted = plan(root)
        killed_at(
            step, lambda say, r=root, w=wanted: journal.apply_plan(r, w, now=1e9, on_step=say)
        )
        for found in journal.find_rescues(root):
            files = [move for move in found.waiting if not move.folder]
            if not files or not found.moved:
                continue
            written = root / files[-1].path
            was = written.stat()
            os.utime(written)
            with pytest.raises(CheckpointError, match="still aside: --undo"):
                journal.resume(root, found)
            os.utime(written, ns=(was.st_atime_ns, was.st_mtime_ns))
            assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 0
            assert tree(root) == before
            failed += 1
    assert failed > 3


def test_a_rescue_of_a_later_version_of_weir_is_not_undone_by_this_one(tmp_path):
    """It may have moved what this one would leave aside."""
    root = checkpoint(tmp_path)
    note = root / rescue_quietly(root, apply=True, **UPSERT)[1]["moved_to"] / "journal"
    text = note.read_text()
    before = set(tree(root))
    for later in (text.replace('"weir_rescue":1', '"weir_rescue":2'), '{"weir_rescue":2}'):
        note.write_text(later)
        with pytest.raises(CheckpointError, match=r"of a later version of Weir \(form 2\); noth"):
            rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0))
    assert set(tree(root)) == before
    note.write_text(text)
    assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 0


def test_undo_killed_at_any_step_can_be_tried_again(tmp_path):
    pristine = checkpoint(tmp_path / "pristine")
    before = tree(pristine)
    journal.apply_plan(pristine, plan(pristine), now=1e9)
    step, killed = 0, True
    while killed:
        root = shutil.copytree(pristine, tmp_path / str(step))
        [found] = journal.find_rescues(root)
        killed = killed_at(step, lambda say, r=root, f=found: journal.undo(r, f, on_step=say))
        assert judge(read_checkpoint(LocalFolder(root)), LocalFolder(root)).sound
        assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 0
        assert tree(root) == before
        step += 1
    assert step > 10


def test_a_query_that_writes_meanwhile_stops_it_and_all_goes_back(tmp_path):
    root = checkpoint(tmp_path)
    wanted = plan(root)

    def write_meanwhile(step):
        if step == "move offsets/3":
            write(root, "offsets/3", "v1\n{}\n{}", checksum=False, age=OLD + 999)

    with pytest.raises(CheckpointError, match="a query writes here"):
        journal.apply_plan(root, wanted, now=1e9, on_step=write_meanwhile)
    assert all((root / move.path).exists() for move in wanted.moves)
    assert not list(root.glob(".weir-*"))


@pytest.mark.parametrize("number", range(13))
def test_a_disk_that_fails_after_a_file_was_moved_leaves_all_as_it_was(
    tmp_path, monkeypatch, number
):
    """Offsets that stay aside while the state is back would count the batch's rows twice."""
    root = checkpoint(tmp_path)
    wanted, before = plan(root), tree(root)
    assert len(wanted.moves) == 12
    moved, sync, rename = [], os.fsync, os.rename

    def fail_after(handle):
        if len(moved) > number and moved[number] is not None:
            moved[number] = None  # once
            raise OSError(errno.EIO, "Input/output error")
        sync(handle)

    def remember(source, target, **folders):
        rename(source, target, **folders)
        moved.append(source)

    monkeypatch.setattr(journal.os, "fsync", fail_after)
    monkeypatch.setattr(journal.os, "rename", remember)
    with pytest.raises(CheckpointError, match="Input/output error; nothing was moved"):
        journal.apply_plan(root, wanted, now=1e9)
    assert tree(root) == before
    assert not list(root.glob(".weir-*"))


def test_what_is_not_known_to_be_back_holds_up_what_is_to_go_back_after_it(tmp_path, monkeypatch):
    """State that is back while its offsets are aside counts the batch's rows twice."""
    root = checkpoint(tmp_path)
    wanted, lstat = plan(root), Path.lstat

    def fail_at_the_end(step):
        if step == "done":
            monkeypatch.setattr(Path, "lstat", fail_of_offsets)
            raise OSError(errno.EIO, "Input/output error")

    def fail_of_offsets(path):
        if path.match(".weir-rescue-*/files/offsets/3"):
            raise OSError(errno.EIO, "Input/output error")
        return lstat(path)

    with pytest.raises(CheckpointError, match="some files are still aside"):
        journal.apply_plan(root, wanted, now=1e9, on_step=fail_at_the_end)
    monkeypatch.undo()
    assert not (root / "offsets/3").exists()
    state = [move for move in wanted.moves if move.group == "state"]
    assert not [move for move in state if (root / move.path).exists()]
    [found] = journal.find_rescues(root)
    journal.undo(root, found)
    assert all((root / move.path).exists() for move in wanted.moves)


@pytest.mark.parametrize("left", [False, True])
def test_files_that_went_with_a_rescues_folder_are_named(tmp_path, left):
    root = checkpoint(tmp_path)

    def remove(step):
        if step == "move offsets/3":
            folder = next(root.glob(".weir-rescue-*"))
            shutil.rmtree(folder)
            if left:  # as by one who has not come to it yet
                folder.mkdir()

    with pytest.raises(CheckpointError, match=r"gone meanwhile, from .*: .*; restore them"):
        journal.apply_plan(root, plan(root), now=1e9, on_step=remove)


def test_two_rescues_at_once(tmp_path):
    root = checkpoint(tmp_path)
    with journal.locked(root), pytest.raises(CheckpointError, match="another rescue"):
        rescue(str(root), RescueOptions(apply=True, sink="upsert", unchanged_seconds=0))


def as_nfs(flock):
    """Of a folder no other machine hears; of a file, whose handle may be written to, it does."""

    def lock(handle, how):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            return
        if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(handle, how)

    return lock


def as_smb(flock):
    """Its locks are mandatory ones of bytes, and what is held is closed."""
    nfs = as_nfs(flock)

    def lock(handle, how):
        try:
            nfs(handle, how)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    return lock


def without_locks(*_):
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize(
    ("flock", "said"),
    [
        (as_nfs(fcntl.flock), "another rescue is at work"),
        (as_smb(fcntl.flock), "another rescue is at work"),
        (without_locks, "remove it if none is"),
    ],
)
def test_two_rescues_at_once_on_network_file_systems(tmp_path, monkeypatch, flock, said):
    root = checkpoint(tmp_path)
    before = tree(root)
    monkeypatch.setattr(fcntl, "flock", flock)
    with journal.locked(root), pytest.raises(CheckpointError, match=said):
        rescue_quietly(root, apply=True, **UPSERT)
    assert tree(root) == before
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0
    with journal.locked(root), pytest.raises(CheckpointError, match=said):
        rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0))
    assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 0
    assert tree(root) == before


def test_what_another_rescue_does_until_the_lock_is_held_is_seen(tmp_path, monkeypatch):
    """One that was killed half-way is undone meanwhile: what is left of its moves is no plan."""
    root, locked = checkpoint(tmp_path), journal.locked
    before = tree(root)

    def stop(step):
        if step == "move sources/0/.3.crc":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        journal.apply_plan(root, plan(root), now=1e9, on_step=stop)

    def lock_late(folder):
        journal.undo(root, journal.find_rescues(root)[-1])
        assert tree(root) == before
        return locked(folder)

    monkeypatch.setattr(journal, "locked", lock_late)
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0
    assert not (root / "offsets/3").exists()


@pytest.mark.parametrize("path", ["state/0/1/4.delta", "offsets/3", "sources/0/3"])
def test_a_move_that_was_killed_between_copy_and_delete_is_none(tmp_path, path):
    """A mount of a store moves so; the file is in both places, and the query has not gone on."""
    for undo in (True, False):
        root = checkpoint(tmp_path / str(undo))
        before = tree(root)

        def stop(step, root=root):
            if step == f"move {path}":
                shutil.copy2(root / path, next(root.glob(".weir-rescue-*")) / "files" / path)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            journal.apply_plan(root, plan(root), now=1e9, on_step=stop)
        if undo:
            assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 0
            assert tree(root) == before
        else:
            assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0
            [found] = journal.find_rescues(root)
            assert (found.waiting, found.conflicts) == ([], [])


def killed_half_way(root, path, *, undo, kept):
    """A rescue, or its undo, that ended as it copied this file: so many bytes of it are there."""

    def stop(step):
        if step == f"{'back' if undo else 'move'} {path}":
            aside = next(root.glob(".weir-rescue-*")) / "files" / path
            source, target = (aside, root / path) if undo else (root / path, aside)
            target.write_bytes(source.read_bytes()[:kept])
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        journal.apply_plan(root, plan(root), now=1e9, on_step=None if undo else stop)
        journal.undo(root, journal.find_rescues(root)[-1], on_step=stop)


def undone(root, capsys):
    capsys.readouterr()
    code = rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0))
    return code, " ".join(capsys.readouterr().out.split())


HALF_WAY = ["state/0/1/4.delta", "state/0/1/4.snapshot", "offsets/3", "offsets/.3.crc"]


@pytest.mark.parametrize("kept", [0, 3])
@pytest.mark.parametrize("path", [*HALF_WAY, "sources/0/3"])
def test_an_apply_that_was_killed_in_the_middle_of_a_copy_is_undone(tmp_path, capsys, path, kept):
    root = checkpoint(tmp_path)
    before = tree(root)
    killed_half_way(root, path, undo=False, kept=kept)
    assert (root / path).exists()
    assert undone(root, capsys)[0] == 0
    assert tree(root) == before


@pytest.mark.parametrize("kept", [0, 3, -1])
@pytest.mark.parametrize("path", [*HALF_WAY, "sources/0/3"])
def test_an_undo_that_was_killed_in_the_middle_of_a_copy_costs_no_file(
    tmp_path, capsys, path, kept
):
    """What is aside is the only one that is whole, and with it in place alone it goes on."""
    root = checkpoint(tmp_path)
    before = tree(root)
    killed_half_way(root, path, undo=True, kept=kept)
    code, said = undone(root, capsys)
    assert code == 1
    assert "may be removed" not in said
    assert f"{path} is in place and in" in said
    (root / path).unlink()
    assert undone(root, capsys)[0] == 0
    assert tree(root) == before


@pytest.mark.parametrize("undo", [False, True])
def test_a_folder_of_which_a_killed_move_left_a_part_is_no_query_that_has_gone_on(
    tmp_path, capsys, undo
):
    """A mount of a store moves a folder object by object."""
    root = checkpoint(tmp_path, committed=0)
    before = tree(root)
    if undo:
        journal.apply_plan(root, plan(root), now=1e9)

    def stop(step):
        if step.endswith(" state"):
            aside = next(root.glob(".weir-rescue-*")) / "files"
            there, here = (aside, root) if undo else (root, aside)
            (here / "state/0/1").mkdir(parents=True)
            (there / "state/0/1/1.delta").rename(here / "state/0/1/1.delta")
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        if not undo:
            journal.apply_plan(root, plan(root), now=1e9, on_step=stop)
        journal.undo(root, journal.find_rescues(root)[-1], on_step=stop)
    code, said = undone(root, capsys)
    assert code == 1
    assert "may be removed" not in said
    assert "state is in place and in" in said
    aside = next(root.glob(".weir-rescue-*")) / "files"
    shutil.copytree(aside / "state", root / "state", dirs_exist_ok=True)
    shutil.rmtree(aside / "state")
    assert undone(root, capsys)[0] == 0
    assert tree(root) == before


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({"offsets/3": offsets(9)}, "may be removed"),
        ({"offsets/3": offsets(9), "commits/3": "v1\n{}"}, "may be removed"),
        ({"offsets/3": offsets(9), "state/0/1/4.delta": "anew"}, "may be removed"),
        ({"offsets/3": "\0" * 9}, "the one that is whole"),
        ({"offsets/3": offsets(9), "state/0/1/4.delta": "del"}, "the one that is whole"),
    ],
)
def test_what_is_aside_may_be_removed_once_a_query_has_written_anew(
    tmp_path, capsys, written, wanted
):
    root = checkpoint(tmp_path)
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0
    for path, text in written.items():
        write(root, path, text)
    code, said = undone(root, capsys)
    assert code == 1
    assert wanted in said


def test_a_query_that_went_on_with_what_a_killed_apply_had_left_has_gone_on(tmp_path, capsys):
    root = checkpoint(tmp_path)
    killed_half_way(root, "offsets/3", undo=False, kept=0)
    write(root, "commits/3", "v1\n{}")
    before = tree(root)
    code, said = undone(root, capsys)
    assert code == 1
    assert "has gone on" in said
    assert (root / "offsets/3").read_bytes() == before["offsets/3"][0]


def test_what_is_in_neither_place_is_no_query_that_has_gone_on(tmp_path, capsys):
    root = checkpoint(tmp_path)
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0
    next(root.glob(".weir-rescue-*/files/sources/0/3")).unlink()
    assert rescue(str(root), RescueOptions(undo=True, unchanged_seconds=0)) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "gone on" not in said
    assert "sources/0/3 is in place and in" in said


def test_a_rescue_that_was_killed_keeps_no_other_out_where_there_are_locks(tmp_path, monkeypatch):
    root = checkpoint(tmp_path)

    def killed(say):
        fcntl.flock = as_nfs(fcntl.flock)
        with journal.locked(root):
            say("locked")

    assert killed_at(0, killed)
    monkeypatch.setattr(fcntl, "flock", as_nfs(fcntl.flock))
    assert (root / ".weir-lock").exists()
    assert rescue_quietly(root, apply=True, **UPSERT)[0] == 0
    assert not (root / ".weir-lock").exists()


def test_nobody_holds_a_lock_that_its_owner_has_removed(tmp_path, monkeypatch):
    """It was opened before, and locked after."""
    root, flock, removed = checkpoint(tmp_path), as_nfs(fcntl.flock), []

    def lock_late(handle, how):
        if not removed and (root / ".weir-lock").exists():
            removed.append((root / ".weir-lock").unlink())
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with journal.locked(root), pytest.raises(CheckpointError, match="another rescue"):
        rescue(str(root), RescueOptions(apply=True, sink="upsert", unchanged_seconds=0))


@pytest.mark.parametrize(
    ("at", "remove"),
    [
        ("move state/0/0/.4.delta.crc", shutil.rmtree),
        ("move offsets/3", lambda folder: (folder / "journal").unlink()),
    ],
)
def test_nothing_moves_without_a_journal(tmp_path, at, remove):
    """Somebody removed it: nobody would know what to move back."""
    root = checkpoint(tmp_path)
    before = tree(root)

    def removed_at(step):
        if step == at:
            remove(next(root.glob(".weir-rescue-*")))

    with pytest.raises(
        CheckpointError, match="/journal: No such file or directory; nothing was moved"
    ):
        journal.apply_plan(root, plan(root), now=1e9, on_step=removed_at)
    assert tree(root) == before
