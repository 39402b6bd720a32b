"""Assignors: three deterministic ways to assign partitions to members.

- `uniform` (the default): spreads each topic evenly over its subscribers, and all partitions together. Within that,
  partitions stay with their members.
- `sticky`: as few moves as possible. A partition moves only if its member has left, or has at least two more than
  another subscriber of its topic.
- `range`: the n-th subscriber gets the n-th range of each topic, so that partitions of equal number in topics of
  equal size go to the same member (for joins).
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeAlias

from raftlog.model import TopicPartition, topic_partitions

Assignment: TypeAlias = Mapping[str, frozenset[TopicPartition]]
"""By member id."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member, for assignors."""

    member_id: str
    topics: frozenset[str]
    order: str
    """Orders the members of `range`; an instance id is stable across restarts."""


Assign: TypeAlias = Callable[[Iterable[Subscriber], Mapping[str, int], Assignment], Assignment]
"""Maps members, topics with their numbers of partitions, and the current target to the next target."""


def assign_range(members: Iterable[Subscriber], topics: Mapping[str, int], _: Assignment) -> Assignment:
    """Assign a range of each topic to each subscriber, in the members' order."""
    ordered = sorted(members, key=lambda member: (member.order, member.member_id))
    assigned: dict[str, set[TopicPartition]] = {member.member_id: set() for member in ordered}
    readers_of = _Readers(ordered, topics)
    for topic, count in topics.items():
        readers = readers_of[topic]
        if not readers:
            continue
        share, more = divmod(count, len(readers))
        first = 0
        for position, reader in enumerate(readers if share else readers[:more]):
            size = share + (position < more)
            assigned[reader].update(topic_partitions(topic, range(first, first + size)))
            first += size
    return _frozen(assigned)


def assign_uniform(members: Iterable[Subscriber], topics: Mapping[str, int], before: Assignment) -> Assignment:
    """Spread each topic evenly; extra partitions go to members with fewest so far, then to their previous members."""
    ordered = sorted(members, key=lambda member: member.member_id)
    assigned: dict[str, set[TopicPartition]] = {member.member_id: set() for member in ordered}
    readers_of, previous = _Readers(ordered, topics), _previous(ordered, topics, before)
    queues = {kind: _FewestFirst(readers, assigned) for kind, readers in readers_of.of_kind.items()}
    for topic, count in sorted(topics.items()):
        readers, kept = readers_of[topic], previous.get(topic, {})
        if not readers:
            continue
        if count == 1:
            assigned[queues[readers_of.kind_of[topic]].first(kept)].add(TopicPartition(topic, 0))
            continue
        if count < len(readers):
            quota = dict.fromkeys(queues[readers_of.kind_of[topic]].take(count, kept), 1)
        else:
            quota = _even_quota(readers, count, kept, assigned)
        taken: set[TopicPartition] = set()
        for reader, partitions in kept.items():
            if most := quota.get(reader, 0):
                keeps = [partition for partition in sorted(partitions) if partition not in taken][:most]
                assigned[reader].update(keeps)
                taken.update(keeps)
                quota[reader] -= len(keeps)
        if len(taken) < count:
            free = (partition for partition in topic_partitions(topic, range(count)) if partition not in taken)
            for reader, size in quota.items():
                assigned[reader].update(islice(free, size))
    return _frozen(assigned)


def _even_quota(
    readers: Sequence[str],
    count: int,
    kept: Mapping[str, Sequence[TopicPartition]],
    assigned: Mapping[str, set[TopicPartition]],
) -> dict[str, int]:
    """Return the numbers of partitions of a topic for its readers; those that get one more come first."""
    share, more = divmod(count, len(readers))
    by_size = sorted(readers, key=lambda r: (len(assigned[r]), len(kept.get(r, ())) <= share, r))
    return {reader: share + (position < more) for position, reader in enumerate(by_size)}


