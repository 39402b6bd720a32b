"""Any history of a group: members come, go, stall, crash, lose answers; coordinators fail over; topics change."""

from __future__ import annotations

from functools import partial

from group_support import GROUP, FakeTopics, Member, Shard
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tick_support import compared_tick

NAMES = st.sampled_from("abcd")
SESSION_MS = 10_000


class Histories(RuleBasedStateMachine):
    @initialize(assignor=st.sampled_from(["uniform", "range", "sticky", None]))
    def begin(self, assignor: str | None):
        self.shard = Shard(FakeTopics(t=3, u=2))
        self.shard.on_tick = partial(compared_tick, self.shard)
        self.assignor = assignor
        self.members: dict[str, Member] = {}
        self.born = 0

    @rule(name=NAMES, topics=st.sampled_from([("t",), ("t", "u"), ("u",)]))
    def heartbeat_or_join(self, name: str, topics: tuple[str, ...]):
        if name not in self.members:
            self.born += 1
            wishes = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": 3 * SESSION_MS}
            wishes |= {"assignor": self.assignor} if self.assignor else {}
            self.members[name] = Member(self.shard, f"{name}{self.born}", topics=topics, wishes=wishes)
        self.members[name].beat()

    @rule(name=NAMES)
    def lose_an_answer(self, name: str):
        if name in self.members:
            self.members[name].beat(lose_answer=True)

    @rule(name=NAMES, slow=st.booleans())
    def stall(self, name: str, slow: bool):
        if name in self.members:
            self.members[name].slow = slow
            self.members[name].reconcile()

    @rule(name=NAMES)
    def crash(self, name: str):
        self.members.pop(name, None)

    @rule(name=NAMES)
    def leave(self, name: str):
        if name in self.members and self.members[name].name in self.known:
            self.members.pop(name).leave()

    @rule(ms=st.integers(1, SESSION_MS))
    def time_passes(self, ms: int):
        self.shard.pass_time(ms)

    @rule(compacted=st.booleans())
    def fail_over(self, compacted: bool):
        before = self.shard.state.groups
        self.shard.fail_over(compacted=compacted)
        assert self.shard.state.groups == before

    @rule(count=st.integers(3, 6))
    def add_partitions(self, count: int):
        known = self.shard.topics.get("t")
        assert known is not None
        self.shard.topics.set("t", max(count, known.partitions))

    @property
    def known(self):
        return self.shard.group.members if GROUP in self.shard.state.groups else {}

    @invariant()
    def nobody_reads_what_another_member_reads(self):
        """Of members that the coordinator has not expelled: an expelled one is fenced when it commits."""
        reading = [p for m in self.members.values() if m.name in self.known and m.epoch > 0 for p in m.owned]
        assert len(reading) == len(set(reading))

    @invariant()
    def what_a_member_reads_is_its_own(self):
        for member in self.members.values():
            if member.name in self.known and member.epoch > 0:
                assert member.owned <= self.shard.group.current[member.name].reserved

    @invariant()
    def no_partition_has_two_owners(self):
        if GROUP in self.shard.state.groups:
            group = self.shard.group
            reserved = [partition for current in group.current.values() for partition in current.reserved]
            assert len(reserved) == len(set(reserved)) == len(group.owners)

    @precondition(lambda self: self.members)
    @rule()
    def in_the_end_everything_is_read(self):
        for member in self.members.values():
            member.slow = False
        for _ in range(2 * SESSION_MS // 1_000):
            for member in self.members.values():
                member.reconcile()
                member.beat()
            self.shard.pass_time(1_000)
        wanted = {topic for member in self.members.values() for topic in member.topics}
        read = sorted(partition for member in self.members.values() for partition in member.owned)
        assert read == sorted(p for p in self.shard.topics.partitions if p.topic in wanted)
        assert self.shard.group.phase == "Stable"


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
