"""The preferred read replica of each partition, in the reader's rack (KIP-392). No IO.

The leader returns one. It expires after a while, so that replicas that catch up or move are noticed. After a replica
failed or lacked records, the leader is read for a shorter while.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from raftlog.model import BrokerId, TopicPartition
from raftlog.runtime import Clock

LASTS_MS = 60_000
AVOIDED_MS = 10_000


class _Choice(NamedTuple):
    broker: BrokerId | None
    until_ms: float


@dataclass
class RackReplicas:
    """The preferred read replicas; a partition without one is read from its leader."""

    clock: Clock
    _choices: dict[TopicPartition, _Choice] = field(default_factory=dict)

    def is_undecided(self, partition: TopicPartition) -> bool:
        """Return whether the next fetch must ask the leader for a preferred read replica."""
        choice = self._choices.get(partition)
        return choice is None or choice.until_ms <= self.clock.monotonic_ms()

    def of(self, partition: TopicPartition) -> BrokerId | None:
        """Return the replica to read; None: the leader."""
        return self._choices[partition].broker if partition in self._choices else None

    def decide(self, partition: TopicPartition, broker: BrokerId | None) -> None:
        """Store the leader's answer; None: read the leader."""
        self._choices[partition] = _Choice(broker, self.clock.monotonic_ms() + LASTS_MS)

    def leave(self, partition: TopicPartition) -> None:
        """Read from the leader for a while."""
        self._choices[partition] = _Choice(None, self.clock.monotonic_ms() + AVOIDED_MS)
