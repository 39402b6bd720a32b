"""Truncation of a log at its damage, on an operator's command (`raftlog storage cut`). The damaged log is quarantined.

The intact part is copied to `*.cutting`, which is renamed to `*.cut` when it is complete and synced. Then the damaged
log is quarantined, and the copy takes its place. After a crash in between, `finish_cut` completes or reverts this when
the data folder is opened.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from raftlog.errors import CorruptBatchError, StorageError
from raftlog.model import LeaderEpoch, Offset
from raftlog.partition.storage.batch_scan import scan_batches
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.data_dir import CUT_SUFFIX, CUTTING_SUFFIX, finish_cut, quarantine
from raftlog.partition.storage.epochs import FILE_NAME as EPOCHS
from raftlog.partition.storage.files import fsync_dir, storage_error, sync_file, write_fully, write_json
from raftlog.partition.storage.fsck import reading
from raftlog.partition.storage.recovery import segment_bases
from raftlog.partition.storage.segment import segment_path

_COPY_BYTES = 1 << 20


def cut_at_damage(folder: Path) -> tuple[Offset, Path]:
    """Replace a log by its part before the first damage; return its end offset, and the path of the damaged log.

    Epochs and checkpoint are rebuilt from the kept batches.

    Raises:
        StorageError: a disk operation failed, or there is no segment; the log is unchanged, or the next start finishes.
    """
    beside = folder.with_name(folder.name + CUTTING_SUFFIX)
    whole = folder.with_name(folder.name + CUT_SUFFIX)
    try:
        finish_cut(whole)
        shutil.rmtree(beside, ignore_errors=True)
        os.mkdir(beside)
        start, end, epochs = _copy_sound_part(folder, beside)
        write_json(beside / EPOCHS, {"version": 1, "epochs": epochs})
        Checkpoint(log_start_offset=start, recovery_point=end, high_watermark=end).save(beside)
        fsync_dir(beside)
        os.rename(beside, whole)
        fsync_dir(folder.parent)
        aside = quarantine(folder)
        os.rename(whole, folder)
        fsync_dir(folder.parent)
    except OSError as error:
        raise storage_error(error, f"cannot cut {folder}") from error
    return end, aside


def _copy_sound_part(folder: Path, beside: Path) -> tuple[Offset, Offset, list[tuple[LeaderEpoch, Offset]]]:
    bases = segment_bases(os.listdir(folder))
    if not bases:
        raise StorageError(f"{folder} has no segment: there is nothing to keep")
    try:
        start = max(bases[0], Checkpoint.load(folder).log_start_offset)
    except StorageError:
        start = bases[0]
    end, epochs = bases[0], list[tuple[LeaderEpoch, Offset]]()
    for base in bases:
        if base < end:
            continue  # Compaction has merged it into the segment before it.
        if base != end:
            break
        end, whole = _copy_sound_batches(segment_path(folder, base), segment_path(beside, base), end, epochs)
        if not whole:
            break
    return min(start, end), end, epochs


def _copy_sound_batches(
    source: Path, target: Path, end: Offset, epochs: list[tuple[LeaderEpoch, Offset]]
) -> tuple[Offset, bool]:
    """Copy intact batches that continue at `end`; return the new end, and whether the whole segment was copied."""
    size = 0
    with reading(source) as (read, whole_size):
        try:
            for position, header in scan_batches(read, 0, whole_size, verify=True, name=source.name):
                if header.base_offset != end:
                    break
                if not epochs or header.leader_epoch > epochs[-1][0]:
                    epochs.append((header.leader_epoch, header.base_offset))
                size, end = position + header.batch_length, header.next_offset
        except CorruptBatchError:
            pass  # The copy ends here.
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            for position in range(0, size, _COPY_BYTES):
                write_fully(descriptor, read(min(_COPY_BYTES, size - position), position), position)
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        return end, size == whole_size
