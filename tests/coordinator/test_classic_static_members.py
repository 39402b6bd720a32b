"""Stories of classic groups: static members (KIP-345)."""

from __future__ import annotations

import pytest
from classic_support import DELAY_MS, ClassicMember, ClassicShard, code_of, commit, reads, settle, stable
from group_support import GROUP

from raftlog.coordinator.group.administration import decide_deletion
from raftlog.coordinator.group.classic_requests import Leaver
from raftlog.errors import ErrorCode


@pytest.mark.parametrize("steps", range(20))
def test_static_members_that_disconnect_are_gone_after_one_session_in_each_phase(steps: int):
    """Then DeleteGroups succeeds. The end of a rebalance began the sessions of members that had disconnected again."""
    shard = ClassicShard()
    first, second = (ClassicMember(shard, name, wishes={"session_timeout_ms": 5_000}) for name in "ab")
    settle([first], ms=500)
    for number in range(steps):
        (second, first)[number % 2].step()
        shard.pass_time(100)
    for _ in range(25):
        shard.pass_time(200)
    assert shard.classic.phase == "Empty"
    shard.run(decide_deletion, GROUP)
    assert shard.state.classic == {}


def static_pair() -> tuple[ClassicShard, ClassicMember, ClassicMember]:
    shard = ClassicShard()
    a, b = ClassicMember(shard, instance_id="a"), ClassicMember(shard, instance_id="b")
    settle([a, b])
    assert shard.classic.phase == "Stable"
    return shard, a, b


def test_a_static_member_restarts_without_a_rebalance_and_its_former_process_is_fenced():
    shard, a, b = static_pair()
    new = b.restart()
    new.step()
    new.step()
    assert (new.assignment, new.generation) == (b.assignment, 1)
    assert new.member_id != b.member_id
    for fenced in (
        code_of(shard.beat, b.member_id, 1, "b"),
        code_of(shard.sync, b.member_id, 1, instance_id="b"),
        code_of(shard.join, member_id=b.member_id, instance_id="b"),
        *shard.leave(Leaver(member_id=b.member_id, instance_id="b")),
    ):
        assert fenced is ErrorCode.FENCED_INSTANCE_ID
    assert code_of(shard.beat, b.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    settle([a, new])
    assert (a.errors, new.errors, a.generation) == ([], [], 1)


@pytest.mark.parametrize("skips", [True, False])
def test_a_static_leader_restarts_without_a_rebalance(skips: bool):
    shard, a, b = static_pair()
    assert a.leads
    new = a.restart()
    new.wishes = {"may_skip_assignment": skips}
    new.step()
    assert new.answer is not None
    assert new.answer.skip_assignment is skips
    if skips:
        assert (new.answer.leader, len(new.answer.members)) == (new.member_id, 2)
    else:
        assert (new.answer.leader, new.answer.members) == (a.member_id, ())  # It takes itself for a follower.
    settle([new, b])
    assert (new.assignment, new.errors, b.errors) == (a.assignment, [], [])
    assert shard.classic.leader == new.member_id
    new.answer = new.assignment = None  # The group can still rebalance: it has a leader.
    settle([new, b])
    assert (new.generation, b.generation) == (2, 2)


def test_a_restarted_static_member_that_reads_other_topics_begins_a_rebalance():
    shard = ClassicShard()
    a, b = (ClassicMember(shard, instance_id=name, protocols=(("range", reads("t")),)) for name in "ab")
    settle([a, b])
    same = b.restart()
    same.step()
    assert shard.classic.phase == "Stable"
    other = same.restart()
    other.protocols = (("range", reads("t", "u")),)
    other.step()
    assert shard.classic.phase == "PreparingRebalance"
    settle([a, other])
    assert (a.generation, other.generation) == (2, 2)


def test_the_same_instance_twice_while_both_join():
    shard = ClassicShard()
    first, old = shard.join(instance_id="a")
    second, new = shard.join(instance_id="a")
    assert code_of(shard.wait_join, first.member_id, 0, old, "a") is ErrorCode.FENCED_INSTANCE_ID
    shard.pass_time(DELAY_MS)
    answer = shard.wait_join(second.member_id, 0, new, "a").answer
    assert answer is not None
    assert [one.member_id for one in answer.members] == [second.member_id]


def test_a_static_member_that_is_away_keeps_its_place_until_its_session_ends():
    shard = ClassicShard()
    wishes = {"rebalance_timeout_ms": 3_000}
    a, b = (ClassicMember(shard, instance_id=name, wishes=wishes) for name in "ab")
    settle([a, b])
    c = ClassicMember(shard, wishes=wishes)
    settle([a, c], rounds=7)
    assert set(shard.classic.members) == {a.member_id, b.member_id, c.member_id}
    assert (a.generation, shard.classic.phase) == (2, "Stable")  # The rebalance did not wait for b any longer.
    settle([a, c], rounds=7)
    assert set(shard.classic.members) == {a.member_id, c.member_id}
    assert (a.generation, c.generation) == (3, 3)


def test_an_unknown_instance_is_refused():
    shard, (a,) = stable(1)
    assert code_of(shard.beat, a.member_id, 1, "nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(shard.join, member_id=a.member_id, instance_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_of_a_fenced_static_member_do_not_count():
    shard, _a, b = static_pair()
    b.restart().step()
    assert code_of(commit, shard, 1, b.member_id, 1, instance_id="b") is ErrorCode.FENCED_INSTANCE_ID
