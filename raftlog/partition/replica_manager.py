"""All replicas of one broker: opens and closes them as metadata changes, and runs their background loops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from raftlog.config import topic_config
from raftlog.errors import DamagedDataError, ErrorCode, StaleRouteError, StorageError
from raftlog.model import (
    Acks,
    BrokerId,
    BrokerRegistration,
    Offset,
    PartitionAssignment,
    TopicId,
    TopicIdPartition,
)
from raftlog.partition.consumer_fetch import Served, serve_fetch
from raftlog.partition.core.damage import may_refetch
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.core.read_replicas import preferred_read_replica
from raftlog.partition.damage import Damage, DamageTracker
from raftlog.partition.environment import ReplicaEnvironment
from raftlog.partition.fetcher_manager import FetcherManager
from raftlog.partition.isr import IsrKeeper
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.log_cleaner import LogCleaner
from raftlog.partition.log_maintenance import LogMaintenance, sync_and_checkpoint
from raftlog.partition.log_opener import LogOpener
from raftlog.partition.offline_replicas import OfflineReplicas
from raftlog.partition.repair import Repairer
from raftlog.partition.repair_manager import RepairManager
from raftlog.partition.replica import AppendResult, Replica
from raftlog.partition.replica_fetch_server import ReplicaFetchServer
from raftlog.partition.scrubber import Scrubber
from raftlog.partition.settings import ReplicaPorts, ReplicaSettings
from raftlog.partition.storage.files import FailedSyncError
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.log_dirs import NodeFolders
from raftlog.partition.storage.verified_reads import FileRange
from raftlog.partition.stray_partitions import StrayPartitions
from raftlog.record.batch import Buffer
from raftlog.runtime import Tasks, concurrently, in_slices
from raftlog.wire.data import FetchRequest
from raftlog.wire.repair import RepairRequest, RepairResponse
from raftlog.wire.replication import ReplicaFetchRequest, ReplicaFetchResponse

_log = logging.getLogger(__name__)
OPENED_AT_ONCE = 64
"""Logs opened at the same time, at most: opening thousands at once would block the event loop."""
RETRY_S = 5.0
"""How long a broker waits before it tries again what a full disk prevented, in seconds."""


class ReplicaManager:
    """Opens, assigns roles to, and closes the replicas of one broker: `start`, then `apply` metadata, then `close`.

    - A partition is open (`replicas`), offline (`offline`) or not assigned here; never two of these.
    - One `apply` runs at a time.
    - A damaged log is never served; it is opened again only after a repair, or quarantined and fetched again.

    Args:
        local: the lifecycle sets its epoch after registration, before the first `apply`; `apply` sets its brokers.
    """

    def __init__(
        self, local: LocalBroker, data_dir: NodeFolders, settings: ReplicaSettings, ports: ReplicaPorts
    ) -> None:
        self.local = local
        self.broker_id = local.broker_id
        self._data_dir = data_dir
        self._settings = settings
        self._logs = LogOpener(
            data_dir,
            max_open_segments=settings.max_open_segments,
            producer_limits=settings.producer_limits,
            clock=ports.clock,
        )
        self._on_disk_failure = ports.on_disk_failure
        self._tasks = Tasks(f"broker {local.broker_id}")
        self._replicas: dict[TopicIdPartition, Replica] = {}
        self._by_name: dict[tuple[str, int], Replica] = {}
        self._offline = OfflineReplicas()
        self._assigned: AbstractSet[TopicIdPartition] | None = None
        """What the newest complete metadata assigns here; None before the first."""
        self._applying = asyncio.Lock()
        self._strays = StrayPartitions(data_dir, self._tasks)
        self._environment = self._surroundings(settings, ports)
        self._fetchers = FetcherManager(
            local=local,
            session=ports.session,
            config=settings.replication,
            tasks=self._tasks,
            metrics=ports.metrics,
        )
        self.followers = ReplicaFetchServer(find=self._replica, local=local, clock=ports.clock)
        self.cleaner = LogCleaner(
            settings.cleaner,
            replicas=self._open_replicas,
            clock=ports.clock,
            metrics=ports.metrics,
        )
        self.scrubber = Scrubber(settings.scrub, replicas=self._open_replicas, clock=ports.clock)
        self._upkeep = LogMaintenance(
            replicas=self._open_replicas,
            clock=ports.clock,
            checkpoint_interval_ms=settings.checkpoint_interval_ms,
            retention_check_interval_ms=settings.retention_check_interval_ms,
            metrics=ports.metrics,
        )
        self.damage = DamageTracker(local=local, served=self._served, controller=ports.controller)
        self.repairs = RepairManager(
            Repairer(local=local, session=ports.session, tasks=self._tasks, patience_s=settings.repair_patience_s),
            self.damage,
            local,
            find=self._replicas.get,
            closed=self._offline.get,
            reopen=self._reopen,
            on_disk_failure=ports.on_disk_failure,
        )
        self.isr = IsrKeeper(local=local, leaders=self._leaders, controller=ports.controller, clock=ports.clock)

    def _surroundings(self, settings: ReplicaSettings, ports: ReplicaPorts) -> ReplicaEnvironment:
        return ReplicaEnvironment(
            broker_id=self.broker_id,
            observer=self,
            clock=ports.clock,
            tasks=self._tasks,
            topic_defaults=settings.topic_defaults,
            replication=settings.replication,
            require_given=ports.require_given,
            metrics=ports.metrics,
        )

    # What replicas notice; see `ReplicaObserver`.

    def on_isr_hint(self) -> None:
        self.isr.hint()

    def on_disk_failure(self, error: StorageError) -> None:
        self._on_disk_failure(error)

    def on_damage(self, key: TopicIdPartition, damage: Damage) -> None:
        self.repairs.begin_open(key, damage)

    def _open_replicas(self) -> list[Replica]:
        return list(self._replicas.values())

    def _leaders(self) -> dict[TopicIdPartition, Replica]:
        return {key: replica for key, replica in self._replicas.items() if replica.core is not None}

    def _served(self, key: TopicIdPartition) -> PartitionAssignment | None:
        replica = self._replicas.get(key)
        return None if replica is None else replica.assignment

    @property
    def replicas(self) -> Iterable[Replica]:
        """Every replica that is open here."""
        return self._replicas.values()

    @property
    def offline(self) -> Mapping[TopicIdPartition, StorageError]:
        """Replicas whose log cannot be opened, and the errors."""
        return {key: error for key, (_, error) in self._offline.items()}

    @property
    def has_unfinished(self) -> bool:
        """Whether `apply` has something to try again, even if the metadata has not changed."""
        return bool(self._offline) or self._strays.has_unfinished

    @property
    def open_files(self) -> int:
        """How many segment files are open."""
        return self._logs.open_files

    @property
    def quarantined(self) -> int:
        """How many quarantined logs are on disk."""
        return self._data_dir.quarantined

    async def start(self) -> None:
        """Start the background loops."""
        self._tasks.keep(self.isr.run, name="isr")
        self._tasks.keep(self._upkeep.checkpoint_regularly, name="checkpoints")
        self._tasks.keep(self._upkeep.retain_regularly, name="retention")
        self._tasks.keep(self.damage.run, name="damage")
        self._tasks.keep(self.scrubber.run, name="scrubber")
        self._tasks.keep(self._retry_regularly, name="retries")
        if self._settings.cleaner.enable:
            self._tasks.keep(self.cleaner.run, name="cleaner")

    async def close(self) -> bool:
        """Stop everything, sync and checkpoint every open log; return whether every log on disk is synced.

        An earlier run that was killed may have left any log unsynced, so this run must have opened every one.
        """
        for replica in self._replicas.values():
            replica.resign()
        self.followers.close()
        await self._tasks.close()
        async with self._applying:
            if self._assigned is None:
                clean = self._data_dir.last_was_clean and not self._offline
            else:
                clean = self._assigned <= self._replicas.keys()
            for replica in self._replicas.values():
                clean = await asyncio.to_thread(sync_and_checkpoint, replica) and clean
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
        """Apply metadata: every partition that has a replica here, and every broker.

        Args:
            complete: the metadata is up to date, so logs that are not assigned here are deleted (see
                `stray_partitions`).
        """
        async with self._applying:
            self.local.brokers = brokers
            wanted = {assignment.key: assignment for assignment in assignments}
            self._strays.note_assigned(wanted.keys())
            if complete:
                self._assigned = wanted.keys()
            async for key in in_slices(key for key in self._replicas if key not in wanted):
                self._drop(key)
            self._forget_offline(wanted)
            damaged = self._close_damaged(wanted)
            # Open replicas change roles first: opening others may take long.
            await self._apply_to_open(wanted)
            for assignment, reason in damaged:
                await self._replace_damaged(assignment, reason)
            new = list[PartitionAssignment]()
            async for key, assignment in in_slices(wanted.items(), 1_000):
                if self._may_open(key, assignment):
                    new.append(assignment)
            if new:
                for start in range(0, len(new), OPENED_AT_ONCE):
                    await concurrently([self._open(assignment) for assignment in new[start : start + OPENED_AT_ONCE]])
                await self._apply_to_open(wanted)
            if complete:
                await self._strays.remove(wanted.keys())
                if all(isinstance(error, DamagedDataError) for error in self.offline.values()):
                    await self._logs.settle_power_loss()
        self.isr.hint()

    async def _retry_regularly(self) -> None:
        """Try again, until cancelled, what a full disk or a lack of descriptors prevented: metadata changes rarely."""
        while True:
            await asyncio.sleep(RETRY_S)
            if self._strays.has_unfinished or self._offline.full:
                await self._retry()

    async def _retry(self) -> None:
        async with self._applying:
            full = [assignment for assignment in self._offline.full if assignment.key not in self.repairs]
            for assignment in full:
                if (reason := self.damage.replaces(assignment)) is not None:
                    await self._replace_damaged(assignment, reason)  # There was no room to put its log aside.
                if assignment.key not in self.damage:
                    await self._open(assignment)
            await self._apply_to_open({assignment.key: assignment for assignment in full})
            if self._strays.has_unfinished and self._assigned is not None:
                try:
                    await self._strays.remove(self._assigned)
                except StorageError as error:
                    self._on_disk_failure(error)
        self.isr.hint()

    def limit_reassignments(self, bytes_per_second: int) -> None:
        """Limit the fetch rate of replicas that reassignments add here; -1: unlimited."""
        self._fetchers.throttle.limit(bytes_per_second, asyncio.get_running_loop().time() * 1000)

    def leader(self, topic: str, partition: int, topic_id: TopicId = "") -> Replica:
        """Return the replica of a partition that this broker leads.

        Raises:
            StaleRouteError: it does not lead, the replica is not open yet, or the topic was deleted and recreated.
            StorageError: its log is damaged, and no other replica is in sync.
        """
        replica = self.replica(topic, partition, topic_id)
        replica.require_leader()
        return replica

    def replica(self, topic: str, partition: int, topic_id: TopicId = "") -> Replica:
        """Return this broker's replica of a partition, whatever its role; see `leader`."""
        replica = self._by_name.get((topic, partition))
        if replica is None:
            if (failed := self._offline.find(topic, partition)) is not None:
                raise self.repairs.error_for(*failed)
            raise StaleRouteError(f"broker {self.broker_id} has no open replica of {topic}-{partition}")
        if topic_id not in ("", replica.assignment.topic_id):
            raise StaleRouteError(
                f"{topic} was deleted and recreated: its id is {replica.assignment.topic_id}, received {topic_id}",
                code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
        return replica

    def find(self, topic: str, partition: int) -> Replica | None:
        """Return this broker's replica of a partition, if it is open."""
        return self._by_name.get((topic, partition))

    async def produce(
        self, topic: str, partition: int, batch: Buffer, *, acks: Acks, timeout_ms: int, topic_id: TopicId = ""
    ) -> AppendResult:
        """Append one batch to a partition that this broker leads; see `Replica.append`."""
        return await self.leader(topic, partition, topic_id).append(batch, acks=acks, timeout_ms=timeout_ms)

    async def fetch(self, request: FetchRequest) -> list[Served]:
        """Answer a consumer's fetch of several partitions (long poll)."""
        return await serve_fetch(self.replica, request, prefer=self.preferred)

    def preferred(self, replica: Replica, rack: str, offset: Offset) -> BrokerId | None:
        """Return the follower that a consumer in `rack` should read, if there is one and this broker leads."""
        if replica.core is None:
            return None
        return preferred_read_replica(replica.core, self.local.brokers, rack=rack, offset=offset)

    async def replica_fetch(self, request: ReplicaFetchRequest) -> tuple[ReplicaFetchResponse, list[bytes | FileRange]]:
        """Answer a follower's fetch (long poll)."""
        return await self.followers.serve(request)

    async def repair(self, request: RepairRequest) -> tuple[RepairResponse, bytes]:
        """Answer a broker that repairs its replica, from this broker's log in whatever state it is.

        Raises:
            StaleRouteError: there is no open replica here.
            StorageError: the log cannot be read.
        """
        return await self.repairs.serve(request, self._folder_of(request.key))

    def _folder_of(self, key: TopicIdPartition) -> Path:
        if (failed := self._offline.get(key)) is not None:
            return self._logs.folder_of(failed[0])
        return self._replica(key).log.folder

    def _replica(self, key: TopicIdPartition) -> Replica:
        if (replica := self._replicas.get(key)) is None:
            raise StaleRouteError(
                f"broker {self.broker_id} has no replica of {key}", code=ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        return replica

    async def _open(
        self, assignment: PartitionAssignment, *, unrepairable: bool = False, rebuilt: bool = False
    ) -> None:
        """Open a replica.

        Args:
            unrepairable: no replica could repair its log: if it is out of ISR and ELR, it is fetched again.
            rebuilt: a complete log lies beside its damaged one, and replaces it first.
        """
        folder = self._logs.folder_of(assignment)
        config = topic_config(assignment.topic, self._settings.topic_defaults, assignment.configs)
        try:
            if rebuilt:
                await self._logs.put_rebuilt(assignment)
            try:
                log, producers = await self._logs.open(assignment.key, folder, config)
            except DamagedDataError as error:
                # This incarnation has not served this replica yet, so any leader epoch will do.
                if not unrepairable or not may_refetch(assignment.state, self.broker_id):
                    raise
                await self._logs.quarantine(assignment, error.message)
                log, producers = await self._logs.open(assignment.key, folder, config)
            replica = self._make_replica(assignment, log, producers)
        except StorageError as error:
            if assignment.key not in self._offline:
                _log.error("%s is offline: %s%s", assignment.topic_partition, error.message, _advice(error))
            self._offline.put(assignment, error)
            if isinstance(error, DamagedDataError):
                self._logs.refused(assignment.key, folder)
                self.repairs.begin_closed(assignment.key, folder, config)
            self._end_on_a_failed_sync(error)
            return
        self._offline.remove(assignment.key)
        self._logs.opened(assignment.key)
        self._replicas[assignment.key] = replica
        self._by_name[assignment.topic, assignment.partition] = replica

    def _make_replica(self, assignment: PartitionAssignment, log: PartitionLog, producers: ProducerStates) -> Replica:
        try:
            return Replica(assignment=assignment, log=log, producers=producers, environment=self._environment)
        except BaseException:
            log.close()
            raise

    def _may_open(self, key: TopicIdPartition, assignment: PartitionAssignment) -> bool:
        if key in self._replicas or key in self.damage or key in self.repairs:
            return False
        failed, error = self._offline.get(key, (None, None))
        # Damage stays until the partition's state allows the log to be fetched again.
        return not isinstance(error, DamagedDataError) or failed is None or failed.state != assignment.state

    async def _reopen(self, key: TopicIdPartition, *, unrepairable: bool = False, rebuilt: bool = False) -> bool:
        """Open a repaired or rebuilt log, or fetch it again if it is unrepairable; return whether it is open."""
        async with self._applying:
            if (failed := self._offline.get(key)) is None:
                return True
            await self._open(failed[0], unrepairable=unrepairable, rebuilt=rebuilt)
            await self._apply_to_open({key: failed[0]})
        self.isr.hint()
        return key not in self._offline

    def _close_damaged(
        self, wanted: Mapping[TopicIdPartition, PartitionAssignment]
    ) -> list[tuple[PartitionAssignment, str]]:
        """Close damaged replicas that left ISR and ELR, before they take part in the new leader epoch."""
        replaceable = self.damage.replaceable(wanted)
        for assignment, _ in replaceable:
            if assignment.key in self._replicas:
                self._drop(assignment.key)
        return replaceable

    async def _replace_damaged(self, assignment: PartitionAssignment, reason: str) -> None:
        """Quarantine a log; the one opened in its place is fetched again."""
        try:
            await self._logs.quarantine(assignment, reason)
        except StorageError as error:
            _log.error("%s stays offline: %s", assignment.topic_partition, error.message)
            self._offline.put(assignment, error)
            self._end_on_a_failed_sync(error)
        else:
            self.damage.quarantined_log(assignment.key)

    def _end_on_a_failed_sync(self, error: StorageError) -> None:
        """Report a failed sync: a second sync would succeed without writing the lost pages."""
        if isinstance(error, FailedSyncError):
            self._on_disk_failure(error)

    async def _apply_to_open(self, wanted: Mapping[TopicIdPartition, PartitionAssignment]) -> None:
        """Apply changed assignments to the open replicas."""
        changed = [
            (replica, assignment)
            for key, assignment in wanted.items()
            if (replica := self._replicas.get(key)) is not None and not replica.has_applied(assignment)
        ]
        async for replica, assignment in in_slices(changed, 32):
            replica.apply(assignment)
        self._direct_fetchers()

    def _forget_offline(self, wanted: Mapping[TopicIdPartition, PartitionAssignment]) -> None:
        """Drop offline replicas that are not assigned here; give damaged ones the newest state."""
        for key, (_, error) in list(self._offline.items()):
            if key not in wanted:
                self._offline.remove(key)
                self.repairs.stop(key)
            elif key in self.repairs or key in self.damage:
                self._offline.put(wanted[key], error)

    def _drop(self, key: TopicIdPartition) -> None:
        self.repairs.stop(key)
        replica = self._replicas.pop(key)
        name = (replica.assignment.topic, replica.assignment.partition)
        if self._by_name.get(name) is replica:
            del self._by_name[name]
        replica.close()
        self._data_dir.release(replica.log.folder)

    def _direct_fetchers(self) -> None:
        self._fetchers.direct(self._replicas.values(), self.local.brokers)


def _advice(error: StorageError) -> str:
    if not isinstance(error, DamagedDataError):
        return ""
    return (
        ". Its batches are repaired from other replicas. If none has them, the log is fetched again once a healthy "
        "replica leads. If this is the last replica with every record, an operator must act: see "
        "docs/how-to/recover-a-damaged-disk.md"
    )
