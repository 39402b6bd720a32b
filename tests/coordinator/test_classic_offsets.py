"""Stories of classic groups: commits, descriptions, deletion, and members of the other protocol."""

from __future__ import annotations

import pytest
from classic_support import DELAY_MS, SESSION_MS, ClassicMember, ClassicShard, code_of, commit, reads, settle, stable
from group_support import GROUP

from raftlog.coordinator.group.administration import decide_classic_description, decide_deletion, decide_description
from raftlog.coordinator.group.classic_requests import Leaver
from raftlog.coordinator.group.offsets import decide_offset_deletion, decide_transactional_commit
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.model import TopicPartition
from raftlog.wire.groups import CommitOffset, OffsetCommitRequest, OffsetDeleteRequest, TopicPartitions
from raftlog.wire.kafka.consumer_protocol import encode_assignment
from raftlog.wire.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)


def test_members_commit_in_their_generation_and_others_do_not():
    shard, (a, b) = stable(2)
    commit(shard, 1, a.member_id, 1)
    for member, generation, code in (
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (a.member_id, 0, ErrorCode.ILLEGAL_GENERATION),
        (a.member_id, 2, ErrorCode.ILLEGAL_GENERATION),
        (a.member_id, -1, ErrorCode.ILLEGAL_GENERATION),
    ):
        assert code_of(commit, shard, 2, member, generation) is code
    shard.join()
    commit(shard, 3, a.member_id, 1)  # While members join, the last generation still commits.
    a.step()
    a.step()
    b.step()
    b.step()
    assert shard.classic.phase == "CompletingRebalance"
    assert code_of(commit, shard, 4, a.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    pend(shard, 5, a.member_id, 2)  # In a transaction, as in Kafka: this error would end it.
    assert code_of(pend, shard, 5, a.member_id, 1) is ErrorCode.ILLEGAL_GENERATION
    assert shard.committed() == {TopicPartition("t", 0): 3}


def pend(shard: ClassicShard, offset: int, member_id: str, generation: int) -> None:
    """Commit in a transaction."""
    asked = CommitOffset(topic="t", partition=0, offset=offset)
    request = OffsetCommitRequest(offsets=(asked,), member_id=member_id, member_epoch=generation)
    shard.run(
        decide_transactional_commit,
        GROUP,
        request,
        producer_id=7,
        producer_epoch=1,
        topics=shard.topics,
        settings=shard.settings,
    )


def test_a_client_with_an_id_and_no_generation_commits_for_an_empty_group():
    shard, (a,) = stable(1)
    assert code_of(commit, shard, 1, "mine") is ErrorCode.UNKNOWN_MEMBER_ID
    shard.leave(Leaver(member_id=a.member_id))
    commit(shard, 2, "mine")
    assert shard.committed() == {TopicPartition("t", 0): 2}


def test_a_commit_keeps_the_session():
    shard, (a,) = stable(1)
    for offset in range(4):
        shard.pass_time(SESSION_MS - 2_000)
        commit(shard, offset, a.member_id, 1)
    assert a.member_id in shard.classic.members


def test_an_empty_group_is_continued_by_the_other_protocol_with_its_offsets():
    shard, (a,) = stable(1)
    commit(shard, 7, a.member_id, 1)
    with pytest.raises(InvalidRequestError) as other:
        shard.heartbeat("x", 0, topics=("t",), owned=())
    assert other.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    shard.leave(Leaver(member_id=a.member_id))
    shard.heartbeat("x", 0, topics=("t",), owned=())
    assert (GROUP in shard.state.classic, shard.committed()) == (False, {TopicPartition("t", 0): 7})
    assert code_of(shard.join) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code_of(shard.beat, a.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    shard.heartbeat("x", -1)
    settle([a])
    assert (GROUP in shard.state.groups, shard.committed()) == (False, {TopicPartition("t", 0): 7})
    before = (shard.state.groups, shard.state.classic)
    shard.fail_over(compacted=True)
    assert (shard.state.groups, shard.state.classic) == before


def test_an_administrator_removes_members_of_the_other_protocol():
    shard = ClassicShard()
    shard.heartbeat("x", 0, topics=("t",), owned=(), instance_id="i")
    shard.heartbeat("y", 0, topics=("t",), owned=())
    result = shard.leave(Leaver(instance_id="i"), Leaver(instance_id="i"), Leaver(member_id="z"))
    assert result == [None, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(shard.group.members) == {"y"}


def test_a_consumers_group_is_described_with_topics_and_partitions():
    shard = ClassicShard()
    a, _ = shard.join(protocols=(("range", reads("t", "u")),), client_id="c", client_host="h")
    assert shard.run(decide_classic_description, GROUP).phase == "PreparingRebalance"
    shard.pass_time(DELAY_MS)
    part = ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[0, 2])
    plan = encode_assignment(1, ConsumerProtocolAssignment(assigned_partitions=[part]))
    shard.sync(a.member_id, 1, assignments=((a.member_id, plan),))
    seen = shard.run(decide_description, GROUP, 5)
    assert (seen.kind, seen.phase, seen.epoch, seen.assignor, seen.coordinator) == ("classic", "Stable", 1, "range", 5)
    (member,) = seen.members
    assert (member.topics, member.assignment) == (("t", "u"), (TopicPartitions(topic="t", partitions=(0, 2)),))
    raw = shard.run(decide_classic_description, GROUP)
    assert [(one.metadata, one.assignment) for one in raw.members] == [(reads("t", "u"), plan)]


def test_bytes_that_are_no_subscription_are_described_without_topics():
    shard, (_a, _) = stable(2)
    assert [member.topics for member in shard.run(decide_description, GROUP, 5).members] == [(), ()]


def test_a_group_with_members_is_not_deleted_nor_are_offsets_that_they_may_need():
    shard = ClassicShard()
    a = ClassicMember(shard, protocols=(("range", reads("t")),))
    settle([a])
    commit(shard, 1, a.member_id, 1)
    assert code_of(shard.run, decide_deletion, GROUP) is ErrorCode.NON_EMPTY_GROUP
    request = OffsetDeleteRequest(partitions=(TopicPartitions(topic="t", partitions=(0,)),))
    (result,) = shard.run(decide_offset_deletion, GROUP, request).offsets
    assert result.error is not None
    assert result.error.code == "GROUP_SUBSCRIBED_TO_TOPIC"
    shard.pass_time(shard.settings.offsets_retention_ms // 2)
    shard.leave(Leaver(member_id=a.member_id))
    shard.run(decide_deletion, GROUP)
    assert (shard.state.classic, shard.state.offsets) == ({}, {})
    with pytest.raises(NotFoundError):
        shard.run(decide_classic_description, GROUP)


def test_groups_of_other_protocol_types_keep_all_offsets_while_they_have_members():
    shard = ClassicShard()
    a = ClassicMember(shard, wishes={"protocol_type": "connect"})
    settle([a])
    commit(shard, 1, a.member_id, 1)
    request = OffsetDeleteRequest(partitions=(TopicPartitions(topic="t", partitions=(0,)),))
    assert code_of(shard.run, decide_offset_deletion, GROUP, request) is ErrorCode.NON_EMPTY_GROUP
    for _ in range(3):
        shard.now_ms += shard.settings.offsets_retention_ms
        shard.state.classic_times[GROUP].sessions[a.member_id] = shard.now_ms + SESSION_MS
        shard.pass_time(0)
    assert shard.committed() == {TopicPartition("t", 0): 1}


def test_an_empty_group_goes_with_its_last_offset():
    shard, (a,) = stable(1)
    commit(shard, 1, a.member_id, 1)
    shard.leave(Leaver(member_id=a.member_id))
    shard.pass_time(shard.settings.offsets_retention_check_interval_ms)
    assert GROUP in shard.state.classic
    shard.pass_time(shard.settings.offsets_retention_ms)
    shard.pass_time(shard.settings.offsets_retention_check_interval_ms)
    assert (shard.state.offsets, shard.state.classic, shard.state.classic_times) == ({}, {}, {})
