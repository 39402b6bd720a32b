"""Replacing segments by a compacted one, so that a crash at any point leaves the old ones or the new one.

The new file is complete and synced before it is renamed onto the first segment that it replaces. That rename is the
only step that counts: after it, the other replaced segments lie inside the new one, and opening the log drops them.
Indexes of the old files go before it, durably: one that was found beside the new file could be believed.
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
    """Return where the compacted form of a segment is written before it replaces it."""
    path = segment_path(folder, base_offset)
    return path.with_name(path.name + CLEANED_SUFFIX)


def open_cleaned(path: Path, base_offset: Offset, pool: FilePool) -> Segment:
    """Open what a cleaner has written and synced. Reads every header: for a worker thread.

    Raises:
        CorruptBatchError: it is not what was written.
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
    """Rename a cleaned file onto the first of the segments that it replaces.

    Raises:
        OSError: from the system; the old one is there.
    """
    assert (fresh.base_offset, fresh.next_offset) == (replaced[0].base_offset, replaced[-1].next_offset)
    os.rename(fresh.path, replaced[0].path)
    fresh.moved_to(replaced[0].path)


def remove_replaced(replaced: Sequence[Segment]) -> None:
    """Make the rename durable, and only then remove the other segments that it replaced.

    Raises:
        OSError: from the system; the next start removes what is left.
    """
    folder = replaced[0].path.parent
    fsync_dir(folder)
    for segment in replaced[1:]:
        os.unlink(segment.path)
    fsync_dir(folder)


def remove_unfinished(folder: Path) -> bool:
    """Remove what a cleaner left that did not come to its end; return whether there was something."""
    left = [name for name in list_names(folder) if name.endswith(CLEANED_SUFFIX)]
    for name in left:
        unlink_quietly(folder / name)
    return bool(left)
