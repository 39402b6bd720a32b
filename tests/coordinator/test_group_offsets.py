"""Stories of consumer groups: the right to commit, offsets of transactions, expiry, descriptions and deletion."""

from __future__ import annotations

import pytest
from group_support import GROUP, FakeTopics, Member, Shard, settle

from raftlog.coordinator.group.administration import decide_deletion, decide_description, list_groups
from raftlog.coordinator.group.offsets import (
    decide_commit,
    decide_end_of_transaction,
    decide_fetch,
    decide_offset_deletion,
    decide_transactional_commit,
)
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.runtime import Now
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, NotFoundError, RaftlogError
from raftlog.model import TopicPartition
from raftlog.wire.groups import (
    CommitOffset,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TopicPartitions,
)


def code_of(results) -> str | None:
    (result,) = results.offsets
    return result.error.code if result.error else None


def test_commits_are_fenced_by_the_member_epoch():
    shard = Shard()
    a, b = Member(shard, "a"), Member(shard, "b")
    settle([a, b])
    mine, others = min(a.owned).partition, min(b.owned).partition
    assert code_of(shard.commit(5, member="a", epoch=2, partition=mine, metadata="m", leader_epoch=3)) is None
    for member, epoch, code in (
        ("a", 1, "STALE_MEMBER_EPOCH"),
        ("a", 3, "FENCED_MEMBER_EPOCH"),
        ("nobody", 2, "UNKNOWN_MEMBER_ID"),
        ("", -1, "UNKNOWN_MEMBER_ID"),
    ):
        with pytest.raises(FencedError) as fenced:
            shard.commit(6, member=member, epoch=epoch, partition=mine)
        assert fenced.value.code == code
    assert code_of(shard.commit(6, member="a", epoch=2, partition=others)) == "STALE_MEMBER_EPOCH"
    assert code_of(shard.commit(6, member="a", epoch=2, topic="none")) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert code_of(shard.commit(-5, member="a", epoch=2, partition=mine)) == "INVALID_REQUEST"
    assert code_of(shard.commit(6, member="a", epoch=2, partition=mine, metadata="x" * 5_000)) == (
        "OFFSET_METADATA_TOO_LARGE"
    )
    assert shard.committed() == {TopicPartition("t", mine): 5}


def test_groups_without_members_commit_freely():
    shard = Shard()
    shard.commit(5)
    shard.commit(6, partition=1)
    assert shard.committed() == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    wanted = (TopicPartitions(topic="t", partitions=(0, 3)),)
    assert shard.committed(partitions=wanted) == {TopicPartition("t", 0): 5, TopicPartition("t", 3): -1}
    assert [(group.group_id, group.phase) for group in list_groups(shard.state, 1)] == [(GROUP, "Empty")]


def test_a_consumer_that_assigns_partitions_itself_commits_with_the_id_that_it_chose():
    """librdkafka sends its own id (KIP-1082) and no epoch, also before it has joined."""
    shard = Shard()
    shard.commit(5, member="mine", epoch=-1)
    assert [one.offset for one in shard.fetched(member_id="mine", member_epoch=-1)] == [5]
    member = Member(shard, "a")
    member.beat()
    for action in (
        lambda: shard.commit(6, member="mine", epoch=-1),
        lambda: shard.fetched(member_id="mine", member_epoch=-1),
    ):
        with pytest.raises(FencedError) as fenced:
            action()
        assert fenced.value.code == "UNKNOWN_MEMBER_ID"


def test_a_recreated_topic_has_no_offsets():
    shard = Shard(offsets_retention_check_interval_ms=1_000)
    shard.commit(5)
    shard.topics.set("t", 4, topic_id="f" * 32)
    assert shard.committed(partitions=(TopicPartitions(topic="t", partitions=(0,)),)) == {TopicPartition("t", 0): -1}
    shard.pass_time(1_000)
    assert shard.state.offsets == {}


