"""ElectLeaders (API 43), versions 0 to 2. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_b = Struct(">b")
_i = Struct(">i")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class TopicPartitions:
    """Part of ElectLeadersRequest."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ElectLeadersRequest:
    """Versions 0 to 2."""

    election_type: int = 0  # v1+
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: int = 60000


def _read_topic_partitions_v0(r: Reader) -> TopicPartitions:
    topic = r.string("TopicPartitions.topic")
    partitions = r.numbers("i", r.count(4, "TopicPartitions.partitions"))
    return TopicPartitions(topic=topic, partitions=partitions)


def _read_topic_partitions_v2(r: Reader) -> TopicPartitions:
    topic = r.compact_string("TopicPartitions.topic")
    partitions = r.numbers("i", r.compact_count(4, "TopicPartitions.partitions"))
    r.skip_tags("TopicPartitions")
    return TopicPartitions(topic=topic, partitions=partitions)


def _write_topic_partitions_v0(w: Writer, o: TopicPartitions) -> None:
    w.string(o.topic, "TopicPartitions.topic")
    w.count(len(o.partitions))
    w.numbers("i", o.partitions)


def _write_topic_partitions_v2(w: Writer, o: TopicPartitions) -> None:
    w.compact_string(o.topic, "TopicPartitions.topic")
    w.compact_count(len(o.partitions))
    w.numbers("i", o.partitions)
    w.add(NO_TAGS)


def _read_elect_leaders_request_v0(r: Reader) -> ElectLeadersRequest:
    n = r.nullable_count(6, "ElectLeadersRequest.topic_partitions")
    topic_partitions = None if n < 0 else [_read_topic_partitions_v0(r) for _ in range(n)]
    (timeout_ms,) = r.take(_i, "ElectLeadersRequest.timeout_ms")
    return ElectLeadersRequest(topic_partitions=topic_partitions, timeout_ms=timeout_ms)


def _read_elect_leaders_request_v1(r: Reader) -> ElectLeadersRequest:
    (election_type,) = r.take(_b, "ElectLeadersRequest.election_type")
    n = r.nullable_count(6, "ElectLeadersRequest.topic_partitions")
    topic_partitions = None if n < 0 else [_read_topic_partitions_v0(r) for _ in range(n)]
    (timeout_ms,) = r.take(_i, "ElectLeadersRequest.timeout_ms")
    return ElectLeadersRequest(election_type=election_type, topic_partitions=topic_partitions, timeout_ms=timeout_ms)


def _read_elect_leaders_request_v2(r: Reader) -> ElectLeadersRequest:
    (election_type,) = r.take(_b, "ElectLeadersRequest.election_type")
    n = r.compact_nullable_count(3, "ElectLeadersRequest.topic_partitions")
    topic_partitions = None if n < 0 else [_read_topic_partitions_v2(r) for _ in range(n)]
    (timeout_ms,) = r.take(_i, "ElectLeadersRequest.timeout_ms")
    r.skip_tags("ElectLeadersRequest")
    return ElectLeadersRequest(election_type=election_type, topic_partitions=topic_partitions, timeout_ms=timeout_ms)


def _write_elect_leaders_request_v0(w: Writer, o: ElectLeadersRequest) -> None:
    if o.election_type != 0:
        raise w.unsupported("ElectLeadersRequest.election_type")
    if o.topic_partitions is None:
        w.count(-1)
    else:
        w.count(len(o.topic_partitions))
        for topic_partitions_item in o.topic_partitions:
            _write_topic_partitions_v0(w, topic_partitions_item)
    w.add(_i.pack(o.timeout_ms))


def _write_elect_leaders_request_v1(w: Writer, o: ElectLeadersRequest) -> None:
    w.add(_b.pack(o.election_type))
    if o.topic_partitions is None:
        w.count(-1)
    else:
        w.count(len(o.topic_partitions))
        for topic_partitions_item in o.topic_partitions:
            _write_topic_partitions_v0(w, topic_partitions_item)
    w.add(_i.pack(o.timeout_ms))


def _write_elect_leaders_request_v2(w: Writer, o: ElectLeadersRequest) -> None:
    w.add(_b.pack(o.election_type))
    if o.topic_partitions is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topic_partitions))
        for topic_partitions_item in o.topic_partitions:
            _write_topic_partitions_v2(w, topic_partitions_item)
    w.add(_i.pack(o.timeout_ms))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class PartitionResult:
    """Part of ElectLeadersResponse."""

    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True, kw_only=True)
class ReplicaElectionResult:
    """Part of ElectLeadersResponse."""

    topic: str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ElectLeadersResponse:
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v1+
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)


def _read_partition_result_v0(r: Reader) -> PartitionResult:
    partition_id, error_code = r.take(_ih, "PartitionResult.partition_id,error_code")
    error_message = r.nullable_string("PartitionResult.error_message")
    return PartitionResult(partition_id=partition_id, error_code=error_code, error_message=error_message)


