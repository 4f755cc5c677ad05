from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zlib
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import zstandard

from agent.core.policy import QueryPolicy
from agent.replay import replay_files
from agent.simulation import plant
from agent.simulation.live import Live, policy_of
from agent.sources import recording
from tests.event_log import lines as made
from tests.simulation.scenarios import SCALED, scenario_of, text_of

CHANGES = {
    "step": {},
    "drain": {"initial_backlog_rows": 5_000_000},
    "killed": {
        "batch_timeout_seconds": 8,
        "noise_sigma": 0.4,
        "initial_limit_rows": 60_000,
        "initial_backlog_rows": 5_000_000,
    },
    "trigger": {
        "trigger_seconds": 7,
        "arrival_rows_per_second": [[0, 3000], [200, 0], [600, 9000]],
    },
    "executors": SCALED,
}


def recorded(**changes) -> tuple[list[bytes], list[bytes], QueryPolicy]:
    """Events of a run and what the live core judged meanwhile."""
    scenario = scenario_of(**changes)
    events: list[bytes] = []
    judged: list[bytes] = []
    live = Live(
        scenario,
        on_event=lambda event: events.append(msgspec.json.encode(event)),
        on_judgement=lambda one: judged.append(msgspec.json.encode(one)),
    )
    plant.run(scenario, plant.Noise.of(scenario, 1), live)
    return events, judged, policy_of(scenario)


def replayed(data: bytes, tmp_path, settings: QueryPolicy) -> tuple[list[bytes], list[str]]:
    path = tmp_path / "events"
    path.write_bytes(data)
    out = io.BytesIO()
    broken = replay_files([str(path)], settings, out)
    return out.getvalue().splitlines(), broken


@pytest.mark.parametrize("name", CHANGES)
def test_a_recording_replays_to_the_decisions_of_the_live_core(name, tmp_path):
    events, judged, settings = recorded(**CHANGES[name])
    lines, broken = replayed(b"\n".join(events), tmp_path, settings)
    assert broken == []
    assert len(lines) == len(judged) > 50
    for mine, theirs in zip(map(json.loads, lines), map(json.loads, judged), strict=True):
        mine["application"] = theirs["application"]  # a bare event names none
        assert mine == theirs


