"""The group coordinator without a broker: its log is a list, its clock is set by hand, its members are a few lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from raftlog.config import GroupConfig
from raftlog.coordinator.group.coordinator import GroupCoordinator
from raftlog.coordinator.group.membership import decide_heartbeat
from raftlog.coordinator.group.offsets import decide_commit, decide_fetch
from raftlog.coordinator.group.patterns import compiled
from raftlog.coordinator.group.records import TopicMetadata
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.runtime import Decision, LogRecord, Now
from raftlog.errors import RaftlogError
from raftlog.model import TopicPartition
from raftlog.wire.groups import (
    CommitOffset,
    CommittedOffset,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetResults,
    by_topic,
    flat,
)

R = TypeVar("R")
GROUP = "g"


def t(*numbers: int) -> set[TopicPartition]:
    """Return partitions of the topic `t`."""
    return {TopicPartition("t", number) for number in numbers}


class FakeTopics:
    def __init__(self, **topics: int) -> None:
        self.version = 0
        self.have_both_protocols = True
        self._topics = {
            name: TopicMetadata(topic_id=f"{number:032x}", partitions=count)
            for number, (name, count) in enumerate(topics.items())
        }

    def set(self, name: str, partitions: int | None, topic_id: str = "") -> None:
        self.version += 1
        if partitions is None:
            del self._topics[name]
        else:
            known = self._topics.get(name)
            topic_id = topic_id or (known.topic_id if known else f"{self.version:031x}f")
            self._topics[name] = TopicMetadata(topic_id=topic_id, partitions=partitions)

    def get(self, topic: str) -> TopicMetadata | None:
        return self._topics.get(topic)

    def matching(self, pattern: str) -> Iterable[str]:
        return [name for name in self._topics if compiled(pattern).matches(name)]

    @property
    def partitions(self) -> set[TopicPartition]:
        return {
            TopicPartition(name, number) for name, known in self._topics.items() for number in range(known.partitions)
        }


class Shard:
    """Decides, writes down, replays: each record is encoded and decoded."""

    def __init__(self, topics: FakeTopics | None = None, **settings: int) -> None:
        self.topics = topics or FakeTopics(t=4)
        self.settings = GroupConfig(**settings)
        self.changed: list[str] = []
        self.coordinator = GroupCoordinator(self.settings, topics=lambda: self.topics, on_changed=self.changed.append)
        self.state: GroupsState = self.coordinator.new_state()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.now_ms = 1_000_000
        self.on_tick: Callable[[], Iterable[LogRecord]] = lambda: self.coordinator.on_tick(self.state, self.now)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, 10_000_000_000 + self.now_ms)

    @property
    def group(self):
        return self.state.groups[GROUP]

    def write(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            self.log.append(self.coordinator.codec.encode(record))
            decoded = self.coordinator.codec.decode(*self.log[-1])
            assert decoded is not None
            self.coordinator.replay(self.state, decoded)

    def run(self, decide: Callable[..., Decision[R]], *arguments: Any, **more: Any) -> R:
        decision = decide(self.state, self.now, *arguments, **more)
        self.write(decision.records)
        return decision.response

    def heartbeat(self, member_id: str, epoch: int, **wishes: Any) -> GroupHeartbeatResponse:
        request = GroupHeartbeatRequest(member_id=member_id, member_epoch=epoch, **wishes)
        return self.run(decide_heartbeat, GROUP, request, topics=self.topics, settings=self.settings)

    def commit(
        self, offset: int, *, topic: str = "t", partition: int = 0, member: str = "", epoch: int = -1, **more: Any
    ) -> OffsetResults:
        asked = CommitOffset(topic=topic, partition=partition, offset=offset, **more)
        request = OffsetCommitRequest(offsets=(asked,), member_id=member, member_epoch=epoch)
        return self.run(decide_commit, GROUP, request, topics=self.topics, settings=self.settings)

    def committed(self, **request: Any) -> dict[TopicPartition, int]:
        return {TopicPartition(one.topic, one.partition): one.offset for one in self.fetched(**request)}

    def fetched(self, **request: Any) -> list[CommittedOffset]:
        """Return what a sender sees of committed offsets."""
        found = self.run(decide_fetch, GROUP, OffsetFetchRequest(**request))
        return [one.described(self.topics) for one in found]

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.write(self.on_tick())

    def fail_over(self, *, compacted: bool = False) -> None:
        """Load another state from the log, as the next leader does."""
        records = self._newest() if compacted else self.log
        self.state = self.coordinator.new_state()
        for key, value in records:
            decoded = self.coordinator.codec.decode(key, value)
            assert decoded is not None
            self.coordinator.replay(self.state, decoded)
        self.coordinator.on_loaded(self.state, self.now)
        self.require_consistent()

    def _newest(self) -> Iterable[tuple[bytes, bytes | None]]:
        """Return what compaction leaves: the newest record of each key, where it is in the log."""
        newest: dict[bytes, bytes | None] = {}
        for key, value in self.log:
            newest.pop(key, None)
            newest[key] = value
        return newest.items()

    def require_consistent(self) -> None:
        """Check that the index of pending offsets says what they are."""
        found: dict[str, dict[TopicPartition, dict[int, None]]] = {}
        for producer_id, pending in self.state.pending.items():
            for group_id, partition in pending:
                found.setdefault(group_id, {}).setdefault(partition, {})[producer_id] = None
        assert found == self.state.unstable


@dataclass
class Member:
    """A client: it gives up revoked partitions when it is not `slow`, and reports that with its next heartbeat."""

    shard: Shard
    name: str
    topics: tuple[str, ...] = ("t",)
    wishes: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0
    owned: set[TopicPartition] = field(default_factory=set)
    target: frozenset[TopicPartition] = frozenset()
    slow: bool = False
    """It keeps revoked partitions for now."""

    def beat(self, *, lose_answer: bool = False) -> None:
        wishes = {"topics": self.topics, **self.wishes} if self.epoch == 0 else {}
        try:
            answer = self.shard.heartbeat(self.name, self.epoch, owned=by_topic(self.owned), **wishes)
        except RaftlogError as error:
            if error.code not in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"):
                raise
            if not lose_answer:
                self.epoch, self.owned, self.target = 0, set(), frozenset()
            return
        if not lose_answer:
            self.epoch, self.target = answer.member_epoch, flat(answer.assignment)
            self.reconcile()

    def reconcile(self) -> None:
        if not self.slow:
            self.owned &= self.target
        if self.owned <= self.target:
            self.owned |= self.target

    def leave(self) -> None:
        self.shard.heartbeat(self.name, -1)
        self.epoch, self.owned, self.target = 0, set(), frozenset()


def settle(members: Iterable[Member], rounds: int = 12) -> None:
    listed = list(members)
    for _ in range(rounds):
        for member in listed:
            member.beat()
