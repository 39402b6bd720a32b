"""ConsumerGroupDescribe (API 69), versions 0 to 1. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, ZERO_UUID, Writer, uuid

_s = Struct(">16s")
_o = Struct(">?")
_b = Struct(">b")
_h = Struct(">h")
_i = Struct(">i")
_ii = Struct(">ii")


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeRequest:
    """Versions 0 to 1."""

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


def _read_consumer_group_describe_request_v0(r: Reader) -> ConsumerGroupDescribeRequest:
    group_ids = [
        r.compact_string("ConsumerGroupDescribeRequest.group_ids")
        for _ in range(r.compact_count(1, "ConsumerGroupDescribeRequest.group_ids"))
    ]
    (include_authorized_operations,) = r.take(_o, "ConsumerGroupDescribeRequest.include_authorized_operations")
    r.skip_tags("ConsumerGroupDescribeRequest")
    return ConsumerGroupDescribeRequest(
        group_ids=group_ids, include_authorized_operations=include_authorized_operations
    )


def _write_consumer_group_describe_request_v0(w: Writer, o: ConsumerGroupDescribeRequest) -> None:
    w.compact_count(len(o.group_ids))
    for group_ids_item in o.group_ids:
        w.compact_string(group_ids_item, "ConsumerGroupDescribeRequest.group_ids")
    w.add(_o.pack(o.include_authorized_operations))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class TopicPartitions:
    """Part of ConsumerGroupDescribeResponse."""

    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Assignment:
    """Part of ConsumerGroupDescribeResponse."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Member:
    """Part of ConsumerGroupDescribeResponse."""

    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: int = -1  # v1+


