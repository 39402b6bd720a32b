"""Stories of consumer groups: joining, moving, leaving, going silent, rejoining, and the right to commit."""

from __future__ import annotations

import pytest
from group_support import GROUP, FakeTopics, Member, Shard, settle

from raftlog.coordinator.group.administration import decide_deletion, decide_description, list_groups
from raftlog.coordinator.group.membership import decide_heartbeat, has_changes
from raftlog.coordinator.group.offsets import (
    decide_commit,
    decide_end_of_transaction,
    decide_fetch,
    decide_offset_deletion,
    decide_transactional_commit,
)
from raftlog.coordinator.group.records import CurrentChanged
from raftlog.coordinator.group.state import Group
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, NotFoundError, RaftlogError
from raftlog.model import TopicPartition
from raftlog.wire.groups import (
    LEAVE_EPOCH,
    CommitOffset,
    GroupHeartbeatRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TopicPartitions,
    by_topic,
)


def t(*numbers: int) -> set[TopicPartition]:
    return {TopicPartition("t", number) for number in numbers}


def test_the_first_member_gets_everything_at_once():
    shard = Shard()
    answer = shard.heartbeat("a", 0, topics=("t",), owned=())
    assert (answer.member_epoch, answer.assignment) == (1, by_topic(t(0, 1, 2, 3)))
    assert shard.group.phase == "Stable"
    again = len(shard.log)
    shard.heartbeat("a", 1, owned=answer.assignment)
    assert len(shard.log) == again  # A heartbeat without news writes nothing.


def test_partitions_are_given_up_before_anybody_else_receives_them():
    shard = Shard()
    a, b = Member(shard, "a"), Member(shard, "b")
    a.beat()
    a.slow = True
    b.beat()
    assert (b.epoch, b.owned) == (2, set())  # In the epoch at once, with nothing: a has not given up anything.
    a.beat()
    assert a.owned == t(0, 1, 2, 3)
    assert len(a.target) == 2
    b.beat()
    assert b.owned == set()
    assert shard.group.phase == "Reconciling"

    a.slow = False
    a.reconcile()
    kept = set(a.owned)
    b.beat()
    assert b.owned == set()  # a has given up, but has not said so yet.
    a.beat()
    b.beat()
    assert (a.owned, b.owned) == (kept, t(0, 1, 2, 3) - kept)
    assert (a.epoch, b.epoch, shard.group.phase) == (2, 2, "Stable")


def test_only_partitions_that_move_stop():
    shard = Shard(FakeTopics(t=6))
    members = [Member(shard, name) for name in "abc"]
    settle(members[:2])
    before = [set(member.owned) for member in members[:2]]
    settle(members)
    for member, had in zip(members, before, strict=False):
        assert len(member.owned) == 2
        assert member.owned < had


def test_who_leaves_makes_room_for_the_others():
    shard = Shard()
    a, b = Member(shard, "a"), Member(shard, "b")
    settle([a, b])
    a.leave()
    b.beat()
    assert b.owned == t(0, 1, 2, 3)
    with pytest.raises(FencedError) as unknown:
        shard.heartbeat("a", 2, owned=())
    assert unknown.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    b.leave()
    assert shard.group.phase == "Empty"


def test_silence_ends_a_membership():
    shard = Shard()
    a, b = Member(shard, "a"), Member(shard, "b", wishes={"session_timeout_ms": 6_000})
    settle([a, b])
    shard.pass_time(6_000)
    a.beat()
    assert a.owned == t(0, 1, 2, 3)
    b.beat()
    assert b.epoch == 0  # It was told, gave everything up, and joins with its next heartbeat.
    settle([a, b])
    assert (len(a.owned), len(b.owned)) == (2, 2)


