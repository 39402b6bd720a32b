"""Torn tails are cut when a log is opened, and damaged batches are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_support import batch, fill, open_log, values

from raftlog.errors import DamagedDataError, StorageError
from raftlog.partition.storage.fsck import check_partition
from raftlog.partition.storage.segment import segment_path


def test_a_torn_tail_of_any_length_is_cut(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 2)
    whole = (tmp_path / "p" / segment_path(Path(), 0)).read_bytes()
    last = len(batch(1, "1".ljust(10)))
    log.close()

    for missing in [*range(1, last, 37), last - 1]:
        (tmp_path / "p" / segment_path(Path(), 0)).write_bytes(whole[:-missing])
        reopened = open_log(tmp_path / "p")
        assert (values(reopened), reopened.size_bytes) == (["0"], len(whole) - last)
        reopened.close()


def flip(path: Path, at: int) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= 1
    path.write_bytes(damaged)


@pytest.mark.parametrize("byte", [3, 20, 70, 300])
@pytest.mark.parametrize("power_lost", [False, True])
def test_a_flipped_bit_is_no_torn_tail_if_sound_batches_follow(tmp_path: Path, byte: int, power_lost: bool):
    log = open_log(tmp_path / "p")
    fill(log, 3)
    log.close()
    path, size = segment_path(tmp_path / "p", 0), len(batch(0, "0".ljust(10)))
    before = path.read_bytes()
    flip(path, size + byte)

    with pytest.raises(DamagedDataError, match="damaged at offset 1, and sound batches follow") as caught:
        open_log(tmp_path / "p", power_lost=power_lost)

    assert caught.value.details == {"damaged_at": 1}
    assert path.stat().st_size == len(before)
    flip(path, size + byte)
    flip(path, 2 * size + byte)
    assert values(open_log(tmp_path / "p", power_lost=True)) == ["0", "1"]


@pytest.mark.parametrize("byte", [3, 20, 70, 300])
def test_a_flipped_bit_in_the_last_batch_is_no_torn_tail_unless_power_was_lost(tmp_path: Path, byte: int):
    """A process that is killed leaves the beginning of a write, whose bytes are right."""
    log = open_log(tmp_path / "p")
    fill(log, 3)
    log.close()
    path, size = segment_path(tmp_path / "p", 0), len(batch(0, "0".ljust(10)))
    flip(path, 2 * size + byte)

    with pytest.raises(DamagedDataError, match="damaged at offset 2, and the file does not end there") as caught:
        open_log(tmp_path / "p")

    assert caught.value.details == {"damaged_at": 2}
    assert path.stat().st_size == 3 * size
    assert [finding.severity for finding in check_partition(tmp_path / "p")] == ["damage"]


def test_a_flipped_bit_is_found_when_only_a_later_segment_is_sound(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 20)
    log.close()
    first, *_ = sorted((tmp_path / "p").glob("*.log"))
    flip(first, first.stat().st_size - 20)

    with pytest.raises(DamagedDataError, match="sound batches follow"):
        open_log(tmp_path / "p", segment_bytes=4096)


def test_a_write_that_a_power_cut_lost_is_cut_even_if_later_ones_reached_the_disk(tmp_path: Path):
    """Pages are written back in any order: a hole of zeros, and intact batches that were never synced."""
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 20, size=600)
    log.close()
    path = segment_path(tmp_path / "p", 0)
    content = bytearray(path.read_bytes())
    content[1024:1536] = bytes(512)
    path.write_bytes(content)

    with pytest.raises(DamagedDataError):
        open_log(tmp_path / "p")
    again = open_log(tmp_path / "p", power_lost=True)

    lost = next(offset for offset in range(20) if len(batch(0, "x" * 600)) * (offset + 1) > 1024)
    assert values(again) == [str(offset) for offset in range(lost)]
    assert len(list((tmp_path / "p").glob("*.log"))) == 1


def test_damage_below_the_recovery_point_is_refused(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 3)
    log.fsync()
    log.checkpoint(3)
    log.close()
    path, size = segment_path(tmp_path / "p", 0), len(batch(0, "0".ljust(10)))
    path.with_suffix(".index").unlink(missing_ok=True)
    flip(path, 2 * size + 3)
    with pytest.raises(DamagedDataError, match="damaged at offset 2, below the recovery point 3"):
        open_log(tmp_path / "p")


def test_records_missing_below_the_recovery_point_are_refused(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 20)
    log.fsync()
    log.checkpoint(20)
    log.close()
    max((tmp_path / "p").glob("*.log")).unlink()

    with pytest.raises(StorageError, match="records are missing"):
        open_log(tmp_path / "p")
