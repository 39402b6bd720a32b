"""Replacing segments by a compacted one, so that a crash at any point leaves the old ones or the new one.

The new file is complete and synced before it is renamed onto the first segment that it replaces. That rename is the
only step that counts: after it, the other replaced segments lie inside the new one, and opening the log drops them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from raftlog.model import Offset
from raftlog.partition.storage.files import fsync_dir
from raftlog.partition.storage.segment import Segment, segment_path

CLEANED_SUFFIX = ".cleaned"


def cleaned_path(folder: Path, base_offset: Offset) -> Path:
    """Return where the compacted form of a segment is written before it replaces it."""
    path = segment_path(folder, base_offset)
    return path.with_name(path.name + CLEANED_SUFFIX)


def open_cleaned(path: Path, base_offset: Offset) -> Segment:
    """Open what a cleaner has written and synced. Reads every header: for a worker thread.

    Raises:
        CorruptBatchError: it is not what was written.
    """
    segment = Segment(path, base_offset)
    try:
        for _, header in segment.scan(0, segment.file_size(), verify=False):
            segment.learn(header)
    except BaseException:
        segment.close()
        raise
    return segment


def put_in_place(fresh: Segment, replaced: Sequence[Segment]) -> None:
    """Rename a cleaned file onto the first of the segments that it replaces, durably; remove the others.

    Raises:
        OSError: from the system. What the folder holds is sound, whichever step failed.
    """
    assert (fresh.base_offset, fresh.next_offset) == (replaced[0].base_offset, replaced[-1].next_offset)
    folder = fresh.path.parent
    _remove_companions(replaced[0].path)
    fresh.path.rename(replaced[0].path)
    fresh.path = replaced[0].path
    fsync_dir(folder)
    for segment in replaced[1:]:
        _remove_companions(segment.path)
        segment.path.unlink()
    fsync_dir(folder)


def remove_unfinished(folder: Path) -> None:
    """Remove what a cleaner left that did not come to its end."""
    for path in sorted(folder.glob(f"*{CLEANED_SUFFIX}")):
        path.unlink()


def _remove_companions(path: Path) -> None:
    """Remove whatever else was derived from a segment (an index): it would describe another file."""
    for other in sorted(path.parent.glob(f"{path.stem}.*")):
        if not other.name.startswith(path.name):
            other.unlink()
