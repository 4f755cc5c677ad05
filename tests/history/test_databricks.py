"""The parts of a log as Databricks delivers them: one log, each event of it once."""

from __future__ import annotations

import gzip
import io
import shutil
import time
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.policy import QueryPolicy
from agent.history import extract
from agent.history.logs import Found, Plan, Read, log_files, plan
from agent.replay import replay_files
from agent.sources.event_log import files_of
from agent.spark_codecs import PIECE_BYTES, Damaged, Gzip
from tests.event_log import lines
from tests.history import spark_process

if TYPE_CHECKING:
    import random
    from concurrent.futures import Executor
    from pathlib import Path

FOLDER = "dbfs:/logs/0115-083000-abc/eventlog/0115-083000-abc_10_0_0_1/8731"
TIMES = st.integers(0, 2**32).map(
    lambda seconds: time.strftime("eventlog-%Y-%m-%d--%H-%M.gz", time.gmtime(seconds))
)


def found(*names: str, size: int = 10) -> list[Found]:
    return [Found(f"{FOLDER}/{name}", size, 1) for name in names]


@given(st.lists(TIMES, unique=True, max_size=8), st.randoms())
def test_the_parts_of_a_folder_are_one_log_in_the_order_of_their_times(
    names: list[str], mixed: random.Random
) -> None:
    names = ["eventlog", *names]
    told = log_files(found(*mixed.sample(names, len(names))))
    assert {file.log for file in told} == {FOLDER}
    assert [file.path.rpartition("/")[2] for file in told] == [*sorted(names[1:]), "eventlog"]
    assert [file.in_progress for file in told] == [False] * (len(names) - 1) + [True]
    assert [file.codec for file in told] == ["gz"] * (len(names) - 1) + [""]


def test_a_part_that_somebody_unpacked_is_the_same_part() -> None:
    name = "eventlog-2026-11-21--09-00"
    chosen = plan(log_files(found(name, f"{name}.gz")), {})
    assert len(chosen.to_read) == len(chosen.doubled) == 1


def test_what_was_open_counts_once_when_it_is_closed() -> None:
    """Played hour by hour; a run after each listing, one by another name for the last hour."""
    first, second = (f"eventlog-2026-11-21--{hour}-00.gz" for hour in ("09", "10"))
    seen: dict[str, Read] = {}

    def run(*files: Found) -> tuple[list[str], set[str]]:
        chosen: Plan = plan(log_files(files), seen)
        read = {file.key: Read(1, file.size, file.modified) for file in chosen.to_read}
        kept = {key: one for key, one in seen.items() if key in chosen.valid} | read
        seen.clear()
        seen.update(kept)
        names = {file.key: file.path.rpartition("/")[2] for file in log_files(files)}
        return [names[key] for key in read], {names.get(key, "gone") for key in kept}

    assert run(*found("eventlog")) == (["eventlog"], {"eventlog"})
    grown = found("eventlog", size=20)
    assert run(*found(first), *grown) == ([first, "eventlog"], {first, "eventlog"})
    assert run(*found(first), *grown) == ([], {first, "eventlog"})
    assert run(*found(first)) == ([], {first, "gone"}), "what is cleaned away stays counted"
    assert run(*found(first, second)) == ([second], {first, second})
    assert run() == ([], {"gone"})


CONTENT = b"".join(line for line in lines.whole(6) if b"TaskEnd" not in line)


@given(st.binary(max_size=300), st.integers(1, 400), st.integers(1, 4))
def test_gzip_is_unpacked_however_it_comes(plain: bytes, step: int, members: int) -> None:
    packed = gzip.compress(plain) * members
    decoder = Gzip()
    told = b"".join(decoder.feed(packed[at : at + step]) for at in range(0, len(packed), step))
    assert told == plain * members
    assert decoder.whole


def test_what_gzip_unpacks_to_much_comes_in_pieces() -> None:
    packed = gzip.compress(b"x" * 50 * PIECE_BYTES)
    decoder = Gzip()
    sizes = [len(piece) for piece in decoder.pieces(packed)]
    assert sum(sizes) == 50 * PIECE_BYTES
    assert decoder.whole
    first = next(iter(Gzip()._unpack(packed)))
    assert 0 < len(first) <= PIECE_BYTES, "and no more is held at once"


@pytest.mark.parametrize("damaged", [b"\0" * 40, b"no gzip"])
def test_what_is_no_gzip_is_damaged(damaged: bytes) -> None:
    with pytest.raises(Damaged, match="damaged gzip"):
        Gzip().feed(damaged)


