"""Transactions on one broker: as their coordinator, and as a leader of partitions that take part in them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from raftlog.coordinator.runtime import CoordinatorRuntime, Decision, Now
from raftlog.coordinator.transaction.core import TransactionCoordinator, TransactionSettings
from raftlog.coordinator.transaction.markers import MarkerWriter
from raftlog.coordinator.transaction.sets import describe_set, end_set
from raftlog.coordinator.transaction.state import Transactions
from raftlog.coordinator.transaction.transitions import NeedsProducerIdError
from raftlog.errors import ErrorCode, RaftlogError, RetriableError, StaleRouteError, UnknownOutcomeError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import TRANSACTION_STATE, Address, BrokerId, ProducerEpoch, ProducerId
from raftlog.partition.admission import Admit
from raftlog.partition.replica import Replica
from raftlog.runtime import Clock
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.errors import WireError
from raftlog.wire.transactions import (
    EndSetBody,
    EndTransactionBody,
    JoinTransactionRequest,
    TransactionalProducer,
    TransactionInfo,
    TransactionMarker,
    TransactionPartition,
    TransactionSetInfo,
    WriteMarkersRequest,
    WriteMarkersResponse,
    set_of,
)

R = TypeVar("R")
EndInGroup = Callable[[str, TransactionMarker, int], Awaitable[None]]
"""Group id, marker, time-out in ms."""
JOIN_TIMEOUT_MS = 5_000
"""The longest that a leader waits for a coordinator's word on a batch."""


class LocalReplicas(Protocol):
    """The replica manager of this broker."""

    def find(self, topic: str, partition: int) -> Replica | None: ...

    def leader(self, topic: str, partition: int, topic_id: str = "") -> Replica: ...


