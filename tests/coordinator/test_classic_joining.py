"""Stories of classic groups: ids of members, the delay of a new group, the choice of a protocol, limits."""

from __future__ import annotations

from typing import Any

import pytest
from classic_support import DELAY_MS, REBALANCE_MS, SESSION_MS, ClassicMember, ClassicShard, code_of, settle, stable
from group_support import GROUP

from raftlog.coordinator.group import classic_checks, classic_state
from raftlog.coordinator.group.classic_requests import MAX_REBALANCE_MS, Leaver
from raftlog.errors import ErrorCode


def test_a_member_needs_an_id_before_it_counts():
    shard = ClassicShard()
    outcome, _ = shard.join(requires_known_id=True)
    assert (outcome.is_promised, outcome.answer) == (True, None)
    assert GROUP not in shard.state.classic
    assert shard.log == []
    again, _ = shard.join(member_id=outcome.member_id, requires_known_id=True)
    assert (again.is_promised, again.answer, again.member_id) == (False, None, outcome.member_id)
    assert shard.classic.phase == "PreparingRebalance"


def test_an_id_that_was_never_promised_is_unknown():
    shard = ClassicShard()
    assert code_of(shard.join, member_id="mine") is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(shard.beat, "mine", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(shard.sync, "mine", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.leave(Leaver(member_id="mine")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert (shard.state.classic, shard.state.classic_times, shard.log) == ({}, {}, [])


def test_a_new_group_waits_for_more_members_and_then_begins():
    shard = ClassicShard()
    first, ticket = shard.join()
    shard.pass_time(DELAY_MS - 1)
    assert shard.wait_join(first.member_id, 0, ticket).answer is None
    second, other = shard.join()
    shard.pass_time(DELAY_MS - 1)  # The second one extended it.
    assert shard.wait_join(first.member_id, 0, ticket).answer is None
    shard.pass_time(1)
    answer = shard.wait_join(first.member_id, 0, ticket).answer
    assert answer is not None
    assert (answer.generation, answer.leader) == (1, first.member_id)
    assert [one.member_id for one in answer.members] == [first.member_id, second.member_id]
    follower = shard.wait_join(second.member_id, 0, other).answer
    assert follower is not None
    assert (follower.leader, follower.members) == (first.member_id, ())


@pytest.mark.parametrize(("requested", "granted"), [(-1, 1), (60_000, 60_000), (2**31 - 1, MAX_REBALANCE_MS)])
def test_a_rebalance_waits_for_a_member_within_bounds(requested: int, granted: int):
    """Clients of Kafka Streams requested the largest number, so it is not an error."""
    shard = ClassicShard()
    shard.join(rebalance_timeout_ms=requested)
    (member,) = shard.classic.members.values()
    assert member.rebalance_timeout_ms == granted


def test_newcomers_extend_the_delay_no_longer_than_the_rebalance_time_out():
    shard = ClassicShard(max_size=100)
    for _ in range(REBALANCE_MS // 2_000):
        shard.join()
        shard.pass_time(2_000)
    assert shard.classic.phase == "CompletingRebalance"


def test_the_leaders_assignments_reach_each_member():
    _shard, (a, b, c) = stable(3)
    assert (a.leads, b.leads, c.leads) == (True, False, False)
    for member in (a, b, c):
        assert member.assignment == f"1-{member.member_id}".encode()
        assert member.errors == []


def test_a_member_that_the_leader_forgot_has_an_empty_assignment_and_strangers_have_none():
    shard = ClassicShard()
    a, _ticket = shard.join()
    b, _ = shard.join()
    shard.pass_time(DELAY_MS)
    given = ((a.member_id, b"1"), (a.member_id, b"2"), ("stranger", b"3"))
    assert shard.sync(a.member_id, 1, assignments=given) == b"2"
    assert shard.sync(b.member_id, 1) == b""
    assert shard.classic.assignments == {a.member_id: "Mg==", b.member_id: ""}


def test_assignments_of_a_follower_do_not_count():
    shard = ClassicShard()
    a, _ = shard.join()
    b, _ = shard.join()
    shard.pass_time(DELAY_MS)
    assert shard.sync(b.member_id, 1, assignments=((a.member_id, b"evil"),)) is None
    assert shard.classic.phase == "CompletingRebalance"


def test_the_protocol_with_most_votes_is_chosen_among_those_that_all_have():
    shard = ClassicShard()
    wishes = [
        (("only-a", b""), ("sticky", b"1"), ("range", b"2")),
        (("range", b"3"), ("sticky", b"4")),
        (("sticky", b"5"), ("range", b"6")),
    ]
    outcomes = [shard.join(protocols=protocols) for protocols in wishes]
    shard.pass_time(DELAY_MS)
    leader, ticket = outcomes[0]
    answer = shard.wait_join(leader.member_id, 0, ticket).answer
    assert answer is not None
    assert answer.protocol == "sticky"
    assert [one.metadata for one in answer.members] == [b"1", b"4", b"5"]


@pytest.mark.parametrize(
    ("wishes", "code"),
    [
        ({"protocols": (("sticky", b""),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b""), ("range", b""))}, ErrorCode.INVALID_REQUEST),
        ({"protocols": tuple((f"p{number}", b"") for number in range(51))}, ErrorCode.INVALID_REQUEST),
        ({"protocols": (("x" * 257, b""),)}, ErrorCode.INVALID_REQUEST),
        ({"protocols": (("range", b"x" * (5 << 20)),)}, ErrorCode.MESSAGE_TOO_LARGE),
        ({"session_timeout_ms": 999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"client_id": "x" * 257}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "x" * 257}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_a_join_that_does_not_fit_is_refused_and_changes_nothing(wishes: dict[str, Any], code: ErrorCode):
    shard, _ = stable(1)
    written = len(shard.log)
    assert code_of(shard.join, **wishes) is code
    assert len(shard.log) == written


def test_the_bytes_of_a_group_are_limited_in_all():
    shard = ClassicShard()
    part = b"x" * (classic_checks.MAX_GROUP_BYTES // 3)
    a, _ = shard.join(protocols=(("range", part),))
    shard.join(protocols=(("range", part),))
    assert code_of(shard.join, protocols=(("range", part), ("r2", b"x" * 100))) is ErrorCode.MESSAGE_TOO_LARGE
    shard.pass_time(DELAY_MS)
    too_much = ((a.member_id, part + b"x" * 100),)
    assert code_of(shard.sync, a.member_id, 1, assignments=too_much) is ErrorCode.MESSAGE_TOO_LARGE
    assert shard.classic.phase == "CompletingRebalance"
    assert shard.sync(a.member_id, 1, assignments=((a.member_id, b"small"),)) == b"small"


def test_the_members_of_a_group_are_limited():
    shard, members = stable(2, max_size=2)
    assert code_of(shard.join) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code_of(shard.join, requires_known_id=True) is ErrorCode.GROUP_MAX_SIZE_REACHED
    settle(members)
    assert all(member.errors == [] for member in members)


def test_the_groups_of_a_coordinator_are_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(classic_checks, "MAX_GROUPS", 2)
    shard, _ = stable(1)
    shard.join("other")
    assert code_of(shard.join, "third") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    shard.join("other")


def test_promised_ids_are_limited_and_expire(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(classic_state, "MAX_PROMISES", 3)
    shard = ClassicShard()
    promised = [shard.join(f"g{number}", requires_known_id=True)[0].member_id for number in range(5)]
    assert len(shard.state.promises) == 3
    assert code_of(shard.join, "g0", member_id=promised[0]) is ErrorCode.UNKNOWN_MEMBER_ID
    shard.join("g4", member_id=promised[4])
    shard.pass_time(SESSION_MS)
    assert len(shard.state.promises) == 0
    assert code_of(shard.join, "g3", member_id=promised[3]) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_the_owner_of_a_promised_id():
    shard, (a,) = stable(1)
    promised, _ = shard.join(requires_known_id=True)
    shard.join(protocols=(("range", b"r"),))  # Another one begins a rebalance.
    a.step()
    a.step()
    assert (a.errors, shard.classic.phase) == ([ErrorCode.REBALANCE_IN_PROGRESS], "PreparingRebalance")
    shard.join(member_id=promised.member_id)
    assert shard.classic.phase == "CompletingRebalance"
    assert len(shard.classic.members) == 3


def test_a_promise_that_is_given_up_holds_no_rebalance():
    shard, (a,) = stable(1)
    promised, _ = shard.join(requires_known_id=True)
    shard.join()
    a.step()
    a.step()
    assert shard.classic.phase == "PreparingRebalance"
    assert shard.leave(Leaver(member_id=promised.member_id)) == [None]
    assert shard.classic.phase == "CompletingRebalance"


def test_a_rebalance_goes_on_at_the_tick_after_a_promise_has_expired():
    """The members that wait have later deadlines of their own."""
    shard, (a,) = stable(1)
    shard.join(requires_known_id=True)
    shard.pass_time(SESSION_MS // 2)
    shard.join()
    a.step()
    a.step()
    shard.pass_time(SESSION_MS // 2 - 1)
    assert shard.classic.phase == "PreparingRebalance"
    shard.pass_time(1)
    assert shard.classic.phase == "CompletingRebalance"
    assert len(shard.classic.members) == 2


def test_without_a_delay_the_first_member_begins_at_once():
    """Kafka's own example file has `group.initial.rebalance.delay.ms=0`."""
    shard = ClassicShard(initial_rebalance_delay_ms=0)
    a = ClassicMember(shard)
    a.step()
    a.step()
    assert (shard.classic.phase, shard.classic.generation, a.generation) == ("CompletingRebalance", 1, 1)
    settle([a, ClassicMember(shard)])
    assert (shard.classic.phase, shard.classic.generation) == ("Stable", 2)


def test_a_client_that_disconnects_while_it_waits_loses_its_session():
    shard = ClassicShard(initial_rebalance_delay_ms=50_000)
    shard.join()
    shard.pass_time(SESSION_MS)
    assert (shard.classic.phase, shard.classic.members) == ("Empty", {})