def test_offsets_expire_once_nobody_needs_them():
    shard = Shard(FakeTopics(t=2, u=1), offsets_retention_ms=10_000, offsets_retention_check_interval_ms=1_000)
    a = Member(shard, "a")
    a.beat()
    shard.commit(5, member="a", epoch=1)
    shard.commit(5, member="a", epoch=1, topic="u")
    shard.pass_time(11_000)
    shard.pass_time(0)
    assert set(shard.committed()) == {TopicPartition("t", 0)}  # What is read stays; of u nobody reads.
    a.leave()
    shard.pass_time(9_000)
    assert set(shard.committed()) == {TopicPartition("t", 0)}
    shard.pass_time(2_000)
    assert shard.committed() == {}
    shard.pass_time(1_000)
    assert shard.state.groups == {}


def test_offsets_of_transactions_take_effect_when_they_commit():
    shard = Shard()

    def pend(offset: int, epoch: int, partition: int = 0) -> None:
        asked = (CommitOffset(topic="t", partition=partition, offset=offset),)
        shard.run(
            decide_transactional_commit,
            GROUP,
            OffsetCommitRequest(offsets=asked),
            producer_id=9,
            producer_epoch=epoch,
            topics=shard.topics,
            settings=shard.settings,
        )

    def end(epoch: int, *, commit: bool) -> int:
        return shard.run(decide_end_of_transaction, producer_id=9, producer_epoch=epoch, commit=commit)

    pend(5, epoch=1)
    pend(6, epoch=1, partition=1)
    assert shard.committed() == {}
    with pytest.raises(NotFoundError, match="there is no group"):
        shard.run(decide_deletion, GROUP)
    shard.fail_over(compacted=True)
    assert end(0, commit=False) == 0  # A late marker of an earlier transaction.
    assert end(1, commit=True) == 0
    assert end(1, commit=True) == 0
    assert shard.committed() == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    pend(8, epoch=2)
    with pytest.raises(FencedError) as zombie:
        pend(9, epoch=1)
    assert zombie.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(InvalidRequestError) as open_:
        shard.run(decide_deletion, GROUP)
    assert open_.value.code is ErrorCode.NON_EMPTY_GROUP
    stable = shard.fetched(require_stable=True)
    assert [item.error.code if item.error else item.offset for item in stable] == ["UNSTABLE_OFFSET_COMMIT", 6]
    assert end(3, commit=False) == 0
    assert shard.committed()[TopicPartition("t", 0)] == 5


def test_offsets_are_shown_only_by_a_confirmed_leader():
    """A coordinator that is cut off from the controllers does not know what its successor has committed."""
    shard = Shard()
    shown = decide_fetch(shard.state, shard.now, GROUP, OffsetFetchRequest())
    assert shown.is_confirmed


def test_groups_are_described_and_deleted():
    shard = Shard()
    a = Member(shard, "a", wishes={"client_id": "me", "assignor": "range"})
    a.beat()
    shard.commit(3, member="a", epoch=1)
    described = shard.run(decide_description, GROUP, 1)
    assert (described.phase, described.assignor, described.topics) == ("Stable", "range", {"t": 4})
    assert [(m.member_id, m.client_id, m.assignment == m.target) for m in described.members] == [("a", "me", True)]
    with pytest.raises(InvalidRequestError) as alive:
        shard.run(decide_deletion, GROUP)
    assert alive.value.code is ErrorCode.NON_EMPTY_GROUP
    wanted = OffsetDeleteRequest(partitions=(TopicPartitions(topic="t", partitions=(0,)),))
    assert code_of(shard.run(decide_offset_deletion, GROUP, wanted)) == "GROUP_SUBSCRIBED_TO_TOPIC"
    a.leave()
    assert code_of(shard.run(decide_offset_deletion, GROUP, wanted)) is None
    assert shard.committed() == {}
    shard.commit(1, partition=1)
    shard.run(decide_deletion, GROUP)
    assert (shard.state.groups, shard.state.offsets) == ({}, {})
    for decide, more in ((decide_deletion, ()), (decide_description, (1,)), (decide_offset_deletion, (wanted,))):
        with pytest.raises(RaftlogError) as gone:
            shard.run(decide, GROUP, *more)
        assert gone.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    shard.fail_over(compacted=True)
    assert list_groups(shard.state, 1) == []


