"""Who should read which partition: three ways to say so, all deterministic.

- `uniform` (the default): every topic is spread evenly over its subscribers, and so are all partitions together.
  Within that, partitions stay where they are.
- `sticky`: as few moves as possible: a partition moves only if its reader is gone, or has at least two more than
  another one who could read it.
- `range`: the n-th subscriber reads the n-th stretch of each topic, so that partitions of equal number in topics of
  equal size are read together (for joins).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from raftlog.model import TopicPartition

Assignment: TypeAlias = Mapping[str, frozenset[TopicPartition]]
"""By member id."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member, for assignors."""

    member_id: str
    topics: frozenset[str]
    order: str
    """What ranges are dealt out by: an instance id survives restarts."""


Assign: TypeAlias = Callable[[Iterable[Subscriber], Mapping[str, int], Assignment], Assignment]
"""From the members, the topics with their numbers of partitions, and the present target to the next one."""


def assign_range(members: Iterable[Subscriber], topics: Mapping[str, int], _: Assignment) -> Assignment:
    """Deal out stretches of each topic, in the members' order."""
    ordered = sorted(members, key=lambda member: (member.order, member.member_id))
    given: dict[str, set[TopicPartition]] = {member.member_id: set() for member in ordered}
    readers_of = _Readers(ordered, topics)
    for topic, count in topics.items():
        readers = readers_of[topic]
        if not readers:
            continue
        share, more = divmod(count, len(readers))
        first = 0
        for position, reader in enumerate(readers):
            size = share + (position < more)
            given[reader].update(TopicPartition(topic, number) for number in range(first, first + size))
            first += size
    return _frozen(given)


def assign_uniform(members: Iterable[Subscriber], topics: Mapping[str, int], before: Assignment) -> Assignment:
    """Spread each topic evenly; who gets one more of it is who has least so far, or else who has it now."""
    ordered = sorted(members, key=lambda member: member.member_id)
    given: dict[str, set[TopicPartition]] = {member.member_id: set() for member in ordered}
    readers_of, held = _Readers(ordered, topics), _held(ordered, topics, before)
    for topic, count in sorted(topics.items()):
        readers = readers_of[topic]
        if not readers:
            continue
        kept = held[topic]
        share, more = divmod(count, len(readers))
        by_need = sorted(readers, key=lambda r: (len(given[r]), len(kept.get(r, ())) <= share, r))
        quota = {reader: share + (position < more) for position, reader in enumerate(by_need)}
        taken: set[TopicPartition] = set()
        for reader, partitions in kept.items():
            keeps = [partition for partition in sorted(partitions) if partition not in taken][: quota[reader]]
            given[reader].update(keeps)
            taken.update(keeps)
            quota[reader] -= len(keeps)
        free = iter([p for p in (TopicPartition(topic, number) for number in range(count)) if p not in taken])
        for reader in by_need:
            given[reader].update(next(free) for _ in range(quota[reader]))
    return _frozen(given)


def _held(
    ordered: Iterable[Subscriber], topics: Mapping[str, int], before: Assignment
) -> Mapping[str, Mapping[str, list[TopicPartition]]]:
    """Return, by topic and then in the members' order, what each one has of what it may still read."""
    held: dict[str, dict[str, list[TopicPartition]]] = defaultdict(dict)
    for member in ordered:
        for partition in before.get(member.member_id, frozenset()):
            if partition.partition < topics.get(partition.topic, 0) and partition.topic in member.topics:
                held[partition.topic].setdefault(member.member_id, []).append(partition)
    return held


def assign_sticky(members: Iterable[Subscriber], topics: Mapping[str, int], before: Assignment) -> Assignment:
    """Leave everything where it is, give out what is free, then move only what evens out."""
    ordered = sorted(members, key=lambda member: member.member_id)
    given: dict[str, set[TopicPartition]] = {member.member_id: set() for member in ordered}
    taken: set[TopicPartition] = set()
    for kept in _held(ordered, topics, before).values():
        for member_id, partitions in kept.items():
            given[member_id].update(partition for partition in partitions if partition not in taken)
            taken.update(partitions)
    readers = _Readers(ordered, topics)
    everything = (TopicPartition(topic, number) for topic, count in topics.items() for number in range(count))
    _give_out([partition for partition in everything if partition not in taken], given, readers)
    return _Balance(given, readers).evened_out()


