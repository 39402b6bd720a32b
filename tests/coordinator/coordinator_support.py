"""A coordinator of a few lines, and real replicas for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from unittest.mock import Mock

from raftlog.config import TopicConfig
from raftlog.coordinator.runtime import CoordinatorRuntime, Decision, LogRecord, Now, RecordCodec, Tombstone
from raftlog.model import PartitionAssignment, PartitionState
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.environment import ReplicaEnvironment, ReplicaObserver
from raftlog.partition.replica import Replica
from raftlog.partition.storage.log import PartitionLog
from raftlog.runtime import Tasks

TOPIC = "__counters"
FOLLOWER_EPOCH = 12
FLUSH_OS = {"cleanup_policy": "compact", "flush": "os"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    KEY: ClassVar[tuple[str, ...]] = ("name",)
    VERSION: ClassVar[int] = 1
    name: str
    total: int


class Counters:
    """A counter; the next tick forgets negative values."""

    codec = RecordCodec([Changed])

    def __init__(self) -> None:
        self.loaded = 0
        self.fail_on: str | None = None

    def new_state(self) -> dict[str, int]:
        return {}

    def replay(self, state: dict[str, int], record: LogRecord) -> None:
        match record:
            case Changed():
                if record.name == self.fail_on:
                    raise RuntimeError("a bug")
                state[record.name] = record.total
            case Tombstone(kind, key) if kind is Changed:
                state.pop(key[0], None)

    def on_loaded(self, state: dict[str, int], now: Now) -> None:
        self.loaded += 1

    def on_tick(self, state: dict[str, int], now: Now) -> Sequence[LogRecord]:
        return [Tombstone(Changed, (name,)) for name, total in state.items() if total < 0]

    def is_behind(self, state: dict[str, int], now: Now) -> bool:
        return False


def add(state: dict[str, int], name: str, amount: int) -> Decision[int]:
    total = state.get(name, 0) + amount
    return Decision([Changed(name=name, total=total)], total)


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_us(self) -> int:
        return self.now_ms * 1_000


class Broker:
    """Broker 1 with one replica of `__counters-0`; broker 2 follows on request."""

    def __init__(self, folder: Path, *, isr: tuple[int, ...] = (1, 2), leader: int = 1) -> None:
        self.folder = folder
        self.clock, self.tasks = Clock(), Tasks("broker")
        self.counters = Counters()
        self.activated: list[int] = []
        self.state = PartitionState(replicas=(1, 2), isr=isr, leader=leader, leader_epoch=0, partition_epoch=0)
        self.replica = self._open()
        self.runtime = CoordinatorRuntime(
            self.counters,
            topic=TOPIC,
            partitions=lambda: 1,
            replicas=self,
            clock=self.clock,
            on_active=self.activated.append,
        )

    def find(self, topic: str, partition: int) -> Replica | None:
        return self.replica if (topic, partition) == (TOPIC, 0) else None

    def _open(self) -> Replica:
        assignment = PartitionAssignment(
            topic=TOPIC, topic_id="e" * 32, partition=0, state=self.state, configs=FLUSH_OS
        )
        replica = Replica(
            assignment=assignment,
            log=PartitionLog.open(self.folder / f"{TOPIC}-0", TopicConfig().with_overrides(FLUSH_OS)),
            producers=ProducerStates(),
            environment=ReplicaEnvironment(
                broker_id=1,
                observer=Mock(ReplicaObserver),
                clock=self.clock,
                tasks=self.tasks,
            ),
        )
        replica.apply(assignment)
        return replica

    def reopen(self) -> None:
        self.replica.close()
        self.replica = self._open()

    def change(self, **state: object) -> None:
        self.state = replace(
            self.replica.state,
            partition_epoch=self.replica.state.partition_epoch + 1,
            **state,  # type: ignore[arg-type]
        )
        self.replica.apply_state(self.state)

    def elect(self, leader: int) -> None:
        self.change(leader=leader, leader_epoch=self.replica.state.leader_epoch + 1)

    def replicate(self) -> None:
        end = self.replica.log.log_end_offset
        self.replica.on_follower_fetch(2, broker_epoch=FOLLOWER_EPOCH, fetch_offset=end)

    async def close(self) -> None:
        await self.runtime.close()
        self.replica.resign()
        await self.tasks.close()
        self.replica.close()