def _read_partition_result_v2(r: Reader) -> PartitionResult:
    partition_id, error_code = r.take(_ih, "PartitionResult.partition_id,error_code")
    error_message = r.compact_nullable_string("PartitionResult.error_message")
    r.skip_tags("PartitionResult")
    return PartitionResult(partition_id=partition_id, error_code=error_code, error_message=error_message)


def _write_partition_result_v0(w: Writer, o: PartitionResult) -> None:
    w.add(_ih.pack(o.partition_id, o.error_code))
    w.nullable_string(o.error_message, "PartitionResult.error_message")


def _write_partition_result_v2(w: Writer, o: PartitionResult) -> None:
    w.add(_ih.pack(o.partition_id, o.error_code))
    w.compact_nullable_string(o.error_message, "PartitionResult.error_message")
    w.add(NO_TAGS)


def _read_replica_election_result_v0(r: Reader) -> ReplicaElectionResult:
    topic = r.string("ReplicaElectionResult.topic")
    partition_result = [
        _read_partition_result_v0(r) for _ in range(r.count(8, "ReplicaElectionResult.partition_result"))
    ]
    return ReplicaElectionResult(topic=topic, partition_result=partition_result)


def _read_replica_election_result_v2(r: Reader) -> ReplicaElectionResult:
    topic = r.compact_string("ReplicaElectionResult.topic")
    partition_result = [
        _read_partition_result_v2(r) for _ in range(r.compact_count(8, "ReplicaElectionResult.partition_result"))
    ]
    r.skip_tags("ReplicaElectionResult")
    return ReplicaElectionResult(topic=topic, partition_result=partition_result)


def _write_replica_election_result_v0(w: Writer, o: ReplicaElectionResult) -> None:
    w.string(o.topic, "ReplicaElectionResult.topic")
    w.count(len(o.partition_result))
    for partition_result_item in o.partition_result:
        _write_partition_result_v0(w, partition_result_item)


def _write_replica_election_result_v2(w: Writer, o: ReplicaElectionResult) -> None:
    w.compact_string(o.topic, "ReplicaElectionResult.topic")
    w.compact_count(len(o.partition_result))
    for partition_result_item in o.partition_result:
        _write_partition_result_v2(w, partition_result_item)
    w.add(NO_TAGS)


def _read_elect_leaders_response_v0(r: Reader) -> ElectLeadersResponse:
    (throttle_time_ms,) = r.take(_i, "ElectLeadersResponse.throttle_time_ms")
    replica_election_results = [
        _read_replica_election_result_v0(r) for _ in range(r.count(6, "ElectLeadersResponse.replica_election_results"))
    ]
    return ElectLeadersResponse(throttle_time_ms=throttle_time_ms, replica_election_results=replica_election_results)


def _read_elect_leaders_response_v1(r: Reader) -> ElectLeadersResponse:
    throttle_time_ms, error_code = r.take(_ih, "ElectLeadersResponse.throttle_time_ms,error_code")
    replica_election_results = [
        _read_replica_election_result_v0(r) for _ in range(r.count(6, "ElectLeadersResponse.replica_election_results"))
    ]
    return ElectLeadersResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, replica_election_results=replica_election_results
    )


def _read_elect_leaders_response_v2(r: Reader) -> ElectLeadersResponse:
    throttle_time_ms, error_code = r.take(_ih, "ElectLeadersResponse.throttle_time_ms,error_code")
    replica_election_results = [
        _read_replica_election_result_v2(r)
        for _ in range(r.compact_count(3, "ElectLeadersResponse.replica_election_results"))
    ]
    r.skip_tags("ElectLeadersResponse")
    return ElectLeadersResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, replica_election_results=replica_election_results
    )


def _write_elect_leaders_response_v0(w: Writer, o: ElectLeadersResponse) -> None:
    if o.error_code != 0:
        raise w.unsupported("ElectLeadersResponse.error_code")
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.replica_election_results))
    for replica_election_results_item in o.replica_election_results:
        _write_replica_election_result_v0(w, replica_election_results_item)


def _write_elect_leaders_response_v1(w: Writer, o: ElectLeadersResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.count(len(o.replica_election_results))
    for replica_election_results_item in o.replica_election_results:
        _write_replica_election_result_v0(w, replica_election_results_item)


def _write_elect_leaders_response_v2(w: Writer, o: ElectLeadersResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_count(len(o.replica_election_results))
    for replica_election_results_item in o.replica_election_results:
        _write_replica_election_result_v2(w, replica_election_results_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "ElectLeadersRequest",
    0,
    (
        _read_elect_leaders_request_v0,
        _read_elect_leaders_request_v1,
        _read_elect_leaders_request_v2,
    ),
    (
        _write_elect_leaders_request_v0,
        _write_elect_leaders_request_v1,
        _write_elect_leaders_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "ElectLeadersResponse",
    0,
    (
        _read_elect_leaders_response_v0,
        _read_elect_leaders_response_v1,
        _read_elect_leaders_response_v2,
    ),
    (
        _write_elect_leaders_response_v0,
        _write_elect_leaders_response_v1,
        _write_elect_leaders_response_v2,
    ),
)
