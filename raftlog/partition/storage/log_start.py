"""Moves the start of a log that cannot be opened beyond damaged records that were deleted (docs/adr/0017)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from raftlog.model import LeaderEpoch, Offset
from raftlog.partition.storage.batch_scan import Read
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.files import fsync_dir, storage_error, sync_file, unlink_quietly, write_fully
from raftlog.partition.storage.repair_source import intact_batch, log_end, segment_at
from raftlog.partition.storage.segment import segment_path
from raftlog.partition.storage.segment_replacement import cleaned_path

_COPY_BYTES = 1 << 20


def move_log_start(folder: Path, offset: Offset, epoch: LeaderEpoch) -> bool:
    """Let a log start at `offset`, durably, if it has an intact record of this epoch there.

    The segment is split at the batch that contains `offset`: the next start removes everything before that batch.
    Files keep their content, so a crash before the new checkpoint changes nothing.

    Raises:
        DamagedDataError: the checkpoint is damaged.
        StorageError: a disk operation failed.
    """
    checkpoint = Checkpoint.load(folder)
    if offset <= checkpoint.log_start_offset or _split_at(folder, offset, epoch) is None:
        return False
    point = max(checkpoint.recovery_point, offset)
    replace(checkpoint, log_start_offset=offset, recovery_point=point).save(folder)
    return True


def drop_deleted(folder: Path, offset: Offset) -> bool:
    """Split a segment, durably, at the log's own start, if `offset` is below it and that start's batch is intact.

    A log of which everything is deleted gets an empty segment at its start.

    Returns:
        Whether it has another segment: the next start removes the deleted records, and does not read them.

    Raises:
        DamagedDataError: the checkpoint is damaged.
        StorageError: a disk operation failed.
    """
    checkpoint = Checkpoint.load(folder)
    start = checkpoint.log_start_offset
    if offset >= start:
        return False
    return bool(_split_at(folder, start)) or (checkpoint.recovery_point <= start and _go_on_empty(folder, start))


def _go_on_empty(folder: Path, start: Offset) -> bool:
    """Make an empty segment at a log's start, durably, if the log certainly ends there or before.

    Raises:
        StorageError: a disk operation failed.
    """
    path = segment_path(folder, start)
    try:
        end = log_end(folder)
        if path.exists() or end.offset > start or not end.is_certain:
            return False
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        fsync_dir(folder)
    except OSError as error:
        raise storage_error(error, f"cannot begin a segment in {folder}") from error
    return True


def _split_at(folder: Path, offset: Offset, epoch: LeaderEpoch | None = None) -> int | None:
    """Split the segment at the intact batch that contains `offset`; return the batch's position in the file.

    Returns:
        None: there is no such batch, or it is of another epoch. 0: the segment begins with it already.

    Raises:
        StorageError: a disk operation failed.
    """
    try:
        with segment_at(folder, offset) as file:
            found = intact_batch(file, offset) if file is not None else None
            if file is None or found is None or epoch not in (None, found[1].leader_epoch):
                return None
            position, header = found
            if position:
                _split(file.read, position, folder, header.base_offset)
            return position
    except OSError as error:
        raise storage_error(error, f"cannot move the log start of {folder}") from error


def _split(read: Read, position: int, folder: Path, base: Offset) -> None:
    """Copy a segment's bytes from `position` on into a segment of their own, durably."""
    unfinished = cleaned_path(folder, base)
    try:
        _copy(read, position, unfinished)
    except OSError:
        unlink_quietly(unfinished)  # A full disk needs the space, and this log may stay closed for long.
        raise
    os.rename(unfinished, segment_path(folder, base))
    fsync_dir(folder)


def _copy(read: Read, position: int, path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        written = 0
        while chunk := read(_COPY_BYTES, position + written):
            write_fully(descriptor, chunk, written)
            written += len(chunk)
        sync_file(descriptor)
    finally:
        os.close(descriptor)