class _Readers:
    """The members that read each topic, in the order given.

    Topics that the same members read are of one kind, and share one list: there are far fewer kinds than topics.
    """

    def __init__(self, ordered: Sequence[Subscriber], topics: Iterable[str]) -> None:
        wishes: dict[frozenset[str], int] = {}
        wish_of = [wishes.setdefault(member.topics, len(wishes)) for member in ordered]
        self.kind_of: dict[str, tuple[int, ...]] = {
            topic: tuple(number for wish, number in wishes.items() if topic in wish) for topic in topics
        }
        """By topic: which of the members' different wishes name it."""
        self.of_kind: dict[tuple[int, ...], list[str]] = {
            kind: [member.member_id for member, wish in zip(ordered, wish_of, strict=True) if wish in kind]
            for kind in set(self.kind_of.values())
        }

    def __getitem__(self, topic: str) -> list[str]:
        return self.of_kind[self.kind_of[topic]]


def _give_out(free: list[TopicPartition], given: dict[str, set[TopicPartition]], readers: _Readers) -> None:
    """Give each partition to the reader that has least. Those that few can read come first: the others even out."""
    by_need = {kind: [(len(given[member]), member) for member in names] for kind, names in readers.of_kind.items()}
    for needs in by_need.values():
        heapq.heapify(needs)
    for partition in sorted(free, key=lambda p: (len(readers[p.topic]), p)):
        if not (needs := by_need[readers.kind_of[partition.topic]]):
            continue
        while needs[0][0] != (size := len(given[needs[0][1]])):  # It was given one of another kind meanwhile.
            heapq.heapreplace(needs, (size, needs[0][1]))
        given[needs[0][1]].add(partition)


class _Balance:
    """What each member has, while one partition after another goes from who has most to who has least."""

    def __init__(self, given: Mapping[str, set[TopicPartition]], readers: _Readers) -> None:
        self._given = given
        self._bits = {kind: 1 << number for number, kind in enumerate(sorted(readers.of_kind))}
        self._kind_of = readers.kind_of
        self._wants: dict[str, int] = defaultdict(int)
        """By member: the bits of the kinds that it reads."""
        for kind, members in readers.of_kind.items():
            for member in members:
                self._wants[member] |= self._bits[kind]
        self._has: dict[str, dict[int, list[TopicPartition]]] = {member: {} for member in given}
        """By member and kind's bit: in order."""
        for member, partitions in given.items():
            for partition in sorted(partitions):
                self._has[member].setdefault(self._bit(partition), []).append(partition)
        self._poorest = sorted((len(given[member]), member) for member in self._wants)
        self._richest = sorted((-len(partitions), member) for member, partitions in given.items())

    def evened_out(self) -> Assignment:
        """Move until no move makes it evener, and return what each member has then."""
        while self._move():
            pass
        return _frozen(self._given)

    def _move(self) -> bool:
        for poor_size, poor in self._poorest:
            wants = self._wants[poor]
            for rich_size, rich in self._richest:
                if -rich_size <= poor_size + 1:
                    break
                if fitting := [partitions[-1] for bit, partitions in self._has[rich].items() if bit & wants]:
                    self._give(max(fitting), rich, poor)
                    return True
        return False

    def _give(self, partition: TopicPartition, rich: str, poor: str) -> None:
        bit = self._bit(partition)
        self._has[rich][bit].pop()
        if not self._has[rich][bit]:
            del self._has[rich][bit]
        insort(self._has[poor].setdefault(bit, []), partition)
        for member, change in ((rich, self._given[rich].remove), (poor, self._given[poor].add)):
            size = len(self._given[member])
            change(partition)
            if member in self._wants:
                _replace(self._poorest, (size, member), (len(self._given[member]), member))
            _replace(self._richest, (-size, member), (-len(self._given[member]), member))

    def _bit(self, partition: TopicPartition) -> int:
        return self._bits[self._kind_of[partition.topic]]


def _replace(ordered: list[tuple[int, str]], old: tuple[int, str], new: tuple[int, str]) -> None:
    del ordered[bisect_left(ordered, old)]
    insort(ordered, new)


def _frozen(given: Mapping[str, set[TopicPartition]]) -> Assignment:
    return {member: frozenset(partitions) for member, partitions in given.items()}


ASSIGNORS: Mapping[str, Assign] = {"uniform": assign_uniform, "sticky": assign_sticky, "range": assign_range}
DEFAULT_ASSIGNOR = "uniform"