def test_who_leaves_while_nothing_can_be_written_goes_with_its_session():
    shard = Shard()
    a, b = Member(shard, "a", wishes={"session_timeout_ms": 6_000}), Member(shard, "b")
    settle([a, b])
    request = GroupHeartbeatRequest(member_id="a", member_epoch=LEAVE_EPOCH)
    refused = decide_heartbeat(shard.state, shard.now, GROUP, request, topics=shard.topics, settings=shard.settings)
    assert refused.records
    shard.pass_time(6_000)
    b.beat()
    assert b.owned == t(0, 1, 2, 3)


def test_who_does_not_give_up_in_time_is_expelled():
    shard = Shard()
    a, b = Member(shard, "a", wishes={"rebalance_timeout_ms": 10_000}), Member(shard, "b")
    a.beat()
    a.slow = True
    b.beat()
    for _ in range(4):
        a.beat()
        b.beat()
        assert b.owned == set()
        shard.pass_time(2_500)
    b.beat()
    assert b.owned == t(0, 1, 2, 3)
    a.beat()
    assert a.epoch == 0


def test_a_lost_answer_does_not_fence():
    shard = Shard()
    a, b = Member(shard, "a"), Member(shard, "b")
    a.beat()
    b.beat()
    a.beat()  # It gives up two.
    a.beat(lose_answer=True)
    assert shard.group.current["a"].epoch == 2
    for _ in range(3):
        shard.heartbeat("c", 0, topics=("t",), owned=())
        a.beat(lose_answer=True)  # However often: it is told of one step at a time.
        assert shard.group.current["a"].epoch == 2
        assert a.epoch == 1
        shard.heartbeat("c", -1)
    a.beat()
    assert a.epoch == 2
    with pytest.raises(FencedError) as old:
        shard.heartbeat("a", 0 + 99, owned=())
    assert old.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert old.value.details == {"member_epoch": 2}


def test_a_sign_of_life_keeps_a_member_that_has_not_heard_of_its_newest_epoch_and_grants_nothing():
    shard = Shard()
    a, b = Member(shard, "a", wishes={"session_timeout_ms": 6_000}), Member(shard, "b")
    settle([a, b])
    b.leave()
    a.beat(lose_answer=True)
    before = len(shard.log)
    for _ in range(3):
        shard.pass_time(4_000)
        answer = shard.heartbeat("a", a.epoch)
        assert answer.member_epoch == a.epoch + 1
    assert len(shard.log) == before
    a.beat()
    assert a.owned == t(0, 1, 2, 3)


def test_who_joins_again_owns_nothing_and_gets_its_partitions_back():
    shard = Shard()
    a = Member(shard, "a")
    a.beat()
    epoch = shard.group.epoch
    a.epoch, a.owned = 0, set()
    a.beat()
    assert a.owned == t(0, 1, 2, 3)
    assert shard.group.epoch == epoch


def test_a_static_member_that_comes_back_disturbs_nobody():
    shard = Shard()
    a, b = Member(shard, "a", wishes={"instance_id": "one"}), Member(shard, "b")
    settle([a, b])
    had, epoch = set(a.owned), shard.group.epoch
    with pytest.raises(InvalidRequestError) as in_use:
        shard.heartbeat("x", 0, instance_id="one", topics=("t",), owned=())
    assert in_use.value.code is ErrorCode.UNRELEASED_INSTANCE_ID

    shard.heartbeat("a", -2, instance_id="one")
    b.beat()
    assert len(b.owned) == 2
    back = Member(shard, "a2", wishes={"instance_id": "one"})
    back.beat()

    assert (back.owned, back.epoch, shard.group.epoch) == (had, epoch, epoch)
    with pytest.raises(FencedError) as replaced:
        shard.heartbeat("a", 2, instance_id="one", owned=())
    assert replaced.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_loses_its_partitions_with_its_session():
    shard = Shard()
    a = Member(shard, "a", wishes={"instance_id": "one", "session_timeout_ms": 9_000})
    b = Member(shard, "b")
    settle([a, b])
    shard.heartbeat("a", -2, instance_id="one")
    shard.pass_time(9_000)
    b.beat()
    assert b.owned == t(0, 1, 2, 3)


