"""Snapshots of producer state at an offset, so that a start reads only the batch headers after it.

`<offset, 20 digits>.producers`: written without a sync and protected by a checksum. The state can be rebuilt from the
log, except for the time when a producer was last seen. The newest two are kept, and the newest one at or below the high
watermark: no truncation removes that, so none has to read the whole log again.

`<log start offset>.kept-producers`: what deleted batches say, which cannot be rebuilt any more. Written durably before
the log start moves. Otherwise a loss of power could make a deleted batch unknown, and its repeat would be appended.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from raftlog.checksum import crc32c
from raftlog.errors import CorruptBatchError, DamagedDataError
from raftlog.model import Offset
from raftlog.partition.core.producers import ProducerLimits, ProducerStates
from raftlog.partition.storage.files import (
    atomic_write,
    is_unreadable,
    list_names,
    read_file,
    storage_error,
    unlink_quietly,
)
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.log_files import KEPT_PRODUCERS_SUFFIX as KEPT_SUFFIX
from raftlog.partition.storage.log_files import PRODUCERS_SUFFIX as SUFFIX

_log = logging.getLogger(__name__)
_KEPT = 2
MAGIC = b"RLPRD003"
_READ = (b"RLPRD002", MAGIC)
"""Format versions that can be read: without and with payload checksums."""
HEAD = struct.Struct("<8sI")


def snapshot_path(folder: Path, offset: Offset) -> Path:
    """Return the path of the snapshot that covers every batch below `offset`."""
    return folder / f"{offset:020d}{SUFFIX}"


def encode_producers(offset: Offset, producers: dict[str, Any]) -> bytes:
    """Return a snapshot file's content, from what `ProducerStates.to_plain` returned."""
    body = orjson.dumps({"offset": offset} | producers)
    return HEAD.pack(MAGIC, crc32c(body)) + body


def decode_producers(content: bytes, offset: Offset, states: ProducerStates) -> bool:
    """Load a snapshot into empty `states`; return False, with `states` unchanged, if it is damaged."""
    if len(content) < HEAD.size:
        return False
    magic, crc = HEAD.unpack_from(content)
    body = content[HEAD.size :]
    if magic not in _READ or crc32c(body) != crc:
        return False
    document = orjson.loads(body)
    if document["offset"] != offset:
        return False
    states.load(document)
    return True


def save_producers(
    folder: Path, offset: Offset, producers: dict[str, Any], *, high_watermark: Offset | None = None
) -> None:
    """Write a snapshot, and remove all but the newest ones.

    Args:
        high_watermark: the newest one at or below it stays, too; None: all records are committed.

    Raises:
        StorageError: a disk operation failed; earlier snapshots are unchanged.
    """
    atomic_write(snapshot_path(folder, offset), encode_producers(offset, producers), durable=False)
    try:
        found = snapshot_offsets(folder)
        lasting = max((one for one in found if high_watermark is None or one <= high_watermark), default=None)
        for old in found[:-_KEPT]:
            if old != lasting:
                unlink_quietly(snapshot_path(folder, old))
    except OSError as error:
        raise storage_error(error, f"cannot remove old snapshots of producers in {folder}") from error


def plan_kept(folder: Path, log_start: Offset, producers: ProducerStates, now_ms: int) -> Callable[[], None]:
    """Copy what batches below the next log start say of producers; return a function that writes it durably.

    The function may run in a worker thread. Call `remove_kept` once the log starts there.

    Raises:
        StorageError: a disk operation failed.
    """
    path = _kept_path(folder, log_start)
    plain = producers.plan_below(log_start, now_ms - producers.limits.min_idle_ms)

    def write() -> None:
        if (kept := plain())["producers"]:
            atomic_write(path, encode_producers(log_start, kept))
            return
        try:
            unlink_quietly(path)  # A history that the log has lost may have planned this log start, too.
        except OSError as error:
            raise storage_error(error, f"cannot remove {path}") from error

    return write