class _FewestFirst:
    """The readers of topics of one kind, the one with fewest partitions first.

    A topic that has fewer partitions than readers concerns as many readers as it has partitions. With a look at all
    readers, 10,000 topics of one partition and 1,000 members took 10 s.
    """

    def __init__(self, readers: Iterable[str], assigned: Mapping[str, set[TopicPartition]]) -> None:
        self._assigned = assigned
        self._heap = [(0, reader) for reader in readers]
        """Sizes may be outdated: they only grow, and the first one is updated before it counts."""
        heapq.heapify(self._heap)

    def first(self, previous: Iterable[str]) -> str:
        """Return the reader for one more partition, which is the first of what `take` returns."""
        heap, assigned = self._heap, self._assigned
        while heap[0][0] != (size := len(assigned[heap[0][1]])):
            heapq.heapreplace(heap, (size, heap[0][1]))
        holder = min(((len(assigned[reader]), reader) for reader in previous), default=None)
        return heap[0][1] if holder is None or holder[0] > size else holder[1]

    def take(self, count: int, previous: Iterable[str]) -> list[str]:
        """Return `count` readers for one more partition each: with fewest, and among these the previous ones first."""
        heap, assigned = self._heap, self._assigned
        holders = sorted((len(assigned[reader]), reader) for reader in previous)
        holders.reverse()
        known, chosen, out = {reader for _, reader in holders}, list[str](), list[str]()
        while len(chosen) < count:
            size, reader = heap[0] if heap else (math.inf, "")
            if heap and size != len(assigned[reader]):
                heapq.heapreplace(heap, (len(assigned[reader]), reader))
            elif holders and holders[-1][0] <= size:
                chosen.append(holders.pop()[1])
            else:
                heapq.heappop(heap)
                out.append(reader)
                if reader not in known:
                    chosen.append(reader)
        for reader in out:
            heapq.heappush(heap, (len(assigned[reader]), reader))
        return chosen


def _previous(
    ordered: Iterable[Subscriber], topics: Mapping[str, int], before: Assignment
) -> Mapping[str, Mapping[str, list[TopicPartition]]]:
    """Return, by topic and member (in order), the previous partitions that the member may still have."""
    previous: dict[str, dict[str, list[TopicPartition]]] = defaultdict(dict)
    for member in ordered:
        for partition in before.get(member.member_id, frozenset()):
            if partition.partition < topics.get(partition.topic, 0) and partition.topic in member.topics:
                previous[partition.topic].setdefault(member.member_id, []).append(partition)
    return previous


def assign_sticky(members: Iterable[Subscriber], topics: Mapping[str, int], before: Assignment) -> Assignment:
    """Keep previous partitions, assign the free ones, then move partitions only to balance."""
    ordered = sorted(members, key=lambda member: member.member_id)
    assigned: dict[str, set[TopicPartition]] = {member.member_id: set() for member in ordered}
    taken: set[TopicPartition] = set()
    for kept in _previous(ordered, topics, before).values():
        for member_id, partitions in kept.items():
            assigned[member_id].update(partition for partition in partitions if partition not in taken)
            taken.update(partitions)
    readers = _Readers(ordered, topics)
    in_order = sorted(topics.items(), key=lambda item: (len(readers[item[0]]), item[0]))
    everything = chain.from_iterable(topic_partitions(topic, range(count)) for topic, count in in_order)
    _assign_free([partition for partition in everything if partition not in taken], assigned, readers)
    return _Balancer(assigned, readers).balance()


class _Readers:
    """The subscribers of each topic, in the given order.

    Topics with equal subscribers are of one *kind*, and share one list: there are far fewer kinds than topics.
    """

    def __init__(self, ordered: Sequence[Subscriber], topics: Iterable[str]) -> None:
        members_of: dict[frozenset[str], list[int]] = {}
        for position, member in enumerate(ordered):
            members_of.setdefault(member.topics, []).append(position)
        including: dict[str, list[int]] = {topic: [] for topic in topics}
        for number, subscription in enumerate(members_of):
            for topic in subscription:
                if (numbers := including.get(topic)) is not None:
                    numbers.append(number)
        self.kind_of: dict[str, tuple[int, ...]] = {topic: tuple(numbers) for topic, numbers in including.items()}
        """By topic: the numbers of the distinct subscriptions that include it."""
        positions = list(members_of.values())
        self.of_kind: dict[tuple[int, ...], list[str]] = {
            kind: [ordered[one].member_id for one in sorted(chain.from_iterable(positions[number] for number in kind))]
            for kind in set(self.kind_of.values())
        }

    def __getitem__(self, topic: str) -> list[str]:
        return self.of_kind[self.kind_of[topic]]


