"""Replica placement: over racks first, then over brokers, with leaders spread evenly.

Brokers form a ring that alternates between racks and begins with the least loaded broker. Partition p starts at
position p and takes the next brokers of the ring, preferring racks that it does not have yet.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import zip_longest

from raftlog.model import BrokerId


def place(
    brokers: Sequence[tuple[BrokerId, str]], *, partitions: int, replication_factor: int, load: Counter[BrokerId]
) -> list[tuple[BrokerId, ...]]:
    """Return the assigned replicas of each partition, preferred leader first.

    Args:
        brokers: (id, rack) of the brokers that may get replicas. A broker with an empty rack is in a rack of its own.
        load: the number of partitions that each broker leads already.
    """
    assert 1 <= replication_factor <= len(brokers)
    racks = {broker: rack or f"broker {broker}" for broker, rack in brokers}
    ring = _ring(racks, load)
    return [_replicas(ring, racks, partition, replication_factor) for partition in range(partitions)]


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
    chosen = [ring[start]]
    while len(chosen) < replication_factor:
        used = Counter(racks[broker] for broker in chosen)
        chosen.append(min((b for b in others if b not in chosen), key=lambda broker: used[racks[broker]]))
    return tuple(chosen)