@dataclass(slots=True, kw_only=True)
class DescribedGroup:
    """Part of ConsumerGroupDescribeResponse."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: int = -2147483648


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeResponse:
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)


def _read_topic_partitions_v0(r: Reader) -> TopicPartitions:
    (topic_id,) = r.take(_s, "TopicPartitions.topic_id")
    topic_name = r.compact_string("TopicPartitions.topic_name")
    partitions = r.numbers("i", r.compact_count(4, "TopicPartitions.partitions"))
    r.skip_tags("TopicPartitions")
    return TopicPartitions(topic_id=topic_id, topic_name=topic_name, partitions=partitions)


def _write_topic_partitions_v0(w: Writer, o: TopicPartitions) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_string(o.topic_name, "TopicPartitions.topic_name")
    w.compact_count(len(o.partitions))
    w.numbers("i", o.partitions)
    w.add(NO_TAGS)


def _read_assignment_v0(r: Reader) -> Assignment:
    topic_partitions = [_read_topic_partitions_v0(r) for _ in range(r.compact_count(19, "Assignment.topic_partitions"))]
    r.skip_tags("Assignment")
    return Assignment(topic_partitions=topic_partitions)


def _write_assignment_v0(w: Writer, o: Assignment) -> None:
    w.compact_count(len(o.topic_partitions))
    for topic_partitions_item in o.topic_partitions:
        _write_topic_partitions_v0(w, topic_partitions_item)
    w.add(NO_TAGS)


def _read_member_v0(r: Reader) -> Member:
    member_id = r.compact_string("Member.member_id")
    instance_id = r.compact_nullable_string("Member.instance_id")
    rack_id = r.compact_nullable_string("Member.rack_id")
    (member_epoch,) = r.take(_i, "Member.member_epoch")
    client_id = r.compact_string("Member.client_id")
    client_host = r.compact_string("Member.client_host")
    subscribed_topic_names = [
        r.compact_string("Member.subscribed_topic_names")
        for _ in range(r.compact_count(1, "Member.subscribed_topic_names"))
    ]
    subscribed_topic_regex = r.compact_nullable_string("Member.subscribed_topic_regex")
    assignment = _read_assignment_v0(r)
    target_assignment = _read_assignment_v0(r)
    r.skip_tags("Member")
    return Member(
        member_id=member_id,
        instance_id=instance_id,
        rack_id=rack_id,
        member_epoch=member_epoch,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=subscribed_topic_names,
        subscribed_topic_regex=subscribed_topic_regex,
        assignment=assignment,
        target_assignment=target_assignment,
    )


def _read_member_v1(r: Reader) -> Member:
    member_id = r.compact_string("Member.member_id")
    instance_id = r.compact_nullable_string("Member.instance_id")
    rack_id = r.compact_nullable_string("Member.rack_id")
    (member_epoch,) = r.take(_i, "Member.member_epoch")
    client_id = r.compact_string("Member.client_id")
    client_host = r.compact_string("Member.client_host")
    subscribed_topic_names = [
        r.compact_string("Member.subscribed_topic_names")
        for _ in range(r.compact_count(1, "Member.subscribed_topic_names"))
    ]
    subscribed_topic_regex = r.compact_nullable_string("Member.subscribed_topic_regex")
    assignment = _read_assignment_v0(r)
    target_assignment = _read_assignment_v0(r)
    (member_type,) = r.take(_b, "Member.member_type")
    r.skip_tags("Member")
    return Member(
        member_id=member_id,
        instance_id=instance_id,
        rack_id=rack_id,
        member_epoch=member_epoch,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=subscribed_topic_names,
        subscribed_topic_regex=subscribed_topic_regex,
        assignment=assignment,
        target_assignment=target_assignment,
        member_type=member_type,
    )


def _write_member_v0(w: Writer, o: Member) -> None:
    w.compact_string(o.member_id, "Member.member_id")
    w.compact_nullable_string(o.instance_id, "Member.instance_id")
    w.compact_nullable_string(o.rack_id, "Member.rack_id")
    w.add(_i.pack(o.member_epoch))
    w.compact_string(o.client_id, "Member.client_id")
    w.compact_string(o.client_host, "Member.client_host")
    w.compact_count(len(o.subscribed_topic_names))
    for subscribed_topic_names_item in o.subscribed_topic_names:
        w.compact_string(subscribed_topic_names_item, "Member.subscribed_topic_names")
    w.compact_nullable_string(o.subscribed_topic_regex, "Member.subscribed_topic_regex")
    _write_assignment_v0(w, o.assignment)
    _write_assignment_v0(w, o.target_assignment)
    w.add(NO_TAGS)


def _write_member_v1(w: Writer, o: Member) -> None:
    w.compact_string(o.member_id, "Member.member_id")
    w.compact_nullable_string(o.instance_id, "Member.instance_id")
    w.compact_nullable_string(o.rack_id, "Member.rack_id")
    w.add(_i.pack(o.member_epoch))
    w.compact_string(o.client_id, "Member.client_id")
    w.compact_string(o.client_host, "Member.client_host")
    w.compact_count(len(o.subscribed_topic_names))
    for subscribed_topic_names_item in o.subscribed_topic_names:
        w.compact_string(subscribed_topic_names_item, "Member.subscribed_topic_names")
    w.compact_nullable_string(o.subscribed_topic_regex, "Member.subscribed_topic_regex")
    _write_assignment_v0(w, o.assignment)
    _write_assignment_v0(w, o.target_assignment)
    w.add(_b.pack(o.member_type))
    w.add(NO_TAGS)


def _read_described_group_v0(r: Reader) -> DescribedGroup:
    (error_code,) = r.take(_h, "DescribedGroup.error_code")
    error_message = r.compact_nullable_string("DescribedGroup.error_message")
    group_id = r.compact_string("DescribedGroup.group_id")
    group_state = r.compact_string("DescribedGroup.group_state")
    group_epoch, assignment_epoch = r.take(_ii, "DescribedGroup.group_epoch,assignment_epoch")
    assignor_name = r.compact_string("DescribedGroup.assignor_name")
    members = [_read_member_v0(r) for _ in range(r.compact_count(16, "DescribedGroup.members"))]
    (authorized_operations,) = r.take(_i, "DescribedGroup.authorized_operations")
    r.skip_tags("DescribedGroup")
    return DescribedGroup(
        error_code=error_code,
        error_message=error_message,
        group_id=group_id,
        group_state=group_state,
        group_epoch=group_epoch,
        assignment_epoch=assignment_epoch,
        assignor_name=assignor_name,
        members=members,
        authorized_operations=authorized_operations,
    )


def _read_described_group_v1(r: Reader) -> DescribedGroup:
    (error_code,) = r.take(_h, "DescribedGroup.error_code")
    error_message = r.compact_nullable_string("DescribedGroup.error_message")
    group_id = r.compact_string("DescribedGroup.group_id")
    group_state = r.compact_string("DescribedGroup.group_state")
    group_epoch, assignment_epoch = r.take(_ii, "DescribedGroup.group_epoch,assignment_epoch")
    assignor_name = r.compact_string("DescribedGroup.assignor_name")
    members = [_read_member_v1(r) for _ in range(r.compact_count(17, "DescribedGroup.members"))]
    (authorized_operations,) = r.take(_i, "DescribedGroup.authorized_operations")
    r.skip_tags("DescribedGroup")
    return DescribedGroup(
        error_code=error_code,
        error_message=error_message,
        group_id=group_id,
        group_state=group_state,
        group_epoch=group_epoch,
        assignment_epoch=assignment_epoch,
        assignor_name=assignor_name,
        members=members,
        authorized_operations=authorized_operations,
    )


def _write_described_group_v0(w: Writer, o: DescribedGroup) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "DescribedGroup.error_message")
    w.compact_string(o.group_id, "DescribedGroup.group_id")
    w.compact_string(o.group_state, "DescribedGroup.group_state")
    w.add(_ii.pack(o.group_epoch, o.assignment_epoch))
    w.compact_string(o.assignor_name, "DescribedGroup.assignor_name")
    w.compact_count(len(o.members))
    for members_item in o.members:
        _write_member_v0(w, members_item)
    w.add(_i.pack(o.authorized_operations))
    w.add(NO_TAGS)


def _write_described_group_v1(w: Writer, o: DescribedGroup) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "DescribedGroup.error_message")
    w.compact_string(o.group_id, "DescribedGroup.group_id")
    w.compact_string(o.group_state, "DescribedGroup.group_state")
    w.add(_ii.pack(o.group_epoch, o.assignment_epoch))
    w.compact_string(o.assignor_name, "DescribedGroup.assignor_name")
    w.compact_count(len(o.members))
    for members_item in o.members:
        _write_member_v1(w, members_item)
    w.add(_i.pack(o.authorized_operations))
    w.add(NO_TAGS)


def _read_consumer_group_describe_response_v0(r: Reader) -> ConsumerGroupDescribeResponse:
    (throttle_time_ms,) = r.take(_i, "ConsumerGroupDescribeResponse.throttle_time_ms")
    groups = [_read_described_group_v0(r) for _ in range(r.compact_count(20, "ConsumerGroupDescribeResponse.groups"))]
    r.skip_tags("ConsumerGroupDescribeResponse")
    return ConsumerGroupDescribeResponse(throttle_time_ms=throttle_time_ms, groups=groups)


def _read_consumer_group_describe_response_v1(r: Reader) -> ConsumerGroupDescribeResponse:
    (throttle_time_ms,) = r.take(_i, "ConsumerGroupDescribeResponse.throttle_time_ms")
    groups = [_read_described_group_v1(r) for _ in range(r.compact_count(20, "ConsumerGroupDescribeResponse.groups"))]
    r.skip_tags("ConsumerGroupDescribeResponse")
    return ConsumerGroupDescribeResponse(throttle_time_ms=throttle_time_ms, groups=groups)


def _write_consumer_group_describe_response_v0(w: Writer, o: ConsumerGroupDescribeResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_described_group_v0(w, groups_item)
    w.add(NO_TAGS)


def _write_consumer_group_describe_response_v1(w: Writer, o: ConsumerGroupDescribeResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_described_group_v1(w, groups_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "ConsumerGroupDescribeRequest",
    0,
    (
        _read_consumer_group_describe_request_v0,
        _read_consumer_group_describe_request_v0,
    ),
    (
        _write_consumer_group_describe_request_v0,
        _write_consumer_group_describe_request_v0,
    ),
)

RESPONSE: Final = Codec(
    "ConsumerGroupDescribeResponse",
    0,
    (
        _read_consumer_group_describe_response_v0,
        _read_consumer_group_describe_response_v1,
    ),
    (
        _write_consumer_group_describe_response_v0,
        _write_consumer_group_describe_response_v1,
    ),
)
