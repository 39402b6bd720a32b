"""Scrubbing: checks a voter's files while it runs. Damaged ones can be rewritten, because memory has their contents.

Without it, damage of the journal or the snapshot would be found only at the next start, which would fail.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from raftlog.errors import StorageError
from raftlog.metadata_quorum.raft.codec import MessageFormatError
from raftlog.metadata_quorum.raft.frames import read_valid_records
from raftlog.metadata_quorum.raft.snapshots import check_snapshot

JOURNAL, SNAPSHOT = "raft.journal", "snapshot"


@dataclass(frozen=True, slots=True)
class Corruption:
    """The damage of a voter's files: a description for each file, empty if it is intact."""

    journal: str = ""
    snapshot: str = ""

    def __bool__(self) -> bool:
        return bool(self.journal or self.snapshot)


def find_corruption(folder: Path) -> Corruption:
    """Check a voter's files on disk, while the engine may write to them. Blocks: call it in a worker thread."""
    for name in (JOURNAL, SNAPSHOT):
        _drop_page_cache(folder / name)
    return Corruption(_check_journal(folder / JOURNAL), _check_snapshot(folder / SNAPSHOT))


def _drop_page_cache(path: Path) -> None:
    """Drop the file's pages from the page cache, so that it is read from the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # Reading it will report the error.
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _check_journal(path: Path) -> str:
    try:
        read_valid_records(path)
    except StorageError as error:
        return error.message
    except OSError as error:
        return f"cannot read {path}: {error}"
    return ""


def _check_snapshot(path: Path) -> str:
    try:
        check_snapshot(path)
    except FileNotFoundError:
        return ""  # There is none yet.
    except (MessageFormatError, OSError) as error:
        return f"{path}: {error}"
    return ""
