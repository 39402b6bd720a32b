"""Stories of consumer groups: joining, leaving, silence, joining again, static members, lost and late heartbeats."""

from __future__ import annotations

import pytest
from group_support import GROUP, Member, Shard, settle, t

from raftlog.coordinator.group import subscriptions
from raftlog.coordinator.group.membership import decide_heartbeat, has_changes
from raftlog.coordinator.group.subscriptions import BYTES_PER_TOPIC, MAX_GROUP_PATTERNS
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError
from raftlog.wire.groups import LEAVE_EPOCH, GroupHeartbeatRequest, by_topic, flat


def test_the_first_member_gets_everything_at_once():
    shard = Shard()
    answer = shard.heartbeat("a", 0, topics=("t",), owned=())
    assert (answer.member_epoch, answer.assignment) == (1, by_topic(t(0, 1, 2, 3)))
    assert shard.group.phase == "Stable"
    again = len(shard.log)
    shard.heartbeat("a", 1, owned=answer.assignment)
    assert len(shard.log) == again  # A heartbeat without news writes nothing.


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
    assert has_changes(join, frozenset(), answer)
    known = GroupHeartbeatRequest(member_id="a", member_epoch=1, owned=answer.assignment)
    assert not has_changes(known, flat(answer.assignment), shard.heartbeat("a", 1, owned=answer.assignment))
    shard.changed.clear()
    shard.commit(1, member="a", epoch=1)
    assert shard.changed == []
    shard.heartbeat("b", 0, topics=("t",), owned=())
    assert set(shard.changed) == {GROUP}
    assert has_changes(known, flat(answer.assignment), shard.heartbeat("a", 1, owned=answer.assignment))


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


def test_the_patterns_of_a_group_are_bounded():
    shard = Shard()
    for number in range(MAX_GROUP_PATTERNS):
        shard.heartbeat(f"m{number}", 0, pattern=f"t{number}")
    with pytest.raises(InvalidRequestError, match="expected at most 50 different ones in group"):
        shard.heartbeat("more", 0, pattern="t.*")
    assert "more" not in shard.group.members
    shard.heartbeat("more", 0, pattern="t0")
    shard.heartbeat("m1", shard.group.current["m1"].epoch, pattern="t.*")  # It takes the place of its former one.


def test_the_topics_that_a_group_names_are_bounded(monkeypatch: pytest.MonkeyPatch):
    shard = Shard()
    monkeypatch.setattr(subscriptions, "MAX_GROUP_BYTES", 2 * (BYTES_PER_TOPIC + 1))
    shard.heartbeat("a", 0, topics=("t",))
    shard.heartbeat("b", 0, topics=("u",))
    with pytest.raises(InvalidRequestError, match="received what makes 63") as caught:
        shard.heartbeat("c", 0, topics=("v",))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "c" not in shard.group.members
