"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, and InitProducerId of idempotent producers."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice
from typing import Final

from raftlog.broker.kafka.admin_calls import Result, each
from raftlog.broker.kafka.call import MANY_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.broker.kafka.topics import Slices
from raftlog.broker.kafka.transactions_api import init_transactions
from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError, RaftlogError, RetriableError
from raftlog.model import NO_LEADER_EPOCH, Isolation, Offset
from raftlog.runtime import in_slices
from raftlog.wire.data import MAX_REQUEST_PARTITIONS
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from raftlog.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from raftlog.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from raftlog.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

_ISOLATIONS: Final[dict[int, Isolation]] = {0: "read_uncommitted", 1: "read_committed"}
_LARGE = 1_000
_SLICE = 512
_WITH_EPOCH = 4
"""The first version of ListOffsets whose response has leader epochs (KIP-320)."""
_DELETIONS = 64
"""The most partitions of a request whose records are deleted at once."""


async def handle_list_offsets(call: KafkaCall, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Return the offset of a time, or of a special one, for each partition."""
    isolation = _ISOLATIONS.get(request.isolation_level)
    if isolation is None:
        raise InvalidRequestError(f"isolation_level: expected 0 or 1, received {request.isolation_level}")
    call.is_large = _require_few(sum(len(topic.partitions) for topic in request.topics)) > _LARGE
    slices = Slices()
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[await _found(call, topic.name, one, isolation, slices) for one in topic.partitions],
            )
            async for topic in in_slices(request.topics, _SLICE)
        ]
    )


async def _found(
    call: KafkaCall, topic: str, one: ListOffsetsPartition, isolation: Isolation, slices: Slices
) -> ListOffsetsPartitionResponse:
    await slices.entry()
    try:
        found = await call.services.offsets.find(
            topic,
            one.partition_index,
            one.timestamp,
            sender=call.sender,
            isolation=isolation,
            current_leader_epoch=one.current_leader_epoch,
        )
    except RaftlogError as error:
        return ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=_number(error))
    return ListOffsetsPartitionResponse(
        partition_index=one.partition_index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch if call.api_version >= _WITH_EPOCH else NO_LEADER_EPOCH,
    )


async def handle_offset_for_leader_epoch(
    call: KafkaCall, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Return where a leader epoch ends, for each partition: a consumer finds out whether the log was truncated."""
    call.is_large = _require_few(sum(len(topic.partitions) for topic in request.topics)) > _LARGE
    slices = Slices()
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[await _epoch_end(call, topic.topic, one, slices) for one in topic.partitions],
            )
            async for topic in in_slices(request.topics, _SLICE)
        ]
    )


async def _epoch_end(call: KafkaCall, topic: str, one: OffsetForLeaderPartition, slices: Slices) -> EpochEndOffset:
    await slices.entry()
    try:
        epoch, end = call.services.offsets.epoch_end(
            topic,
            one.partition,
            one.leader_epoch,
            sender=call.sender,
            current_leader_epoch=one.current_leader_epoch,
        )
    except RaftlogError as error:
        return EpochEndOffset(partition=one.partition, error_code=_number(error))
    return EpochEndOffset(partition=one.partition, leader_epoch=epoch, end_offset=end)


async def handle_delete_records(call: KafkaCall, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete the records below an offset, for each partition."""
    call.is_large = _require_few(sum(len(topic.partitions) for topic in request.topics)) > _LARGE
    named = [(topic.name, one) for topic in request.topics for one in topic.partitions]
    limit_ms = min(request.timeout_ms, call.context.config.broker.request_timeout_ms)
    deadline = asyncio.get_running_loop().time() + limit_ms / 1_000  # All of them have the time-out together.
    starts = await each(named, partial(_deleted, call, deadline), at_once=_DELETIONS)
    answers = (_deletion(one.partition_index, start) for (_, one), start in zip(named, starts, strict=True))
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=topic.name, partitions=list(islice(answers, len(topic.partitions))))
            async for topic in in_slices(request.topics, _SLICE)
        ]
    )


async def _deleted(call: KafkaCall, deadline: float, named: tuple[str, DeleteRecordsPartition]) -> Offset:
    topic, one = named
    left_ms = round(1_000 * (deadline - asyncio.get_running_loop().time()))
    return await call.services.offsets.delete_before(
        topic,
        one.partition_index,
        one.offset,
        timeout_ms=left_ms,
        sender=call.sender,
        begins=partial(setattr, call, "acts", True),
    )


def _deletion(partition: int, start: Result[Offset]) -> DeleteRecordsPartitionResult:
    if isinstance(start, RaftlogError):
        return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=-1, error_code=_number(start))
    return DeleteRecordsPartitionResult(partition_index=partition, low_watermark=start)


async def handle_init_producer_id(call: KafkaCall, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Return an id for an idempotent producer. One that has an id already gets another (KIP-360), as in Kafka."""
    if request.transactional_id is not None:
        return await init_transactions(call, request)
    try:
        call.context.access.require_producer(call.sender)
        return InitProducerIdResponse(producer_id=await call.services.offsets.new_producer_id())
    except RetriableError:
        return InitProducerIdResponse(error_code=KafkaError.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1)
    except RaftlogError as error:
        return InitProducerIdResponse(error_code=error_number(error, "cluster"), producer_epoch=-1)


def _number(error: RaftlogError) -> int:
    """Return the error number of one partition; clients ask again after OFFSET_NOT_AVAILABLE."""
    if isinstance(error, OverloadedError) and error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        return KafkaError.OFFSET_NOT_AVAILABLE
    return error_number(error, "topic")


def _require_few(partitions: int) -> int:
    """Return the number of a request's partitions.

    Raises:
        InvalidRequestError: there are too many.
    """
    if partitions > MAX_REQUEST_PARTITIONS:
        raise InvalidRequestError(
            f"a request has at most {MAX_REQUEST_PARTITIONS:,} partitions, received {partitions:,}"
        )
    return partitions


def _list_offsets_failed(_: KafkaCall, request: ListOffsetsRequest, number: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=number)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _epochs_failed(_: KafkaCall, request: OffsetForLeaderEpochRequest, number: int) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[EpochEndOffset(partition=one.partition, error_code=number) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _deletion_failed(_: KafkaCall, request: DeleteRecordsRequest, number: int) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=one.partition_index, low_watermark=-1, error_code=number
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


HANDLERS: Final[Handlers] = {
    2: Served(handle=handle_list_offsets, failed=_list_offsets_failed, most_elements=MANY_ELEMENTS),
    21: Served(handle=handle_delete_records, failed=_deletion_failed, most_elements=MANY_ELEMENTS),
    22: handle_init_producer_id,
    23: Served(handle=handle_offset_for_leader_epoch, failed=_epochs_failed, most_elements=MANY_ELEMENTS),
}