def kept_of(packed: bytes) -> tuple[int, list[str]]:
    """How many events, and what was bad."""
    kept = list(extract.of_compressed(packed, "eventlog-2026-11-21--09-00.gz", in_progress=False))
    bad = [extract.decode_bad(one.data).reason for one in kept if one.kind == extract.BAD]
    return sum(one.kind == extract.EVENT for one in kept), bad


def test_of_a_damaged_part_counts_what_stands_before() -> None:
    packed = gzip.compress(CONTENT)
    assert kept_of(packed) == (8, [])
    assert kept_of(packed[:-4]) == (8, ["the file breaks off; what stands before it is used"])
    members = b"".join(gzip.compress(line) for line in CONTENT.splitlines(keepends=True))
    middle = len(members) // 2
    events, (bad,) = kept_of(members[:middle] + b"\0" * 40 + members[middle + 40 :])
    assert 0 < events < 8
    assert "damaged gzip" in bad


# -- weir replay ---------------------------------------------------------------------------


def parts(folder: Path, content: list[bytes]) -> None:
    """A log in three closed parts and an open one; nothing of a query stands in the second."""
    folder.mkdir(parents=True, exist_ok=True)
    third = len(content) // 3
    quiet = [lines.line("SparkListenerTaskEnd", **{"Stage ID": 1})] * 30_000
    closed = content[:third], quiet, content[third : 2 * third]
    for hour, part in zip(("09", "10", "11"), closed, strict=True):
        (folder / f"eventlog-2026-11-21--{hour}-00.gz").write_bytes(gzip.compress(b"".join(part)))
    (folder / "eventlog").write_bytes(b"".join(content[2 * third :]))


def replayed(place: Path) -> tuple[bytes, list[str]]:
    out = io.BytesIO()
    broken = replay_files([str(place)], QueryPolicy(target_seconds=1.0), out)
    return out.getvalue(), broken


def test_replay_reads_the_parts_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "whole").write_bytes(b"".join(lines.whole(6)))
    parts(tmp_path / "8731", lines.whole(6))
    names = [path.name for path in files_of(tmp_path / "8731")]
    assert names == [
        *(f"eventlog-2026-11-21--{hour}-00.gz" for hour in ("09", "10", "11")),
        "eventlog",
    ]
    assert replayed(tmp_path / "8731") == replayed(tmp_path / "whole")


def test_replay_goes_on_behind_a_part_that_is_cut_off(tmp_path: Path) -> None:
    parts(tmp_path / "8731", lines.whole(6))
    cut = tmp_path / "8731" / "eventlog-2026-11-21--10-00.gz"
    cut.write_bytes(cut.read_bytes()[:-20])
    whole, _ = replayed(tmp_path / "8731")
    told, broken = replayed(tmp_path / "8731")
    assert told == whole
    assert [one.startswith(f"{cut}: breaks off") for one in broken] == [True]


# -- weir history --------------------------------------------------------------------------


@pytest.mark.spark
def test_the_tables_are_those_of_the_log_in_one_file(
    spark: Executor, tmp_path: Path, real_log: bytes
) -> None:
    """A run while the first part is open, one when it is closed and the last one is cut off."""

    def run(out: str, place: Path) -> Any:
        return spark.submit(spark_process.run, place, tmp_path / out).result()

    def judged(out: str) -> dict[str, int]:
        return spark.submit(spark_process.applications, tmp_path / out).result()

    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "app-1").write_bytes(real_log)
    run("once", tmp_path / "whole")
    content = real_log.splitlines(keepends=True)
    half = len(content) // 2
    folder = tmp_path / "logs" / "0115-1" / "8731"
    folder.mkdir(parents=True)
    (folder / "eventlog").write_bytes(b"".join(content[: half // 2]) + content[half // 2][:40])
    first = run("out", tmp_path / "logs")
    assert (first.logs, first.skipped, first.applications) == (1, [], ["orders"])
    assert 0 < judged("out")["orders"] < judged("once")["orders"]
    (folder / "eventlog-2026-11-21--09-00.gz").write_bytes(gzip.compress(b"".join(content[:half])))
    (folder / "eventlog").write_bytes(b"".join(content[half:]))
    second = run("out", tmp_path / "logs")
    assert (second.files, second.logs, second.skipped) == (2, 1, [])
    assert judged("out") == judged("once")
    (folder / "eventlog").unlink()
    packed = zlib.compressobj(wbits=31)
    last = packed.compress(b"".join(content[half:])) + packed.flush()
    (folder / "eventlog-2026-11-21--10-00.gz").write_bytes(last[:-8])
    third = run("out", tmp_path / "logs")
    (cut,) = third.skipped
    assert cut.file.endswith("eventlog-2026-11-21--10-00.gz")
    assert "breaks off" in cut.reason
    assert judged("out") == judged("once")
    shutil.rmtree(folder)
    assert run("out", tmp_path / "logs").files == 0
