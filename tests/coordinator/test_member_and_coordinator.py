"""The client's membership core against the coordinator's core, with heartbeats under way while the member acts."""

from __future__ import annotations

import pytest
from group_support import GROUP, FakeTopics, Shard

from raftlog.client.core.membership import Membership, Wishes
from raftlog.coordinator.group.membership import decide_heartbeat
from raftlog.wire.groups import GroupHeartbeatRequest, GroupHeartbeatResponse, flat


def member(name: str) -> Membership:
    return Membership(name, Wishes(topics=("t",)))


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
