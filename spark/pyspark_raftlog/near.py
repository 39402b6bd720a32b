"""Which replica in the reader's own rack each partition is read from (KIP-392). No IO.

The leader names one; that holds for a while, so that replicas that catch up or move are noticed. A replica that failed,
or had nothing where there should be records, is left for the leader for a shorter while.
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
class NearReplicas:
    """The replicas that leaders have named. None of them: read from the leader."""

    clock: Clock
    _choices: dict[TopicPartition, _Choice] = field(default_factory=dict)

    def is_undecided(self, partition: TopicPartition) -> bool:
        """Tell whether the leader is to be asked whom to read."""
        choice = self._choices.get(partition)
        return choice is None or choice.until_ms <= self.clock.monotonic_ms()

    def of(self, partition: TopicPartition) -> BrokerId | None:
        """Return the replica to read, None for the leader."""
        return self._choices[partition].broker if partition in self._choices else None

    def decide(self, partition: TopicPartition, broker: BrokerId | None) -> None:
        """Learn what the leader said."""
        self._choices[partition] = _Choice(broker, self.clock.monotonic_ms() + LASTS_MS)

    def leave(self, partition: TopicPartition) -> None:
        """Go back to the leader for a while."""
        self._choices[partition] = _Choice(None, self.clock.monotonic_ms() + AVOIDED_MS)
