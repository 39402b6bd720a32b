"""Kafka's classic consumers in a few lines: what they read, what they say of it, and how they give it up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from classic_support import REBALANCE_MS, SESSION_MS, ClassicShard
from group_support import GROUP, FakeTopics, Member

from raftlog.coordinator.group.classic import decide_join, decide_join_wait
from raftlog.coordinator.group.classic_in_consumer import decide_join_of_consumer
from raftlog.coordinator.group.classic_protocols import assignment_of, partitions_of, subscription_of
from raftlog.coordinator.group.classic_requests import ClassicJoin, JoinAnswer, JoinOutcome
from raftlog.coordinator.group.state import Group
from raftlog.coordinator.runtime import Decision
from raftlog.errors import ErrorCode, RaftlogError
from raftlog.model import TopicPartition
from raftlog.wire.kafka.consumer_protocol import encode_subscription
from raftlog.wire.kafka.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION)


def shard_of(**topics: int) -> ClassicShard:
    shard = ClassicShard()
    shard.topics = FakeTopics(**(topics or {"t": 4}))
    return shard


@dataclass
class Consumer:
    """A classic consumer: `eager` ones give up everything before they join, others what their assignment lacks."""

    shard: ClassicShard
    eager: bool = False
    topics: tuple[str, ...] = ("t",)
    version: int = 3
    """Of its subscription: from 1 on it has what the consumer reads, from 2 on the generation of that."""
    instance_id: str | None = None
    session_ms: int = SESSION_MS
    rebalance_ms: int = REBALANCE_MS
    slow: bool = False
    """It keeps partitions that it must give up for now; it goes on with heartbeats."""
    member_id: str = ""
    generation: int = -1
    owned: set[TopicPartition] = field(default_factory=set)
    doing: str = "join"
    """`join`, `wait`, `sync` or `read`."""
    pending: tuple[ClassicJoin, int, int] | None = None
    answer: JoinAnswer | None = None
    errors: list[ErrorCode] = field(default_factory=list)
    is_dead: bool = False
    """Another process has its instance id, which ends a client."""
    counts: list[int] | None = None
    """The partitions of the topics that it assigned, while it leads."""

    @property
    def protocol(self) -> str:
        return "range" if self.eager else "cooperative-sticky"

    def step(self, *, lose_answer: bool = False) -> None:
        """Send the next request. A lost answer is of a request that was handled."""
        if self.is_dead:
            return
        try:
            {"join": self._join, "wait": self._wait, "sync": self._sync, "read": self._beat}[self.doing](lose_answer)
        except RaftlogError as error:
            if lose_answer:
                return
            self.errors.append(error.code)
            self.doing = "join"
            self.is_dead = error.code is ErrorCode.FENCED_INSTANCE_ID
            if error.code in LOST:
                self.owned, self.generation = set(), -1
                self.member_id = "" if error.code is not ErrorCode.ILLEGAL_GENERATION else self.member_id

    def _beat(self, _: bool) -> None:
        self.shard.beat(self.member_id, self.generation, self.instance_id)
        if self.counts is not None and self.counts != self._counted():
            self.doing = "join"  # A leader assigns again when its metadata changes.

    def _counted(self) -> list[int]:
        found = [self.shard.topics.get(topic) for topic in ("t", "u")]
        return [0 if topic is None else topic.partitions for topic in found]

    def _join(self, lost: bool) -> None:
        if self.eager and self.owned:
            if self.slow:
                self._beat_meanwhile()
                return
            self.owned = set()
        join = self._request()
        self.shard.tickets, self.shard.ids = self.shard.tickets + 1, self.shard.ids + 1
        outcome = self.shard.run(
            decide_join,
            GROUP,
            join,
            new_member_id=f"m{self.shard.ids}",
            ticket=self.shard.tickets,
            topics=self.shard.topics,
            settings=self.shard.settings,
        )
        if not lost:
            self.pending = (replace(join, member_id=outcome.member_id), outcome.generation, self.shard.tickets)
            self._joined(outcome)

    def _beat_meanwhile(self) -> None:
        try:
            self._beat(False)
        except RaftlogError as error:
            if error.code in LOST:
                raise

    def _request(self) -> ClassicJoin:
        by_topic: dict[str, list[int]] = {}
        for topic, number in sorted(self.owned):
            by_topic.setdefault(topic, []).append(number)
        owned = [ConsumerProtocolSubscriptionTopicPartition(topic=t, partitions=some) for t, some in by_topic.items()]
        said = ConsumerProtocolSubscription(topics=list(self.topics))
        if self.version >= 1:
            said.owned_partitions = owned
        if self.version >= 2:
            said.generation_id = self.generation
        return ClassicJoin(
            member_id=self.member_id,
            instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=((self.protocol, encode_subscription(self.version, said)),),
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            requires_known_id=True,
            may_skip_assignment=True,
        )

    def _wait(self, lost: bool) -> None:
        assert self.pending is not None
        join, generation, ticket = self.pending
        shard = self.shard

        def again(group: Group) -> Decision[JoinOutcome]:
            return decide_join_of_consumer(
                shard.state,
                shard.now,
                group,
                join,
                new_member_id=join.member_id,
                topics=shard.topics,
                settings=shard.settings,
            )

        outcome = shard.run(
            decide_join_wait,
            GROUP,
            join.member_id,
            instance_id=self.instance_id,
            generation=generation,
            ticket=ticket,
            settings=shard.settings,
            again=again,
        )
        if not lost:
            self._joined(outcome)
        elif outcome.answer is not None:
            self.doing = "join"

    def _joined(self, outcome: JoinOutcome) -> None:
        self.member_id = outcome.member_id
        if outcome.is_promised:
            return
        self.doing = "wait"
        if outcome.answer is not None:
            self.answer, self.generation, self.doing = outcome.answer, outcome.answer.generation, "sync"

    def _sync(self, lost: bool) -> None:
        assert self.answer is not None
        given: Sequence[tuple[str, bytes]] = ()
        self.counts = None
        if self.answer.leader == self.member_id and self.answer.skip_assignment:
            self.counts = []  # It does not know for which metadata its former process assigned.
        elif self.answer.leader == self.member_id:
            self.counts = self._counted()
            given = assigned(self.answer, self.shard, cooperative=not self.eager)
        assignment = self.shard.sync(
            self.member_id, self.generation, assignments=tuple(given), instance_id=self.instance_id
        )
        if assignment is None or lost:
            return
        got = partitions_of(assignment)
        assert got is not None
        if self.slow and self.owned - got:
            return  # It is giving them up, and has not taken others yet. Its next step asks again.
        gave_up = bool(self.owned - got)
        self.owned = set(got)
        self.doing = "join" if gave_up else "read"

    @property
    def reads(self) -> set[TopicPartition]:
        return self.owned

    def restart(self) -> Consumer:
        """Return another process of the same static member."""
        return Consumer(
            self.shard, self.eager, self.topics, self.version, self.instance_id, self.session_ms, self.rebalance_ms
        )


def assigned(answer: JoinAnswer, shard: ClassicShard, *, cooperative: bool) -> list[tuple[str, bytes]]:
    """Return what a leader assigns: rounds of all partitions; a cooperative one leaves out what others still read."""
    said = {one.member_id: subscription_of(one.metadata) for one in answer.members}
    owner = {partition: name for name, one in said.items() if one is not None for partition in one.owned}
    found: dict[str, set[TopicPartition]] = {name: set() for name in said}
    for topic in sorted({topic for one in said.values() if one is not None for topic in one.topics}):
        readers = sorted(name for name, one in said.items() if one is not None and topic in one.topics)
        known = shard.topics.get(topic)
        for number in range(known.partitions if known is not None else 0):
            partition = TopicPartition(topic, number)
            name = readers[number % len(readers)]
            if not cooperative or owner.get(partition, name) == name:
                found[name].add(partition)
    return [(name, assignment_of(some)) for name, some in found.items()]


def run(*members: Consumer | Member, rounds: int = 30, ms: int = 500) -> None:
    """Let members act while time passes."""
    for _ in range(rounds):
        for member in members:
            member.step() if isinstance(member, Consumer) else member.beat()
        members[0].shard.pass_time(ms)


def reading(members: Iterable[Any]) -> list[TopicPartition]:
    """Return everything that members read, in order, as often as it is read."""
    return sorted(partition for member in members for partition in member.owned)
