"""The snapshot file of a voter: its reader and its receiver notice any changed bit."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from raftlog.metadata_quorum.raft import engine
from raftlog.metadata_quorum.raft.codec import MessageFormatError
from raftlog.metadata_quorum.raft.snapshots import Snapshots, check_snapshot

LAST, PREVIOUS = (b"last", 7, 2), (b"previous", 6, 2)


def voter(folder: Path) -> tuple[Snapshots, Mock, Mock]:
    folder.mkdir(exist_ok=True)
    machine, fatal = Mock(), Mock()
    machine.take_snapshot.return_value = b"everything that was decided"
    return Snapshots(folder / "snapshot", machine=machine, journal=Mock(), fatal=fatal), machine, fatal


def written(folder: Path) -> bytes:
    snapshots, _, _ = voter(folder)
    snapshots.serialize((None, LAST, PREVIOUS, None), 7)
    assert snapshots.checkSerializing()[1] == 7
    return (folder / "snapshot").read_bytes()


def test_every_changed_bit_is_noticed_by_who_loads_it(tmp_path: Path):
    content = written(tmp_path / "a")
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        snapshots, machine, fatal = voter(tmp_path / "b")
        (tmp_path / "b" / "snapshot").write_bytes(damaged)
        with pytest.raises(MessageFormatError):
            check_snapshot(tmp_path / "b" / "snapshot")
        with pytest.raises(MessageFormatError):
            snapshots.deserialize()
        assert fatal.call_count == 1
        machine.load_snapshot.assert_not_called()


def test_a_snapshot_that_was_damaged_on_its_way_is_not_taken(tmp_path: Path):
    content = bytearray(written(tmp_path / "a"))
    content[-3] ^= 4
    snapshots, machine, fatal = voter(tmp_path / "b")
    before = written(tmp_path / "b")
    assert not snapshots.setTransmissionData((bytes(content), True, True))
    assert (tmp_path / "b" / "snapshot").read_bytes() == before
    content[-3] ^= 4
    assert snapshots.setTransmissionData((bytes(content), True, True))
    assert snapshots.deserialize()[1] == LAST
    fatal.assert_not_called()
    machine.load_snapshot.assert_called_once()


def test_a_full_disk_keeps_nothing_of_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The rest of it filled the disk, so that the next vote or entry ended the voter, and each start after that."""
    content = written(tmp_path / "a")
    snapshots, _, fatal = voter(tmp_path / "a")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    snapshots.serialize((None, LAST, PREVIOUS, None), 8)
    assert not snapshots.setTransmissionData((content, True, True))
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["snapshot"]
    assert (tmp_path / "a" / "snapshot").read_bytes() == content
    fatal.assert_not_called()


def test_what_a_process_left_unfinished_is_removed_at_the_next_start(tmp_path: Path):
    written(tmp_path)
    for name in ("snapshot.new", "raft.new"):
        (tmp_path / name).write_bytes(b"x")
    engine._open_journal(tmp_path).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raft.journal", "snapshot"]
