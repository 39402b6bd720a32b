"""A lost, outdated or wrong table of leader epochs: rebuilt from the batches, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_support import batch, fill, names_of_syncs, open_log, values

from raftlog.errors import DamagedDataError, DiskFullError
from raftlog.partition.storage import epochs
from raftlog.partition.storage.files import write_json

EPOCHS = [(1, 0), (3, 12), (4, 20)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Several segments, three epochs."""
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 12, epoch=1)
    fill(log, 8, epoch=3)
    fill(log, 4, epoch=4)
    log.fsync()
    log.checkpoint(24, closing=True)
    log.close()
    return tmp_path / "p"


def reopened(folder: Path) -> list[tuple[int, int]]:
    log = open_log(folder, segment_bytes=4096)
    assert values(log)[-1] == "23"
    log.close()
    return list(log.epochs.entries)


def test_a_missing_table_is_built_again_and_sends_no_follower_back_to_the_start(folder: Path):
    (folder / "leader-epochs.json").unlink()

    log = open_log(folder, segment_bytes=4096)

    assert log.epochs.end_offset_for(3, log.log_end_offset) == (3, 20)
    log.close()
    assert reopened(folder) == EPOCHS


@pytest.mark.parametrize("kept", [EPOCHS[:2], EPOCHS[1:], EPOCHS[1:2], EPOCHS[:1]])
def test_a_table_that_lacks_epochs_is_completed(folder: Path, kept: list[tuple[int, int]]):
    write_json(folder / "leader-epochs.json", {"version": 1, "epochs": kept})
    assert reopened(folder) == EPOCHS
    assert reopened(folder) == EPOCHS


@pytest.mark.parametrize("deleted_below", [20, 24])
def test_a_table_of_deleted_records_is_completed_by_the_next_epochs(folder: Path, deleted_below: int):
    """The new leader's epoch was not synced, and its batches were: a power loss left the table of before."""
    log = open_log(folder, segment_bytes=4096)
    log.advance_log_start(deleted_below, 24)
    before = log.epochs.entries[:1]
    fill(log, 2, epoch=5)
    log.fsync()
    after = log.epochs.entries
    log.close()
    write_json(folder / "leader-epochs.json", {"version": 1, "epochs": before})

    log = open_log(folder, segment_bytes=4096, power_lost=True)

    assert (log.log_end_offset, log.epochs.entries) == (26, after)
    log.close()


def test_a_table_that_is_built_again_begins_where_the_log_does(folder: Path):
    log = open_log(folder, segment_bytes=4096)
    log.advance_log_start(14, 24)
    log.close()
    (folder / "leader-epochs.json").unlink()

    assert reopened(folder) == [(3, 14), (4, 20)]


@pytest.mark.parametrize("wrong", [[(1, 0), (3, 13)], [(2, 0), (3, 12)], [(9, 0)], [(1, 0), (3, 12), (5, 20)]])
def test_a_table_that_the_batches_contradict_is_damage(folder: Path, wrong: list[tuple[int, int]]):
    write_json(folder / "leader-epochs.json", {"version": 1, "epochs": wrong})
    before = (folder / "leader-epochs.json").read_bytes()

    with pytest.raises(DamagedDataError, match="the batches say"):
        open_log(folder, segment_bytes=4096)

    assert (folder / "leader-epochs.json").read_bytes() == before


def test_an_epoch_that_wrote_nothing_is_no_contradiction(folder: Path):
    write_json(folder / "leader-epochs.json", {"version": 1, "epochs": [*EPOCHS, (7, 24)]})
    assert reopened(folder) == EPOCHS


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (14, 4, [(3, 13), (4, 20)]),
        (14, 5, [(3, 13), (4, 20), (5, 24)]),
        (24, 4, [(4, 24)]),
        (24, 5, [(4, 23), (5, 24)]),
    ],
)
def test_a_log_whose_table_could_not_follow_a_deletion_takes_appends(
    folder: Path, monkeypatch: pytest.MonkeyPatch, offset: int, epoch: int, expected: list[tuple[int, int]]
):
    log = open_log(folder, segment_bytes=4096)
    with monkeypatch.context() as full:
        full.setattr(epochs, "write_json", _refuse)
        with pytest.raises(DiskFullError):
            log.advance_log_start(offset, 24)
    assert (log.log_start_offset, list(log.epochs.entries)) == (offset, EPOCHS)
    log.advance_log_start(offset, 24)

    log.append(batch(24, "next", epoch=epoch))

    assert (values(log)[-1], log.last_epoch) == ("next", epoch)
    log.close()
    log = open_log(folder, segment_bytes=4096)
    log.close()
    assert list(log.epochs.entries) == expected


def test_only_what_is_taken_away_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced = names_of_syncs(monkeypatch)
    table, durable = epochs.EpochTable(tmp_path), ["leader-epochs.json.new", tmp_path.name]
    table.assign(1, 0)
    table.assign(3, 12)
    assert synced == []
    table.assign(4, 12)  # Epoch 3 wrote nothing.
    assert synced == durable
    table.truncate_from(12)
    assert synced == 2 * durable
    assert epochs.read_epochs(tmp_path) == list(table.entries) == [(1, 0)]


def _refuse(path: Path, document: object, *, durable: bool) -> None:
    raise DiskFullError(f"cannot write {path}: no space left on device")
