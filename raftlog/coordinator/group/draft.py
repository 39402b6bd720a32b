"""A draft of a decision: its records so far, and the group as it will be after them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from raftlog.coordinator.group.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Subscriber
from raftlog.coordinator.group.records import (
    ClassicMembership,
    CurrentChanged,
    GroupChanged,
    MemberChanged,
    TargetChanged,
    TargetEpochChanged,
    TopicMetadata,
)
from raftlog.coordinator.group.state import NO_ASSIGNMENT, Current, Group
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime.codec import LogRecord, Tombstone
from raftlog.model import TopicPartition, numbers_by_topic


class Draft:
    """Collects records for one group, and applies them to a copy."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.records: list[LogRecord] = []

    def put(self, record: LogRecord) -> None:
        """Add a record, and apply it to the copy."""
        if not self.records:
            self.group = self.group.copy()
        self.records.append(record)
        self.group.replay(record)

    def set_current(self, member_id: str, current: Current) -> None:
        if current == self.group.current.get(member_id):
            return
        self.put(
            CurrentChanged(
                group_id=self.group.group_id,
                member_id=member_id,
                member_epoch=current.epoch,
                previous_epoch=current.previous_epoch,
                state=current.state,
                assigned=numbers_by_topic(current.assigned),
                revoking=numbers_by_topic(current.revoking),
            )
        )

    def set_target(self, member_id: str, target: frozenset[TopicPartition]) -> None:
        if target != self.group.target.get(member_id):
            plain = numbers_by_topic(target)
            self.put(TargetChanged(group_id=self.group.group_id, member_id=member_id, partitions=plain))

    def begin_epoch(self, topics: Mapping[str, TopicMetadata], *, empty_since_ms: int = -1) -> None:
        """Begin a new group epoch, which needs a new target assignment."""
        group = self.group
        self.put(
            GroupChanged(group_id=group.group_id, epoch=group.epoch + 1, topics=topics, empty_since_ms=empty_since_ms)
        )

    def remove(self, member_id: str) -> None:
        """Remove a member and free its partitions. The caller begins an epoch, unless another member replaces it."""
        key = (self.group.group_id, member_id)
        for kind, known in (
            (CurrentChanged, self.group.current),
            (TargetChanged, self.group.target),
            (MemberChanged, self.group.members),
            (ClassicMembership, self.group.classic),
        ):
            if member_id in known:
                self.put(Tombstone(kind, key))

    def assign(self, topics: Topics) -> None:
        """Compute the target assignment of the group's epoch."""
        group, read_by = self.group, _Subscriptions(topics)
        subscribers = [
            Subscriber(member.member_id, read_by[member], member.instance_id or member.member_id)
            for member in group.members.values()
        ]
        counts = {topic: known.partitions for topic, known in group.topics.items()}
        target = ASSIGNORS[assignor_of(group)](subscribers, counts, group.target)
        for member_id in sorted(target):
            self.set_target(member_id, target[member_id])
        self.put(TargetEpochChanged(group_id=group.group_id, assignment_epoch=group.epoch))

    def current_of(self, member_id: str) -> Current:
        return self.group.current.get(member_id, NO_ASSIGNMENT)


class _Subscriptions:
    """The topics that members subscribe to; not all of them need exist. Members with equal subscriptions share them."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._known: dict[tuple[tuple[str, ...], str], frozenset[str]] = {}

    def __getitem__(self, member: MemberChanged) -> frozenset[str]:
        key = (member.topics, member.pattern)
        if (found := self._known.get(key)) is None:
            matching = self._topics.matching(member.pattern) if member.pattern else ()
            found = self._known[key] = frozenset(chain(member.topics, matching))
        return found


def subscribed_topics(group: Group, topics: Topics) -> dict[str, TopicMetadata]:
    """Return the existing topics that the members subscribe to."""
    read_by = _Subscriptions(topics)
    names = frozenset[str]().union(*{read_by[member] for member in group.members.values()})
    return {name: known for name in sorted(names) if (known := topics.get(name)) is not None}


def assignor_of(group: Group) -> str:
    """Return the assignor that most members request; the default one without requests, or if it ties."""
    votes: dict[str, int] = {}
    for member in group.members.values():
        if member.assignor:
            votes[member.assignor] = votes.get(member.assignor, 0) + 1
    return max(votes, key=lambda name: (votes[name], name == DEFAULT_ASSIGNOR, name), default=DEFAULT_ASSIGNOR)
