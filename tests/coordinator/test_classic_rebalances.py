"""Stories of classic groups: rebalances, silence, leaving in each state, late and repeated requests."""

from __future__ import annotations

import pytest
from classic_support import DELAY_MS, REBALANCE_MS, SESSION_MS, ClassicMember, ClassicShard, code_of, settle, stable
from group_support import GROUP

from raftlog.coordinator.group.classic_requests import Leaver
from raftlog.errors import ErrorCode, FencedError, RetriableError


def test_a_newcomer_begins_a_rebalance_in_which_all_join_again():
    shard, (a, b) = stable(2)
    c = ClassicMember(shard)
    settle([a, b, c])
    assert (a.errors, b.errors, c.errors) == ([ErrorCode.REBALANCE_IN_PROGRESS], [ErrorCode.REBALANCE_IN_PROGRESS], [])
    assert {member.generation for member in (a, b, c)} == {2}
    assert c.assignment == f"2-{c.member_id}".encode()


def test_a_member_that_misses_the_rebalance_is_removed():
    shard, (a, b) = stable(2)
    c = ClassicMember(shard)
    c.step()
    c.step()
    a.step()
    for _ in range(REBALANCE_MS // 1_000):
        a.step()
        c.step()
        assert code_of(shard.beat, b.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS  # It is alive, and does not join.
        shard.pass_time(1_000)
    assert set(shard.classic.members) == {a.member_id, c.member_id}
    assert code_of(shard.beat, b.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_never_assigns_loses_its_place():
    shard = ClassicShard()
    a, b = ClassicMember(shard, syncs=False), ClassicMember(shard)
    for _ in range(8):
        a.step()
        b.step()
        shard.pass_time(1_000)
    assert a.leads
    for _ in range(REBALANCE_MS // 1_000):
        if a.member_id in shard.classic.members:
            shard.beat(a.member_id, 1)  # It stays alive.
        b.step()
        shard.pass_time(1_000)
    assert a.member_id not in shard.classic.members
    settle([b])
    assert set(shard.classic.members) == {b.member_id}
    assert (b.leads, shard.classic.phase) == (True, "Stable")


def test_silence_ends_a_membership_and_the_others_share():
    shard, (a, b) = stable(2)
    settle([a], ms=2_000)
    assert set(shard.classic.members) == {a.member_id}
    assert (shard.classic.phase, a.generation) == ("Stable", 2)
    b.step()
    assert (b.errors, b.member_id) == ([ErrorCode.UNKNOWN_MEMBER_ID], "")


def test_a_waiting_request_keeps_the_session():
    shard = ClassicShard()
    a, b = ClassicMember(shard), ClassicMember(shard)
    a.syncs = False
    settle([a, b], ms=1_000, rounds=8)
    for _ in range(SESSION_MS * 3 // 1_000):
        shard.beat(a.member_id, 1)
        b.step()  # Its SyncGroup waits for the leader's.
        shard.pass_time(1_000)
    assert set(shard.classic.members) == {a.member_id, b.member_id}
    a.syncs = True
    settle([a, b])
    assert b.assignment == f"1-{b.member_id}".encode()


@pytest.mark.parametrize("phase", ["PreparingRebalance", "CompletingRebalance", "Stable"])
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_member_leaves_in_each_state(phase: str, who: str):
    shard = ClassicShard()
    a, b = ClassicMember(shard), ClassicMember(shard)
    for _ in range(2):
        a.step()
        b.step()
    if phase != "PreparingRebalance":
        a.syncs = b.syncs = phase == "Stable"
        settle([a, b], rounds=6)
    assert shard.classic.phase == phase
    leaver, other = (a, b) if who == "leader" else (b, a)
    assert shard.leave(Leaver(member_id=leaver.member_id)) == [None]
    assert shard.leave(Leaver(member_id=leaver.member_id)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    other.syncs = True
    settle([other])
    assert (other.leads, shard.classic.phase, set(shard.classic.members)) == (True, "Stable", {other.member_id})
    assert other.assignment == f"{other.generation}-{other.member_id}".encode()


def test_the_last_member_leaves_an_empty_group_of_another_generation():
    shard, (a,) = stable(1)
    assert shard.leave(Leaver(member_id=a.member_id)) == [None]
    group = shard.classic
    assert (group.phase, group.generation, group.leader, group.members) == ("Empty", 2, "", {})
    assert code_of(shard.beat, a.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    settle([b := ClassicMember(shard)])
    assert b.generation == 3


def test_many_members_leave_at_once_each_with_its_own_result():
    shard = ClassicShard()
    a, b, c = (ClassicMember(shard, instance_id=name) for name in "abc")
    settle([a, b, c])
    result = shard.leave(
        Leaver(instance_id="a"),
        Leaver(member_id=b.member_id),
        Leaver(member_id=b.member_id, instance_id="c"),
        Leaver(instance_id="d"),
        Leaver(),
        Leaver(instance_id="a"),
    )
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert result == [None, None, ErrorCode.FENCED_INSTANCE_ID, unknown, unknown, unknown]
    assert (set(shard.classic.members), shard.classic.phase) == ({c.member_id}, "PreparingRebalance")


def test_requests_of_another_generation_are_refused():
    shard, (_a, b) = stable(2)
    for generation in (0, 2, -1):
        assert code_of(shard.beat, b.member_id, generation) is ErrorCode.ILLEGAL_GENERATION
        assert code_of(shard.sync, b.member_id, generation) is ErrorCode.ILLEGAL_GENERATION
    shard.pass_time(SESSION_MS - 1_000)


def test_sync_names_the_same_protocol():
    shard, (a,) = stable(1)
    for wrong in ({"protocol": "sticky"}, {"protocol_type": "connect"}):
        assert code_of(shard.sync, a.member_id, 1, **wrong) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shard.sync(a.member_id, 1, protocol="range", protocol_type="consumer") == a.assignment


def test_a_lost_answer_is_given_again():
    shard, (a, b) = stable(2)
    written = len(shard.log)
    outcome, _ = shard.join(member_id=b.member_id)
    assert outcome.answer is not None
    assert (outcome.answer.generation, outcome.answer.members) == (1, ())
    assert shard.sync(b.member_id, 1) == b.assignment
    assert shard.sync(a.member_id, 1, assignments=((b.member_id, b"late"),)) == a.assignment
    assert len(shard.log) == written


def test_the_leader_joins_again_to_rebalance():
    _shard, (a, b) = stable(2)
    a.answer = a.assignment = None
    settle([a, b])
    assert (a.generation, b.generation) == (2, 2)


def test_other_metadata_of_a_member_begins_a_rebalance():
    _shard, (a, b) = stable(2)
    b.protocols = (("range", b"other"),)
    b.answer = b.assignment = None
    settle([a, b])
    assert (a.generation, b.generation) == (2, 2)
    assert a.answer is not None
    assert {one.metadata for one in a.answer.members} == {b"r", b"other"}


def test_a_member_may_change_all_its_protocols_if_it_is_alone():
    shard, (a,) = stable(1)
    a.protocols = (("sticky", b"s"),)
    a.answer = a.assignment = None
    settle([a])
    assert (a.generation, shard.classic.protocol) == (2, "sticky")


def test_the_newest_of_two_requests_of_one_member_counts():
    shard, (a, b) = stable(2)
    shard.join()
    _first, old = shard.join(member_id=b.member_id)
    _second, new = shard.join(member_id=b.member_id)
    assert code_of(shard.wait_join, b.member_id, 1, old) is ErrorCode.REBALANCE_IN_PROGRESS
    shard.join(member_id=a.member_id)
    assert shard.classic.phase == "CompletingRebalance"
    assert shard.wait_join(b.member_id, 1, new).answer is not None


def test_a_join_whose_answer_came_too_late_takes_part_in_the_next_rebalance():
    shard, (a, b) = stable(2)
    shard.join()
    _b_join, ticket = shard.join(member_id=b.member_id)
    shard.join(member_id=a.member_id)
    assert shard.classic.phase == "CompletingRebalance"
    shard.join()  # Before b has looked, the next rebalance begins.
    assert shard.classic.phase == "PreparingRebalance"
    assert shard.wait_join(b.member_id, 1, ticket).answer is None
    assert b.member_id in shard.state.classic_times[GROUP].joined


def test_a_sync_that_waited_learns_of_the_next_rebalance():
    shard = ClassicShard()
    a, _ = shard.join()
    b, _ = shard.join()
    shard.pass_time(DELAY_MS)
    assert shard.sync(b.member_id, 1) is None
    shard.leave(Leaver(member_id=a.member_id))
    assert code_of(shard.sync, b.member_id, 1, waited=True) is ErrorCode.REBALANCE_IN_PROGRESS
    shard.join(member_id=b.member_id)
    assert code_of(shard.sync, b.member_id, 1, waited=True) is ErrorCode.REBALANCE_IN_PROGRESS
    assert code_of(shard.sync, b.member_id, 1) is ErrorCode.ILLEGAL_GENERATION


def test_errors_name_the_callers_duty():
    shard, (a,) = stable(1)
    with pytest.raises(FencedError, match="join again"):
        shard.beat(a.member_id, 9)
    shard.join()
    with pytest.raises(RetriableError, match="join again"):
        shard.beat(a.member_id, 1)