def remove_kept(folder: Path, log_start: Offset) -> None:
    """Remove what was kept for earlier log starts: a later one may be about to be taken.

    Raises:
        StorageError: a disk operation failed.
    """
    try:
        for other in snapshot_offsets(folder, KEPT_SUFFIX):
            if other < log_start:
                unlink_quietly(_kept_path(folder, other))
    except OSError as error:
        raise storage_error(error, f"cannot remove old snapshots of producers in {folder}") from error


def _kept_path(folder: Path, log_start: Offset) -> Path:
    return folder / f"{log_start:020d}{KEPT_SUFFIX}"


def plan_snapshot(
    folder: Path, offset: Offset, producers: ProducerStates, *, high_watermark: Offset | None = None
) -> Callable[[], None]:
    """Return a function that writes a snapshot of the present state, for a worker thread; see `save_producers`."""
    plain = producers.plan_plain()
    return lambda: save_producers(folder, offset, plain(), high_watermark=high_watermark)


def snapshot_offsets(folder: Path, suffix: str = SUFFIX) -> list[Offset]:
    """Return the offsets of the snapshots in a log's folder, in order."""
    stems = (name.removesuffix(suffix) for name in list_names(folder) if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isdecimal())


def recover_producers(
    log: PartitionLog, *, limits: ProducerLimits, now_ms: int, end: Offset | None = None
) -> ProducerStates:
    """Return the state of a log's producers, from the newest valid snapshot and the headers after it.

    Snapshots that are damaged or beyond the log's end are removed.

    Args:
        end: a batch begins there, at which the log is about to be cut: what is above does not count, and no snapshot
            of it is removed. None: the log's end.

    Raises:
        DiskFullError: no descriptor is free; it can be retried.
        StorageError: a disk operation failed.
        DamagedDataError: the log is damaged.
    """
    states = ProducerStates(limits=limits, now_ms=now_ms)
    try:
        start = _load_newest(log, states, end)
    except OSError as error:
        raise storage_error(error, f"cannot read the snapshots of producers in {log.folder}") from error
    try:
        for header, marker in log.scan(start, end):
            states.on_appended(header, marker=marker)
            if marker is not None:
                states.transactions.forget_decided(log.high_watermark_checkpoint)
    except CorruptBatchError as error:
        raise DamagedDataError(f"{log.folder} is damaged: {error.message}") from error
    except OSError as error:
        raise storage_error(error, f"{log.folder} cannot be read") from error
    states.expire(now_ms)
    return states


def _read(path: Path) -> bytes:
    """Return a snapshot; nothing if it is missing, or if the disk cannot read it: it can be rebuilt from the log."""
    try:
        return read_file(path) or b""
    except OSError as error:
        if not is_unreadable(error):
            raise
        return b""


def _load_newest(log: PartitionLog, states: ProducerStates, end: Offset | None) -> Offset:
    """Load the newest valid snapshot; return the offset from which the headers are read after it.

    A snapshot of before the log start does not count: the batches between them are deleted, and so perhaps is the
    marker of a transaction that it has as open. What was kept for another log start does not count either.
    """
    found = [(offset, suffix) for suffix in (KEPT_SUFFIX, SUFFIX) for offset in snapshot_offsets(log.folder, suffix)]
    for offset, suffix in sorted(found, reverse=True):
        path = log.folder / f"{offset:020d}{suffix}"
        newest = log.log_end_offset if end is None else end
        last = log.log_start_offset if suffix == KEPT_SUFFIX else newest
        if log.log_start_offset <= offset <= last and decode_producers(_read(path), offset, states):
            return offset
        if end is not None and offset > newest:
            continue  # It may be sound. The cut removes it.
        _log.warning(
            "%s is damaged, or not of the log from %d to %d: removed", path, log.log_start_offset, log.log_end_offset
        )
        unlink_quietly(path)
    return log.log_start_offset
