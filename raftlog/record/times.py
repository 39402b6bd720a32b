"""Limits of record timestamps (KIP-937): within the topic's distance from the leader's clock.

Retention and lookups by time use timestamps that producers choose. A single record from the far future would keep its
segment for ever, and would be the result of every lookup by time.
"""

from __future__ import annotations

from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.record.batch import BatchHeader, Buffer
from raftlog.record.compute import pc
from raftlog.record.reading import to_arrow

NO_LIMIT = -1


def require_timely(header: BatchHeader, batch: Buffer, *, now_us: int, before_max_ms: int, after_max_ms: int) -> None:
    """Check that no timestamp is further from `now_us` than the topic allows. `batch` was validated.

    Args:
        before_max_ms, after_max_ms: how long before and after `now_us`; -1: any time.

    Raises:
        InvalidRequestError: INVALID_TIMESTAMP.
    """
    if after_max_ms != NO_LIMIT and header.max_timestamp > now_us + after_max_ms * 1_000:
        raise _refused("newest", "after", header.max_timestamp, now_us, after_max_ms)
    if before_max_ms == NO_LIMIT:
        return
    oldest: int = pc.min(to_arrow(header, batch).column(0)).value
    if oldest < now_us - before_max_ms * 1_000:
        raise _refused("oldest", "before", oldest, now_us, before_max_ms)


def _refused(which: str, side: str, timestamp_us: int, now_us: int, limit_ms: int) -> InvalidRequestError:
    setting, off_ms = f"message_timestamp_{side}_max_ms", abs(timestamp_us - now_us) // 1_000
    return InvalidRequestError(
        f"the batch's {which} record has the timestamp {timestamp_us} us since 1970, {off_ms} ms {side} "
        f"the leader's clock; the topic's {setting} is {limit_ms}; nothing was appended: check the unit and the clocks "
        f"(batches and clients have us, JSON has ms), or change the topic's {setting}",
        code=ErrorCode.INVALID_TIMESTAMP,
        details={"timestamp_us": timestamp_us, "now_us": now_us, setting: limit_ms},
    )
