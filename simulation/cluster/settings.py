"""What simulated clusters are like, besides their faults."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """What differs between worlds."""

    controllers: int = 3
    brokers: int = 3
    replicas: int = 3
    min_insync_replicas: int = 2
    partitions: int = 1
    producers_per_partition: int = 1
    pause_s: float = 0.03
    segment_bytes: int = 16_384
    snapshot_min_entries: int = 20_000
    longest_delay_s: float = 0.001
    longest_thread_s: float = 0.002
    replica_lag_time_max_ms: int = 10_000
    broker_session_timeout_ms: int = 3_000
    checkpoint_interval_ms: int = 5_000
    flush: str = "batch"
    racks: bool = False
    """Each broker has its own, and a reader in one of them reads followers."""
    transactional_producers: int = 0

    @classmethod
    def drawn(cls, dice: random.Random, seed: int) -> Settings:
        """Draw the settings of a world.

        Args:
            dice: the world's own.
            seed: says whether it has transactions, by dice apart: the others are as they would be without any.
        """
        apart = random.Random(f"transactions of {seed}")  # noqa: S311  (a schedule, not a secret)
        brokers = dice.choice((3, 3, 3, 4))
        return cls(
            controllers=dice.choice((1, 3, 3)),
            brokers=brokers,
            replicas=3,
            min_insync_replicas=dice.choice((1, 2, 2)),
            partitions=dice.choice((1, 2)),
            producers_per_partition=dice.choice((1, 2)),
            pause_s=dice.choice((0.03, 0.1)),
            segment_bytes=dice.choice((4_096, 16_384, 1 << 20)),
            snapshot_min_entries=dice.choice((20, 20_000)),
            longest_delay_s=dice.choice((0.0005, 0.005, 0.03)),
            longest_thread_s=dice.choice((0.001, 0.01, 0.1)),
            replica_lag_time_max_ms=dice.choice((2_000, 10_000)),
            broker_session_timeout_ms=dice.choice((1_500, 3_000, 6_000)),
            checkpoint_interval_ms=dice.choice((500, 5_000)),
            racks=dice.choice((False, True)),
            transactional_producers=apart.choice((0, 0, 1, 2)),
        )
