"""The client's membership core against the coordinator's core, with heartbeats under way while the member acts."""

from __future__ import annotations

import pytest
from group_support import GROUP, FakeTopics, Shard

from raftlog.client.core.membership import MemberOptions, Membership
from raftlog.coordinator.group.membership import decide_heartbeat
from raftlog.errors import ErrorCode, FencedError
from raftlog.wire.groups import GroupHeartbeatRequest, GroupHeartbeatResponse, flat


def member(name: str) -> Membership:
    return Membership(name, MemberOptions(topics=("t",)))


def decide(shard: Shard, request: GroupHeartbeatRequest) -> GroupHeartbeatResponse:
    return shard.run(decide_heartbeat, GROUP, request, topics=shard.topics, settings=shard.settings)


def beat(shard: Shard, one: Membership) -> None:
    one.on_response(decide(shard, one.request()))


@pytest.mark.parametrize("answer_is_lost", [False, True])
def test_what_a_member_takes_while_its_heartbeat_is_under_way_goes_to_nobody_else(answer_is_lost: bool):
    """It was told to take partitions, has not begun, and another member joins just then."""
    shard, first, second = Shard(FakeTopics(t=4)), member("a"), member("b")
    beat(shard, first)
    under_way = first.request()
    beat(shard, second)

    answer = decide(shard, under_way)
    first.acquired(first.target)
    if not answer_is_lost:
        first.on_response(answer)
    beat(shard, second)

    assert not second.target & first.owned
    for _ in range(3):
        beat(shard, first)
        first.released(first.owned - first.target)
        beat(shard, second)
    assert len(first.target) == len(second.target) == 2
    assert not first.target & second.target


def test_what_a_member_has_not_begun_to_read_goes_to_others_once_it_knows():
    """No application has to ask for records for that."""
    shard, first, second = Shard(FakeTopics(t=4)), member("a"), member("b")
    beat(shard, first)
    beat(shard, second)
    for _ in range(3):
        beat(shard, first)
        beat(shard, second)

    assert first.owned == second.owned == frozenset()
    assert flat(decide(shard, second.request()).assignment) == second.target
    assert len(second.target) == 2


def test_a_heartbeat_that_the_network_held_back_releases_nothing():
    """It was sent before its member was given, in the same epoch, what another one had released."""
    shard, first, second = Shard(FakeTopics(t=4)), member("a"), member("b")
    beat(shard, first)
    first.acquired(first.target)
    beat(shard, second)
    late = second.request()
    assert flat(late.owned or ()) == frozenset()
    beat(shard, first)
    first.released(first.owned - first.target)
    beat(shard, first)
    beat(shard, second)
    second.acquired(second.target)
    assert late.member_epoch == second.epoch
    assert len(second.owned) == 2

    third = member("c")
    beat(shard, third)
    with pytest.raises(FencedError, match=r"heartbeat 2 of member b of group .* comes after heartbeat 3") as caught:
        decide(shard, late)
    assert caught.value.code is ErrorCode.STALE_MEMBER_EPOCH
    for _ in range(3):
        beat(shard, third)

    assert not third.target & (first.owned | second.owned)


def test_a_heartbeat_without_a_number_and_a_repeated_one_are_taken():
    shard, one = Shard(FakeTopics(t=4)), member("a")
    beat(shard, one)
    asked = one.request()
    one.request()

    assert flat(decide(shard, asked).assignment) == flat(decide(shard, asked).assignment) == one.target
    assert one.keepalive_request() == GroupHeartbeatRequest(member_id="a", member_epoch=one.epoch)


def test_an_answer_that_comes_after_a_member_was_fenced_is_too_late():
    shard, one = Shard(FakeTopics(t=4)), member("a")
    answer = decide(shard, one.request())
    one.lose(FencedError("gone", code=ErrorCode.UNKNOWN_MEMBER_ID))

    assert not one.on_response(answer)
    assert (one.phase, one.target) == ("lost", frozenset())
