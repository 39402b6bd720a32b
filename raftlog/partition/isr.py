"""ISR maintenance: collects ISR changes from the leader cores and sends them to the controller (AlterPartition).

- At most one change of a partition is in flight.
- While its outcome is unknown, the same change is sent again. The partition epoch makes it a compare-and-swap, so it
  cannot take effect twice.
- The leader core counts both the old and the proposed ISR until metadata decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from raftlog.errors import ErrorCode, RaftlogError
from raftlog.model import BrokerEpoch, BrokerId, TopicIdPartition
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.replica import Replica
from raftlog.runtime import Clock, in_slices
from raftlog.wire.controller import (
    AlterPartition,
    AlterPartitionResult,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    IsrMember,
)

_log = logging.getLogger(__name__)
MOST_AT_ONCE = 500
"""Changes in one request: applying the results blocks the event loop."""
CHECK_INTERVAL_MS = 200
RETRY_MS = 100
STALL_MS = 100
"""A check that starts later than this (ms) was delayed by this process: paused, or busy."""
_REFUSED = {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST}
"""Errors after which the change was certainly not accepted, and no newer metadata may follow."""


class AlterPartitionPort(Protocol):
    """Client of the active controller."""

    async def alter_partitions(self, request: AlterPartitionsRequest) -> AlterPartitionsResponse:
        """Propose new ISRs."""
        ...


class IsrKeeper:
    """Proposes ISR changes for every partition that this broker leads."""

    def __init__(
        self,
        *,
        local: LocalBroker,
        leaders: Callable[[], Mapping[TopicIdPartition, Replica]],
        controller: AlterPartitionPort,
        clock: Clock,
    ) -> None:
        self._local = local
        self._leaders = leaders
        self._controller = controller
        self._clock = clock
        self._hint = asyncio.Event()
        self._in_flight: dict[TopicIdPartition, AlterPartition] = {}
        self._unanswered: set[TopicIdPartition] = set()
        """Changes sent without a response: an earlier copy may still arrive late, and be accepted."""
        self.shrinks = 0
        self.expands = 0

    def hint(self) -> None:
        """Request a check now: some ISR may have to change."""
        self._hint.set()

    async def run(self) -> None:
        """Check until cancelled: at each hint, and at least every `CHECK_INTERVAL_MS`.

        After a stall of this process one check is skipped: the followers' fetches still wait in the sockets, and a
        leader that was paused must not remove them from the ISR.
        """
        stalled = False
        while True:
            due_ms = self._clock.monotonic_ms() + CHECK_INTERVAL_MS
            try:
                async with asyncio.timeout(CHECK_INTERVAL_MS / 1000):
                    await self._hint.wait()
            except TimeoutError:
                pass
            self._hint.clear()
            stalled = not stalled and self._clock.monotonic_ms() - due_ms > STALL_MS
            if not stalled:
                await self.check()

    async def check(self) -> None:
        """Propose every ISR change that is due, and apply the results."""
        leaders = self._leaders()
        self._forget_settled(leaders)
        eligible = {
            broker.broker_id: broker.broker_epoch
            for broker in self._local.brokers.values()
            if not broker.fenced and not broker.in_controlled_shutdown
        }
        async for key, replica in in_slices(leaders.items(), 256):
            self._propose(key, replica, eligible)
        in_flight = list(self._in_flight.items())
        for start in range(0, len(in_flight), MOST_AT_ONCE):
            # Changes decided meanwhile are not sent again.
            some = {key: change for key, change in in_flight[start:][:MOST_AT_ONCE] if key in self._in_flight}
            if some and not await self._ask(leaders, some):
                return

    async def _ask(
        self, leaders: Mapping[TopicIdPartition, Replica], changes: Mapping[TopicIdPartition, AlterPartition]
    ) -> bool:
        """Send some changes and apply the results; return False if there was no response."""
        request = AlterPartitionsRequest(
            broker_id=self._local.broker_id, broker_epoch=self._local.broker_epoch, partitions=tuple(changes.values())
        )
        try:
            response = await self._controller.alter_partitions(request)
        except RaftlogError as error:
            _log.warning("cannot change %d ISRs yet: %s", len(changes), error.message)
            self._unanswered.update(changes)
            await asyncio.sleep(RETRY_MS / 1000)
            return False
        for result in response.partitions:
            self._settle(leaders, result)
        return True

    def _forget_settled(self, leaders: Mapping[TopicIdPartition, Replica]) -> None:
        for key, change in list(self._in_flight.items()):
            replica = leaders.get(key)
            settled = (
                replica is None
                or replica.core is None
                or replica.core.pending_isr is None
                or replica.state.partition_epoch != change.partition_epoch
            )
            if settled:
                self._done(key)

    def _propose(self, key: TopicIdPartition, replica: Replica, eligible: Mapping[BrokerId, BrokerEpoch]) -> None:
        core = replica.core
        if core is None or key in self._in_flight:
            return
        proposed = core.propose_isr(eligible, self._clock.monotonic_ms())
        if proposed is None:
            return
        grows = len(proposed) > len(core.state.isr)
        self.expands, self.shrinks = self.expands + grows, self.shrinks + (not grows)
        name = replica.assignment.topic_partition
        _log.info("%s: ISR %s -> %s proposed", name, sorted(core.state.isr), sorted(proposed))
        self._in_flight[key] = AlterPartition(
            topic_id=key.topic_id,
            partition=key.partition,
            leader_epoch=core.state.leader_epoch,
            partition_epoch=core.state.partition_epoch,
            # The epochs whose positions were compared: the present ones may be those of later, empty incarnations.
            new_isr=tuple(
                self._member(member, eligible.get(member)) for member in replica.state.replicas if member in proposed
            ),
        )

    def _member(self, member: BrokerId, compared: BrokerEpoch | None = None) -> IsrMember:
        if compared is not None:
            return IsrMember(broker_id=member, broker_epoch=compared)
        known = self._local.brokers.get(member)
        epoch = self._local.broker_epoch if member == self._local.broker_id else known.broker_epoch if known else -1
        return IsrMember(broker_id=member, broker_epoch=epoch)

    def _settle(self, leaders: Mapping[TopicIdPartition, Replica], result: AlterPartitionResult) -> None:
        key = TopicIdPartition(result.topic_id, result.partition)
        replica = leaders.get(key)
        change = self._in_flight.get(key)
        if replica is None or replica.core is None or change is None:
            return
        if result.state is not None and result.state.leader_epoch == replica.state.leader_epoch:
            replica.apply_state(result.state)
            self._done(key)
        elif result.error is not None:
            error = result.error.to_error()
            _log.info("%s: ISR change refused: %s", replica.assignment.topic_partition, error.message)
            if error.code in _REFUSED and key in self._unanswered:
                # Propose the ISR in force: once accepted, its new partition epoch fences the late copy.
                unchanged = tuple(self._member(member) for member in replica.state.isr)
                self._in_flight[key] = replace(change, new_isr=unchanged)
            elif error.code in _REFUSED:
                replica.core.on_proposal_refused()
                self._done(key)

    def _done(self, key: TopicIdPartition) -> None:
        self._in_flight.pop(key, None)
        self._unanswered.discard(key)