def test_new_partitions_and_topics_are_assigned():
    shard = Shard(FakeTopics(t=2))
    a, b = Member(shard, "a", topics=("t", "later")), Member(shard, "b")
    settle([a, b])
    shard.topics.set("t", 4)
    shard.topics.set("later", 1)
    settle([a, b])
    assert a.owned | b.owned == shard.topics.partitions
    assert TopicPartition("later", 0) in a.owned
    shard.topics.set("later", None)
    settle([a, b])
    assert a.owned | b.owned == t(0, 1, 2, 3)


def test_patterns_are_resolved_by_the_server():
    shard = Shard(FakeTopics(flights_1=1, flights_2=1, other=1))
    a = Member(shard, "a", topics=(), wishes={"pattern": "flights_.*"})
    a.beat()
    assert {partition.topic for partition in a.owned} == {"flights_1", "flights_2"}
    shard.topics.set("flights_3", 2)
    settle([a])
    assert len(a.owned) == 4
    with pytest.raises(InvalidRequestError) as wrong:
        shard.heartbeat("b", 0, pattern="(", owned=())
    assert wrong.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_failover_forgets_nothing_and_gives_everybody_a_whole_session():
    shard = Shard()
    a, b = Member(shard, "a"), Member(shard, "b")
    settle([a, b])
    shard.commit(7, member="a", epoch=a.epoch, partition=min(a.owned).partition)
    for compacted in (False, True):
        before = (shard.state.groups, shard.state.offsets)
        shard.now_ms += 44_000
        shard.fail_over(compacted=compacted)
        assert (shard.state.groups, shard.state.offsets) == before
        shard.pass_time(44_000)
        settle([a, b], rounds=1)
        assert (a.epoch, b.epoch) == (2, 2)


@pytest.mark.parametrize(
    ("wishes", "code"),
    [
        ({"topics": ()}, "INVALID_REQUEST"),
        ({"topics": ("t",), "session_timeout_ms": 1}, "INVALID_REQUEST"),
        ({"topics": ("t",), "rebalance_timeout_ms": 0}, "INVALID_REQUEST"),
        ({"topics": ("t",), "instance_id": ""}, "INVALID_REQUEST"),
        ({"topics": ("t",), "rack": "r" * 300}, "INVALID_REQUEST"),
        ({"topics": ("t",), "assignor": "random"}, "UNSUPPORTED_ASSIGNOR"),
    ],
)
def test_wishes_that_cannot_be_met(wishes: dict, code: str):
    with pytest.raises(InvalidRequestError) as refused:
        Shard().heartbeat("a", 0, owned=(), **wishes)
    assert refused.value.code == code