def test_requests_are_bounded():
    shard = Shard()
    asked = tuple(CommitOffset(topic="t", partition=0, offset=1) for _ in range(10_001))
    with pytest.raises(InvalidRequestError, match="at most 10000"):
        shard.run(
            decide_commit, GROUP, OffsetCommitRequest(offsets=asked), topics=shard.topics, settings=shard.settings
        )
    with pytest.raises(InvalidRequestError) as name:
        shard.run(decide_commit, "", OffsetCommitRequest(offsets=()), topics=shard.topics, settings=shard.settings)
    assert name.value.code is ErrorCode.INVALID_GROUP_ID


def test_offsets_of_every_open_transaction_are_unstable():
    shard = Shard()
    for producer, partition in ((9, 0), (8, 1), (7, 2)):
        asked = (CommitOffset(topic="t", partition=partition, offset=5),)
        shard.run(
            decide_transactional_commit,
            GROUP,
            OffsetCommitRequest(offsets=asked),
            producer_id=producer,
            producer_epoch=1,
            topics=shard.topics,
            settings=shard.settings,
        )
    wanted = (TopicPartitions(topic="t", partitions=(0, 1, 2, 3)),)
    answer = shard.fetched(require_stable=True, partitions=wanted)
    codes = [item.error.code if item.error else item.offset for item in answer]
    assert codes == ["UNSTABLE_OFFSET_COMMIT", "UNSTABLE_OFFSET_COMMIT", "UNSTABLE_OFFSET_COMMIT", -1]


def test_a_late_commit_is_refused_from_when_its_partition_is_anothers_stable_or_not():
    """b has been given a partition of a's, and still has one to give up to c: it reads already."""
    shard = Shard(FakeTopics(t=6))
    a, b, c = Member(shard, "a"), Member(shard, "b"), Member(shard, "c")
    settle([a, b])
    before = set(a.owned)
    b.slow = True
    c.beat()
    for _ in range(4):
        a.beat()
        b.beat()
        c.beat()
    moved = min(before - a.owned)
    owner = shard.group.owners[moved]
    assert owner == "c"
    assert shard.group.current["b"].state == "unrevoked"
    assert shard.group.phase == "Reconciling"
    late = shard.commit(6, member="a", epoch=a.epoch, partition=moved.partition)
    assert code_of(late) == "STALE_MEMBER_EPOCH"
    kept = min(b.owned - b.target)  # What b has not given up is b's, whatever its state.
    assert code_of(shard.commit(6, member="c", epoch=c.epoch, partition=kept.partition)) == "STALE_MEMBER_EPOCH"
    assert code_of(shard.commit(6, member="b", epoch=b.epoch, partition=kept.partition)) is None


def test_offsets_that_a_transaction_is_about_to_commit_do_not_expire():
    shard = Shard(offsets_retention_ms=10_000, offsets_retention_check_interval_ms=1_000)
    shard.commit(5)
    asked = OffsetCommitRequest(offsets=(CommitOffset(topic="t", partition=0, offset=6),))
    more = {"topics": shard.topics, "settings": shard.settings}
    shard.run(decide_transactional_commit, GROUP, asked, producer_id=9, producer_epoch=1, **more)

    shard.pass_time(20_000)

    assert shard.committed() == {TopicPartition("t", 0): 5}


def test_an_end_without_pending_offsets_is_confirmed():
    """A coordinator that was replaced has none, and answered. Its successor never got the marker."""
    end = decide_end_of_transaction(GroupsState(), Now(0, 0), producer_id=9, producer_epoch=0, commit=True)
    assert (end.records, end.response, end.is_confirmed) == ([], 0, True)


def id_of_t(shard: Shard) -> str:
    """Return the id of the topic `t` as it is now."""
    known = shard.topics.get("t")
    assert known is not None
    return known.topic_id


