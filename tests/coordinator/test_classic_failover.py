"""Stories of classic groups: the next coordinator, and clocks that jump."""

from __future__ import annotations

import pytest
from classic_support import SESSION_MS, ClassicMember, ClassicShard, settle, stable

from raftlog.coordinator.runtime import Now
from raftlog.errors import ErrorCode


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