def test_a_group_can_be_full():
    shard = Shard(max_size=1)
    shard.heartbeat("a", 0, topics=("t",), owned=())
    with pytest.raises(InvalidRequestError) as full:
        shard.heartbeat("b", 0, topics=("t",), owned=())
    assert full.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_hear_news_at_once_and_only_news():
    shard = Shard()
    join = GroupHeartbeatRequest(member_id="a", member_epoch=0, topics=("t",), owned=())
    answer = shard.heartbeat("a", 0, topics=("t",), owned=())
    assert has_changes(join, answer)
    known = GroupHeartbeatRequest(member_id="a", member_epoch=1, owned=answer.assignment)
    assert not has_changes(known, shard.heartbeat("a", 1, owned=answer.assignment))
    shard.changed.clear()
    shard.commit(1, member="a", epoch=1)
    assert shard.changed == []
    shard.heartbeat("b", 0, topics=("t",), owned=())
    assert set(shard.changed) == {GROUP}
    assert has_changes(known, shard.heartbeat("a", 1, owned=answer.assignment))


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
    asked = OffsetFetchRequest(member_id="mine", member_epoch=-1)
    assert [one.offset for one in shard.run(decide_fetch, GROUP, asked, topics=shard.topics).offsets] == [5]
    member = Member(shard, "a")
    member.beat()
    for action in (
        lambda: shard.commit(6, member="mine", epoch=-1),
        lambda: shard.run(decide_fetch, GROUP, asked, topics=shard.topics),
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
    stable = shard.run(decide_fetch, GROUP, OffsetFetchRequest(require_stable=True), topics=shard.topics)
    assert [item.error.code if item.error else item.offset for item in stable.offsets] == ["UNSTABLE_OFFSET_COMMIT", 6]
    assert end(3, commit=False) == 0
    assert shard.committed()[TopicPartition("t", 0)] == 5


def test_offsets_are_shown_only_by_a_confirmed_leader():
    """A coordinator that is cut off from the controllers does not know what its successor has committed."""
    shard = Shard()
    shown = decide_fetch(shard.state, shard.now, GROUP, OffsetFetchRequest(), topics=shard.topics)
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
    answer = shard.run(
        decide_fetch, GROUP, OffsetFetchRequest(require_stable=True, partitions=wanted), topics=shard.topics
    )
    codes = [item.error.code if item.error else item.offset for item in answer.offsets]
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


def test_a_heartbeat_that_comes_late_does_nothing():
    shard = Shard()
    shard.heartbeat("a", 0, number=1, topics=("t",))
    shard.heartbeat("a", 1, number=3, owned=by_topic(t(0, 1, 2, 3)))
    before = len(shard.log)
    for late in (1, 2):
        with pytest.raises(FencedError) as stale:
            shard.heartbeat("a", 1, number=late, owned=())
        assert stale.value.code is ErrorCode.STALE_MEMBER_EPOCH
    assert len(shard.log) == before
    assert shard.heartbeat("a", 1, number=3, owned=by_topic(t(0, 1, 2, 3))).member_epoch == 1  # It was sent again.


def test_who_says_nothing_of_what_it_owns_has_not_given_it_up():
    shard = Shard()
    a, b = Member(shard, "a"), Member(shard, "b")
    a.beat()
    a.slow = True
    b.beat()
    a.beat()
    assert shard.group.current["a"].revoking

    shard.heartbeat("a", a.epoch)
    b.beat()

    assert shard.group.current["a"].revoking
    assert b.owned == set()


def test_whose_partition_it_is_depends_on_who_was_given_it_last():
    group = Group("g")

    def has(member: str, *partitions: int) -> None:
        assigned = {"t": partitions} if partitions else {}
        group.replay(
            CurrentChanged(
                group_id="g",
                member_id=member,
                member_epoch=1,
                previous_epoch=0,
                state="stable",
                assigned=assigned,
                revoking={},
            )
        )

    has("a", 0, 1)
    has("b", 1)
    has("a", 0)

    assert group.owners == {TopicPartition("t", 0): "a", TopicPartition("t", 1): "b"}


def test_a_member_of_the_epoch_before_keeps_nothing_that_it_was_not_given():
    shard = Shard()
    a, b = Member(shard, "a"), Member(shard, "b")
    settle([a])
    b.beat()
    a.beat()
    a.beat(lose_answer=True)
    assert shard.group.current["a"].previous_epoch == a.epoch
    with pytest.raises(FencedError) as fenced:
        shard.heartbeat("a", a.epoch, owned=by_topic(t(0, 1, 2, 3)))
    assert fenced.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_offsets_that_a_transaction_is_about_to_commit_do_not_expire():
    shard = Shard(offsets_retention_ms=10_000, offsets_retention_check_interval_ms=1_000)
    shard.commit(5)
    asked = OffsetCommitRequest(offsets=(CommitOffset(topic="t", partition=0, offset=6),))
    more = {"topics": shard.topics, "settings": shard.settings}
    shard.run(decide_transactional_commit, GROUP, asked, producer_id=9, producer_epoch=1, **more)

    shard.pass_time(20_000)

    assert shard.committed() == {TopicPartition("t", 0): 5}
