"""Fetch: the request's positions by topic and partition, and what was read in the form of each version.

Fetch sessions (KIP-227) are declined: an answer with the session 0 says that there is none, and clients send every
partition with each request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from raftlog.broker.kafka.answer_space import AnswerSpace
from raftlog.broker.kafka.call import MANY_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.broker.kafka.fetch import KafkaPosition, KafkaRead
from raftlog.broker.kafka.topics import Leader, Slices, endpoints_of, leader_hint, name_of, topic_id_of
from raftlog.errors import InvalidRequestError, OverloadedError, RaftlogError
from raftlog.model import Isolation
from raftlog.serving.workers import INLINE_BYTES, in_worker
from raftlog.wire.data import FetchResult
from raftlog.wire.errors import WireError
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_BY_ID, _WITH_LEADERS, _WITH_ENDPOINTS = 13, 12, 16
_LARGE = 1_000
_ISOLATIONS: Final[dict[int, Isolation]] = {0: "read_uncommitted", 1: "read_committed"}
_FULL, _FINAL = 0, -1
"""Epochs of requests that begin a session, and that have none."""
_CROWDED_MS = 500
"""How long a connection pauses whose fetch cannot wait here for records: too many others do."""

_INSTEAD: Final[Mapping[int, int]] = {
    KafkaError.THROTTLING_QUOTA_EXCEEDED: KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT: KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE: KafkaError.NOT_LEADER_OR_FOLLOWER,
}


@dataclass(slots=True)
class _Wanted:
    """One partition of the request."""

    index: int
    position: KafkaPosition | None = None
    read: KafkaRead | None = None

    @property
    def topic(self) -> str:
        return "" if self.position is None else self.position.topic


async def handle_fetch(call: KafkaCall, request: FetchRequest) -> FetchResponse:
    """Read every partition of the request; wait for records as long as it says."""
    if (refused := _refused_session(request)) is not None:
        return FetchResponse(error_code=refused)
    _require_consumer(request)
    isolation = _ISOLATIONS.get(request.isolation_level)
    if isolation is None:
        raise InvalidRequestError(f"isolation_level: expected 0 or 1, received {request.isolation_level}")
    by_topic = await _planned(call, request)
    known = [one for _, partitions in by_topic for one in partitions if one.position is not None]
    unknown = any(one.read is not None for _, partitions in by_topic for one in partitions)
    reads = await _read(call, request, [one.position for one in known if one.position], isolation, waits=not unknown)
    for one, read in zip(known, reads, strict=True):
        one.read = read
    call.is_large = call.has_many or len(known) > _LARGE
    response = partial(_response, call, by_topic, committed=isolation == "read_committed")
    return await in_worker(response) if call.is_large else response()


async def _planned(call: KafkaCall, request: FetchRequest) -> list[tuple[FetchTopic, list[_Wanted]]]:
    slices, planned = Slices(), list[tuple[FetchTopic, list[_Wanted]]]()
    named = set[tuple[str, bytes, int]]()
    for topic in request.topics:
        wanted = list[_Wanted]()
        await slices.entry()
        for one in topic.partitions:
            name = (topic.topic, topic.topic_id, one.partition)
            wanted.append(_named_twice(one.partition) if name in named else _wanted(call, topic, one))
            named.add(name)
            await slices.entry()
        planned.append((topic, wanted))
    return planned


def _named_twice(partition: int) -> _Wanted:
    error = WireError.of(InvalidRequestError("expected each partition once, received it several times"))
    return _Wanted(partition, read=KafkaRead(result=FetchResult(topic="", partition=partition, error=error)))


def _refused_session(request: FetchRequest) -> KafkaError | None:
    if request.session_id:
        return KafkaError.FETCH_SESSION_ID_NOT_FOUND
    return None if request.session_epoch in (_FULL, _FINAL) else KafkaError.INVALID_FETCH_SESSION_EPOCH


def _require_consumer(request: FetchRequest) -> None:
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0:
        raise InvalidRequestError("replica_id: followers fetch by another protocol here; expected a consumer (-1)")


def _wanted(call: KafkaCall, topic: FetchTopic, one: FetchPartition) -> _Wanted:
    wanted = _Wanted(one.partition)
    try:
        topic_id = topic_id_of(topic.topic_id) if call.api_version >= _BY_ID else ""
        name = name_of(call.context.image, topic_id) if call.api_version >= _BY_ID else topic.topic
    except RaftlogError as error:
        wanted.read = KafkaRead(result=FetchResult(topic="", partition=one.partition, error=WireError.of(error)))
        return wanted
    wanted.position = KafkaPosition(
        topic=name,
        partition=one.partition,
        offset=one.fetch_offset,
        max_bytes=one.partition_max_bytes,
        topic_id=topic_id,
        current_leader_epoch=one.current_leader_epoch,
        last_fetched_epoch=one.last_fetched_epoch,
    )
    return wanted


async def _read(
    call: KafkaCall, request: FetchRequest, positions: Sequence[KafkaPosition], isolation: Isolation, *, waits: bool
) -> list[KafkaRead]:
    """Read, and count the answer's bytes until they are sent. What there is no space for is left out."""
    space = AnswerSpace(call)
    max_wait_ms = request.max_wait_ms if waits else 0
    max_bytes = request.max_bytes if call.max_answer_bytes is None else min(request.max_bytes, call.max_answer_bytes)

    async def fetch(wait_ms: int) -> list[KafkaRead]:
        return await call.services.fetching.fetch(
            positions,
            max_wait_ms=wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=max_bytes,
            isolation=isolation,
            sender=call.sender,
            space=space,
            rack=request.rack_id,
        )

    try:
        reads = await fetch(max_wait_ms)
    except OverloadedError:
        reads = await fetch(0)
        if not any(read.batches for read in reads):
            call.throttle_ms = _CROWDED_MS
    if space.is_refused:
        call.throttle_ms = _CROWDED_MS
    size = sum(read.size for read in reads)
    try:
        call.resize_answer(size)
    except OverloadedError:
        space.keep(0)
        call.throttle_ms = _CROWDED_MS
        return [replace(read, batches=(), aborted=()) for read in reads]
    call.is_large = call.is_large or size > INLINE_BYTES
    return reads