def test_a_replay_decides_by_an_agents_configuration_rules_included(tmp_path):
    """What no option tells: the least number and the quiet time, for some queries."""
    block = SCALED["executors"]
    own = QueryPolicy(
        target_seconds=10.0,
        executors="on",
        maximum_executors=block["maximum"],
        minimum_executors=2,
        executors_quiet_seconds=700.0,
    )
    scenario = scenario_of(**SCALED)
    events, judged = [], []
    live = Live(scenario, settings=own, on_event=events.append, on_judgement=judged.append)
    plant.run(scenario, plant.Noise.of(scenario, 1), live)
    record = tmp_path / "events.jsonl"
    record.write_bytes(b"\n".join(map(msgspec.json.encode, events)))
    config = tmp_path / "weir.yaml"
    rule = f'match: "*", executors: "on", maximum_executors: {block["maximum"]}'
    config.write_text(
        f"target_seconds: 99\nminimum_executors: 2\n"
        f"rules: [{{{rule}, executors_quiet_seconds: 700}}]\n"
    )

    def wanted(*options: str) -> list[int | None]:
        done = subprocess.run(
            [sys.executable, "-m", "agent.cli", "replay", "--target", "10", *options, str(record)],
            capture_output=True,
            check=True,
        )
        lines = map(json.loads, done.stdout.splitlines())
        return [(one.get("executors") or {}).get("wanted") for one in lines]

    theirs = [None if one.executors is None else one.executors.wanted for one in judged]
    assert wanted("--config", str(config)) == theirs
    assert wanted("--maximum-executors", str(block["maximum"])) != theirs
    config.write_text("target_seconds: none\n")
    done = subprocess.run(
        [sys.executable, "-m", "agent.cli", "replay", "--config", str(config), str(record)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"{config}: target_seconds" in done.stderr


@pytest.mark.parametrize(
    "pack",
    [
        lambda data: data,
        gzip.compress,
        lambda data: gzip.compress(data[:5000]) + gzip.compress(data[5000:]),
        zstandard.compress,
        lambda data: zstandard.compress(data[:5000]) + zstandard.compress(data[5000:]),
    ],
    ids=["plain", "gzip", "gzip members", "zstd", "zstd frames"],
)
def test_compression_changes_nothing(pack, tmp_path):
    events, judged, settings = recorded()
    lines, broken = replayed(pack(b"\n".join(events) + b"\n"), tmp_path, settings)
    assert (len(lines), broken) == (len(judged), [])


BREAKS = pytest.mark.slow("another break of the same kind")


@pytest.mark.parametrize(
    ("pack", "share"),
    [
        pytest.param(zstandard.compress, 0.9, id="zstd-0.9"),
        pytest.param(zstandard.compress, 0.3, id="zstd-0.3", marks=BREAKS),
        pytest.param(gzip.compress, 0.9, id="gzip-0.9", marks=BREAKS),
        pytest.param(gzip.compress, 0.3, id="gzip-0.3", marks=BREAKS),
    ],
)
def test_all_before_a_break_is_judged_and_the_break_reported(pack, share, tmp_path):
    events, judged, settings = recorded(initial_backlog_rows=10**7, duration_seconds=7200)
    packed = pack(b"\n".join(events) + b"\n")
    lines, broken = replayed(packed[: int(share * len(packed))], tmp_path, settings)
    assert 0 < len(lines) < len(judged)
    whole, _ = replayed(b"\n".join(events), tmp_path, settings)
    assert lines == whole[: len(lines)]
    # Nothing that could be decompressed is left out.
    stream = (
        zlib.decompressobj(wbits=31)
        if pack is gzip.compress
        else zstandard.ZstdDecompressor().decompressobj()
    )
    text = stream.decompress(packed[: int(share * len(packed))])
    assert len(lines) == sum(b'"type":"progress"' in one for one in text.split(b"\n")[:-1]) + sum(
        b'"type":"heartbeat"' in one for one in text.split(b"\n")[:-1]
    )
    assert len(broken) == 1
    assert "breaks off after line" in broken[0]


def test_damage_inside_a_compressed_file_is_a_break(tmp_path):
    events, _, settings = recorded(initial_backlog_rows=10**7, duration_seconds=7200)
    pack = zlib.compressobj(wbits=31)
    half = b"\n".join(events[: len(events) // 2]) + b"\n"
    packed = pack.compress(half) + pack.flush(zlib.Z_FULL_FLUSH)
    packed += b"\x07" * 4000  # a deflate block of no known type
    lines, broken = replayed(packed, tmp_path, settings)
    assert len(lines) > len(events) // 3
    assert "damaged" in broken[0]


REAL_LOG = Path(__file__).parents[1] / "history" / "real-run.zstd"


@pytest.fixture(scope="module")
def real_log() -> list[bytes]:
    """Lines of an event log that a real Spark wrote."""
    with zstandard.ZstdDecompressor().stream_reader(REAL_LOG.open("rb")) as log:
        return io.BufferedReader(log).readlines()


def replay_of(*paths: Path) -> tuple[bytes, list[str]]:
    out = io.BytesIO()
    broken = replay_files(list(map(str, paths)), QueryPolicy(), out)
    return out.getvalue(), broken


def rolled(folder: Path, lines: list[bytes], *cuts: int) -> Path:
    """The log as Spark 4 leaves it: a folder of files that roll over, compressed."""
    log = folder / "eventlog_v2_app-1"
    log.mkdir(parents=True)
    (log / "appstatus_app-1.inprogress").touch()
    for index, (begin, end) in enumerate(pairwise([0, *cuts, len(lines)]), 1):
        packed = zstandard.compress(b"".join(lines[begin:end]))
        (log / f"events_{index}_app-1.zstd").write_bytes(packed)
        (log / f".events_{index}_app-1.zstd.crc").write_bytes(b"crc")
    return log


def test_a_log_that_rolled_over_is_replayed_as_if_it_were_one_file(tmp_path, real_log):
    whole, _ = replay_of(REAL_LOG)
    assert whole.count(b"\n") > 50
    cuts = range(len(real_log) // 12, len(real_log), len(real_log) // 12)  # so events_10_ is there
    log = rolled(tmp_path, real_log, *cuts)
    assert len(list(log.glob("events_1?_*"))) >= 2
    assert replay_of(log) == (whole, [])
    assert replay_of(tmp_path) == (whole, [])  # as spark.eventLog.dir names it
    # What was compacted stands for the files before it.
    newest = sorted(log.glob("events_*"), key=lambda path: int(path.name.split("_")[1]))[5]
    head = b"".join(real_log[: cuts[5]])
    newest.with_name(f"{newest.name}.compact").write_bytes(zstandard.compress(head))
    assert replay_of(log) == (whole, [])


def two_runs() -> tuple[list[bytes], int]:
    """Lines of a log in which a query runs twice, and at which of them its first run ends."""
    first = [*made.opening(), made.started(), *map(made.progress, range(8)), made.task()]
    again = [made.started("run-2", time=made.BASE + 45.0)]
    again += [made.progress(batch, run="run-2") for batch in range(10, 20)]
    return [*first, made.terminated(), *again, made.terminated("run-2")], len(first)


def test_a_file_that_begins_with_an_end_goes_on_from_the_one_before(tmp_path):
    """An end has no time of its own in Spark's event log."""
    lines, end = two_runs()
    file = tmp_path / "app-1"
    file.write_bytes(b"".join(lines))
    whole, _ = replay_of(file)
    times = [json.loads(line)["time"] for line in whole.splitlines()]
    assert len(times) == 20
    assert times == sorted(times)
    assert replay_of(rolled(tmp_path, lines, end)) == (whole, [])
    assert replay_of(rolled(tmp_path / "x", lines, end - 1, end, end + 1)) == (whole, [])


def test_logs_of_a_folder_are_replayed_in_the_order_in_which_their_jobs_began(tmp_path):
    """YARN's numbers have four digits until they have five; a driver's log may bear any name."""
    lines, end = two_runs()
    whole = tmp_path / "whole"
    whole.write_bytes(b"".join(lines))
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "app_9999").write_bytes(b"".join(lines[:end]))
    later = [*made.opening(time=made.BASE + 44.0), *lines[end:]]
    (logs / "app_10000.zstd").write_bytes(zstandard.compress(b"".join(later)))
    replayed, _ = replay_of(logs)
    assert replayed == replay_of(whole)[0]


def test_an_end_before_which_nothing_tells_a_time_is_passed_over(tmp_path):
    lines, end = two_runs()
    file = tmp_path / "app-1"
    file.write_bytes(b"".join([*made.opening(), *lines[end:]]))
    replayed, _ = replay_of(file)
    told = list(map(json.loads, replayed.splitlines()))
    assert [one["event"] for one in told] == ["progress"] * 10 + ["terminated"]
    assert {one["time"][:10] for one in told} == {"2026-11-21"}


def test_a_start_without_a_time_was_after_what_stands_before_it(tmp_path):
    """As of Spark 2: after its application's, and where nothing is known it is passed over."""
    batches = [*map(made.progress, range(8)), made.terminated()]
    later = [made.progress(batch, run="run-2") for batch in range(10, 20)]
    file = tmp_path / "app-1"

    def told(*lines: bytes) -> bytes:
        file.write_bytes(b"".join(lines))
        replayed, broken = replay_of(file)
        assert broken == []
        return replayed

    ended = made.BASE + 5.0 * 7 + 2.0
    timed = [made.started(), *batches, made.started("run-2", time=ended), *later]
    untimed = [made.started_untimed(), *batches, made.started_untimed("run-2"), *later]
    assert told(*made.opening(), *untimed) == told(*made.opening(), *timed)
    assert told(made.started_untimed(), *batches) == told(*batches)
    assert told(*batches).count(b"\n") == 9


def test_a_log_that_is_being_written_gives_what_is_there(tmp_path, real_log):
    log = rolled(tmp_path, real_log, len(real_log) // 2)
    last = log / "events_2_app-1.zstd"
    last.write_bytes(last.read_bytes()[:-100])
    lines, broken = replay_of(log)
    assert lines.count(b"\n") > 30
    assert len(broken) == 1
    assert broken[0].startswith(f"{last}: breaks off after line ")


def test_a_folder_without_a_log_and_what_cannot_be_unpacked_are_named(tmp_path):
    done = weir("replay", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.decode().startswith(f"weir: {tmp_path}: no event log in this folder")
    (tmp_path / "app-1.lzf").write_bytes(b"ZV\x01\x00\x05\x00\x05hello")
    done = weir("replay", str(tmp_path))
    assert done.returncode == 2
    assert b"app-1.lzf: compressed with lzf, which cannot be read here" in done.stderr


def test_the_name_of_a_file_steers_no_terminal(tmp_path):
    (tmp_path / "app\x1b[2J\u202e-1.lzf").write_bytes(b"ZV\x01\x00\x05\x00\x05hello")
    done = weir("replay", str(tmp_path))
    assert done.returncode == 2
    said = done.stderr.decode()
    assert "-1.lzf: compressed with lzf, which cannot be read here" in said
    assert said.removesuffix("\n").isprintable()


def weir(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "agent.cli", *arguments],
        input=data,
        capture_output=True,
        timeout=60,
        check=False,
    )


GOOD = {
    "type": "progress",
    "time": "2026-11-21T08:55:02.865Z",
    "body": {
        "id": "q",
        "runId": "r",
        "timestamp": "2026-11-21T08:55:00.000Z",
        "batchId": 3,
        "numInputRows": 10,
        "durationMs": {"addBatch": 2000, "triggerExecution": 2865},
        "sources": [{"description": "s", "numInputRows": 10}],
    },
}


def line_with(path: str, value) -> bytes:
    event = json.loads(json.dumps(GOOD))
    holder = event
    *parents, last = path.split(".")
    for key in parents:
        holder = holder[int(key)] if isinstance(holder, list) else holder[key]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return json.dumps(event).encode()


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b"nonsense", ""),
        (b"[1]", "an object"),
        (b"{}", "type:"),
        (b"\xff\xfe{}", ""),
        (b'{"a":' * 5000, ""),
        (line_with("time", None), "time:"),
        (line_with("time", "yesterday"), "time:"),
        (line_with("type", "progressive"), "type:"),
        (line_with("body", 5), "body:"),
        (line_with("body.id", None), "body.id:"),
        (line_with("body.timestamp", None), "body.timestamp:"),
        (line_with("body.batchId", "three"), "body.batchId:"),
        (line_with("body.numInputRows", -5), "body.numInputRows:"),
        (line_with("body.durationMs.addBatch", "fast"), "body.durationMs.addBatch:"),
        (line_with("body.durationMs", []), "body.durationMs:"),
        (line_with("body.sources.0.numInputRows", True), "body.sources[0].numInputRows:"),
        (line_with("limits", [{"source": 0, "unit": "rows", "limit": -3}]), "limits[0].limit:"),
        (line_with("limits", [{"source": 0, "unit": 3}]), "limits[0].unit:"),
        (
            b'{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"}',
            "progress:",
        ),
    ],
)
def test_a_bad_line_is_named_by_file_line_and_field(line, field, tmp_path):
    path = tmp_path / "recorded.jsonl"
    good = json.dumps(GOOD).encode()
    path.write_bytes(good + b"\n" + line + b"\n" + good + b"\n")
    done = weir("replay", str(path))
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 1
    message = done.stderr.decode()
    assert message.count("\n") == 1
    assert f"{path}:2: {field}" in message


@pytest.mark.parametrize("torn", [b'{"type": "prog', b'{"ty\0\0\0\0', b"\0" * 4096])
def test_what_follows_a_line_that_a_crash_tore_is_read(torn, tmp_path):
    """As ``agent.service.recorder`` leaves it, which goes on behind it after a restart."""
    path = tmp_path / "events.jsonl"
    later = line_with("body.batchId", 4)
    path.write_bytes(json.dumps(GOOD).encode() + b"\n" + torn + b"\n" + later + b"\n")
    done = weir("replay", str(path), str(path))
    assert [json.loads(line)["batch_id"] for line in done.stdout.splitlines()][:2] == [3, 4]
    assert done.returncode == 1
    assert done.stderr.decode().count(f"{path}: line 2 breaks off and was passed over") == 2
    path.write_bytes(torn + b"\n" + torn + b"\n" + later + b"\n" + b'{"type')
    done = weir("replay", str(path))
    assert [json.loads(line)["batch_id"] for line in done.stdout.splitlines()] == [4]
    told = done.stderr.decode()
    assert "breaks off in line 4" in told
    assert "line 1 breaks off and was passed over, and 1 more" in told


@pytest.mark.parametrize("compressed", [False, True])
def test_the_files_of_a_record_are_read_in_the_order_in_which_they_were_written(
    compressed, tmp_path
):
    """``recorder`` numbers them from the newest on."""
    events, _, settings = recorded(**CHANGES["step"])
    third = len(events) // 3
    parts = [events[:third], events[third : 2 * third], events[2 * third :]]
    folder = tmp_path / "rec"
    folder.mkdir()
    for part, name in zip(parts, ("events.jsonl.2", "events.jsonl.1", "events.jsonl"), strict=True):
        data = b"\n".join(part) + b"\n"
        (folder / name).write_bytes(gzip.compress(data) if compressed else data)
    out = io.BytesIO()
    assert replay_files([str(folder)], settings, out) == []
    assert out.getvalue().splitlines() == replayed(b"\n".join(events), tmp_path, settings)[0]


@pytest.mark.parametrize("pack", [bytes, zstandard.compress])
def test_a_plan_is_passed_over_however_long_it_is(pack, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "MOST_LINE_BYTES", 1 << 20)
    content, plan = made.whole(), made.plan(2 << 20)
    short, _ = replayed(b"".join(content), tmp_path, QueryPolicy())
    long = b"".join([*content[:6], plan, *content[6:]])
    assert replayed(pack(long), tmp_path, QueryPolicy()) == (short, [])
    # Lines keep their numbers, and one that would tell something is named.
    endless = made.long_text(2 << 20).encode()
    for odd, error in ((b"nonsense", "malformed"), (endless, "a line longer than")):
        with pytest.raises(recording.RecordingError, match=f"events:8: .*{error}"):
            replayed(pack(b"".join([*content[:6], plan, odd, b"\n"])), tmp_path, QueryPolicy())
    _, (broken,) = replayed(pack(b"".join([*content[:6], plan[:-100]])), tmp_path, QueryPolicy())
    assert broken.endswith("breaks off in line 7: the last line is not whole")


def test_minus_one_and_missing_numbers_are_unknown_not_bad(tmp_path):
    lines = [line_with("body.numInputRows", -1), line_with("body.durationMs", None)]
    done = weir("replay", "-", data=b"\n".join(lines))
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("kind", ["wire", "bare", "event log"])
def test_a_batch_in_which_the_clock_was_set_back_has_no_duration_and_is_not_bad(kind):
    """Spark takes its phases as none then, and says of the whole what the clock says."""

    def judged(**duration):
        lines = []
        for batch in range(3, 6):
            event = json.loads(line_with("body.durationMs", {"addBatch": 0}))
            body = event["body"] | {"batchId": batch} | (duration if batch == 4 else {})
            listener = "org.apache.spark.sql.streaming.StreamingQueryListener"
            shaped = {"wire": event | {"body": body}, "bare": body}
            shaped["event log"] = {"Event": f"{listener}$QueryProgressEvent", "progress": body}
            lines.append(json.dumps(shaped[kind], separators=(",", ":")).encode())
        done = weir("replay", "-", data=b"\n".join(lines))
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    told = judged(batchDuration=-700)
    assert [json.loads(line)["batch_id"] for line in told] == [3, 4, 5]
    assert told == judged()


def test_a_break_is_exit_1_and_a_missing_file_exit_2(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode() + b"\n")[:-9])
    done = weir("replay", str(path))
    assert done.returncode == 1
    assert b"breaks off" in done.stderr
    plain = tmp_path / "cut.jsonl"
    plain.write_bytes(json.dumps(GOOD).encode() + b"\n" + b'{"type": "prog')
    done = weir("replay", str(plain))
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 1)
    assert b"in line 2" in done.stderr
    done = weir("replay", str(tmp_path / "none"))
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert str(tmp_path / "none").encode() in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay",),
        ("replay", "-", "--target", "0"),
        ("replay", "-", "--deadline", "nan"),
        ("replay", "-", "--target", "soon"),
        ("simulate",),
        ("simulate", "none.json"),
        ("simulate", "none.json", "--controller", "luck"),
        ("simulate", "none.json", "--seed", "x"),
    ],
)
def test_wrong_usage_is_exit_2_and_one_line(arguments):
    done = weir(*arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr


def test_a_bad_scenario_is_exit_2_and_one_line(tmp_path):
    path = tmp_path / "s.json"
    text = text_of(noise_sigma=-1)
    path.write_text(text)
    number = text[: text.index("noise_sigma")].count("\n") + 1
    done = weir("simulate", str(path))
    assert done.returncode == 2
    assert done.stderr.decode() == (
        f"weir: {path}:{number}: noise_sigma: a number from 0 is needed, not -1\n"
    )


EVENT_LOG = """\
{"Event":"SparkListenerLogStart","Spark Version":"4.2.0"}
{"Event":"SparkListenerApplicationStart","App Name":"orders","App ID":"local-1","Timestamp":1}
{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent","id":"q",\
"runId":"r","name":"enrich","timestamp":"2026-11-21T08:55:00.000Z"}
{"Event":"SparkListenerJobStart","Job ID":0}
{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent","progress":\
{"id":"q","runId":"r","name":"enrich","timestamp":"2026-11-21T08:55:01.000Z","batchId":0,\
"durationMs":{"addBatch":1500,"triggerExecution":2000},"stateOperators":[],"sources":[{\
"description":"KafkaV2[Subscribe[a]]","startOffset":"{\\"a\\":{\\"0\\":10}}",\
"endOffset":"{\\"a\\":{\\"0\\":110}}","latestOffset":"{\\"a\\":{\\"0\\":400}}",\
"numInputRows":100}],"sink":{"description":"d"}}}
{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryTerminatedEvent","id":"q",\
"runId":"r","exception":null}
"""


def test_a_spark_event_log_is_judged(tmp_path):
    lines, broken = replayed(zstandard.compress(EVENT_LOG.encode()), tmp_path, QueryPolicy())
    progress, terminated = map(json.loads, lines)
    assert broken == []
    assert (progress["application"], progress["query"]) == ("orders", "enrich")
    assert progress["backlog_rows"] == 290
    assert progress["time"] == "2026-11-21T08:55:03.000Z"
    assert (terminated["event"], terminated["state"]) == ("terminated", "terminated")


def test_bare_progress_is_judged(tmp_path):
    lines, _ = replayed(json.dumps(GOOD["body"]).encode(), tmp_path, QueryPolicy())
    (line,) = map(json.loads, lines)
    assert (line["batch_id"], line["event"]) == (3, "progress")
    assert line["time"] == "2026-11-21T08:55:02.865Z"


def test_a_record_of_two_applications_keeps_their_queries_apart(tmp_path):
    lines = []
    for number, name in enumerate(["orders", "billing", "orders"]):
        event = json.loads(json.dumps(GOOD))
        event["body"]["batchId"] = number
        event["application"] = {"id": f"local-{name}", "name": name, "spark_version": "4.2.0"}
        event["listener"] = {"instance": name}
        lines.append(json.dumps(event).encode())
    found, _ = replayed(b"\n".join(lines), tmp_path, QueryPolicy())
    told = [(line["application"], line["batch_id"]) for line in map(json.loads, found)]
    assert told == [("orders", 0), ("billing", 1), ("orders", 2)]


@pytest.mark.parametrize("said", [5, {"id": "a"}, {"id": "a", "name": 3}, {"id": "", "name": "b"}])
def test_a_record_with_a_bad_application_is_named(said, tmp_path):
    path = tmp_path / "recorded.jsonl"
    path.write_bytes(json.dumps({**GOOD, "application": said}).encode() + b"\n")
    done = weir("replay", str(path))
    assert done.returncode == 2
    assert f"{path}:1: application" in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
