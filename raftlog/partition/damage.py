"""Damage on this broker's disk: found by reading, told to the controller, healed by fetching anew (docs/adr/0011).

Both checksums of every batch are checked before its bytes leave. What is damaged is answered with an error, never sent,
skipped or cut. The controller takes the replica out of the ISR, if another one holds everything; only then, and in a
later leader epoch, is its log set aside and fetched again.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from raftlog.errors import CorruptBatchError, RaftlogError, StorageError
from raftlog.model import NO_LEADER, BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionAssignment, TopicIdPartition
from raftlog.partition.storage.files import fsync_dir
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import sound_length
from raftlog.wire.controller import AlterPartitionsResponse, DamagedReplica, DamagedReplicasRequest

_log = logging.getLogger(__name__)
RETRY_S = 1.0
SET_ASIDE_SUFFIX = ".damaged"


@dataclass(frozen=True, slots=True)
class Damage:
    """What was found, and in which leader epoch: what this replica said it holds counts until that has ended."""

    offset: Offset
    leader_epoch: LeaderEpoch
    reason: str


def read_sound(log: PartitionLog, offset: Offset, max_bytes: int, *, limit_offset: Offset) -> tuple[bytes, str]:
    """Return whole batches with right checksums, and what is wrong with the one after them, if anything is."""
    try:
        data = log.read(offset, max_bytes, limit_offset=limit_offset)
    except StorageError as error:
        if not isinstance(error.__cause__, CorruptBatchError):
            raise
        return b"", error.message
    sound = sound_length(data)
    if sound == len(data):
        return data, ""
    return data[:sound], f"{log.folder}: a checksum is wrong {sound} bytes after the batch that holds offset {offset}"


def is_damage(error: StorageError) -> bool:
    """Tell whether a log could not be opened for what it holds, rather than because the disk refused."""
    return not isinstance(error.__cause__, OSError)


def may_heal(assignment: PartitionAssignment, broker_id: BrokerId, damage: Damage) -> bool:
    """Tell whether nobody counts on a damaged replica any more: it leads nothing, and is no heir."""
    state = assignment.state
    return (
        state.leader not in (NO_LEADER, broker_id)
        and broker_id not in (*state.isr, *state.elr)
        and state.leader_epoch > damage.leader_epoch
    )


def set_aside(folder: Path) -> None:
    """Keep a damaged log beside: it may hold the only sound copy of something. An earlier one is removed."""
    aside = folder.with_name(folder.name + SET_ASIDE_SUFFIX)
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    fsync_dir(folder.parent)
    _log.warning("%s was damaged: it is set aside as %s, and fetched anew", folder.name, aside.name)


class DamagePort(Protocol):
    """The way to the active controller."""

    async def damaged_replicas(self, request: DamagedReplicasRequest) -> AlterPartitionsResponse:
        """Say which replicas are damaged."""
        ...


class DamageKeeper:
    """Knows this broker's damaged replicas, and tells the controller of them until nobody counts on them.

    Args:
        assignment: what metadata says of a replica, open or not; None if it is not here.
        controller: None keeps the knowledge here.
    """

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
        assignment: Callable[[TopicIdPartition], PartitionAssignment | None],
        controller: DamagePort | None,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._assignment = assignment
        self._controller = controller
        self._damaged: dict[TopicIdPartition, Damage] = {}
        self._found = asyncio.Event()
        self._said = ""

    def __len__(self) -> int:
        return len(self._damaged)

    def note(self, key: TopicIdPartition, damage: Damage) -> None:
        """Learn of damage."""
        self._damaged.setdefault(key, damage)
        self._found.set()

    def that_may_heal(self, wanted: Mapping[TopicIdPartition, PartitionAssignment]) -> list[PartitionAssignment]:
        """Return damaged replicas that nobody counts on; those that are not wanted here any more are forgotten."""
        self._damaged = {key: damage for key, damage in self._damaged.items() if key in wanted}
        return [wanted[key] for key, damage in self._damaged.items() if may_heal(wanted[key], self._broker_id, damage)]

    def healed(self, key: TopicIdPartition) -> None:
        """Learn that a log was set aside."""
        del self._damaged[key]

    async def run(self) -> None:
        """Report for ever: at once, then each `RETRY_S` while there is something to say."""
        while True:
            await self._found.wait()
            self._found.clear()
            while self._controller is not None and (reports := self._reports()):
                await self._send(self._controller, reports)
                await asyncio.sleep(RETRY_S)

    def _reports(self) -> tuple[DamagedReplica, ...]:
        reports = []
        for key, damage in self._damaged.items():
            assignment = self._assignment(key)
            if assignment is not None and not may_heal(assignment, self._broker_id, damage):
                epoch = assignment.state.leader_epoch
                reports.append(DamagedReplica(topic_id=key.topic_id, partition=key.partition, leader_epoch=epoch))
        return tuple(reports)

    async def _send(self, controller: DamagePort, reports: tuple[DamagedReplica, ...]) -> None:
        request = DamagedReplicasRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), partitions=reports
        )
        try:
            response = await controller.damaged_replicas(request)
            refusals = [result.error.message for result in response.partitions if result.error is not None]
        except RaftlogError as error:
            refusals = [error.message]
        said = "; ".join(refusals)
        if said and said != self._said:
            _log.warning("damaged replicas stay in charge: %s", said)
        self._said = said
