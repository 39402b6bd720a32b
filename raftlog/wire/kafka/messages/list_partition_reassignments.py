"""ListPartitionReassignments (API 46), version 0. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_i = Struct(">i")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsTopics:
    """Part of ListPartitionReassignmentsRequest."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsRequest:
    """Version 0."""

    timeout_ms: int = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


def _read_list_partition_reassignments_topics_v0(r: Reader) -> ListPartitionReassignmentsTopics:
    name = r.compact_string("ListPartitionReassignmentsTopics.name")
    partition_indexes = r.numbers("i", r.compact_count(4, "ListPartitionReassignmentsTopics.partition_indexes"))
    r.skip_tags("ListPartitionReassignmentsTopics")
    return ListPartitionReassignmentsTopics(name=name, partition_indexes=partition_indexes)


def _write_list_partition_reassignments_topics_v0(w: Writer, o: ListPartitionReassignmentsTopics) -> None:
    w.compact_string(o.name, "ListPartitionReassignmentsTopics.name")
    w.compact_count(len(o.partition_indexes))
    w.numbers("i", o.partition_indexes)
    w.add(NO_TAGS)


def _read_list_partition_reassignments_request_v0(r: Reader) -> ListPartitionReassignmentsRequest:
    (timeout_ms,) = r.take(_i, "ListPartitionReassignmentsRequest.timeout_ms")
    n = r.compact_nullable_count(3, "ListPartitionReassignmentsRequest.topics")
    topics = None if n < 0 else [_read_list_partition_reassignments_topics_v0(r) for _ in range(n)]
    r.skip_tags("ListPartitionReassignmentsRequest")
    return ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)


def _write_list_partition_reassignments_request_v0(w: Writer, o: ListPartitionReassignmentsRequest) -> None:
    w.add(_i.pack(o.timeout_ms))
    if o.topics is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topics))
        for topics_item in o.topics:
            _write_list_partition_reassignments_topics_v0(w, topics_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class OngoingPartitionReassignment:
    """Part of ListPartitionReassignmentsResponse."""

    partition_index: int = 0
    replicas: list[int] = field(default_factory=list)
    adding_replicas: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class OngoingTopicReassignment:
    """Part of ListPartitionReassignmentsResponse."""

    name: str = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)


def _read_ongoing_partition_reassignment_v0(r: Reader) -> OngoingPartitionReassignment:
    (partition_index,) = r.take(_i, "OngoingPartitionReassignment.partition_index")
    replicas = r.numbers("i", r.compact_count(4, "OngoingPartitionReassignment.replicas"))
    adding_replicas = r.numbers("i", r.compact_count(4, "OngoingPartitionReassignment.adding_replicas"))
    removing_replicas = r.numbers("i", r.compact_count(4, "OngoingPartitionReassignment.removing_replicas"))
    r.skip_tags("OngoingPartitionReassignment")
    return OngoingPartitionReassignment(
        partition_index=partition_index,
        replicas=replicas,
        adding_replicas=adding_replicas,
        removing_replicas=removing_replicas,
    )


def _write_ongoing_partition_reassignment_v0(w: Writer, o: OngoingPartitionReassignment) -> None:
    w.add(_i.pack(o.partition_index))
    w.compact_count(len(o.replicas))
    w.numbers("i", o.replicas)
    w.compact_count(len(o.adding_replicas))
    w.numbers("i", o.adding_replicas)
    w.compact_count(len(o.removing_replicas))
    w.numbers("i", o.removing_replicas)
    w.add(NO_TAGS)


def _read_ongoing_topic_reassignment_v0(r: Reader) -> OngoingTopicReassignment:
    name = r.compact_string("OngoingTopicReassignment.name")
    partitions = [
        _read_ongoing_partition_reassignment_v0(r)
        for _ in range(r.compact_count(8, "OngoingTopicReassignment.partitions"))
    ]
    r.skip_tags("OngoingTopicReassignment")
    return OngoingTopicReassignment(name=name, partitions=partitions)


def _write_ongoing_topic_reassignment_v0(w: Writer, o: OngoingTopicReassignment) -> None:
    w.compact_string(o.name, "OngoingTopicReassignment.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_ongoing_partition_reassignment_v0(w, partitions_item)
    w.add(NO_TAGS)


def _read_list_partition_reassignments_response_v0(r: Reader) -> ListPartitionReassignmentsResponse:
    throttle_time_ms, error_code = r.take(_ih, "ListPartitionReassignmentsResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("ListPartitionReassignmentsResponse.error_message")
    topics = [
        _read_ongoing_topic_reassignment_v0(r)
        for _ in range(r.compact_count(3, "ListPartitionReassignmentsResponse.topics"))
    ]
    r.skip_tags("ListPartitionReassignmentsResponse")
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, error_message=error_message, topics=topics
    )


def _write_list_partition_reassignments_response_v0(w: Writer, o: ListPartitionReassignmentsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "ListPartitionReassignmentsResponse.error_message")
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_ongoing_topic_reassignment_v0(w, topics_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "ListPartitionReassignmentsRequest",
    0,
    (_read_list_partition_reassignments_request_v0,),
    (_write_list_partition_reassignments_request_v0,),
)

RESPONSE: Final = Codec(
    "ListPartitionReassignmentsResponse",
    0,
    (_read_list_partition_reassignments_response_v0,),
    (_write_list_partition_reassignments_response_v0,),
)
