"""Stories of classic groups: joining, assigning, rejoining, leaving in each state, silence, static members, limits."""

from __future__ import annotations

from typing import Any

import pytest
from classic_support import DELAY_MS, REBALANCE_MS, SESSION_MS, ClassicMember, ClassicShard, settle, stable
from group_support import GROUP

from raftlog.coordinator.group import classic_checks, classic_state
from raftlog.coordinator.group.administration import decide_classic_description, decide_deletion, decide_description
from raftlog.coordinator.group.classic_requests import Leaver
from raftlog.coordinator.group.offsets import decide_commit, decide_offset_deletion
from raftlog.coordinator.runtime import Now
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, NotFoundError, RaftlogError, RetriableError
from raftlog.model import TopicPartition
from raftlog.wire.groups import CommitOffset, OffsetCommitRequest, OffsetDeleteRequest, TopicPartitions
from raftlog.wire.kafka.consumer_protocol import encode_assignment, encode_subscription
from raftlog.wire.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)


def code_of(call: Any, *arguments: Any, **more: Any) -> ErrorCode:
    with pytest.raises(RaftlogError) as raised:
        call(*arguments, **more)
    return raised.value.code


def reads(*topics: str) -> bytes:
    return encode_subscription(1, ConsumerProtocolSubscription(topics=list(topics)))


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
    assert shard.classic.assignments == {a.member_id: b"2", b.member_id: b""}


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


# Static members (KIP-345).


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


# Failover.


@pytest.mark.parametrize("compacted", [False, True])
def test_a_stable_group_outlives_its_coordinator_without_a_rebalance(compacted: bool):
    shard, members = stable(3)
    before = shard.state.classic
    shard.fail_over(compacted=compacted)
    assert shard.state.classic == before
    shard.pass_time(SESSION_MS - 1)  # Sessions begin again.
    settle(members)
    assert all(member.errors == [] for member in members)
    assert {member.generation for member in members} == {1}


@pytest.mark.parametrize("phase", ["PreparingRebalance", "CompletingRebalance"])
def test_a_rebalance_goes_on_at_the_next_coordinator(phase: str):
    shard, (a, b) = stable(2)
    c = ClassicMember(shard)
    c.step()
    c.step()
    if phase == "CompletingRebalance":
        for member in (a, b, a, b, a, b):
            member.step()
        a.answer, a.generation = a.answer, a.generation
    shard.fail_over()
    assert c.member_id in shard.classic.members
    settle([a, b, c], rounds=20)
    assert {member.generation for member in (a, b, c)} == {2}
    assert ErrorCode.UNKNOWN_MEMBER_ID not in [*a.errors, *b.errors, *c.errors]


def test_jumps_of_the_wall_clock_do_not_matter(monkeypatch: pytest.MonkeyPatch):
    _shard, members = stable(2)
    for jump in (-(10**10), 10**11):
        monkeypatch.setattr(ClassicShard, "now", property(lambda self, by=jump: Now(self.now_ms, 10**12 + by)))
        settle(members)
    assert all(member.errors == [] for member in members)


def test_a_coordinator_that_slept_expels_all_and_they_come_back():
    shard, members = stable(3)
    shard.pass_time(10 * SESSION_MS)
    assert shard.classic.phase == "Empty"
    settle(members)
    assert {len(member.errors) for member in members} == {1}
    assert {member.generation for member in members} == {3}


# Offsets, descriptions, and the other protocol.


def commit(shard: ClassicShard, offset: int, member: str = "", generation: int = -1, **more: Any) -> None:
    entry = CommitOffset(topic="t", partition=0, offset=offset)
    request = OffsetCommitRequest(offsets=(entry,), member_id=member, member_epoch=generation)
    result = shard.run(decide_commit, GROUP, request, topics=shard.topics, settings=shard.settings, **more)
    assert [one.error for one in result.offsets] == [None]


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
    assert shard.committed() == {TopicPartition("t", 0): 3}


def test_a_client_with_an_id_and_no_generation_commits_for_an_empty_group():
    shard, (a,) = stable(1)
    assert code_of(commit, shard, 1, "mine") is ErrorCode.UNKNOWN_MEMBER_ID
    shard.leave(Leaver(member_id=a.member_id))
    commit(shard, 2, "mine")
    assert shard.committed() == {TopicPartition("t", 0): 2}


def test_commits_of_a_fenced_static_member_do_not_count():
    shard, _a, b = static_pair()
    b.restart().step()
    assert code_of(commit, shard, 1, b.member_id, 1, instance_id="b") is ErrorCode.FENCED_INSTANCE_ID


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


def test_errors_name_the_callers_duty():
    shard, (a,) = stable(1)
    with pytest.raises(FencedError, match="join again"):
        shard.beat(a.member_id, 9)
    shard.join()
    with pytest.raises(RetriableError, match="join again"):
        shard.beat(a.member_id, 1)
