"""Any history of a group with members of both protocols, which come, go, stall, crash and lose answers."""

from __future__ import annotations

from functools import partial
from typing import Any

from converted_support import Consumer, shard_of
from group_support import GROUP, Member
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tick_support import compared_tick

from raftlog.coordinator.group.classic_requests import Leaver
from raftlog.coordinator.group.state import GroupsState
from raftlog.errors import ErrorCode, RaftlogError
from raftlog.model import TopicPartition

NAMES, OTHERS = st.sampled_from("abc"), st.sampled_from("xyz")
TOPICS = st.sampled_from([("t",), ("t", "u"), ("u",)])
SESSION_MS, REBALANCE_MS = 10_000, 20_000
FATAL = (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID)
"""Another process has a member's instance id: its client ends."""


class ConvertedHistories(RuleBasedStateMachine):
    """Classic members are `a` to `c`, those of the consumer protocol `x` to `z`."""

    @initialize(eager=st.booleans(), version=st.integers(0, 3))
    def begin(self, eager: bool, version: int):
        self.eager = eager
        self.version = version if eager else max(1, version)
        self.shard = shard_of(t=3, u=2)
        self.shard.on_tick = partial(compared_tick, self.shard)
        self.classic: dict[str, Consumer] = {}
        self.others: dict[str, Member] = {}
        self.born = 0

    @rule(name=NAMES, topics=TOPICS, static=st.booleans())
    def step(self, name: str, topics: tuple[str, ...], static: bool):
        if name not in self.classic:
            self.classic[name] = Consumer(
                self.shard,
                eager=self.eager,
                version=self.version,
                topics=topics,
                instance_id=name if static else None,
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
            )
        self.act(name)

    def act(self, name: str, *, lose_answer: bool = False) -> None:
        self.classic[name].step(lose_answer=lose_answer)
        if self.classic[name].is_dead:
            del self.classic[name]

    def beat(self, name: str, *, lose_answer: bool = False) -> None:
        try:
            self.others[name].beat(lose_answer=lose_answer)
        except RaftlogError as error:
            if error.code not in FATAL:
                raise
            del self.others[name]

    @rule(name=OTHERS, topics=TOPICS)
    def heartbeat_or_join(self, name: str, topics: tuple[str, ...]):
        if name not in self.others:
            self.born += 1
            wishes = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS}
            self.others[name] = Member(self.shard, f"{name}{self.born}", topics=topics, wishes=wishes)
        self.beat(name)

    @rule(name=NAMES, other=OTHERS)
    def lose_answers(self, name: str, other: str):
        if name in self.classic:
            self.act(name, lose_answer=True)
        if other in self.others:
            self.beat(other, lose_answer=True)

    @rule(name=NAMES, other=OTHERS, slow=st.booleans())
    def stall(self, name: str, other: str, slow: bool):
        if name in self.classic and self.classic[name].instance_id is None:
            self.classic[name].slow = slow
        if other in self.others:
            self.others[other].slow = slow
            self.others[other].reconcile()

    @rule(name=NAMES)
    def restart_or_crash(self, name: str):
        if (member := self.classic.get(name)) is None:
            return
        if member.instance_id is None:
            del self.classic[name]
        else:
            self.classic[name] = member.restart()

    @rule(name=OTHERS)
    def crash(self, name: str):
        self.others.pop(name, None)

    @rule(name=NAMES)
    def leave(self, name: str):
        if member := self.classic.pop(name, None):
            self.shard.leave(Leaver(member_id=member.member_id))

    @rule(name=OTHERS)
    def leave_the_other_protocol(self, name: str):
        if name in self.others and self.others[name].name in self.known:
            self.others.pop(name).leave()

    @rule(name=NAMES, other=OTHERS)
    def change_the_protocol_of_a_process(self, name: str, other: str):
        """The same static member, or another one, comes back with the other protocol."""
        if (member := self.classic.pop(name, None)) is None or other in self.others:
            return
        self.born += 1
        wishes: dict[str, Any] = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS}
        wishes |= {} if member.instance_id is None else {"instance_id": member.instance_id}
        self.others[other] = Member(self.shard, f"{other}{self.born}", topics=member.topics, wishes=wishes)
        self.beat(other)

    @rule(ms=st.integers(1, SESSION_MS))
    def time_passes(self, ms: int):
        self.shard.pass_time(ms)

    @rule(compacted=st.booleans())
    def fail_over(self, compacted: bool):
        before = (self.shard.state.groups, self.shard.state.classic)
        self.shard.fail_over(compacted=compacted)
        assert (self.shard.state.groups, self.shard.state.classic) == before

    @rule(count=st.integers(3, 6))
    def add_partitions(self, count: int):
        known = self.shard.topics.get("t")
        assert known is not None
        self.shard.topics.set("t", max(count, known.partitions))

    @property
    def known(self) -> set[str]:
        """The members that the coordinator knows, of whichever kind the group is."""
        state = self.shard.state
        return {
            *(state.groups[GROUP].members if GROUP in state.groups else ()),
            *(state.classic[GROUP].members if GROUP in state.classic else ()),
        }

    def readers(self) -> dict[str, set[TopicPartition]]:
        """Return what members read that the coordinator has not expelled: expelled ones are fenced."""
        known = self.known
        found = {one.member_id: one.owned for one in self.classic.values() if one.member_id in known}
        return found | {one.name: one.owned for one in self.others.values() if one.name in known and one.epoch > 0}

    @invariant()
    def no_partition_is_read_twice(self):
        reading = [partition for owned in self.readers().values() for partition in owned]
        assert len(reading) == len(set(reading)), self.readers()

    @invariant()
    def what_a_member_reads_is_its_own(self):
        group = self.shard.state.groups.get(GROUP)
        for member_id, owned in self.readers().items() if group is not None else ():
            assert owned <= group.current[member_id].reserved, member_id

    @invariant()
    def no_partition_has_two_owners(self):
        if (group := self.shard.state.groups.get(GROUP)) is not None:
            reserved = [partition for current in group.current.values() for partition in current.reserved]
            assert len(reserved) == len(set(reserved)) == len(group.owners)

    @invariant()
    def a_group_is_of_one_kind_and_has_members_of_its_protocol(self):
        state = self.shard.state
        assert not (GROUP in state.groups and GROUP in state.classic)
        if (group := state.groups.get(GROUP)) is not None:
            assert group.classic.keys() <= group.members.keys() == group.current.keys()
            assert not group.members or group.members.keys() != group.classic.keys()
            assert group.static == {
                one.instance_id: one.member_id for one in group.members.values() if one.instance_id is not None
            }

    @precondition(lambda self: self.classic or self.others)
    @rule()
    def in_the_end_everything_is_read_once(self):
        for one in (*self.classic.values(), *self.others.values()):
            one.slow = False
        for _ in range(4 * REBALANCE_MS // 1_000):
            for name in list(self.classic):
                self.act(name)
            for name in list(self.others):
                self.others[name].reconcile()
                self.beat(name)
            self.shard.pass_time(1_000)
        everyone = [*self.classic.values(), *self.others.values()]
        wanted = {topic for one in everyone for topic in one.topics}
        reading = sorted(partition for one in everyone for partition in one.owned)
        expected = sorted(p for p in self.shard.topics.partitions if p.topic in wanted)
        assert reading == expected
        group = self.shard.state.groups.get(GROUP) or self.shard.state.classic[GROUP]
        assert group.phase == ("Stable" if everyone else group.phase)

    def teardown(self):
        """Cut the log at each place: the state there is one that can be copied, and ends as the last coordinator's."""
        shard = getattr(self, "shard", shard_of())
        state = GroupsState()
        for key, value in shard.log:
            record = shard.coordinator.codec.decode(key, value)
            assert record is not None
            state.replay(record)
            for group in (*state.groups.values(), *state.classic.values()):
                assert group.copy() == group
        assert (state.groups, state.classic) == (shard.state.groups, shard.state.classic)


TestConvertedHistories = ConvertedHistories.TestCase
TestConvertedHistories.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