def _response(
    call: KafkaCall, by_topic: Iterable[tuple[FetchTopic, list[_Wanted]]], *, committed: bool
) -> FetchResponse:
    leaders: list[Leader] = []
    responses = [
        FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[_answered(call, one, leaders, committed=committed) for one in partitions],
        )
        for topic, partitions in by_topic
    ]
    endpoints = endpoints_of(call, leaders) if call.api_version >= _WITH_ENDPOINTS and leaders else []
    return FetchResponse(
        responses=responses,
        node_endpoints=[
            NodeEndpoint(
                node_id=broker.broker_id, host=broker.public.host, port=broker.public.port, rack=broker.rack or None
            )
            for broker in endpoints
        ],
    )


def _answered(call: KafkaCall, one: _Wanted, leaders: list[Leader], *, committed: bool) -> PartitionData:
    assert one.read is not None
    result, number = one.read.result, _number(one.read.result)
    data = PartitionData(
        partition_index=one.index,
        error_code=number,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=[
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in one.read.aborted
        ]
        if committed
        else None,
        preferred_read_replica=result.preferred_read_replica,
        records=list(one.read.batches),
    )
    if call.api_version >= _WITH_LEADERS:
        if result.diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=result.diverging.epoch, end_offset=result.diverging.end_offset)
        if (hint := leader_hint(call, one.topic, one.index, number)) is not None:
            leaders.append(hint)
            data.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
    return data


def _number(result: FetchResult) -> int:
    """Return the error number of one partition."""
    return _for_consumer(error_number(result.error, "topic"))


def _for_consumer(number: int) -> int:
    """Return a number that consumers expect of Fetch: Java's ends at any other, also a retriable one.

    OFFSET_NOT_AVAILABLE makes them ask again later, NOT_LEADER_OR_FOLLOWER look for the leader first.
    """
    return _INSTEAD.get(number, number)


def _failed(call: KafkaCall, request: FetchRequest, number: int) -> FetchResponse:
    number = _for_consumer(number)
    return FetchResponse(
        error_code=number if call.api_version >= 7 and number != KafkaError.OFFSET_NOT_AVAILABLE else 0,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=one.partition, error_code=number, high_watermark=-1, records=[])
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


HANDLERS: Final[Handlers] = {1: Served(handle=handle_fetch, failed=_failed, most_elements=MANY_ELEMENTS)}
