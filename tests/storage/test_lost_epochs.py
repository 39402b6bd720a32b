"""A log whose table of leader epochs is lost, old or wrong: built again from the batches, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_support import fill, open_log, values

from raftlog.errors import DamagedDataError
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
