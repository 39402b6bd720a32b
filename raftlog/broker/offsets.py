"""Offset lookup at the leader: earliest, latest, or by time (Kafka: ListOffsets)."""

from __future__ import annotations

from dataclasses import replace

from raftlog.broker.http import parse_integer
from raftlog.broker.json_records import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.model import Isolation, Offset
from raftlog.partition.replica import Replica
from raftlog.partition.time_search import record_at
from raftlog.wire.data import EpochStart, OffsetResponse

_MAX_EPOCHS = 100
"""Epochs in one answer: leaders change rarely, and what readers compare is mostly recent."""


async def describe_offsets(replica: Replica, at: str, isolation: Isolation) -> OffsetResponse:
    """Return the offset of earliest, latest or a time (ms since 1970), and the current log start and end.

    Raises:
        InvalidRequestError: `at` is something else.
        RetriableError: OFFSET_NOT_AVAILABLE.
    """
    if at not in ("earliest", "latest") and not _is_time(at):
        raise InvalidRequestError(
            f"at: expected earliest, latest or milliseconds since 1970, received {at!r:.80}",
            code=ErrorCode.INVALID_TIMESTAMP,
        )
    seen = OffsetResponse(
        topic=replica.assignment.topic,
        partition=replica.assignment.partition,
        offset=-1,
        leader_epoch=replica.state.leader_epoch,
        log_start_offset=replica.log.log_start_offset,
        high_watermark=replica.high_watermark,
        last_stable_offset=replica.last_stable_offset,
        epochs=tuple(
            EpochStart(leader_epoch=epoch, start_offset=start)
            for epoch, start in replica.log.epochs.entries[-_MAX_EPOCHS:]
        ),
    )
    if at in ("earliest", "latest"):
        return replace(seen, offset=offset_at(replica, at, isolation))
    found, end = await record_at(replica, int(at) * 1_000, isolation)
    return replace(seen, offset=end if found is None else found.offset)


def offset_at(replica: Replica, mark: str, isolation: Isolation) -> Offset:
    """Return the offset of earliest or latest.

    Raises:
        RetriableError: OFFSET_NOT_AVAILABLE.
    """
    return replica.log.log_start_offset if mark == "earliest" else replica.end_offset(isolation)


def _is_time(text: str) -> bool:
    """Return whether a text is a time. -1 and -2 are not: in Kafka they mean latest and earliest."""
    number = parse_integer(text)
    return number is not None and MIN_TIMESTAMP_MS <= number <= MAX_TIMESTAMP_MS and number not in (-1, -2)
