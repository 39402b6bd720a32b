"""All replicas of one broker: opens and closes them as metadata says, and runs what keeps them going."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from raftlog.config import ReplicationConfig, TopicConfig
from raftlog.errors import ErrorCode, RaftlogError, StaleRouteError, StorageError
from raftlog.model import (
    Acks,
    BrokerEpoch,
    BrokerId,
    BrokerRegistration,
    PartitionAssignment,
    TopicId,
    TopicIdPartition,
)
from raftlog.partition.cleaning import CleanerSettings, LogCleaner
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.fetcher import LeaderFetcher
from raftlog.partition.isr import AlterPartitionPort, IsrKeeper
from raftlog.partition.replica import AppendResult, Replica
from raftlog.partition.serving import serve_fetch, serve_replica_fetch
from raftlog.partition.storage.data_dir import DataDir
from raftlog.partition.storage.log import PartitionLog
from raftlog.record.batch import Buffer
from raftlog.runtime import Clock, Tasks
from raftlog.transport import HttpSession
from raftlog.wire.data import FetchRequest, FetchResult
from raftlog.wire.replication import ReplicaFetchRequest, ReplicaFetchResponse

_log = logging.getLogger(__name__)


class ReplicaManager:
    """Start it, feed it metadata with `apply`, close it.

    `broker_epoch` is set by whoever registers the broker, before the first `apply`.
    """

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        data_dir: DataDir,
        topic_defaults: TopicConfig,
        replication: ReplicationConfig,
        session: HttpSession,
        controller: AlterPartitionPort,
        clock: Clock,
        checkpoint_interval_ms: int = 5_000,
        retention_check_interval_ms: int = 30_000,
        cleaner: CleanerSettings | None = None,
        on_disk_failure: Callable[[StorageError], None] = lambda _: None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch: BrokerEpoch = -1
        self._data_dir = data_dir
        self._topic_defaults = topic_defaults
        self._replication = replication
        self._session = session
        self._clock = clock
        self._checkpoint_interval_ms = checkpoint_interval_ms
        self._retention_check_interval_ms = retention_check_interval_ms
        self._on_disk_failure = on_disk_failure
        self._tasks = Tasks(f"broker {broker_id}")
        self._replicas: dict[TopicIdPartition, Replica] = {}
        self._by_name: dict[tuple[str, int], Replica] = {}
        self._offline: dict[TopicIdPartition, tuple[PartitionAssignment, StorageError]] = {}
        self._brokers: Mapping[BrokerId, BrokerRegistration] = {}
        self._fetchers: dict[BrokerId, tuple[LeaderFetcher, asyncio.Task[None]]] = {}
        self._applying = asyncio.Lock()
        self._cleaner_settings = cleaner or CleanerSettings()
        self.cleaner = LogCleaner(
            self._cleaner_settings,
            replicas=lambda: list(self._replicas.values()),
            clock=clock,
            on_disk_failure=on_disk_failure,
        )
        self.isr = IsrKeeper(
            broker_id=broker_id,
            broker_epoch=lambda: self.broker_epoch,
            leaders=lambda: [replica for replica in self._replicas.values() if replica.core is not None],
            brokers=lambda: self._brokers,
            controller=controller,
            clock=clock,
        )

    @property
    def replicas(self) -> Iterable[Replica]:
        """Every replica that is open here."""
        return self._replicas.values()

    async def start(self) -> None:
        """Start what runs beside the requests."""
        self._tasks.spawn(self.isr.run(), name="isr")
        self._tasks.spawn(self._regularly(self._checkpoint_interval_ms, self._checkpoint), name="checkpoints")
        self._tasks.spawn(self._regularly(self._retention_check_interval_ms, self._retain), name="retention")
        if self._cleaner_settings.enable:
            self._tasks.spawn(self.cleaner.run(), name="cleaner")

    async def close(self) -> bool:
        """Stop everything, sync and checkpoint every log; return whether all of them are as durable as can be."""
        for replica in self._replicas.values():
            replica.resign()
        await self._tasks.close()
        clean = not self._offline
        async with self._applying:
            for replica in self._replicas.values():
                clean = await asyncio.to_thread(_sync_and_checkpoint, replica) and clean
                replica.close()
            self._replicas.clear()
            self._by_name.clear()
        return clean

    async def apply(
        self,
        assignments: Sequence[PartitionAssignment],
        brokers: Mapping[BrokerId, BrokerRegistration],
        *,
        complete: bool = False,
    ) -> None:
        """Take in metadata: every partition that has a replica here, and every broker.

        Args:
            complete: the metadata is known to be up to date, so logs that nobody assigns here any more are deleted.
        """
        async with self._applying:
            self._brokers = brokers
            wanted = {assignment.key: assignment for assignment in assignments}
            for key in [key for key in self._replicas if key not in wanted]:
                self._drop(key)
            self._offline = {key: failed for key, failed in self._offline.items() if key in wanted}
            # Replicas that are open change their roles at once: opening others may take long.
            self._apply_to_open(wanted)
            if new := [assignment for key, assignment in wanted.items() if key not in self._replicas]:
                await asyncio.gather(*(self._open(assignment) for assignment in new))
                self._apply_to_open(wanted)
            if complete:
                await asyncio.to_thread(self._delete_unassigned, frozenset(wanted))
        self.isr.hint()

    def leader(self, topic: str, partition: int, topic_id: TopicId = "") -> Replica:
        """Return the replica of a partition that this broker leads.

        Raises:
            StaleRouteError: it does not lead it, has not opened it yet, or the topic was deleted and recreated.
            StorageError: its disk refused.
        """
        replica = self._by_name.get((topic, partition))
        if replica is None:
            for assignment, error in self._offline.values():
                if assignment.topic_partition == (topic, partition):
                    raise error
            raise StaleRouteError(f"broker {self.broker_id} has no replica of {topic}-{partition}, or not yet")
        if topic_id not in ("", replica.assignment.topic_id):
            raise StaleRouteError(
                f"{topic} was deleted and recreated: its id is {replica.assignment.topic_id}, received {topic_id}",
                code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
        replica.require_leader()
        return replica

    async def produce(
        self, topic: str, partition: int, batch: Buffer, *, acks: Acks, timeout_ms: int, topic_id: TopicId = ""
    ) -> AppendResult:
        """Append one batch to a partition that this broker leads; see `Replica.append`."""
        return await self.leader(topic, partition, topic_id).append(batch, acks=acks, timeout_ms=timeout_ms)

    async def fetch(self, request: FetchRequest) -> list[tuple[FetchResult, bytes]]:
        """Answer a consumer's fetch of several partitions, long-polled."""
        return await serve_fetch(self.leader, request)

    async def replica_fetch(self, request: ReplicaFetchRequest) -> tuple[ReplicaFetchResponse, list[bytes]]:
        """Answer a follower's fetch, long-polled."""
        return await serve_replica_fetch(self._replica, request)

    def _replica(self, key: TopicIdPartition) -> Replica:
        if (replica := self._replicas.get(key)) is None:
            raise StaleRouteError(
                f"broker {self.broker_id} has no replica of {key}", code=ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        return replica

    async def _open(self, assignment: PartitionAssignment) -> None:
        folder = self._data_dir.partition_folder(assignment.topic, assignment.partition, assignment.topic_id)
        config = self._topic_defaults.with_overrides(assignment.configs)
        try:
            log, producers = await asyncio.to_thread(_open_log, folder, config)
            replica = Replica(
                broker_id=self.broker_id,
                assignment=assignment,
                log=log,
                producers=producers,
                topic_defaults=self._topic_defaults,
                replication=self._replication,
                clock=self._clock,
                tasks=self._tasks,
                on_isr_hint=self.isr.hint,
                on_disk_failure=self._on_disk_failure,
            )
        except StorageError as error:
            if assignment.key not in self._offline:
                _log.error("%s is offline: %s", assignment.topic_partition, error.message)
            self._offline[assignment.key] = (assignment, error)
            return
        self._offline.pop(assignment.key, None)
        self._replicas[assignment.key] = replica
        self._by_name[assignment.topic, assignment.partition] = replica

    def _apply_to_open(self, wanted: Mapping[TopicIdPartition, PartitionAssignment]) -> None:
        for key, assignment in wanted.items():
            if (replica := self._replicas.get(key)) is not None:
                self._apply_one(replica, assignment)
        self._direct_fetchers()

    def _apply_one(self, replica: Replica, assignment: PartitionAssignment) -> None:
        try:
            replica.apply(assignment)
        except StorageError as error:
            _log.error("%s cannot take its role: %s", assignment.topic_partition, error.message)

    def _drop(self, key: TopicIdPartition) -> None:
        replica = self._replicas.pop(key)
        name = (replica.assignment.topic, replica.assignment.partition)
        if self._by_name.get(name) is replica:
            del self._by_name[name]
        replica.close()

    def _direct_fetchers(self) -> None:
        """Let one fetcher pull from each leader that something here follows, at its present address."""
        following: dict[BrokerId, list[Replica]] = {}
        for replica in self._replicas.values():
            leader = replica.state.leader
            if replica.core is None and leader != self.broker_id and leader in self._brokers:
                following.setdefault(leader, []).append(replica)
        for leader in list(self._fetchers):
            if leader not in following or self._fetchers[leader][0].leader.internal != self._brokers[leader].internal:
                self._fetchers.pop(leader)[1].cancel()
        for leader, replicas in following.items():
            if leader not in self._fetchers:
                self._fetchers[leader] = self._start_fetcher(leader)
            self._fetchers[leader][0].follow(replicas)

    def _start_fetcher(self, leader: BrokerId) -> tuple[LeaderFetcher, asyncio.Task[None]]:
        fetcher = LeaderFetcher(
            self._brokers[leader],
            broker_id=self.broker_id,
            broker_epoch=lambda: self.broker_epoch,
            session=self._session,
            config=self._replication,
            on_disk_failure=self._on_disk_failure,
        )
        return fetcher, self._tasks.spawn(fetcher.run(), name=f"fetch from broker {leader}")

    def _delete_unassigned(self, wanted: frozenset[TopicIdPartition]) -> None:
        for stored in self._data_dir.list_partitions():
            if TopicIdPartition(stored.topic_id, stored.partition) not in wanted:
                _log.info("deleting %s: nobody assigns it here any more", stored.folder.name)
                self._data_dir.delete_partition(stored.folder)

    async def _regularly(self, interval_ms: int, work: Callable[[Replica], None]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for replica in list(self._replicas.values()):
                try:
                    work(replica)
                except (RaftlogError, OSError) as error:
                    _log.warning("%s: %s", replica.assignment.topic_partition, error)
                await asyncio.sleep(0)  # Each may sync a small file: let requests in between.

    def _checkpoint(self, replica: Replica) -> None:
        replica.log.checkpoint(replica.high_watermark)
        replica.sync_soon()

    def _retain(self, replica: Replica) -> None:
        dropped = replica.log.apply_retention(self._clock.wall_us(), replica.high_watermark)
        if dropped:
            _log.info("%s: retention dropped %d segments", replica.assignment.topic_partition, dropped)


def _open_log(folder: Path, config: TopicConfig) -> tuple[PartitionLog, ProducerStates]:
    log = PartitionLog.open(folder, config)
    return log, ProducerStates(log.scan_headers())


def _sync_and_checkpoint(replica: Replica) -> bool:
    try:
        replica.log.fsync()
        replica.log.checkpoint(replica.high_watermark)
    except StorageError as error:
        _log.error("%s: %s", replica.assignment.topic_partition, error.message)
        return False
    return True
