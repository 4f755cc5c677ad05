"""Checkpoints written by hand in Spark's form, for what needs no Spark: small, quick, exact."""

import json
import os
import signal
import sys
import zlib
from pathlib import Path

OLD = 1_767_225_600.0


def write(root, path, text, *, checksum=True, age=OLD):
    """A file and Hadoop's checksums of it."""
    target = Path(root) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    data = text if isinstance(text, bytes) else text.encode()
    files = [target]
    target.write_bytes(data)
    if checksum:
        sums = b"".join(
            zlib.crc32(data[at : at + 512]).to_bytes(4, "big") for at in range(0, len(data), 512)
        )
        files.append(target.with_name(f".{target.name}.crc"))
        files[1].write_bytes(b"crc\x00" + (512).to_bytes(4, "big") + sums)
    for file in files:
        os.utime(file, (age, age))


def offsets(log_offset, *, time_ms=1_767_225_600_000, partitions=2):
    head = {"batchWatermarkMs": 0, "batchTimestampMs": time_ms}
    head["conf"] = {"spark.sql.shuffle.partitions": str(partitions)}
    return f'v1\n{json.dumps(head)}\n{{"logOffset":{log_offset}}}'


def file_entry(number, count=2):
    lines = [
        json.dumps({"path": f"file:///in/{number}-{i}", "timestamp": 1, "batchId": number})
        for i in range(count)
    ]
    return "\n".join(["v1", *lines])


def checkpoint(root, *, committed=3, opened=True, state="all", partitions=2):
    """A file source and one aggregation on the HDFS store, ``committed`` batches and one open.

    ``state``: of the open batch, "all" partitions, "some" or "none" have written theirs.
    """
    write(root, "metadata", '{"id":"9efb0370-ef1d-44dc-b650-de9f432e20e7"}')
    for batch in range(committed + bool(opened)):
        age = OLD + 10 * batch
        write(root, f"sources/0/{batch}", file_entry(batch), age=age)
        planned = offsets(batch, time_ms=int(age * 1000), partitions=partitions)
        write(root, f"offsets/{batch}", planned, age=age)
        if batch < committed:
            write(root, f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}', age=age + 4)
    info = {
        "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
        "stateStoreInfo": [
            {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}
        ],
    }
    write(root, "state/0/_metadata/metadata", f"v1\n{json.dumps(info)}")
    write(root, "state/0/0/_metadata/schema", "v2")
    for partition in range(partitions):
        last = committed + (opened and (state == "all" or (state == "some" and partition == 0)))
        for version in range(1, last + 1):
            write(root, f"state/0/{partition}/{version}.delta", b"delta %d" % version)
        if last > committed:
            write(root, f"state/0/{partition}/{last}.snapshot", b"snapshot")
    return Path(root)


def tree(root):
    """Every file with its bytes and time of change, to compare before and after."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(Path(root).rglob("*"))
        if path.is_file()
    }


def killed_at(step, act):
    """Runs ``act(on_step)`` in a child that is killed before that step; whether it got there."""
    child = os.fork()
    if child == 0:
        taken = 0

        def on_step(_):
            nonlocal taken
            if taken == step:
                os.kill(os.getpid(), signal.SIGKILL)
            taken += 1

        try:
            act(on_step)
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0
    return False
