"""Produce: the request's batches by topic and partition, and their results in the form of each version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from raftlog.broker.kafka.call import ClosesConnectionError, Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number, error_text
from raftlog.broker.kafka.produce import FIRST_VERSION, KafkaAppend, KafkaBatch
from raftlog.broker.kafka.topics import Leader, Slices, endpoints_of, leader_hint, name_of, topic_id_of
from raftlog.errors import AuthorizationError, ErrorCode, InvalidRequestError, RaftlogError
from raftlog.model import TopicId
from raftlog.record.kafka.header import HEADER_BYTES, compression_of
from raftlog.runtime import in_slices
from raftlog.serving.workers import in_worker
from raftlog.wire.data import MAX_REQUEST_PARTITIONS
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_BY_ID, _WITH_ZSTD, _WITH_HINTS = 13, 7, 10
"""The first versions with topic ids, zstd (KIP-110) and leaders in errors (KIP-951)."""
_ZSTD = 4
_MANY = 256
"""Results for which a worker thread writes the answer, and topics that are looked up in one turn of the event loop."""
_JOINING = 12
"""The first version whose batches add their partitions to transactions (KIP-890, TV2)."""


@dataclass(slots=True)
class _Result:
    """What happened to one partition's batch."""

    index: int
    topic: str = ""
    number: int = 0
    text: str | None = None
    done: KafkaAppend | None = None
    batch: KafkaBatch | None = None


async def handle_produce(call: KafkaCall, request: ProduceRequest) -> ProduceResponse | None:
    """Append each partition's batch. The batches of a connection are appended in the order of its requests."""
    count = sum(len(topic.partition_data) for topic in request.topic_data)
    if count > MAX_REQUEST_PARTITIONS:
        raise InvalidRequestError(
            f"a produce request has at most {MAX_REQUEST_PARTITIONS:,} partitions, received {count:,}"
        )
    by_topic = [(topic, _planned(call, topic)) async for topic in in_slices(request.topic_data, _MANY)]
    results = [result for _, planned in by_topic for result in planned]
    sent = [(result, result.batch) for result in results if result.batch is not None]
    appends = await call.services.producing.append(
        [batch for _, batch in sent],
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        sender=call.sender,
        transactional_id=request.transactional_id or "",
        on_placed=call.on_placed,
        joins=call.api_version >= _JOINING,
    )
    slices = Slices()
    for (result, _), done in zip(sent, appends, strict=True):
        result.batch, result.done = None, done
        result.number, result.text = error_number(done.error, "topic"), _text(call, result, done.error)
        await slices.entry()
    if request.acks == 0:
        if failed := next((one for one in results if one.number), None):
            raise ClosesConnectionError(f"acks=0 has no answer for an error: {failed.topic}: {failed.text}")
        return None
    return await in_worker(_response, call, by_topic) if count > _MANY else _response(call, by_topic)


def _planned(call: KafkaCall, topic: TopicProduceData) -> list[_Result]:
    name, topic_id = topic.name, ""
    if call.api_version >= _BY_ID:
        try:
            topic_id = topic_id_of(topic.topic_id)
            name = name_of(call.context.image, topic_id)
        except RaftlogError as error:
            number, text = error_number(error, "topic"), error.message
            return [_Result(one.index, name, number, text) for one in topic.partition_data]
    return [_planned_one(call, name, topic_id, one) for one in topic.partition_data]


def _planned_one(call: KafkaCall, topic: str, topic_id: TopicId, data: PartitionProduceData) -> _Result:
    result, records = _Result(data.index, topic), data.records
    assert not isinstance(records, list)
    if (
        call.api_version < _WITH_ZSTD
        and records is not None
        and len(records) >= HEADER_BYTES
        and compression_of(records) == _ZSTD
    ):
        result.number = KafkaError.UNSUPPORTED_COMPRESSION_TYPE
        result.text = f"zstd needs version {_WITH_ZSTD} of Produce"
        return result
    result.batch = KafkaBatch(topic=topic, partition=data.index, records=records, topic_id=topic_id)
    return result


def _text(call: KafkaCall, result: _Result, error: RaftlogError | None) -> str | None:
    """Return the text of an error; a sender that gave a topic's id only learns no name that it may not see."""
    is_hidden = isinstance(error, AuthorizationError) and call.api_version >= _BY_ID
    if is_hidden and not call.context.access.sees(call.sender, "topic", result.topic):
        return "the sender may not write this topic"
    return error_text(error)


def _response(call: KafkaCall, by_topic: list[tuple[TopicProduceData, list[_Result]]]) -> ProduceResponse:
    hints = dict(_hints(call, by_topic)) if call.api_version >= _WITH_HINTS else {}
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_answered(result, hints) for result in results],
            )
            for topic, results in by_topic
        ],
        node_endpoints=[
            NodeEndpoint(
                node_id=broker.broker_id, host=broker.public.host, port=broker.public.port, rack=broker.rack or None
            )
            for broker in endpoints_of(call, hints.values())
        ],
    )


def _hints(
    call: KafkaCall, by_topic: list[tuple[TopicProduceData, list[_Result]]]
) -> Iterator[tuple[tuple[str, int], Leader]]:
    for _, results in by_topic:
        for result in results:
            if (hint := leader_hint(call, result.topic, result.index, result.number)) is not None:
                yield (result.topic, result.index), hint


def _answered(result: _Result, hints: Mapping[tuple[str, int], Leader]) -> PartitionProduceResponse:
    hint = hints.get((result.topic, result.index))
    done = result.done or KafkaAppend()
    return PartitionProduceResponse(
        index=result.index,
        error_code=result.number,
        base_offset=done.base_offset,
        log_start_offset=done.log_start_offset,
        record_errors=_record_errors(done.error),
        error_message=result.text,
        current_leader=None if hint is None else LeaderIdAndEpoch(leader_id=hint[0], leader_epoch=hint[1]),
    )


def _record_errors(error: RaftlogError | None) -> list[BatchIndexAndErrorMessage]:
    """Return the records because of which a batch was refused (KIP-467), if the error names some."""
    if error is None or error.code is not ErrorCode.INVALID_RECORD:
        return []
    text = "the topic is compacted, so every record needs a key"
    return [
        BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=text)
        for record in error.details.get("records", ())
    ]


def _failed(_: KafkaCall, request: ProduceRequest, number: int) -> ProduceResponse:
    if request.acks == 0:
        raise ClosesConnectionError(f"acks=0 has no answer for an error: number {number}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=one.index, error_code=number, base_offset=-1)
                    for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


HANDLERS: Final[Handlers] = {0: Served(handle=handle_produce, first=FIRST_VERSION, failed=_failed)}
