"""Who should read which partition: three ways to say so, all deterministic.

- `uniform` (the default): every topic is spread evenly over its subscribers, and so are all partitions together.
  Within that, partitions stay where they are.
- `sticky`: as few moves as possible: a partition moves only if its reader is gone, or has at least two more than
  another one who could read it.
- `range`: the n-th subscriber reads the n-th stretch of each topic, so that partitions of equal number in topics of
  equal size are read together (for joins).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
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
    for topic, count in topics.items():
        readers = [member.member_id for member in ordered if topic in member.topics]
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
    for topic, count in sorted(topics.items()):
        readers = [member.member_id for member in ordered if topic in member.topics]
        if not readers:
            continue
        kept = {reader: _kept(topic, count, before.get(reader, frozenset())) for reader in readers}
        share, more = divmod(count, len(readers))
        by_need = sorted(readers, key=lambda r: (len(given[r]), len(kept[r]) <= share, r))
        quota = {reader: share + (position < more) for position, reader in enumerate(by_need)}
        taken: set[TopicPartition] = set()
        for reader in readers:
            keeps = [partition for partition in kept[reader] if partition not in taken][: quota[reader]]
            given[reader].update(keeps)
            taken.update(keeps)
            quota[reader] -= len(keeps)
        free = iter([p for p in (TopicPartition(topic, number) for number in range(count)) if p not in taken])
        for reader in by_need:
            given[reader].update(next(free) for _ in range(quota[reader]))
    return _frozen(given)


def _kept(topic: str, count: int, before: frozenset[TopicPartition]) -> list[TopicPartition]:
    return sorted(partition for partition in before if partition.topic == topic and partition.partition < count)


def assign_sticky(members: Iterable[Subscriber], topics: Mapping[str, int], before: Assignment) -> Assignment:
    """Leave everything where it is, give out what is free, then move only what evens out."""
    ordered = sorted(members, key=lambda member: member.member_id)
    given: dict[str, set[TopicPartition]] = {member.member_id: set() for member in ordered}
    readers: dict[str, list[str]] = {
        topic: [member.member_id for member in ordered if topic in member.topics] for topic in topics
    }
    taken: set[TopicPartition] = set()
    for member in ordered:
        for partition in before.get(member.member_id, frozenset()):
            exists = partition.partition < topics.get(partition.topic, 0)
            if exists and partition.topic in member.topics and partition not in taken:
                given[member.member_id].add(partition)
                taken.add(partition)
    free = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
    # Those that few can read first: the others can still even out.
    for partition in sorted(set(free) - taken, key=lambda p: (len(readers[p.topic]), p)):
        if readers[partition.topic]:
            given[min(readers[partition.topic], key=lambda r: (len(given[r]), r))].add(partition)
    _even_out(given, readers)
    return _frozen(given)


def _even_out(given: dict[str, set[TopicPartition]], readers: Mapping[str, list[str]]) -> None:
    """Move one partition after another from who has most to who has least, until no move makes it evener."""
    wants: dict[str, set[str]] = defaultdict(set)
    for topic, members in readers.items():
        for member in members:
            wants[member].add(topic)
    moved = True
    while moved:
        moved = False
        for poor in sorted(wants, key=lambda member: (len(given[member]), member)):
            for rich in sorted(given, key=lambda member: (-len(given[member]), member)):
                if len(given[rich]) <= len(given[poor]) + 1:
                    break
                if fitting := [partition for partition in given[rich] if partition.topic in wants[poor]]:
                    given[rich].remove(max(fitting))
                    given[poor].add(max(fitting))
                    moved = True
                    break
            if moved:
                break


def _frozen(given: Mapping[str, set[TopicPartition]]) -> Assignment:
    return {member: frozenset(partitions) for member, partitions in given.items()}


ASSIGNORS: Mapping[str, Assign] = {"uniform": assign_uniform, "sticky": assign_sticky, "range": assign_range}
DEFAULT_ASSIGNOR = "uniform"
