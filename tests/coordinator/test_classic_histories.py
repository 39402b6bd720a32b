"""Any history of a classic group: members come, go, stall, crash, lose answers; coordinators fail over."""

from __future__ import annotations

from functools import partial

from classic_support import ClassicMember, ClassicShard
from group_support import GROUP
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tick_support import compared_tick

from raftlog.coordinator.group.classic_requests import Leaver
from raftlog.coordinator.group.state import GroupsState
from raftlog.errors import RaftlogError

NAMES = st.sampled_from("abcd")
SESSION_MS, REBALANCE_MS = 10_000, 20_000
PROTOCOLS = st.sampled_from(
    [(("range", b"1"),), (("range", b"2"), ("sticky", b"3")), (("sticky", b"4"), ("range", b""))]
)


class ClassicHistories(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.shard = ClassicShard()
        self.shard.on_tick = partial(compared_tick, self.shard)
        self.members: dict[str, ClassicMember] = {}
        self.leaders: dict[int, str] = {}
        self.given: dict[tuple[int, str], bytes] = {}
        self.generation = 0
        self.checked = 0

    def forget_with_the_group(self):
        """An empty group without offsets was forgotten, and may have begun again; its members' ids never come again."""
        written = self.shard.log[self.checked :]
        self.checked = len(self.shard.log)
        if any(value is None and b'"ClassicGroupChanged"' in key for key, value in written):
            self.generation = 0
            self.leaders.clear()

    @rule(name=NAMES, static=st.booleans(), protocols=PROTOCOLS)
    def step(self, name: str, static: bool, protocols: tuple[tuple[str, bytes], ...]):
        if name not in self.members:
            wishes = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS}
            instance = name if static else None
            self.members[name] = ClassicMember(self.shard, instance, protocols=protocols, wishes=wishes)
        self.act(self.members[name])

    def act(self, member: ClassicMember):
        member.step()
        self.forget_with_the_group()
        if member.answer is not None and member.leads:
            assert self.leaders.setdefault(member.generation, member.member_id) == member.member_id
        if member.assignment is not None:
            key = (member.generation, member.member_id)
            assert self.given.setdefault(key, member.assignment) == member.assignment

    @rule(name=NAMES, protocols=PROTOCOLS)
    def join_again(self, name: str, protocols: tuple[tuple[str, bytes], ...]):
        if (member := self.members.get(name)) and member.pending is None and not member.syncing:
            member.protocols, member.answer, member.assignment = protocols, None, None

    @rule(name=NAMES)
    def restart_or_crash(self, name: str):
        if (member := self.members.get(name)) is None:
            return
        if member.instance_id is None:
            del self.members[name]
        else:
            self.members[name] = member.restart()

    @rule(name=NAMES)
    def leave(self, name: str):
        if member := self.members.pop(name, None):
            self.shard.leave(Leaver(member_id=member.member_id))

    @rule(name=NAMES, syncs=st.booleans())
    def stall(self, name: str, syncs: bool):
        if name in self.members:
            self.members[name].syncs = syncs

    @rule(ms=st.integers(1, SESSION_MS))
    def time_passes(self, ms: int):
        self.shard.pass_time(ms)

    @rule(compacted=st.booleans())
    def fail_over(self, compacted: bool):
        before = self.shard.state.classic
        self.shard.fail_over(compacted=compacted)
        assert self.shard.state.classic == before

    @rule()
    def fail_to_append(self):
        """A decision's records are lost, and only soft state has changed."""
        member = ClassicMember(self.shard)
        write, self.shard.write = self.shard.write, lambda records: None  # type: ignore[method-assign]
        try:
            member.step()
            member.step()
        except (RaftlogError, KeyError):
            pass
        finally:
            self.shard.write = write  # type: ignore[method-assign]

    @invariant()
    def generations_grow(self):
        self.forget_with_the_group()
        group = self.shard.state.classic.get(GROUP)
        if group is None:
            return
        assert group.generation >= self.generation
        self.generation = group.generation

    @invariant()
    def every_member_of_a_stable_generation_has_one_assignment(self):
        group = self.shard.state.classic.get(GROUP)
        if group is None:
            return
        assert bool(group.members) == (group.phase != "Empty")
        assert group.assignments.keys() <= group.members.keys()
        if group.phase == "Stable":
            assert group.assignments.keys() == group.members.keys()
        if group.phase in ("Stable", "CompletingRebalance"):
            assert group.leader in group.members
            assert all(group.protocol in member.protocols for member in group.members.values())
        assert group.static == {
            member.instance_id: member.member_id for member in group.members.values() if member.instance_id is not None
        }

    @invariant()
    def no_request_is_answered_twice(self):
        for member in self.members.values():
            assert member.answers + (member.pending is not None) + member.syncing == member.sent

    @precondition(lambda self: self.members)
    @rule()
    def in_the_end_all_are_in_one_stable_generation(self):
        for member in self.members.values():
            member.syncs = True
        for _ in range(3 * REBALANCE_MS // 1_000):
            for member in self.members.values():
                self.act(member)
            self.shard.pass_time(1_000)
        group = self.shard.classic
        assert group.phase == "Stable"
        assert {member.generation for member in self.members.values()} == {group.generation}
        assert {member.member_id for member in self.members.values()} == group.members.keys()
        for member in self.members.values():
            assert member.assignment == group.assignment_of(member.member_id)

    def teardown(self):
        """Cut the log at each place: the state there is the one that a coordinator had, and it can go on."""
        state, replayed = GroupsState(), self.shard.coordinator
        for key, value in getattr(self, "shard", ClassicShard()).log:
            record = replayed.codec.decode(key, value)
            assert record is not None
            replayed.replay(state, record)
            for group in state.classic.values():
                assert group.copy() == group
        assert state.classic == self.shard.state.classic


TestClassicHistories = ClassicHistories.TestCase
TestClassicHistories.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
