"""Replacement of segments by a compacted one, atomic across crashes: the old segments or the new one are found.

The new file is complete and synced before it is renamed onto the first segment that it replaces. The rename is the
commit: after it, the other replaced segments lie inside the new one, and recovery removes them. Indexes of the old
files are removed durably before it, so that none is taken for an index of the new file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from raftlog.model import Offset
from raftlog.partition.storage.file_pool import FilePool
from raftlog.partition.storage.files import fsync_dir, list_names, unlink_quietly
from raftlog.partition.storage.segment import Segment, segment_path, unlink_indexes

CLEANED_SUFFIX = ".cleaned"


def cleaned_path(folder: Path, base_offset: Offset) -> Path:
    """Return the path of a compacted segment before it replaces the original."""
    path = segment_path(folder, base_offset)
    return path.with_name(path.name + CLEANED_SUFFIX)


def open_cleaned(path: Path, base_offset: Offset, pool: FilePool) -> Segment:
    """Open a compacted file that was synced. Reads every header; blocks, for a worker thread.

    Raises:
        CorruptBatchError: it is damaged.
    """
    segment = Segment(path, base_offset, pool)
    try:
        for _, header in segment.scan(0, segment.file_size(), verify=False):
            segment.learn(header)
    except BaseException:
        segment.close()
        raise
    return segment


def remove_indexes(segments: Sequence[Segment]) -> None:
    """Remove the index files of segments that are about to be replaced, durably."""
    for segment in segments:
        unlink_indexes(segment.path)
        segment.indexed_size = -1
    fsync_dir(segments[0].path.parent)


def put_in_place(fresh: Segment, replaced: Sequence[Segment]) -> None:
    """Rename a compacted file onto the first of the segments that it replaces.

    Raises:
        OSError: the rename failed; the old segment is unchanged.
    """
    assert (fresh.base_offset, fresh.next_offset) == (replaced[0].base_offset, replaced[-1].next_offset)
    os.rename(fresh.path, replaced[0].path)
    fresh.moved_to(replaced[0].path)


def remove_replaced(replaced: Sequence[Segment]) -> None:
    """Make the rename durable, then remove the other replaced segments.

    Raises:
        OSError: a system call failed; the next start removes the files left.
    """
    folder = replaced[0].path.parent
    fsync_dir(folder)
    for segment in replaced[1:]:
        os.unlink(segment.path)
    fsync_dir(folder)


def remove_unfinished(folder: Path) -> bool:
    """Remove files of an unfinished compaction; return whether there were any."""
    left = [name for name in list_names(folder) if name.endswith(CLEANED_SUFFIX)]
    for name in left:
        unlink_quietly(folder / name)
    return bool(left)
