"""What connectors keep of a source's schema below a checkpoint: no savepoint starts without it."""

import json
import shutil

import pytest

from agent.checkpoint.layout import MANIFEST
from agent.checkpoint.savepoint_command import savepoint
from tests.checkpoint.build import checkpoint, write
from tests.checkpoint.test_savepoint import restart_of, schema_findings, take


def tracked(root, address, *, below="", entries=2):
    """A checkpoint with the log of Delta's schemaTrackingLocation, of the query at this address."""
    checkpoint(root)
    for entry in range(entries):
        schema = {"tableId": "t", "sourceMetadataPath": f"{address}/sources/0"}
        write(root, f"{below}_schema_log_t/{entry}", f"v1\n{json.dumps(schema)}")
    return root


@pytest.mark.parametrize("below", ["", "schemas/orders/"])
def test_delta_s_schema_log_is_saved_and_ties_the_savepoint_to_its_address(
    tmp_path, capsys, monkeypatch, below
):
    """Delta compares the address of the source's folder with the one noted there, and fails.

    The address is told in one piece, on a terminal narrower than it is long, too.
    """
    monkeypatch.setenv("COLUMNS", "30")
    address = f"file:{tmp_path}/ck"
    root, to = tracked(tmp_path / "ck", address, below=below), tmp_path / "sp"
    assert savepoint(str(root), str(to), rollback_sink=None, as_json=False) == 0
    assert f"It starts only at {address}: " in " ".join(capsys.readouterr().out.split())
    for name in ("0", ".0.crc", "1", ".1.crc"):
        path = f"{below}_schema_log_t/{name}"
        assert (to / path).read_bytes() == (root / path).read_bytes()
    assert json.loads((to / MANIFEST).read_text())["starts_at"] == address
    assert schema_findings(to) == [("state_schema_elsewhere", "error")]
    root.rename(tmp_path / "aside")
    shutil.copytree(to, root)
    assert schema_findings(root) == []
    assert restart_of(root).batch_id == 3


def test_auto_loader_s_schemas_are_saved_and_what_is_no_connector_s_is_not(tmp_path):
    root, to = checkpoint(tmp_path / "ck"), tmp_path / "sp"
    write(root, "_schemas/0", "v1\n{}")
    write(root, "notes/0", "mine")
    write(root, MANIFEST, "{}")
    assert take(root, to).starts_at is None
    assert (to / "_schemas/0").exists()
    assert not (to / "notes").exists()


@pytest.mark.parametrize("text", ["", "v1", "v1\n[]", "v1\n{", 'v1\n{"sourceMetadataPath":7}'])
def test_a_schema_log_of_another_form_is_saved_all_the_same(tmp_path, text):
    root = checkpoint(tmp_path / "ck")
    write(root, "_schema_log_t/0", text)
    assert take(root, tmp_path / "sp").starts_at is None
    assert (tmp_path / "sp/_schema_log_t/0").read_text() == text