def test_a_commit_of_a_topic_that_was_created_again_is_refused():
    shard = Shard()
    old = id_of_t(shard)
    assert code_of(shard.commit(5, topic_id=old)) is None
    shard.topics.set("t", 4, topic_id="f" * 32)
    assert code_of(shard.commit(5_000, topic_id=old)) == "UNKNOWN_TOPIC_ID"
    assert shard.state.offsets[GROUP][TopicPartition("t", 0)].offset == 5
    assert code_of(shard.commit(7, topic_id="f" * 32)) is None
    assert code_of(shard.commit(8, partition=1)) is None, "clients that do not know the id commit as before"
    assert shard.committed() == {TopicPartition("t", 0): 7, TopicPartition("t", 1): 8}
    shard.topics.set("t", None)
    assert code_of(shard.commit(9, topic_id="f" * 32)) == "UNKNOWN_TOPIC_ID", "the metadata may be behind"
    assert code_of(shard.commit(9)) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_partition_that_the_topic_has_no_longer_is_refused_by_its_id_first():
    shard = Shard()
    old = id_of_t(shard)
    shard.topics.set("t", 1, topic_id="f" * 32)
    assert code_of(shard.commit(5, partition=3, topic_id=old)) == "UNKNOWN_TOPIC_ID"
    assert code_of(shard.commit(5, partition=3, topic_id="f" * 32)) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_other_partitions_of_a_commit_are_stored():
    shard = Shard(FakeTopics(t=1, u=1))
    old = id_of_t(shard)
    shard.topics.set("t", 1, topic_id="f" * 32)
    asked = (
        CommitOffset(topic="t", partition=0, offset=5_000, topic_id=old),
        CommitOffset(topic="u", partition=0, offset=6),
    )
    request = OffsetCommitRequest(offsets=asked)
    results = shard.run(decide_commit, GROUP, request, topics=shard.topics, settings=shard.settings).offsets
    assert [one.error and one.error.code for one in results] == ["UNKNOWN_TOPIC_ID", None]
    assert shard.committed() == {TopicPartition("u", 0): 6}


def pend(shard: Shard, offset: int, *, topic_id: str = "", partitions: tuple[int, ...] = (0,)):
    asked = tuple(CommitOffset(topic="t", partition=one, offset=offset, topic_id=topic_id) for one in partitions)
    return shard.run(
        decide_transactional_commit,
        GROUP,
        OffsetCommitRequest(offsets=asked),
        producer_id=9,
        producer_epoch=1,
        topics=shard.topics,
        settings=shard.settings,
    )


def test_offsets_of_a_transaction_for_a_topic_that_was_created_again_are_refused_all_together():
    shard = Shard()
    old = id_of_t(shard)
    shard.topics.set("t", 4, topic_id="f" * 32)
    asked = (
        CommitOffset(topic="t", partition=1, offset=6, topic_id="f" * 32),
        CommitOffset(topic="t", partition=0, offset=5_000, topic_id=old),
    )
    results = shard.run(
        decide_transactional_commit,
        GROUP,
        OffsetCommitRequest(offsets=asked),
        producer_id=9,
        producer_epoch=1,
        topics=shard.topics,
        settings=shard.settings,
    )
    assert [one.error and one.error.code for one in results.offsets] == [None, "UNKNOWN_TOPIC_ID"]
    assert shard.state.pending == {}


@pytest.mark.parametrize("by_id", [True, False], ids=["new client", "old client"])
def test_a_transaction_that_read_the_deleted_topic_does_not_replace_offsets_of_the_new_one(by_id: bool):
    shard = Shard()
    pend(shard, 5_000, topic_id=id_of_t(shard) if by_id else "", partitions=(0, 1))
    shard.topics.set("t", 4, topic_id="f" * 32)
    shard.commit(7, topic_id="f" * 32)
    assert len(shard.state.pending[9]) == 1, "the newer commit replaced the other one"
    shard.run(decide_end_of_transaction, producer_id=9, producer_epoch=1, commit=True)
    assert shard.committed() == {TopicPartition("t", 0): 7, TopicPartition("t", 1): -1}


def test_committed_offsets_name_their_topic():
    shard = Shard()
    shard.commit(5)
    found = shard.fetched(partitions=(TopicPartitions(topic="t", partitions=(0, 1)),))
    assert [(one.offset, one.topic_id) for one in found] == [(5, id_of_t(shard)), (-1, "")]
