"""Damage that is found while a log is in use and cannot be repaired: the replica gives way (docs/adr/0011, 0017).

Both checksums of every batch are checked before its bytes leave. What is damaged is answered with an error, never sent,
skipped or cut. If nobody can repair it, the controller takes the replica out of the ISR, if another one holds
everything; only then, and in a later leader epoch, is its log put aside and fetched again. Damage that is found when a
log is opened is another matter (docs/adr/0009): such a log serves nobody, heartbeats say so, and this module does not
know of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from raftlog.errors import RaftlogError
from raftlog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionAssignment, TopicIdPartition
from raftlog.partition.core.damage import may_fetch_anew
from raftlog.wire.controller import AlterPartitionsResponse, DamagedReplica, DamagedReplicasRequest

_log = logging.getLogger(__name__)
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Damage:
    """What was found, and the last leader epoch in which the replica is known to have served."""

    offset: Offset
    leader_epoch: LeaderEpoch
    reason: str


class DamagePort(Protocol):
    """The way to the active controller."""

    async def damaged_replicas(self, request: DamagedReplicasRequest) -> AlterPartitionsResponse:
        """Say which replicas are damaged."""
        ...


class DamageKeeper:
    """Knows this broker's damaged replicas, and tells the controller of them until nobody counts on them.

    Args:
        served: the role in which a replica that is open serves; None if it is not open.
        controller: None keeps the knowledge here.
    """

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
        served: Callable[[TopicIdPartition], PartitionAssignment | None],
        controller: DamagePort | None,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._served = served
        self._controller = controller
        self._damaged: dict[TopicIdPartition, Damage] = {}
        self._hopeless: set[TopicIdPartition] = set()
        self._found = asyncio.Event()
        self._said = ""

    def __len__(self) -> int:
        return len(self._damaged)

    def __contains__(self, key: TopicIdPartition) -> bool:
        return key in self._damaged

    def note(self, key: TopicIdPartition, damage: Damage) -> None:
        """Learn of damage; somebody tries to repair it."""
        self._damaged.setdefault(key, damage)

    def give_way(self, key: TopicIdPartition) -> None:
        """Learn that it cannot be repaired: nobody should count on the replica any more."""
        if key in self._damaged:
            self._hopeless.add(key)
            self._found.set()

    def repaired(self, key: TopicIdPartition) -> None:
        """Learn that everything is whole again."""
        self._damaged.pop(key, None)
        self._hopeless.discard(key)

    def that_may_heal(
        self, wanted: Mapping[TopicIdPartition, PartitionAssignment]
    ) -> list[tuple[PartitionAssignment, str]]:
        """Return replicas beyond repair that nobody counts on, and what is wrong; forget who is not wanted any more."""
        self._damaged = {key: self._until_now(key, damage) for key, damage in self._damaged.items() if key in wanted}
        self._hopeless &= self._damaged.keys()
        return [
            (wanted[key], damage.reason)
            for key, damage in self._damaged.items()
            if key in self._hopeless
            and may_fetch_anew(wanted[key].state, self._broker_id, served_epoch=damage.leader_epoch)
        ]

    def _until_now(self, key: TopicIdPartition, damage: Damage) -> Damage:
        """A replica that stays in charge goes on to serve in later epochs."""
        serving = self._served(key)
        return damage if serving is None else replace(damage, leader_epoch=serving.state.leader_epoch)

    def healed(self, key: TopicIdPartition) -> None:
        """Learn that a log was put aside."""
        self.repaired(key)

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
        for key in self._hopeless:
            if (serving := self._served(key)) is not None:
                epoch = serving.state.leader_epoch
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
