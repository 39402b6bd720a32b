"""Checking a voter's files while it runs: what rots there is in memory too, and is written anew.

Without this, rot in the journal or the snapshot is found at the next start, by a voter that cannot start then.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from raftlog.errors import StorageError
from raftlog.metadata_quorum.raft.codec import MessageFormatError
from raftlog.metadata_quorum.raft.frames import sound_records
from raftlog.metadata_quorum.raft.snapshots import check_snapshot

JOURNAL, SNAPSHOT = "raft.journal", "snapshot"


@dataclass(frozen=True, slots=True)
class Rot:
    """What is wrong with a voter's files; empty: nothing."""

    journal: str = ""
    snapshot: str = ""

    def __bool__(self) -> bool:
        return bool(self.journal or self.snapshot)


def find_rot(folder: Path) -> Rot:
    """Read a voter's files from the disk, while they may be written to. Blocks; for a worker thread."""
    for name in (JOURNAL, SNAPSHOT):
        _forget(folder / name)
    return Rot(_rot_of_journal(folder / JOURNAL), _rot_of_snapshot(folder / SNAPSHOT))


def _forget(path: Path) -> None:
    """Have the system read the file from the disk, not from its memory of it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # Whoever reads it says so.
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _rot_of_journal(path: Path) -> str:
    try:
        sound_records(path)
    except StorageError as error:
        return error.message
    except OSError as error:
        return f"{path} cannot be read: {error}"
    return ""


def _rot_of_snapshot(path: Path) -> str:
    try:
        check_snapshot(path)
    except FileNotFoundError:
        return ""  # There is none yet.
    except (MessageFormatError, OSError) as error:
        return f"{path}: {error}"
    return ""
