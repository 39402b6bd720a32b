"""Retention: which segments are deleted. Whole segments only, never the active one, never above the high watermark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from raftlog.config import TopicConfig
from raftlog.model import Offset
from raftlog.partition.core.ages import too_old
from raftlog.partition.storage.files import list_names, unlink_quietly
from raftlog.partition.storage.segment import Segment

DELETED_SUFFIX = ".deleted"
MOST_DROPPED = 50
"""The most segments that one call drops: each takes several system calls of the log's owner."""


def expired_segments(
    segments: Sequence[Segment],
    config: TopicConfig,
    now_us: int,
    high_watermark: Offset,
    log_start_offset: Offset,
) -> int:
    """Return how many of the oldest segments to delete, at most `MOST_DROPPED`.

    Segments below the log start offset always; by `retention_ms` and `retention_bytes` only if the topic's policy
    deletes.
    """
    total, count = sum(segment.size for segment in segments), 0
    for segment in segments[:-1][:MOST_DROPPED]:
        too_much = config.deletes and config.retention_bytes >= 0 and total - segment.size >= config.retention_bytes
        gone = segment.next_offset <= log_start_offset
        if segment.next_offset > high_watermark or not (
            gone or too_much or too_old(segment.max_timestamp, segment, now_us, config)
        ):
            break
        total, count = total - segment.size, count + 1
    return count


def active_has_expired(
    active: Segment, config: TopicConfig, now_us: int, high_watermark: Offset, log_start_offset: Offset
) -> bool:
    """Return whether to roll the active segment so that retention can delete it, as no later append may do so."""
    if active.size == 0 or active.next_offset > high_watermark:
        return False
    return active.next_offset <= log_start_offset or too_old(active.max_timestamp, active, now_us, config)


class DelayedDeletes:
    """Deleted segment files: renamed at once, removed later, so that reads in progress finish."""

    def __init__(self) -> None:
        self._due: list[tuple[int, Path]] = []

    def add(self, path: Path, due_us: int) -> None:
        """Rename a file now, to be removed at `due_us`."""
        doomed = path.with_name(path.name + DELETED_SUFFIX)
        os.rename(path, doomed)
        self._due.append((due_us, doomed))

    def take_due(self, now_us: int) -> list[Path]:
        """Return the files that are due; the caller removes them."""
        due = [path for due_us, path in self._due if due_us <= now_us]
        if due:
            self._due = [entry for entry in self._due if entry[0] > now_us]
        return due

    @staticmethod
    def remove_all(folder: Path) -> None:
        """Remove the files that an earlier process left."""
        for name in list_names(folder):
            if name.endswith(DELETED_SUFFIX):
                unlink_quietly(folder / name)


def remove_files(paths: Iterable[Path]) -> None:
    """Remove files that `take_due` returned. Blocks; for a worker thread.

    Raises:
        OSError: one cannot be removed; the next start removes what is left.
    """
    for path in paths:
        unlink_quietly(path)
