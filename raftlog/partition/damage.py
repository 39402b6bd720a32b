"""Unrepairable damage in a log that is in use: the replica leaves the ISR and is fetched again (docs/adr/0011, 0017).

- Both checksums of every batch are verified before its bytes are sent. A read of a damaged batch returns an error; the
  batch is never sent, skipped or truncated.
- If no replica can repair it, the controller removes this replica from the ISR, provided that another replica stores
  every record. Only then, and in a later leader epoch, is the log quarantined and fetched again.

Damage found when a log is opened is handled elsewhere (docs/adr/0009): such a log is not served, and heartbeats report
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from raftlog.errors import RaftlogError
from raftlog.model import LeaderEpoch, Offset, PartitionAssignment, TopicIdPartition
from raftlog.partition.core.damage import may_refetch
from raftlog.partition.local_broker import LocalBroker
from raftlog.wire.controller import AlterPartitionsResponse, DamagedReplica, DamagedReplicasRequest

_log = logging.getLogger(__name__)
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Damage:
    """The first damage found, and the last leader epoch in which the replica is known to have served."""

    offset: Offset
    leader_epoch: LeaderEpoch
    reason: str


class DamagePort(Protocol):
    """Client of the active controller."""

    async def damaged_replicas(self, request: DamagedReplicasRequest) -> AlterPartitionsResponse:
        """Report the replicas that are damaged and cannot be repaired."""
        ...


class DamageTracker:
    """The damaged replicas of this broker; reports unrepairable ones until the controller has removed them.

    Args:
        served: returns the assignment under which an open replica serves; None if the replica is not open.
        controller: None reports nothing.
    """

    def __init__(
        self,
        *,
        local: LocalBroker,
        served: Callable[[TopicIdPartition], PartitionAssignment | None],
        controller: DamagePort | None,
    ) -> None:
        self._local = local
        self._served = served
        self._controller = controller
        self._damaged: dict[TopicIdPartition, Damage] = {}
        self._unrepairable: set[TopicIdPartition] = set()
        self._found = asyncio.Event()
        self._last_refusals = ""

    def __len__(self) -> int:
        return len(self._damaged)

    def __contains__(self, key: TopicIdPartition) -> bool:
        return key in self._damaged

    def note(self, key: TopicIdPartition, damage: Damage) -> None:
        """Record damage; a repair is started separately."""
        self._damaged.setdefault(key, damage)

    def mark_unrepairable(self, key: TopicIdPartition) -> None:
        """Record that the damage cannot be repaired, and report it to the controller."""
        if key in self._damaged:
            self._unrepairable.add(key)
            self._found.set()

    def repaired(self, key: TopicIdPartition) -> None:
        """Forget a replica: its log is intact again."""
        self._damaged.pop(key, None)
        self._unrepairable.discard(key)

    def replaceable(
        self, wanted: Mapping[TopicIdPartition, PartitionAssignment]
    ) -> list[tuple[PartitionAssignment, str]]:
        """Return unrepairable replicas that may be fetched again, and the damage; forget replicas not assigned here."""
        self._damaged = {key: self._until_now(key, damage) for key, damage in self._damaged.items() if key in wanted}
        self._unrepairable &= self._damaged.keys()
        reasons = ((wanted[key], self.replaces(wanted[key])) for key in self._damaged)
        return [(assignment, reason) for assignment, reason in reasons if reason is not None]

    def replaces(self, assignment: PartitionAssignment) -> str | None:
        """Return the damage of an unrepairable replica that may be fetched again; otherwise None."""
        damage = self._damaged.get(assignment.key)
        if damage is None or assignment.key not in self._unrepairable:
            return None
        may = may_refetch(assignment.state, self._local.broker_id, served_epoch=damage.leader_epoch)
        return damage.reason if may else None

    def _until_now(self, key: TopicIdPartition, damage: Damage) -> Damage:
        """Update the leader epoch of a replica that keeps serving: it may have served in later epochs."""
        serving = self._served(key)
        return damage if serving is None else replace(damage, leader_epoch=serving.state.leader_epoch)

    def quarantined_log(self, key: TopicIdPartition) -> None:
        """Forget a replica whose log was quarantined."""
        self.repaired(key)

    async def run(self) -> None:
        """Report until cancelled: at once, then every `RETRY_S` while unrepairable replicas are open."""
        while True:
            await self._found.wait()
            while self._controller is not None and (reports := self._reports()):
                await self._send(self._controller, reports)
                await asyncio.sleep(RETRY_S)
            self._found.clear()  # Only now: after an exception it is looked at again.

    def _reports(self) -> tuple[DamagedReplica, ...]:
        reports = []
        for key in self._unrepairable:
            if (serving := self._served(key)) is not None:
                epoch = serving.state.leader_epoch
                reports.append(DamagedReplica(topic_id=key.topic_id, partition=key.partition, leader_epoch=epoch))
        return tuple(reports)

    async def _send(self, controller: DamagePort, reports: tuple[DamagedReplica, ...]) -> None:
        request = DamagedReplicasRequest(
            broker_id=self._local.broker_id, broker_epoch=self._local.broker_epoch, partitions=reports
        )
        try:
            response = await controller.damaged_replicas(request)
            refusals = [result.error.message for result in response.partitions if result.error is not None]
        except RaftlogError as error:
            refusals = [error.message]
        refused = "; ".join(refusals)
        if refused and refused != self._last_refusals:
            _log.warning("the controller keeps damaged replicas in the ISR: %s", refused)
        self._last_refusals = refused
