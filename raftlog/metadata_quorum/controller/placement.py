"""Replica placement: over racks first, then over brokers, with leaders spread evenly.

Brokers form a ring that alternates between racks and begins with the least loaded broker. Partition p starts at
position p and takes the next brokers of the ring, preferring racks that it does not have yet. Brokers that are down
follow last, and only where the live ones are too few.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import zip_longest

from raftlog.model import BrokerId


def place(
    brokers: Sequence[tuple[BrokerId, str]],
    *,
    partitions: int,
    replication_factor: int,
    load: Counter[BrokerId],
    down: Sequence[tuple[BrokerId, str]] = (),
) -> list[tuple[BrokerId, ...]]:
    """Return the assigned replicas of each partition, preferred leader first.

    Args:
        brokers: (id, rack) of the live brokers. A broker with an empty rack is in a rack of its own.
        load: the number of partitions that each broker leads already.
        down: (id, rack) of brokers that get replicas if there are fewer live ones than replicas; they never come first.
    """
    assert brokers
    assert 1 <= replication_factor <= len(brokers) + len(down)
    racks = {broker: rack or f"broker {broker}" for broker, rack in (*brokers, *down)}
    ring = _ring({broker: racks[broker] for broker, _ in brokers}, load)
    from_ring = min(replication_factor, len(ring))
    placed = [_replicas(ring, racks, partition, from_ring) for partition in range(partitions)]
    if from_ring == replication_factor:
        return placed
    late = [broker for broker, _ in down]
    return [
        _filled_up(replicas, late[partition % len(late) :] + late[: partition % len(late)], racks, replication_factor)
        for partition, replicas in enumerate(placed)
    ]


def _ring(racks: dict[BrokerId, str], load: Counter[BrokerId]) -> list[BrokerId]:
    by_rack: dict[str, list[BrokerId]] = defaultdict(list)
    for broker in sorted(racks, key=lambda broker: (load[broker], broker)):
        by_rack[racks[broker]].append(broker)
    rows = zip_longest(*by_rack.values())
    return [broker for row in rows for broker in row if broker is not None]


def _replicas(
    ring: Sequence[BrokerId], racks: dict[BrokerId, str], partition: int, replication_factor: int
) -> tuple[BrokerId, ...]:
    start = partition % len(ring)
    # Each lap of the ring shifts the followers, so that one broker's partitions do not all follow the same other one.
    shift = (partition // len(ring)) % max(1, len(ring) - 1)
    others = [ring[(start + 1 + (shift + i) % (len(ring) - 1)) % len(ring)] for i in range(len(ring) - 1)]
    return _filled_up((ring[start],), others, racks, replication_factor)


def _filled_up(
    first: tuple[BrokerId, ...], others: Sequence[BrokerId], racks: dict[BrokerId, str], replication_factor: int
) -> tuple[BrokerId, ...]:
    """Return `first` and as many others as are missing, in their order, but preferring racks that have fewest."""
    chosen = list(first)
    while len(chosen) < replication_factor:
        used = Counter(racks[broker] for broker in chosen)
        chosen.append(min((b for b in others if b not in chosen), key=lambda broker: used[racks[broker]]))
    return tuple(chosen)
