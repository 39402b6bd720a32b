"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords, and producer ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from raftlog.broker.context import BrokerContext
from raftlog.broker.internal_topics import require_ordinary
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.model import NO_LEADER_EPOCH, Isolation, LeaderEpoch, Offset, ProducerId
from raftlog.partition.core.epochs import require_same_epoch
from raftlog.partition.record_deletion import delete_records
from raftlog.partition.replica import Replica
from raftlog.partition.time_search import newest_record, record_at
from raftlog.security.identity import Sender

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
"""Special times of ListOffsets (KIP-79, KIP-734, KIP-405, KIP-1005, KIP-1023)."""
_TIERED = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
HIGH_WATERMARK = -1
"""The offset of DeleteRecords that means all records below the high watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOffset:
    """The answer of ListOffsets; -1 where there is none."""

    offset: Offset = -1
    timestamp_ms: int = -1
    """Of the record there; -1 for the start and the end of the log."""
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class KafkaOffsets:
    """Looks offsets up at the leader, deletes records below one, and gives out producer ids."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def _leader(self, topic: str, partition: int, known_epoch: LeaderEpoch) -> Replica:
        replica = self._context.leader(topic, partition)
        replica.require_leader()
        if known_epoch >= 0:
            require_same_epoch(replica.state.leader_epoch, known_epoch, replica.assignment.topic_partition)
        return replica

    async def find(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        *,
        sender: Sender,
        isolation: Isolation = "read_uncommitted",
        current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    ) -> FoundOffset:
        """Return the offset of a time (ms since 1970) or of a special one.

        Raises:
            InvalidRequestError: UNSUPPORTED_VERSION: an unknown special time.
            RaftlogError: the sender may not describe the topic, or this broker cannot answer.
        """
        self._context.access.require(sender, "describe", "topic", topic)
        replica = self._leader(topic, partition, current_leader_epoch)
        if timestamp_ms == LATEST:
            return FoundOffset(offset=replica.end_offset(isolation), leader_epoch=replica.state.leader_epoch)
        if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
            start = replica.log.log_start_offset
            return FoundOffset(offset=start, leader_epoch=_epoch_at(replica, start))
        if timestamp_ms in _TIERED:
            return FoundOffset()  # All records are local.
        if timestamp_ms < 0 and timestamp_ms != MAX_TIMESTAMP:
            raise InvalidRequestError(
                f"expected a time or -1 to -6, received {timestamp_ms}", code=ErrorCode.UNSUPPORTED_VERSION
            )
        if timestamp_ms == MAX_TIMESTAMP:
            found = await newest_record(replica, isolation)
        else:
            found, _ = await record_at(replica, timestamp_ms * 1_000, isolation)
        if found is None:
            return FoundOffset()
        return FoundOffset(
            offset=found.offset, timestamp_ms=found.timestamp_us // 1_000, leader_epoch=found.leader_epoch
        )

    def epoch_end(
        self,
        topic: str,
        partition: int,
        leader_epoch: LeaderEpoch,
        *,
        sender: Sender,
        current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    ) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch at or below one, and its end offset; -1 for both: the log has not begun.

        An epoch that is older than every record has its end where the first record is, as in Kafka.

        Raises:
            RaftlogError: the sender may not describe the topic, or this broker cannot answer.
        """
        self._context.access.require(sender, "describe", "topic", topic)
        replica = self._leader(topic, partition, current_leader_epoch)
        if leader_epoch > replica.state.leader_epoch or leader_epoch < 0:
            return NO_LEADER_EPOCH, -1
        if leader_epoch == replica.state.leader_epoch:
            return leader_epoch, replica.log.log_end_offset
        found, end = replica.log.epochs.end_offset_for(leader_epoch, replica.log.log_end_offset)
        if found != NO_LEADER_EPOCH:
            return found, end
        start = max(end, replica.log.log_start_offset)
        return (NO_LEADER_EPOCH, -1) if replica.log.last_epoch == NO_LEADER_EPOCH else (leader_epoch, start)

    async def delete_before(
        self,
        topic: str,
        partition: int,
        offset: Offset,
        *,
        timeout_ms: int,
        sender: Sender,
        begins: Callable[[], object] = lambda: None,
    ) -> Offset:
        """Delete the records below an offset, or all below the high watermark; return the log start offset.

        Args:
            begins: called before anything is deleted.

        Raises:
            RaftlogError: the sender may not delete from the topic, or see `delete_records`.
        """
        self._context.access.require(sender, "delete", "topic", topic)
        require_ordinary(topic)
        if offset < HIGH_WATERMARK:
            raise InvalidRequestError(
                f"expected an offset or {HIGH_WATERMARK}, received {offset}", code=ErrorCode.OFFSET_OUT_OF_RANGE
            )
        replica = self._context.leader(topic, partition)
        limit_ms = max(1, min(timeout_ms, self._context.config.broker.request_timeout_ms))
        begins()
        return await delete_records(replica, None if offset == HIGH_WATERMARK else offset, timeout_ms=limit_ms)

    async def new_producer_id(self) -> ProducerId:
        """Return the id of an idempotent producer, whose first epoch is 0.

        A producer that has one and asks again (KIP-360) gets a new one, as in Kafka.
        """
        return await self._context.producer_ids.take()


def _epoch_at(replica: Replica, offset: Offset) -> LeaderEpoch:
    return replica.log.epochs.epoch_at(offset)
