"""The age of stored records, for retention and compaction: by producers' timestamps, unless they lie in the future."""

from __future__ import annotations

from typing import Protocol

from raftlog.config import TopicConfig


class Written(Protocol):
    """A segment's file."""

    first_timestamp: int | None
    max_timestamp: int

    def written_us(self) -> int:
        """Return the time of the last write, in us since 1970."""


def too_old(newest_timestamp_us: int, segment: Written, now_us: int, config: TopicConfig) -> bool:
    """Return whether retention by time deletes a segment.

    Raises:
        OSError: from the system.
    """
    if not config.deletes or config.retention_ms < 0:
        return False
    by_append = config.retention_by == "append_time"
    newest_us = segment.written_us() if by_append else believed_us(newest_timestamp_us, segment, now_us, config)
    return newest_us < now_us - config.retention_ms * 1000


def are_apart(first: Written, segment: Written, *, config: TopicConfig) -> bool:
    """Return whether compaction keeps two segments apart.

    Retention by time deletes whole segments, by their newest record. Merged with newer ones, old records would stay.

    Raises:
        OSError: from the system.
    """
    if not config.deletes or config.retention_ms < 0:
        return False
    by_append = config.retention_by == "append_time"
    # By the first record, which merges do not change: by the newest one, each pass would merge a little more.
    oldest = first.max_timestamp if first.first_timestamp is None else min(first.first_timestamp, first.max_timestamp)
    apart_us = segment.written_us() - first.written_us() if by_append else segment.max_timestamp - oldest
    return apart_us > config.segment_ms * 1000


def outlived_retention_ms(newest_timestamp_us: int, now_us: int, config: TopicConfig) -> int:
    """Return `retention_ms` if a batch is already older than that when it is appended, else -1."""
    if not config.deletes or config.retention_ms < 0 or config.retention_by == "append_time":
        return -1
    return config.retention_ms if newest_timestamp_us < now_us - config.retention_ms * 1000 else -1


def believed_us(timestamp_us: int, segment: Written, now_us: int, config: TopicConfig) -> int:
    """Return the time of a record of `segment` that retention and compaction use, in us since 1970.

    It is the record's timestamp, unless that lies so far ahead that the topic would not accept it now. Then it is the
    time of the last write to the segment's file.

    Raises:
        OSError: from the system.
    """
    ahead_max_ms = config.message_timestamp_after_max_ms
    if ahead_max_ms < 0 or timestamp_us <= now_us + ahead_max_ms * 1000:
        return timestamp_us
    return min(timestamp_us, segment.written_us())