class TransactionService:
    """Start it once replicas are open.

    Args:
        image: the newest metadata; raises if there is none yet.
        catch_up: returns once this broker knows all metadata there was at the call.
        take_producer_id: returns one that nobody has had.
        end_in_group: has a group that this broker coordinates learn of a transaction's end.
    """

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        settings: TransactionSettings,
        replicas: LocalReplicas,
        image: Callable[[], MetadataImage],
        catch_up: Callable[[], Awaitable[None]],
        session: HttpSession,
        take_producer_id: Callable[[], Awaitable[ProducerId]],
        end_in_group: EndInGroup,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._image = image
        self._session = session
        self._take_producer_id = take_producer_id
        self._end_in_group = end_in_group
        self._coordinator = TransactionCoordinator(settings)
        self.runtime: CoordinatorRuntime[Transactions] = CoordinatorRuntime(
            self._coordinator,
            topic=TRANSACTION_STATE,
            shard_key=set_of,
            partitions=self._partitions,
            replicas=replicas,
            clock=clock,
            on_active=lambda _: self.markers.hint(),
        )
        self.markers = MarkerWriter(
            self.runtime, self._coordinator, image=image, catch_up=catch_up, send=self._send_markers
        )

    async def start(self) -> None:
        """Begin to coordinate what this broker leads."""
        await self.runtime.start()
        await self.markers.start()

    async def close(self) -> None:
        await self.markers.close()
        await self.runtime.close()

    async def init(self, transactional_id: str, timeout_ms: int, *, deadline_ms: int) -> TransactionalProducer:
        """Give a producer a new epoch.

        Raises:
            RetriableError: CONCURRENT_TRANSACTIONS, what the one before it left is being ended; or as `Shard.decide`.
            InvalidRequestError: the id or the time is not allowed.
        """
        made = await self._decide(
            transactional_id,
            lambda state, now, fresh: self._coordinator.init(state, now, transactional_id, timeout_ms, fresh),
            deadline_ms,
        )
        if made is None:
            self.markers.hint()
            raise RetriableError(
                f"the last transaction of {transactional_id!r} is being ended", code=ErrorCode.CONCURRENT_TRANSACTIONS
            )
        return made

    async def end(self, transactional_id: str, asked: EndTransactionBody, *, deadline_ms: int) -> TransactionalProducer:
        """Decide the end of a transaction; markers follow. Errors as `TransactionCoordinator.end`, `Shard.decide`."""
        made = await self._decide(
            transactional_id,
            lambda state, now, fresh: self._coordinator.end(state, now, transactional_id, asked, fresh),
            deadline_ms,
        )
        self.markers.hint()
        return made

    async def join(self, asked: JoinTransactionRequest, *, deadline_ms: int) -> None:
        """Have partitions take part in a transaction. Errors as `TransactionCoordinator.join`, `Shard.decide`."""
        await self.runtime.decide(
            asked.transactional_id,
            lambda state, now: self._coordinator.join(state, now, asked),
            timeout_ms=deadline_ms,
        )

    async def end_set(self, set_id: str, asked: EndSetBody, *, deadline_ms: int) -> TransactionSetInfo:
        """Decide the end of all transactions of a set. Errors as `sets.end_set`, `Shard.decide`.

        Markers follow; a commit waits for them, within limits: whoever writes and then reads, as a driver of Spark's
        does, finds what it wrote.
        """
        made = await self.runtime.decide(
            set_id,
            lambda state, now: end_set(state, now, set_id, asked),
            timeout_ms=deadline_ms,
        )
        self.markers.hint()
        if asked.committed:
            await self.markers.settled(set_id)
        return made

    async def describe_set(self, set_id: str, *, deadline_ms: int) -> TransactionSetInfo:
        """Return what was committed last for a set that this broker coordinates; StaleRouteError: it does not."""
        return await self.runtime.decide(
            set_id, lambda state, _: Decision([], describe_set(state, set_id)), timeout_ms=deadline_ms
        )

    async def describe(self, transactional_id: str, *, deadline_ms: int) -> TransactionInfo:
        """Return what is known of a transactional id that this broker coordinates.

        Raises:
            NotFoundError: TRANSACTIONAL_ID_NOT_FOUND.
            StaleRouteError: NOT_COORDINATOR.
        """
        return await self.runtime.decide(
            transactional_id,
            lambda state, _: Decision([], state.require(transactional_id).info()),
            timeout_ms=deadline_ms,
        )

    def listed(self) -> list[TransactionInfo]:
        """Return every transactional id that this broker coordinates, sorted."""
        known = [known for state in self.runtime.active.values() for known in state.by_id.values()]
        return [one.info() for one in sorted(known, key=lambda one: one.transactional_id)]

    def admission(self, transactional_id: str, partition: TransactionPartition, *, timeout_ms: int) -> Admit:
        """Return what a leader awaits before it appends a producer's first batch of a transaction to `partition`."""

        async def admit(producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
            asked = JoinTransactionRequest(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                partitions=(partition,),
            )
            await self.join_anywhere(asked, deadline_ms=min(timeout_ms, JOIN_TIMEOUT_MS))

        return admit

    async def join_anywhere(self, asked: JoinTransactionRequest, *, deadline_ms: int) -> None:
        """Have partitions or groups take part in a transaction, whoever coordinates it.

        Raises:
            RetriableError: CONCURRENT_TRANSACTIONS, or COORDINATOR_NOT_AVAILABLE: nobody could say.
            FencedError, InvalidRequestError: the coordinator's refusal.
        """
        try:
            state = self._image().topic(TRANSACTION_STATE)
            number = self.runtime.partition_of(asked.transactional_id)
            leader = state.partitions[number].leader if state else -1
            if leader == self._broker_id:
                await self.join(asked, deadline_ms=deadline_ms)
            else:
                path, address = paths.JOIN_TRANSACTION, self._internal_address(leader)
                await self._session.call(
                    dict[str, object], "POST", address, path, timeout_ms=deadline_ms, message=asked
                )
        except (UnknownOutcomeError, StaleRouteError) as error:
            # It may have joined: then it learns of an end for nothing. What was asked for has not been done.
            raise RetriableError(
                f"the coordinator of {asked.transactional_id!r} did not answer: {error.message}",
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ) from error

    async def write_markers(self, request: WriteMarkersRequest) -> WriteMarkersResponse:
        """Write a transaction's end to partitions that this broker leads, and groups that it coordinates.

        Raises:
            RetriableError: the marker is of a leader epoch that no coordinator is known to have had: this broker's
                metadata is older, or the request is forged. Written, it would shut the real coordinators out.
        """
        self._require_known_epoch(request.marker)
        errors = await asyncio.gather(
            *(self._write_marker(request, partition) for partition in request.partitions),
            *(self._write_to_group(request, group) for group in request.groups),
        )
        return WriteMarkersResponse(errors=tuple(errors))

    def _require_known_epoch(self, marker: TransactionMarker) -> None:
        topic = self._image().topic(TRANSACTION_STATE)
        newest = max((state.leader_epoch for state in topic.partitions.values()), default=-1) if topic else -1
        if marker.coordinator_epoch > newest:
            raise RetriableError(
                f"marker.coordinator_epoch: this broker knows leader epochs of {TRANSACTION_STATE} up to {newest}, "
                f"received {marker.coordinator_epoch}",
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            )

    async def _write_to_group(self, request: WriteMarkersRequest, group: str) -> WireError | None:
        try:
            await self._end_in_group(group, request.marker, request.timeout_ms)
        except RaftlogError as error:
            return WireError.of(error)
        return None

    async def _write_marker(self, request: WriteMarkersRequest, partition: TransactionPartition) -> WireError | None:
        try:
            replica = self._replicas.leader(partition.topic, partition.partition, partition.topic_id)
            await replica.append_marker(request.marker, timeout_ms=request.timeout_ms)
        except RaftlogError as error:
            return WireError.of(error)
        return None

    async def _send_markers(self, broker_id: BrokerId, request: WriteMarkersRequest) -> Sequence[WireError | None]:
        if broker_id == self._broker_id:
            return (await self.write_markers(request)).errors
        response = await self._session.call(
            WriteMarkersResponse,
            "POST",
            self._internal_address(broker_id),
            paths.WRITE_MARKERS,
            timeout_ms=request.timeout_ms + 1_000,
            message=request,
        )
        return response.errors

    def _internal_address(self, broker_id: BrokerId) -> Address:
        broker = self._image().brokers.get(broker_id)
        if broker is None:
            raise StaleRouteError(f"broker {broker_id} is not known here", code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return broker.internal

    def _partitions(self) -> int:
        try:
            topic = self._image().topic(TRANSACTION_STATE)
        except RetriableError:
            return 0  # No metadata yet.
        return len(topic.partitions) if topic else 0

    async def _decide(
        self, key: str, decide: Callable[[Transactions, Now, ProducerId | None], Decision[R]], deadline_ms: int
    ) -> R:
        """Decide, with a fresh producer id if it turns out that one is needed."""
        try:
            return await self.runtime.decide(key, lambda state, now: decide(state, now, None), timeout_ms=deadline_ms)
        except NeedsProducerIdError:
            fresh = await self._take_producer_id()
        return await self.runtime.decide(key, lambda state, now: decide(state, now, fresh), timeout_ms=deadline_ms)
