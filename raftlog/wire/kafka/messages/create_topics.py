"""CreateTopics (API 19), versions 2 to 7. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, ONE_TAG, ZERO_UUID, Writer, uuid

_sh = Struct(">16sh")
_obo = Struct(">?b?")
_h = Struct(">h")
_i = Struct(">i")
_io = Struct(">i?")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class CreatableReplicaAssignment:
    """Part of CreateTopicsRequest."""

    partition_index: int = 0
    broker_ids: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class CreatableTopicConfig:
    """Part of CreateTopicsRequest."""

    name: str = ""
    value: str | None = ""


@dataclass(slots=True, kw_only=True)
class CreatableTopic:
    """Part of CreateTopicsRequest."""

    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class CreateTopicsRequest:
    """Versions 2 to 7."""

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: int = 60000
    validate_only: bool = False


def _read_creatable_replica_assignment_v2(r: Reader) -> CreatableReplicaAssignment:
    (partition_index,) = r.take(_i, "CreatableReplicaAssignment.partition_index")
    broker_ids = r.numbers("i", r.count(4, "CreatableReplicaAssignment.broker_ids"))
    return CreatableReplicaAssignment(partition_index=partition_index, broker_ids=broker_ids)


def _read_creatable_replica_assignment_v5(r: Reader) -> CreatableReplicaAssignment:
    (partition_index,) = r.take(_i, "CreatableReplicaAssignment.partition_index")
    broker_ids = r.numbers("i", r.compact_count(4, "CreatableReplicaAssignment.broker_ids"))
    r.skip_tags("CreatableReplicaAssignment")
    return CreatableReplicaAssignment(partition_index=partition_index, broker_ids=broker_ids)


def _write_creatable_replica_assignment_v2(w: Writer, o: CreatableReplicaAssignment) -> None:
    w.add(_i.pack(o.partition_index))
    w.count(len(o.broker_ids))
    w.numbers("i", o.broker_ids)


def _write_creatable_replica_assignment_v5(w: Writer, o: CreatableReplicaAssignment) -> None:
    w.add(_i.pack(o.partition_index))
    w.compact_count(len(o.broker_ids))
    w.numbers("i", o.broker_ids)
    w.add(NO_TAGS)


def _read_creatable_topic_config_v2(r: Reader) -> CreatableTopicConfig:
    name = r.string("CreatableTopicConfig.name")
    value = r.nullable_string("CreatableTopicConfig.value")
    return CreatableTopicConfig(name=name, value=value)


def _read_creatable_topic_config_v5(r: Reader) -> CreatableTopicConfig:
    name = r.compact_string("CreatableTopicConfig.name")
    value = r.compact_nullable_string("CreatableTopicConfig.value")
    r.skip_tags("CreatableTopicConfig")
    return CreatableTopicConfig(name=name, value=value)


def _write_creatable_topic_config_v2(w: Writer, o: CreatableTopicConfig) -> None:
    w.string(o.name, "CreatableTopicConfig.name")
    w.nullable_string(o.value, "CreatableTopicConfig.value")


def _write_creatable_topic_config_v5(w: Writer, o: CreatableTopicConfig) -> None:
    w.compact_string(o.name, "CreatableTopicConfig.name")
    w.compact_nullable_string(o.value, "CreatableTopicConfig.value")
    w.add(NO_TAGS)


def _read_creatable_topic_v2(r: Reader) -> CreatableTopic:
    name = r.string("CreatableTopic.name")
    num_partitions, replication_factor = r.take(_ih, "CreatableTopic.num_partitions,replication_factor")
    assignments = [_read_creatable_replica_assignment_v2(r) for _ in range(r.count(8, "CreatableTopic.assignments"))]
    configs = [_read_creatable_topic_config_v2(r) for _ in range(r.count(4, "CreatableTopic.configs"))]
    return CreatableTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        assignments=assignments,
        configs=configs,
    )


def _read_creatable_topic_v5(r: Reader) -> CreatableTopic:
    name = r.compact_string("CreatableTopic.name")
    num_partitions, replication_factor = r.take(_ih, "CreatableTopic.num_partitions,replication_factor")
    assignments = [
        _read_creatable_replica_assignment_v5(r) for _ in range(r.compact_count(6, "CreatableTopic.assignments"))
    ]
    configs = [_read_creatable_topic_config_v5(r) for _ in range(r.compact_count(3, "CreatableTopic.configs"))]
    r.skip_tags("CreatableTopic")
    return CreatableTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        assignments=assignments,
        configs=configs,
    )


def _write_creatable_topic_v2(w: Writer, o: CreatableTopic) -> None:
    w.string(o.name, "CreatableTopic.name")
    w.add(_ih.pack(o.num_partitions, o.replication_factor))
    w.count(len(o.assignments))
    for assignments_item in o.assignments:
        _write_creatable_replica_assignment_v2(w, assignments_item)
    w.count(len(o.configs))
    for configs_item in o.configs:
        _write_creatable_topic_config_v2(w, configs_item)


def _write_creatable_topic_v5(w: Writer, o: CreatableTopic) -> None:
    w.compact_string(o.name, "CreatableTopic.name")
    w.add(_ih.pack(o.num_partitions, o.replication_factor))
    w.compact_count(len(o.assignments))
    for assignments_item in o.assignments:
        _write_creatable_replica_assignment_v5(w, assignments_item)
    w.compact_count(len(o.configs))
    for configs_item in o.configs:
        _write_creatable_topic_config_v5(w, configs_item)
    w.add(NO_TAGS)


def _read_create_topics_request_v2(r: Reader) -> CreateTopicsRequest:
    topics = [_read_creatable_topic_v2(r) for _ in range(r.count(16, "CreateTopicsRequest.topics"))]
    timeout_ms, validate_only = r.take(_io, "CreateTopicsRequest.timeout_ms,validate_only")
    return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def _read_create_topics_request_v5(r: Reader) -> CreateTopicsRequest:
    topics = [_read_creatable_topic_v5(r) for _ in range(r.compact_count(10, "CreateTopicsRequest.topics"))]
    timeout_ms, validate_only = r.take(_io, "CreateTopicsRequest.timeout_ms,validate_only")
    r.skip_tags("CreateTopicsRequest")
    return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def _write_create_topics_request_v2(w: Writer, o: CreateTopicsRequest) -> None:
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_creatable_topic_v2(w, topics_item)
    w.add(_io.pack(o.timeout_ms, o.validate_only))


def _write_create_topics_request_v5(w: Writer, o: CreateTopicsRequest) -> None:
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_creatable_topic_v5(w, topics_item)
    w.add(_io.pack(o.timeout_ms, o.validate_only))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class CreatableTopicConfigs:
    """Part of CreateTopicsResponse."""

    name: str = ""  # v5+
    value: str | None = ""  # v5+
    read_only: bool = False  # v5+
    config_source: int = -1  # v5+
    is_sensitive: bool = False  # v5+


@dataclass(slots=True, kw_only=True)
class CreatableTopicResult:
    """Part of CreateTopicsResponse."""

    name: str = ""
    topic_id: bytes = ZERO_UUID  # v7+
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0  # v5+, tag 0
    num_partitions: int = -1  # v5+
    replication_factor: int = -1  # v5+
    configs: list[CreatableTopicConfigs] | None = field(default_factory=list)  # v5+


@dataclass(slots=True, kw_only=True)
class CreateTopicsResponse:
    """Versions 2 to 7."""

    throttle_time_ms: int = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)


def _read_creatable_topic_configs_v5(r: Reader) -> CreatableTopicConfigs:
    name = r.compact_string("CreatableTopicConfigs.name")
    value = r.compact_nullable_string("CreatableTopicConfigs.value")
    read_only, config_source, is_sensitive = r.take(_obo, "CreatableTopicConfigs.read_only,config_source,is_sensitive")
    r.skip_tags("CreatableTopicConfigs")
    return CreatableTopicConfigs(
        name=name, value=value, read_only=read_only, config_source=config_source, is_sensitive=is_sensitive
    )


def _write_creatable_topic_configs_v5(w: Writer, o: CreatableTopicConfigs) -> None:
    w.compact_string(o.name, "CreatableTopicConfigs.name")
    w.compact_nullable_string(o.value, "CreatableTopicConfigs.value")
    w.add(_obo.pack(o.read_only, o.config_source, o.is_sensitive))
    w.add(NO_TAGS)


def _read_creatable_topic_result_v2(r: Reader) -> CreatableTopicResult:
    name = r.string("CreatableTopicResult.name")
    (error_code,) = r.take(_h, "CreatableTopicResult.error_code")
    error_message = r.nullable_string("CreatableTopicResult.error_message")
    return CreatableTopicResult(name=name, error_code=error_code, error_message=error_message)


def _read_creatable_topic_result_v5(r: Reader) -> CreatableTopicResult:
    name = r.compact_string("CreatableTopicResult.name")
    (error_code,) = r.take(_h, "CreatableTopicResult.error_code")
    error_message = r.compact_nullable_string("CreatableTopicResult.error_message")
    num_partitions, replication_factor = r.take(_ih, "CreatableTopicResult.num_partitions,replication_factor")
    n = r.compact_nullable_count(6, "CreatableTopicResult.configs")
    configs = None if n < 0 else [_read_creatable_topic_configs_v5(r) for _ in range(n)]
    o = CreatableTopicResult(
        name=name,
        error_code=error_code,
        error_message=error_message,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        configs=configs,
    )
    for _ in range(r.tag_count("CreatableTopicResult")):
        tag, end = r.tag("CreatableTopicResult")
        if tag == 0:
            (o.topic_config_error_code,) = r.take(_h, "CreatableTopicResult.topic_config_error_code")
            r.end_tag(end, "CreatableTopicResult.topic_config_error_code")
        else:
            r.at = end
    return o


def _read_creatable_topic_result_v7(r: Reader) -> CreatableTopicResult:
    name = r.compact_string("CreatableTopicResult.name")
    topic_id, error_code = r.take(_sh, "CreatableTopicResult.topic_id,error_code")
    error_message = r.compact_nullable_string("CreatableTopicResult.error_message")
    num_partitions, replication_factor = r.take(_ih, "CreatableTopicResult.num_partitions,replication_factor")
    n = r.compact_nullable_count(6, "CreatableTopicResult.configs")
    configs = None if n < 0 else [_read_creatable_topic_configs_v5(r) for _ in range(n)]
    o = CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=error_code,
        error_message=error_message,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        configs=configs,
    )
    for _ in range(r.tag_count("CreatableTopicResult")):
        tag, end = r.tag("CreatableTopicResult")
        if tag == 0:
            (o.topic_config_error_code,) = r.take(_h, "CreatableTopicResult.topic_config_error_code")
            r.end_tag(end, "CreatableTopicResult.topic_config_error_code")
        else:
            r.at = end
    return o


def _write_creatable_topic_result_v2(w: Writer, o: CreatableTopicResult) -> None:
    w.string(o.name, "CreatableTopicResult.name")
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "CreatableTopicResult.error_message")


def _write_creatable_topic_result_v5(w: Writer, o: CreatableTopicResult) -> None:
    w.compact_string(o.name, "CreatableTopicResult.name")
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "CreatableTopicResult.error_message")
    w.add(_ih.pack(o.num_partitions, o.replication_factor))
    if o.configs is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.configs))
        for configs_item in o.configs:
            _write_creatable_topic_configs_v5(w, configs_item)
    if o.topic_config_error_code != 0:
        w.add(ONE_TAG)
        mark = w.begin_tag(0)
        w.add(_h.pack(o.topic_config_error_code))
        w.end_tag(mark)
    else:
        w.add(NO_TAGS)


def _write_creatable_topic_result_v7(w: Writer, o: CreatableTopicResult) -> None:
    w.compact_string(o.name, "CreatableTopicResult.name")
    w.add(_sh.pack(uuid(o.topic_id), o.error_code))
    w.compact_nullable_string(o.error_message, "CreatableTopicResult.error_message")
    w.add(_ih.pack(o.num_partitions, o.replication_factor))
    if o.configs is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.configs))
        for configs_item in o.configs:
            _write_creatable_topic_configs_v5(w, configs_item)
    if o.topic_config_error_code != 0:
        w.add(ONE_TAG)
        mark = w.begin_tag(0)
        w.add(_h.pack(o.topic_config_error_code))
        w.end_tag(mark)
    else:
        w.add(NO_TAGS)


def _read_create_topics_response_v2(r: Reader) -> CreateTopicsResponse:
    (throttle_time_ms,) = r.take(_i, "CreateTopicsResponse.throttle_time_ms")
    topics = [_read_creatable_topic_result_v2(r) for _ in range(r.count(6, "CreateTopicsResponse.topics"))]
    return CreateTopicsResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _read_create_topics_response_v5(r: Reader) -> CreateTopicsResponse:
    (throttle_time_ms,) = r.take(_i, "CreateTopicsResponse.throttle_time_ms")
    topics = [_read_creatable_topic_result_v5(r) for _ in range(r.compact_count(12, "CreateTopicsResponse.topics"))]
    r.skip_tags("CreateTopicsResponse")
    return CreateTopicsResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _read_create_topics_response_v7(r: Reader) -> CreateTopicsResponse:
    (throttle_time_ms,) = r.take(_i, "CreateTopicsResponse.throttle_time_ms")
    topics = [_read_creatable_topic_result_v7(r) for _ in range(r.compact_count(28, "CreateTopicsResponse.topics"))]
    r.skip_tags("CreateTopicsResponse")
    return CreateTopicsResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _write_create_topics_response_v2(w: Writer, o: CreateTopicsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_creatable_topic_result_v2(w, topics_item)


def _write_create_topics_response_v5(w: Writer, o: CreateTopicsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_creatable_topic_result_v5(w, topics_item)
    w.add(NO_TAGS)


def _write_create_topics_response_v7(w: Writer, o: CreateTopicsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_creatable_topic_result_v7(w, topics_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "CreateTopicsRequest",
    2,
    (
        _read_create_topics_request_v2,
        _read_create_topics_request_v2,
        _read_create_topics_request_v2,
        _read_create_topics_request_v5,
        _read_create_topics_request_v5,
        _read_create_topics_request_v5,
    ),
    (
        _write_create_topics_request_v2,
        _write_create_topics_request_v2,
        _write_create_topics_request_v2,
        _write_create_topics_request_v5,
        _write_create_topics_request_v5,
        _write_create_topics_request_v5,
    ),
)

RESPONSE: Final = Codec(
    "CreateTopicsResponse",
    2,
    (
        _read_create_topics_response_v2,
        _read_create_topics_response_v2,
        _read_create_topics_response_v2,
        _read_create_topics_response_v5,
        _read_create_topics_response_v5,
        _read_create_topics_response_v7,
    ),
    (
        _write_create_topics_response_v2,
        _write_create_topics_response_v2,
        _write_create_topics_response_v2,
        _write_create_topics_response_v5,
        _write_create_topics_response_v5,
        _write_create_topics_response_v7,
    ),
)
