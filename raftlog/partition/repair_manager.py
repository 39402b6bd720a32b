"""Starts and ends repairs of a broker's damaged logs, open or not (docs/adr/0017)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from raftlog.config import TopicConfig
from raftlog.errors import DamagedDataError, DiskFullError, ErrorCode, StaleRouteError, StorageError
from raftlog.model import Offset, PartitionAssignment, TopicIdPartition
from raftlog.partition.damage import Damage, DamageTracker
from raftlog.partition.damaged_logs import DamagedClosedLog, DamagedOpenLog, Failed, Reopen
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.repair import Repairer
from raftlog.partition.replica import Replica
from raftlog.wire.repair import Holding, RepairRequest, RepairResponse


class RepairManager:
    """Starts and ends repairs of the replicas of one broker.

    Args:
        find: returns the open replica of a partition.
        closed: returns assignment and error of a replica that could not be opened.
    """

    def __init__(
        self,
        repairer: Repairer,
        keeper: DamageTracker,
        local: LocalBroker,
        *,
        find: Callable[[TopicIdPartition], Replica | None],
        closed: Callable[[TopicIdPartition], Failed | None],
        reopen: Reopen,
        on_disk_failure: Callable[[StorageError], None],
    ) -> None:
        self._repairer = repairer
        repairer.on_end = self._ended
        self._keeper = keeper
        self._local = local
        self._find = find
        self._closed = closed
        self._reopen = reopen
        self._on_disk_failure = on_disk_failure

    def __contains__(self, key: TopicIdPartition) -> bool:
        return key in self._repairer

    def __len__(self) -> int:
        return len(self._repairer)

    @property
    def repaired_batches(self) -> int:
        """How many damaged places were repaired since the broker started."""
        return self._repairer.repaired_batches

    @property
    def lost_batches(self) -> int:
        """How many damaged batches no replica has intact, as far as is known."""
        return sum(map(len, self._repairer.lost.values()))

    def lost(self, key: TopicIdPartition) -> tuple[Offset, ...]:
        """Return the first offsets of a partition's batches that no replica has intact, as far as is known."""
        return self._repairer.lost.get(key, ())

    def stop(self, key: TopicIdPartition) -> None:
        """Cancel the repair of a log that is closed or not assigned here any more."""
        self._repairer.stop(key)

    def error_for(self, assignment: PartitionAssignment, error: StorageError) -> Exception:
        """Return the error for requests to a replica that is not open.

        It is final if this is the last in-sync replica, and it is damaged where no replica is intact. Otherwise clients
        wait as they do for a leader: the controller elects another one, or the disk comes back.
        """
        if isinstance(error, DiskFullError):
            why = "is offline until there is room"
        elif not isinstance(error, DamagedDataError):
            why = f"is offline on broker {self._local.broker_id}: its disk failed"
        elif assignment.key in self and not self.lost(assignment.key):
            why = "is being repaired from other replicas"
        elif len(assignment.state.isr) > 1:
            why = f"is offline on broker {self._local.broker_id}: its log is damaged"
        else:
            return error
        return StaleRouteError(
            f"{assignment.topic_partition} {why}: {error.message}", code=ErrorCode.LEADER_NOT_AVAILABLE
        )

    async def serve(self, request: RepairRequest, folder: Path) -> tuple[RepairResponse, bytes]:
        """Answer another broker. ABSENT is returned only if an open log proves that it starts after or ends before."""
        replica = self._find(request.key)
        # Taken before the batches are read: a later change shows in the next response.
        generation = "" if replica is None else self._generation(replica)
        holding, data, own = await self._repairer.serve(request, folder)
        if replica is None or self._find(request.key) is not replica:
            return RepairResponse(holding=Holding.DAMAGED if holding is Holding.ABSENT else holding), data
        log = replica.log
        start, end = log.log_start_offset, log.log_end_offset
        if holding is Holding.ABSENT and start <= request.offset < end:
            holding = Holding.DAMAGED
        is_stored = start <= request.offset < log.durable_end_offset and generation == self._generation(replica)
        if own is Holding.DAMAGED and is_stored:
            replica.note_damage(request.offset, "found when another replica requested it for a repair")
        if start == end:
            return RepairResponse(holding=holding), data
        response = RepairResponse(
            holding=holding,
            log_start_offset=start,
            log_start_epoch=log.epochs.epoch_at(start),
            first_offset=log.segments[0].base_offset,
            log_end_offset=end,
            high_watermark=replica.high_watermark,
            from_log=own is Holding.WHOLE,
            generation=generation,
        )
        return response, data

    def _generation(self, replica: Replica) -> str:
        return f"{self._local.broker_epoch}.{replica.log.instance}.{replica.log.cuts}.{replica.log.swaps}"

    def begin_open(self, key: TopicIdPartition, damage: Damage) -> None:
        """Start the repair of an open log."""
        self._keeper.note(key, damage)
        replica = self._find(key)
        if replica is None or self._repairer.closed:
            return
        self._repairer.start(
            DamagedOpenLog(key, replica, find=self._find, keeper=self._keeper, on_disk_failure=self._on_disk_failure)
        )

    def _ended(self, key: TopicIdPartition) -> None:
        """Start another repair if damage was found while the last one ended."""
        replica = self._find(key)
        if replica is not None and replica.damage is not None:
            self.begin_open(key, replica.damage)

    def begin_closed(self, key: TopicIdPartition, folder: Path, config: TopicConfig) -> None:
        """Start the repair of a log that could not be opened, unless it is running."""
        if self._repairer.closed:
            return
        self._repairer.start(
            DamagedClosedLog(
                key,
                folder,
                config,
                broker_id=self._local.broker_id,
                closed=self._closed,
                reopen=self._reopen,
                on_disk_failure=self._on_disk_failure,
            )
        )
