"""A log that cannot be opened now leaves no file open: it is opened again with every change of metadata."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from storage_support import fill, open_log, values

from raftlog.errors import DiskFullError, StorageError
from raftlog.partition.storage.file_pool import FilePool


@pytest.mark.parametrize(
    ("call", "number", "refusal"),
    [("replace", errno.ENOSPC, DiskFullError), ("pwrite", errno.EIO, StorageError), ("fsync", errno.EIO, StorageError)],
)
def test_a_log_whose_tail_cannot_be_synced_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, refusal: type[StorageError]
):
    """Each attempt kept a file with unsynced bytes open for ever."""
    log = open_log(tmp_path / "p")
    fill(log, 3)
    log.close()
    pool = FilePool(4)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, Mock(side_effect=OSError(number, os.strerror(number))))
        for _ in range(3):
            with pytest.raises(refusal):
                open_log(tmp_path / "p", pool=pool)
            assert pool.open_files == 0
    again = open_log(tmp_path / "p", pool=pool)
    assert (len(values(again)), again.durable_end_offset) == (3, 3)
    again.close()


def test_the_next_attempt_writes_the_tail_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The file that was closed may have had a failed write-back: only rewritten pages are known to reach the disk."""
    log = open_log(tmp_path / "p")
    fill(log, 3)
    size = log.size_bytes
    log.close()
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(DiskFullError):
            open_log(tmp_path / "p")
    written, pwrite = list[int](), os.pwrite

    def note(descriptor: int, data: memoryview, position: int) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name.endswith(".log"):
            written.append(len(data))
        return pwrite(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", note)
    open_log(tmp_path / "p").close()
    assert sum(written) == size


def test_a_log_whose_old_files_cannot_be_removed_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = open_log(tmp_path / "p")
    fill(log, 3)
    log.close()
    pool = FilePool(4)
    monkeypatch.setattr(
        "raftlog.partition.storage.retention.DelayedDeletes.remove_all", Mock(side_effect=OSError(errno.EIO, "EIO"))
    )
    with pytest.raises(StorageError):
        open_log(tmp_path / "p", pool=pool)
    assert pool.open_files == 0
