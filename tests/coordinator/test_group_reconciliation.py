"""Stories of consumer groups: partitions move between members, one step at a time."""

from __future__ import annotations

import pytest
from group_support import FakeTopics, Member, Shard, settle, t

from raftlog.coordinator.group.records import CurrentChanged
from raftlog.coordinator.group.state import Group
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError
from raftlog.model import TopicPartition
from raftlog.wire.groups import by_topic


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
