"""A query at work whose store lists a folder more slowly than the query ends batches."""

import json

import pytest

from agent.checkpoint.commands import look
from agent.checkpoint.folder import LocalFolder
from tests.checkpoint.build import checkpoint, file_entry, offsets, tree, write
from tests.checkpoint.kills import rescue_quietly


class AtWork(LocalFolder):
    """Batches end at each look between the listing of the commits and that of another folder.

    Of the commits in ``lost`` no file is ever written.
    """

    def __init__(self, root, *, batches, before, lost=()):
        super().__init__(root)
        self.newest, self.batches, self.before, self.lost = 2, batches, before, lost

    def files(self, on_count=None):
        last = "state/" if self.before == "state/" else ("offsets/", "sources/", "state/")
        yield from [one for one in super().files(on_count) if not one.path.startswith(last)]
        for batch in range(self.newest + 1, self.newest + 1 + self.batches):
            write(self.root, f"sources/0/{batch}", file_entry(batch))
            write(self.root, f"offsets/{batch}", offsets(batch))
            for partition in (0, 1):
                write(self.root, f"state/0/{partition}/{batch + 1}.delta", b"delta")
            if batch not in self.lost:
                write(self.root, f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
        self.newest += self.batches
        yield from [one for one in super().files() if one.path.startswith(last)]


@pytest.mark.parametrize("before", ["offsets/", "state/"])
@pytest.mark.parametrize("batches", [1, 2, 3, 10])
def test_what_came_while_it_was_listed_is_not_wrong(tmp_path, batches, before):
    root = checkpoint(tmp_path, opened=False)
    seen, soundness = look(AtWork(root, batches=batches, before=before))
    assert soundness.errors == []
    assert seen.layout.latest_offset >= seen.layout.latest_commit


@pytest.mark.parametrize("before", ["offsets/", "state/"])
@pytest.mark.parametrize("batches", [2, 10])
def test_a_commit_that_is_not_there_is_missing_all_the_same(tmp_path, batches, before):
    root = checkpoint(tmp_path, opened=False)
    at_work = AtWork(root, batches=batches, before=before, lost=range(3, 100))
    assert not look(at_work)[1].sound


def test_nothing_is_moved_aside_of_a_query_that_goes_on_meanwhile(tmp_path, monkeypatch):
    """Whatever the times of its files, and though no agent hears from it."""
    root = checkpoint(tmp_path, opened=False)
    at_work = AtWork(root, batches=3, before="offsets/")
    monkeypatch.setattr("agent.checkpoint.rescue_command.open_folder", lambda _: at_work)
    planned = {f"offsets/{batch}" for batch in (3, 4, 5)}
    code, report = rescue_quietly(root, apply=True, sink="upsert")
    assert code == 1
    refused = {one["check"]: one["evidence"] for one in report["plan"]["refusals"]}
    assert "commits/3" in refused["checkpoint_held"], json.dumps(refused)
    assert planned <= set(tree(root))
