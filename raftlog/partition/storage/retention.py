"""Which segments have had their time. Whole segments only, never the active one, never above the high watermark."""

from __future__ import annotations

from collections.abc import Sequence

from raftlog.config import TopicConfig
from raftlog.model import Offset
from raftlog.partition.storage.segment import Segment

DELETED_SUFFIX = ".deleted"


def expired_segments(segments: Sequence[Segment], config: TopicConfig, now_us: int, high_watermark: Offset) -> int:
    """Return how many segments, from the oldest on, `retention_ms` or `retention_bytes` lets go."""
    total, count = sum(segment.size for segment in segments), 0
    for segment in segments[:-1]:
        too_old = config.retention_ms >= 0 and segment.max_timestamp < now_us - config.retention_ms * 1000
        too_much = config.retention_bytes >= 0 and total - segment.size >= config.retention_bytes
        if segment.next_offset > high_watermark or not (too_old or too_much):
            break
        total, count = total - segment.size, count + 1
    return count
