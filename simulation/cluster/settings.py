"""The settings of simulated clusters, without their faults."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field

from simulation.cluster import held, plain
from simulation.cluster.bursts import Burst
from simulation.cluster.compaction import Compaction
from simulation.cluster.members import Crowd
from simulation.cluster.pipelined import Pipeline
from simulation.cluster.relays import Staff
from simulation.cluster.unclean import Gamble

FEATURES = (
    "transactions",
    "removal",
    "busy",
    "log_dirs",
    "rot",
    "bursts",
    "scrub",
    "moves",
    "unclean",
    "json",
    "pipelines",
    "groups",
    "compaction",
    "held",
    "relays",
)
"""What only some worlds have, besides their faults. Each can be left out."""
LOG_DIRS = (0, 0, 2, 3)
"""How many log folders brokers have."""
TURNS_S = (0.0, 0.0, 0.02)
"""How long callbacks may take, in some of the worlds."""
SCRUBS_MS = (-1, 2_000)
"""How often brokers check their logs; -1: never."""
REMOVAL = 1 / 3
"""The share of worlds that remove records."""


@dataclass(frozen=True)
class Removal:
    """How records of the workload's topic are removed while clients write it; -1: not by this limit."""

    delete_records: bool = False
    retention_bytes: int = -1
    retention_ms: int = -1
    file_delete_delay_ms: int = 500
    check_interval_ms: int = 300

    @classmethod
    def drawn(cls, seed: int) -> Removal | None:
        """Draw whether a world has it, and how, by dice of its own: other worlds do not change."""
        apart = random.Random(f"removal of {seed}")  # noqa: S311  (a schedule, not a secret)
        if apart.random() >= REMOVAL:
            return None
        retention = apart.choice(("", "bytes", "ms"))
        return cls(
            delete_records=not retention or apart.random() < 0.75,
            retention_bytes=apart.choice((4_096, 12_288)) if retention == "bytes" else -1,
            retention_ms=apart.choice((2_000, 8_000)) if retention == "ms" else -1,
            file_delete_delay_ms=apart.choice((0, 500)),
            check_interval_ms=apart.choice((100, 1_000)),
        )

    @property
    def topic_configs(self) -> dict[str, int]:
        """The topic's settings; segments are so small that some are removed within a run."""
        return {
            "segment_bytes": 4_096,
            "retention_bytes": self.retention_bytes,
            "retention_ms": self.retention_ms,
            "file_delete_delay_ms": self.file_delete_delay_ms,
        }


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
    """Whether each broker has its own rack, and a reader in one of them reads followers."""
    transactional_producers: int = 0
    held_producers: bool = field(default=False, repr=False)
    """Whether some transactional producers speak Kafka's protocol, and keep their epoch."""
    longest_turn_s: float = 0.0
    """How long a callback may keep its process from all other work; 0: no callback takes time."""
    json_clients: int = field(default=0, repr=False)
    """How many clients post JSON beside the producers of batches."""
    log_dirs: int = 0
    """How many log folders each broker has beside its data folder; 0: everything is in one."""
    rots_everywhere: bool = False
    """Before the world heals, batches on all disks are damaged, each with an intact copy on another disk."""
    scrub_interval_ms: int = -1
    """How often each broker checks its logs for damage; -1: never."""
    removal: Removal | None = field(default=None, repr=False)
    bursts: Burst | None = field(default=None, repr=False)
    unclean: Gamble | None = field(default=None, repr=False)
    pipeline: Pipeline | None = field(default=None, repr=False)
    crowd: Crowd | None = field(default=None, repr=False)
    staff: Staff | None = field(default=None, repr=False)
    compaction: Compaction | None = field(default=None, repr=False)

    @property
    def retention_check_interval_ms(self) -> int:
        return self.removal.check_interval_ms if self.removal else 30_000

    @classmethod
    def drawn(cls, dice: random.Random, seed: int, without: Collection[str] = ()) -> Settings:
        """Draw the settings of a world.

        Args:
            dice: the world's own.
            seed: decides which of the `FEATURES` the world has, by dice of their own: other worlds do not change.
            without: features that it does not have, whatever the seed decides.
        """
        apart = random.Random(f"transactions of {seed}")  # noqa: S311  (a schedule, not a secret)
        brokers = dice.choice((3, 3, 3, 4))
        bursts = None if "bursts" in without else Burst.drawn(seed, moves="moves" not in without)
        return cls(
            controllers=dice.choice((1, 3, 3)),
            brokers=5 if bursts is not None and bursts.big else brokers,
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
            transactional_producers=0 if "transactions" in without else apart.choice((0, 0, 1, 2)),
            held_producers="held" not in without and held.drawn(seed),
            longest_turn_s=0.0 if "busy" in without else random.Random(f"busy of {seed}").choice(TURNS_S),  # noqa: S311
            json_clients=0 if "json" in without else plain.drawn(seed),
            log_dirs=0 if "log_dirs" in without else random.Random(f"log_dirs of {seed}").choice(LOG_DIRS),  # noqa: S311
            rots_everywhere="rot" not in without and random.Random(f"rot of {seed}").random() < 0.5,  # noqa: S311
            scrub_interval_ms=-1 if "scrub" in without else random.Random(f"scrub of {seed}").choice(SCRUBS_MS),  # noqa: S311
            removal=None if "removal" in without else Removal.drawn(seed),
            bursts=bursts,
            compaction=None if "compaction" in without else Compaction.drawn(seed),
            crowd=None if "groups" in without else Crowd.drawn(seed),
            staff=None if "relays" in without else Staff.drawn(seed),
            pipeline=None if "pipelines" in without else Pipeline.drawn(seed),
            unclean=None if "unclean" in without else Gamble.drawn(seed),
        )
