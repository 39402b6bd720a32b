"""How old stored records count as: by the times that producers gave them, as far as those can be believed."""

from __future__ import annotations

from typing import Protocol

from raftlog.config import TopicConfig


class Written(Protocol):
    """A segment's file."""

    def written_us(self) -> int:
        """Return when it was last written to, in us since 1970."""


def too_old(newest_timestamp_us: int, segment: Written, now_us: int, config: TopicConfig) -> bool:
    """Tell whether retention by time takes a segment.

    Raises:
        OSError: from the system.
    """
    if not config.deletes or config.retention_ms < 0:
        return False
    by_append = config.retention_by == "append_time"
    newest_us = segment.written_us() if by_append else believed_us(newest_timestamp_us, segment, now_us, config)
    return newest_us < now_us - config.retention_ms * 1000


def outlived_retention_ms(newest_timestamp_us: int, now_us: int, config: TopicConfig) -> int:
    """Return the `retention_ms` that a batch has outlived before it is appended; -1 if it has not."""
    if not config.deletes or config.retention_ms < 0 or config.retention_by == "append_time":
        return -1
    return config.retention_ms if newest_timestamp_us < now_us - config.retention_ms * 1000 else -1


def believed_us(timestamp_us: int, segment: Written, now_us: int, config: TopicConfig) -> int:
    """Return the time that a record of `segment` counts as having.

    It is the record's own, unless that lies so far ahead that the topic would not accept it now: no clock may ever get
    there. Then the record counts as being as new as the last write to its file.

    Raises:
        OSError: from the system.
    """
    ahead_max_ms = config.message_timestamp_after_max_ms
    if ahead_max_ms < 0 or timestamp_us <= now_us + ahead_max_ms * 1000:
        return timestamp_us
    return min(timestamp_us, segment.written_us())
