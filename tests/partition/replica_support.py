"""One replica with a real log and a clock that is set by hand, without other brokers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from raftlog.config import TopicConfig
from raftlog.errors import StorageError
from raftlog.model import PartitionAssignment, PartitionState, TopicIdPartition
from raftlog.partition.admission import RequireGiven
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.damage import Damage
from raftlog.partition.environment import ReplicaEnvironment
from raftlog.partition.replica import AppendResult, Replica
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import NewRecord, build_batch
from raftlog.runtime import Tasks

TOPIC_ID = "e" * 32
EPOCHS = {1: 11, 2: 12, 3: 13}


class StillClock:
    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_us(self) -> int:
        return self.now_ms * 1_000


class Solo:
    """Broker 1 and its replica of t-<partition>; the replicas are 1, 2 and 3."""

    def __init__(
        self,
        folder: Path,
        *,
        isr: tuple[int, ...] = (1, 2, 3),
        leader: int = 1,
        partition: int = 0,
        require_given: RequireGiven | None = None,
        **configs: object,
    ) -> None:
        self.clock, self.tasks = StillClock(), Tasks("solo")
        self.hints = 0
        self.failures: list[StorageError] = []
        state = PartitionState(replicas=(1, 2, 3), isr=isr, leader=leader, leader_epoch=0, partition_epoch=0)
        assignment = PartitionAssignment(
            topic="t",
            topic_id=TOPIC_ID,
            partition=partition,
            state=state,
            configs=configs,  # type: ignore[arg-type]
        )
        folder.mkdir(exist_ok=True)
        log = PartitionLog.open(folder / f"t-{partition}", TopicConfig().with_overrides(configs))
        self.replica = Replica(
            assignment=assignment,
            log=log,
            producers=ProducerStates(),
            environment=ReplicaEnvironment(
                broker_id=1, observer=self, clock=self.clock, tasks=self.tasks, require_given=require_given
            ),
        )
        self.replica.apply(assignment)

    def on_isr_hint(self) -> None:
        self.hints += 1

    def on_disk_failure(self, error: StorageError) -> None:
        self.failures.append(error)

    def on_damage(self, key: TopicIdPartition, damage: Damage) -> None:
        pass

    async def close(self) -> None:
        self.replica.resign()
        await self.tasks.close()
        self.replica.close()

    def change(self, **state: object) -> None:
        epoch = self.replica.state.partition_epoch + 1
        self.replica.apply_state(replace(self.replica.state, partition_epoch=epoch, **state))  # type: ignore[arg-type]

    def follow(self, *followers: int) -> None:
        """Let followers fetch up to the log's end."""
        for follower in followers:
            end = self.replica.log.log_end_offset
            self.replica.on_follower_fetch(
                follower, broker_epoch=EPOCHS[follower], fetch_offset=end, log_start_offset=0
            )

    async def append(self, *values: str, acks: int = -1, timeout_ms: int = 5_000, **batch: int) -> AppendResult:
        built = build_batch([NewRecord(value.encode(), timestamp=1) for value in values], **batch)
        return await self.replica.append(built, acks=acks, timeout_ms=timeout_ms)  # type: ignore[arg-type]