def _assign_free(free: list[TopicPartition], assigned: dict[str, set[TopicPartition]], readers: _Readers) -> None:
    """Assign each partition, in the given order, to the subscriber with fewest."""
    by_size = {kind: [(len(assigned[member]), member) for member in names] for kind, names in readers.of_kind.items()}
    for sizes in by_size.values():
        heapq.heapify(sizes)
    for partition in free:
        if not (sizes := by_size[readers.kind_of[partition.topic]]):
            continue
        while sizes[0][0] != (size := len(assigned[sizes[0][1]])):  # It has got a partition of another kind since.
            heapq.heapreplace(sizes, (size, sizes[0][1]))
        assigned[sizes[0][1]].add(partition)


class _Balancer:
    """Moves partitions one by one from the member with most to the member with fewest."""

    def __init__(self, assigned: Mapping[str, set[TopicPartition]], readers: _Readers) -> None:
        self._assigned = assigned
        self._bits = {kind: 1 << number for number, kind in enumerate(sorted(readers.of_kind))}
        self._kind_of = readers.kind_of
        self._wants: dict[str, int] = defaultdict(int)
        """By member: the bits of the kinds that it reads."""
        for kind, members in readers.of_kind.items():
            for member in members:
                self._wants[member] |= self._bits[kind]
        self._has: dict[str, dict[int, list[TopicPartition]]] = {member: {} for member in assigned}
        """By member and kind's bit: in order."""
        for member, partitions in assigned.items():
            for partition in sorted(partitions):
                self._has[member].setdefault(self._bit(partition), []).append(partition)
        self._fewest_first = sorted((len(assigned[member]), member) for member in self._wants)
        self._most_first = sorted((-len(partitions), member) for member, partitions in assigned.items())

    def balance(self) -> Assignment:
        """Move until the assignment is balanced, and return it."""
        while self._move():
            pass
        return _frozen(self._assigned)

    def _move(self) -> bool:
        for receiver_size, receiver in self._fewest_first:
            wants = self._wants[receiver]
            for giver_size, giver in self._most_first:
                if -giver_size <= receiver_size + 1:
                    break
                if candidates := [partitions[-1] for bit, partitions in self._has[giver].items() if bit & wants]:
                    self._transfer(max(candidates), giver, receiver)
                    return True
        return False

    def _transfer(self, partition: TopicPartition, giver: str, receiver: str) -> None:
        bit = self._bit(partition)
        self._has[giver][bit].pop()
        if not self._has[giver][bit]:
            del self._has[giver][bit]
        insort(self._has[receiver].setdefault(bit, []), partition)
        for member, change in ((giver, self._assigned[giver].remove), (receiver, self._assigned[receiver].add)):
            size = len(self._assigned[member])
            change(partition)
            if member in self._wants:
                _replace(self._fewest_first, (size, member), (len(self._assigned[member]), member))
            _replace(self._most_first, (-size, member), (-len(self._assigned[member]), member))

    def _bit(self, partition: TopicPartition) -> int:
        return self._bits[self._kind_of[partition.topic]]


def _replace(ordered: list[tuple[int, str]], old: tuple[int, str], new: tuple[int, str]) -> None:
    del ordered[bisect_left(ordered, old)]
    insort(ordered, new)


def _frozen(assigned: Mapping[str, set[TopicPartition]]) -> Assignment:
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


ASSIGNORS: Mapping[str, Assign] = {"uniform": assign_uniform, "sticky": assign_sticky, "range": assign_range}
DEFAULT_ASSIGNOR = "uniform"
