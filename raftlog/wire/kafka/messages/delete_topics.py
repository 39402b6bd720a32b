"""DeleteTopics (API 20), versions 1 to 6. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, ZERO_UUID, Writer, uuid

_s = Struct(">16s")
_sh = Struct(">16sh")
_h = Struct(">h")
_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class DeleteTopicState:
    """Part of DeleteTopicsRequest."""

    name: str | None = None  # v6+
    topic_id: bytes = ZERO_UUID  # v6+


@dataclass(slots=True, kw_only=True)
class DeleteTopicsRequest:
    """Versions 1 to 6."""

    topics: list[DeleteTopicState] = field(default_factory=list)  # v6+
    topic_names: list[str] = field(default_factory=list)  # v0-5
    timeout_ms: int = 0


def _read_delete_topic_state_v6(r: Reader) -> DeleteTopicState:
    name = r.compact_nullable_string("DeleteTopicState.name")
    (topic_id,) = r.take(_s, "DeleteTopicState.topic_id")
    r.skip_tags("DeleteTopicState")
    return DeleteTopicState(name=name, topic_id=topic_id)


def _write_delete_topic_state_v6(w: Writer, o: DeleteTopicState) -> None:
    w.compact_nullable_string(o.name, "DeleteTopicState.name")
    w.add(_s.pack(uuid(o.topic_id)))
    w.add(NO_TAGS)


def _read_delete_topics_request_v1(r: Reader) -> DeleteTopicsRequest:
    topic_names = [
        r.string("DeleteTopicsRequest.topic_names") for _ in range(r.count(2, "DeleteTopicsRequest.topic_names"))
    ]
    (timeout_ms,) = r.take(_i, "DeleteTopicsRequest.timeout_ms")
    return DeleteTopicsRequest(topic_names=topic_names, timeout_ms=timeout_ms)


def _read_delete_topics_request_v4(r: Reader) -> DeleteTopicsRequest:
    topic_names = [
        r.compact_string("DeleteTopicsRequest.topic_names")
        for _ in range(r.compact_count(1, "DeleteTopicsRequest.topic_names"))
    ]
    (timeout_ms,) = r.take(_i, "DeleteTopicsRequest.timeout_ms")
    r.skip_tags("DeleteTopicsRequest")
    return DeleteTopicsRequest(topic_names=topic_names, timeout_ms=timeout_ms)


def _read_delete_topics_request_v6(r: Reader) -> DeleteTopicsRequest:
    topics = [_read_delete_topic_state_v6(r) for _ in range(r.compact_count(18, "DeleteTopicsRequest.topics"))]
    (timeout_ms,) = r.take(_i, "DeleteTopicsRequest.timeout_ms")
    r.skip_tags("DeleteTopicsRequest")
    return DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms)


def _write_delete_topics_request_v1(w: Writer, o: DeleteTopicsRequest) -> None:
    if o.topics:
        raise w.unsupported("DeleteTopicsRequest.topics")
    w.count(len(o.topic_names))
    for topic_names_item in o.topic_names:
        w.string(topic_names_item, "DeleteTopicsRequest.topic_names")
    w.add(_i.pack(o.timeout_ms))


def _write_delete_topics_request_v4(w: Writer, o: DeleteTopicsRequest) -> None:
    if o.topics:
        raise w.unsupported("DeleteTopicsRequest.topics")
    w.compact_count(len(o.topic_names))
    for topic_names_item in o.topic_names:
        w.compact_string(topic_names_item, "DeleteTopicsRequest.topic_names")
    w.add(_i.pack(o.timeout_ms))
    w.add(NO_TAGS)


def _write_delete_topics_request_v6(w: Writer, o: DeleteTopicsRequest) -> None:
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_delete_topic_state_v6(w, topics_item)
    w.add(_i.pack(o.timeout_ms))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class DeletableTopicResult:
    """Part of DeleteTopicsResponse."""

    name: str | None = ""
    topic_id: bytes = ZERO_UUID  # v6+
    error_code: int = 0
    error_message: str | None = None  # v5+


@dataclass(slots=True, kw_only=True)
class DeleteTopicsResponse:
    """Versions 1 to 6."""

    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)


def _read_deletable_topic_result_v1(r: Reader) -> DeletableTopicResult:
    name = r.string("DeletableTopicResult.name")
    (error_code,) = r.take(_h, "DeletableTopicResult.error_code")
    return DeletableTopicResult(name=name, error_code=error_code)


def _read_deletable_topic_result_v4(r: Reader) -> DeletableTopicResult:
    name = r.compact_string("DeletableTopicResult.name")
    (error_code,) = r.take(_h, "DeletableTopicResult.error_code")
    r.skip_tags("DeletableTopicResult")
    return DeletableTopicResult(name=name, error_code=error_code)


def _read_deletable_topic_result_v5(r: Reader) -> DeletableTopicResult:
    name = r.compact_string("DeletableTopicResult.name")
    (error_code,) = r.take(_h, "DeletableTopicResult.error_code")
    error_message = r.compact_nullable_string("DeletableTopicResult.error_message")
    r.skip_tags("DeletableTopicResult")
    return DeletableTopicResult(name=name, error_code=error_code, error_message=error_message)


def _read_deletable_topic_result_v6(r: Reader) -> DeletableTopicResult:
    name = r.compact_nullable_string("DeletableTopicResult.name")
    topic_id, error_code = r.take(_sh, "DeletableTopicResult.topic_id,error_code")
    error_message = r.compact_nullable_string("DeletableTopicResult.error_message")
    r.skip_tags("DeletableTopicResult")
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error_code, error_message=error_message)


def _write_deletable_topic_result_v1(w: Writer, o: DeletableTopicResult) -> None:
    w.string(o.name, "DeletableTopicResult.name")
    w.add(_h.pack(o.error_code))


def _write_deletable_topic_result_v4(w: Writer, o: DeletableTopicResult) -> None:
    w.compact_string(o.name, "DeletableTopicResult.name")
    w.add(_h.pack(o.error_code))
    w.add(NO_TAGS)


def _write_deletable_topic_result_v5(w: Writer, o: DeletableTopicResult) -> None:
    w.compact_string(o.name, "DeletableTopicResult.name")
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "DeletableTopicResult.error_message")
    w.add(NO_TAGS)


def _write_deletable_topic_result_v6(w: Writer, o: DeletableTopicResult) -> None:
    w.compact_nullable_string(o.name, "DeletableTopicResult.name")
    w.add(_sh.pack(uuid(o.topic_id), o.error_code))
    w.compact_nullable_string(o.error_message, "DeletableTopicResult.error_message")
    w.add(NO_TAGS)


def _read_delete_topics_response_v1(r: Reader) -> DeleteTopicsResponse:
    (throttle_time_ms,) = r.take(_i, "DeleteTopicsResponse.throttle_time_ms")
    responses = [_read_deletable_topic_result_v1(r) for _ in range(r.count(4, "DeleteTopicsResponse.responses"))]
    return DeleteTopicsResponse(throttle_time_ms=throttle_time_ms, responses=responses)


def _read_delete_topics_response_v4(r: Reader) -> DeleteTopicsResponse:
    (throttle_time_ms,) = r.take(_i, "DeleteTopicsResponse.throttle_time_ms")
    responses = [
        _read_deletable_topic_result_v4(r) for _ in range(r.compact_count(4, "DeleteTopicsResponse.responses"))
    ]
    r.skip_tags("DeleteTopicsResponse")
    return DeleteTopicsResponse(throttle_time_ms=throttle_time_ms, responses=responses)


def _read_delete_topics_response_v5(r: Reader) -> DeleteTopicsResponse:
    (throttle_time_ms,) = r.take(_i, "DeleteTopicsResponse.throttle_time_ms")
    responses = [
        _read_deletable_topic_result_v5(r) for _ in range(r.compact_count(5, "DeleteTopicsResponse.responses"))
    ]
    r.skip_tags("DeleteTopicsResponse")
    return DeleteTopicsResponse(throttle_time_ms=throttle_time_ms, responses=responses)


def _read_delete_topics_response_v6(r: Reader) -> DeleteTopicsResponse:
    (throttle_time_ms,) = r.take(_i, "DeleteTopicsResponse.throttle_time_ms")
    responses = [
        _read_deletable_topic_result_v6(r) for _ in range(r.compact_count(21, "DeleteTopicsResponse.responses"))
    ]
    r.skip_tags("DeleteTopicsResponse")
    return DeleteTopicsResponse(throttle_time_ms=throttle_time_ms, responses=responses)


def _write_delete_topics_response_v1(w: Writer, o: DeleteTopicsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.responses))
    for responses_item in o.responses:
        _write_deletable_topic_result_v1(w, responses_item)


def _write_delete_topics_response_v4(w: Writer, o: DeleteTopicsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_deletable_topic_result_v4(w, responses_item)
    w.add(NO_TAGS)


def _write_delete_topics_response_v5(w: Writer, o: DeleteTopicsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_deletable_topic_result_v5(w, responses_item)
    w.add(NO_TAGS)


def _write_delete_topics_response_v6(w: Writer, o: DeleteTopicsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_deletable_topic_result_v6(w, responses_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DeleteTopicsRequest",
    1,
    (
        _read_delete_topics_request_v1,
        _read_delete_topics_request_v1,
        _read_delete_topics_request_v1,
        _read_delete_topics_request_v4,
        _read_delete_topics_request_v4,
        _read_delete_topics_request_v6,
    ),
    (
        _write_delete_topics_request_v1,
        _write_delete_topics_request_v1,
        _write_delete_topics_request_v1,
        _write_delete_topics_request_v4,
        _write_delete_topics_request_v4,
        _write_delete_topics_request_v6,
    ),
)

RESPONSE: Final = Codec(
    "DeleteTopicsResponse",
    1,
    (
        _read_delete_topics_response_v1,
        _read_delete_topics_response_v1,
        _read_delete_topics_response_v1,
        _read_delete_topics_response_v4,
        _read_delete_topics_response_v5,
        _read_delete_topics_response_v6,
    ),
    (
        _write_delete_topics_response_v1,
        _write_delete_topics_response_v1,
        _write_delete_topics_response_v1,
        _write_delete_topics_response_v4,
        _write_delete_topics_response_v5,
        _write_delete_topics_response_v6,
    ),
)
