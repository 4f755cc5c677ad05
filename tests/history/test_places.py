"""Addresses: what lies where, however it is written."""

from __future__ import annotations

import pytest

from agent.history.logs import Found, log_files
from agent.history.places import Named, within


@pytest.mark.parametrize(
    ("address", "folder", "lies"),
    [
        ("file:/logs/a", "file:/logs", True),
        ("file:/logs/a", "file:/logs/", True),
        ("file:/logs", "file:/logs", True),
        ("file:/logs-a/b", "file:/logs", False),
        ("s3a://logs/events/a", "s3a://results/events", False),
        ("s3a://logs/events/a", "s3a://weir/", False),
        ("s3a://weir/batches/a", "s3a://weir/", True),
        ("file:/a", "file:/", True),
        # One place may be written in several ways.
        ("hdfs://nn:8020/logs/weir/x", "hdfs://nn/logs/weir", True),
        ("s3a://b/logs/weir/x", "s3://b/logs/weir/", True),
        ("s3a://b:1/logs/weir/x", "s3a://c/logs/weir", False),
        ("hdfs://nn:8020/logs/weird/x", "hdfs://nn/logs/weir", False),
        ("file:/logs/weir", "file:/logs/weir", True),
    ],
)
def test_what_lies_in_a_folder(address: str, folder: str, lies: bool) -> None:
    assert within(address, folder) is lies


def test_a_file_is_known_by_how_spark_calls_it() -> None:
    paths = ["s3a://eu/events/a", "s3a://us/events/a", "file:/events/b %41#", "hdfs://n/events/c"]
    files = {file.path: file for file in log_files(Found(path, 1, 1) for path in paths)}
    named = Named(files.values())
    for path in paths:
        assert named.of(path) is files[path]
    assert named.of_url("s3a://eu/events/a") is files["s3a://eu/events/a"]
    assert named.of_url("file:///events/b%20%2541%23") is files["file:/events/b %41#"]
    assert named.of("hdfs://n:8020/events/c") is files["hdfs://n/events/c"]
    assert named.of("s3a://eu/events/d") is None
