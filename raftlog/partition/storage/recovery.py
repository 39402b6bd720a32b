"""Opening a log after any kind of end: rebuild what is known of each segment, cut a torn tail, refuse other damage.

Everything below the recovery point was fsynced when the last checkpoint was written; it must be whole. Above it, a
crash may have left a torn or missing tail: the log ends at the first batch that is not sound.
"""

from __future__ import annotations

import logging
from pathlib import Path

from raftlog.errors import CorruptBatchError, StorageError
from raftlog.model import Offset
from raftlog.partition.storage.files import fsync_dir, storage_error
from raftlog.partition.storage.segment import SUFFIX, Segment, segment_path
from raftlog.partition.storage.swap import remove_unfinished

_log = logging.getLogger(__name__)


def open_segments(folder: Path, *, log_start_offset: Offset, recovery_point: Offset) -> list[Segment]:
    """Open every segment of a log; the last one is the active one.

    Raises:
        StorageError: damage below the recovery point, or the disk refused.
    """
    try:
        return _open_segments(folder, log_start_offset, recovery_point)
    except OSError as error:
        raise storage_error(error, f"cannot open the log in {folder}") from error


def _open_segments(folder: Path, log_start_offset: Offset, recovery_point: Offset) -> list[Segment]:
    bases = sorted(int(path.stem) for path in folder.glob(f"*{SUFFIX}"))
    for base in [base for base in bases if base < log_start_offset]:
        # Retention moved the log start past whole segments, or stopped between its two steps.
        following = [other for other in bases if other > base]
        if following and following[0] <= log_start_offset:
            segment_path(folder, base).unlink()
            bases.remove(base)
    remove_unfinished(folder)
    segments: list[Segment] = []
    for number, base in enumerate(bases or [log_start_offset]):
        if segments and base < segments[-1].next_offset:
            segment_path(folder, base).unlink()  # Compaction had merged it into the one before it.
            continue
        if segments and base != segments[-1].next_offset:
            _drop_after_gap(folder, bases[number:], segments[-1].next_offset, recovery_point)
            break
        segment = Segment(segment_path(folder, base), base)
        segments.append(segment)
        _recover(segment, recovery_point)
    fsync_dir(folder)
    if segments[-1].next_offset < recovery_point:
        raise StorageError(
            f"{folder} ends at offset {segments[-1].next_offset}, but everything below {recovery_point} was on disk "
            "once: records are missing; remove the folder to fetch them again from the leader"
        )
    return segments


def _recover(segment: Segment, recovery_point: Offset) -> None:
    size = segment.file_size()
    try:
        for position, header in segment.scan(0, size, verify=False):
            if header.base_offset != segment.next_offset:
                raise CorruptBatchError(f"expected offset {segment.next_offset}, found {header.base_offset}")
            if header.next_offset > recovery_point:
                next(segment.scan(position, position + header.batch_length, verify=True))
            segment.learn(header)
    except CorruptBatchError as error:
        if segment.next_offset < recovery_point:
            raise StorageError(
                f"{segment.path} is damaged at offset {segment.next_offset}, below the recovery point "
                f"{recovery_point}: {error.message}; remove the folder to fetch the partition again from the leader"
            ) from error
        _log.warning(
            "%s: cut from %d to %d bytes, log end offset %d: %s",
            segment.path,
            size,
            segment.size,
            segment.next_offset,
            error.message,
        )
        segment.cut(segment.size)


def _drop_after_gap(folder: Path, bases: list[Offset], end: Offset, recovery_point: Offset) -> None:
    if end < recovery_point:
        raise StorageError(f"{folder}: no segment holds offset {end}, below the recovery point {recovery_point}")
    _log.warning("%s: removed segments %s after the log end offset %d", folder, bases, end)
    for base in bases:
        segment_path(folder, base).unlink()
