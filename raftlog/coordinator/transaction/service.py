"""A broker's part in transactions: as coordinator, and as leader of partitions that take part in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from raftlog.coordinator.runtime import CoordinatorRuntime, Decision, Now
from raftlog.coordinator.transaction.core import TransactionCoordinator, TransactionSettings
from raftlog.coordinator.transaction.held import end_holding
from raftlog.coordinator.transaction.markers import MarkerWriter
from raftlog.coordinator.transaction.records import TransactionChanged
from raftlog.coordinator.transaction.sets import abort_left, describe_set, end_set
from raftlog.coordinator.transaction.state import Transactions
from raftlog.coordinator.transaction.transitions import NeedsProducerIdError, concurrent_transactions_error
from raftlog.errors import ErrorCode, RaftlogError, RetriableError, StaleRouteError, UnknownOutcomeError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import TRANSACTION_STATE, Address, BrokerId, ProducerEpoch, ProducerId
from raftlog.partition.admission import Admit
from raftlog.partition.replica import Replica
from raftlog.runtime import Clock, concurrently
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.errors import WireError
from raftlog.wire.transactions import (
    EndSetBody,
    EndTransactionBody,
    JoinedTransaction,
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
JOIN_TIMEOUT_MS = 5_000
_MARKERS_AT_ONCE = 64
"""Markers of one request that are begun in one turn of the event loop."""
"""The longest that a leader waits for the coordinator before it appends a batch."""


class LocalReplicas(Protocol):
    """The replica manager of this broker."""

    @property
    def broker_id(self) -> BrokerId: ...

    def find(self, topic: str, partition: int) -> Replica | None: ...

    def leader(self, topic: str, partition: int, topic_id: str = "") -> Replica: ...


class CurrentMetadata(Protocol):
    """The metadata of this broker."""

    def require_image(self) -> MetadataImage:
        """Return the newest image; raise RetriableError if there is none yet."""
        ...

    async def catch_up(self) -> None:
        """Return once this broker has applied all metadata that was committed before the call."""
        ...


class ProducerIdSource(Protocol):
    """Issues producer ids."""

    async def take_transactional(self) -> ProducerId:
        """Return a new id for a transactional producer."""
        ...


class CoordinatedGroups(Protocol):
    """The groups that this broker coordinates."""

    async def end_transaction(self, group: str, marker: TransactionMarker, timeout_ms: int) -> None:
        """Apply a transaction's end to a group."""
        ...


class TransactionService:
    """Coordinates transactions, and writes their markers. Start it once replicas are open."""

    def __init__(
        self,
        settings: TransactionSettings,
        *,
        replicas: LocalReplicas,
        metadata: CurrentMetadata,
        session: HttpSession,
        producer_ids: ProducerIdSource,
        groups: CoordinatedGroups,
        clock: Clock,
    ) -> None:
        self._broker_id = replicas.broker_id
        self._replicas = replicas
        self._image = metadata.require_image
        self._session = session
        self._producer_ids = producer_ids
        self._groups = groups
        self._coordinator = TransactionCoordinator(settings)
        self.runtime: CoordinatorRuntime[Transactions] = CoordinatorRuntime(
            self._coordinator,
            topic=TRANSACTION_STATE,
            shard_key=set_of,
            partitions=self._partitions,
            replicas=replicas,
            clock=clock,
            on_active=self._on_active,
        )
        self.markers = MarkerWriter(
            self.runtime,
            self._coordinator,
            image=metadata.require_image,
            catch_up=metadata.catch_up,
            send=self._send_markers,
        )

    def _on_active(self, _: int) -> None:
        self.markers.wake()

    async def start(self) -> None:
        """Start the coordinator and the marker writer."""
        await self.runtime.start()
        await self.markers.start()

    async def close(self) -> None:
        await self.markers.close()
        await self.runtime.close()

    async def init(
        self, transactional_id: str, timeout_ms: int, *, deadline_ms: int, given: TransactionalProducer | None = None
    ) -> TransactionalProducer:
        """Give a producer a new epoch; see `TransactionCoordinator.init`.

        Raises:
            FencedError: PRODUCER_FENCED: `given` is not its last identity.
            RetriableError: CONCURRENT_TRANSACTIONS: the previous transaction is being ended; or as `Shard.decide`.
            InvalidRequestError: the id or the time-out is not allowed.
        """
        response = await self._decide(
            transactional_id,
            lambda state, now, fresh: self._coordinator.init(state, now, transactional_id, timeout_ms, fresh, given),
            deadline_ms,
        )
        if response is None:
            self.markers.wake()
            raise concurrent_transactions_error(transactional_id)
        return response

    async def end(
        self, transactional_id: str, request: EndTransactionBody, *, deadline_ms: int
    ) -> TransactionalProducer:
        """Decide the end of a transaction; markers follow. Errors as `TransactionCoordinator.end`, `Shard.decide`."""
        response = await self._decide(
            transactional_id,
            lambda state, now, fresh: self._coordinator.end(state, now, transactional_id, request, fresh),
            deadline_ms,
        )
        self.markers.wake()
        return response

    async def end_holding(self, transactional_id: str, request: EndTransactionBody, *, deadline_ms: int) -> None:
        """Decide the end of a transaction whose producer keeps its epoch. Errors as `end_holding`, `Shard.decide`."""
        await self._decide(
            transactional_id,
            lambda state, now, fresh: end_holding(state, now, transactional_id, request, fresh),
            deadline_ms,
        )
        self.markers.wake()

    async def join(self, request: JoinTransactionRequest, *, deadline_ms: int) -> TransactionalProducer:
        """Add partitions to a transaction. Errors as `TransactionCoordinator.join`, `Shard.decide`."""
        return await self.runtime.decide(
            request.transactional_id,
            lambda state, now: self._coordinator.join(state, now, request),
            timeout_ms=deadline_ms,
        )

    async def end_set(self, set_id: str, request: EndSetBody, *, deadline_ms: int) -> TransactionSetInfo:
        """Decide the end of all transactions of a set. Errors as `sets.end_set`, `Shard.decide`.

        Markers follow. A commit waits for them, within limits, so that a client that writes and then reads finds its
        records. Spark's driver does so.
        """
        ended = await self.runtime.decide(
            set_id,
            lambda state, now: end_set(state, now, set_id, request),
            timeout_ms=deadline_ms,
        )
        self.markers.wake()
        await self._abort_left(set_id, ended.left, deadline_ms)
        if request.committed:
            await self.markers.settled(set_id)
        return ended.info

    async def _abort_left(self, set_id: str, left: Sequence[TransactionChanged], deadline_ms: int) -> None:
        while left:
            left = await self.runtime.decide(set_id, partial(abort_left, left=left), timeout_ms=deadline_ms)
            self.markers.wake()

    async def describe_set(self, set_id: str, *, deadline_ms: int) -> TransactionSetInfo:
        """Return the last commit of a set. Raises StaleRouteError if this broker does not coordinate it."""
        return await self.runtime.decide(
            set_id, lambda state, _: Decision([], describe_set(state, set_id)), timeout_ms=deadline_ms
        )

    async def describe(self, transactional_id: str, *, deadline_ms: int) -> TransactionInfo:
        """Return the state of a transactional id that this broker coordinates.

        Raises:
            NotFoundError: TRANSACTIONAL_ID_NOT_FOUND.
            StaleRouteError: NOT_COORDINATOR.
        """
        return await self.runtime.decide(
            transactional_id,
            lambda state, _: Decision([], state.require(transactional_id).info()),
            timeout_ms=deadline_ms,
        )

    def admission(self, transactional_id: str, partition: TransactionPartition, *, timeout_ms: int) -> Admit:
        """Return the check that a leader awaits before it appends a transaction's first batch to `partition`."""

        async def admit(producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
            request = JoinTransactionRequest(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                partitions=(partition,),
            )
            await self.join_at_coordinator(request, deadline_ms=min(timeout_ms, JOIN_TIMEOUT_MS))

        return admit

    async def join_at_coordinator(self, request: JoinTransactionRequest, *, deadline_ms: int) -> TransactionalProducer:
        """Add partitions or groups to a transaction at its coordinator, on this broker or another.

        Returns the producer id and epoch that batches and offsets of the transaction have.

        Raises:
            RetriableError: CONCURRENT_TRANSACTIONS, or COORDINATOR_NOT_AVAILABLE: the coordinator did not answer.
            FencedError, InvalidRequestError: from the coordinator.
        """
        try:
            state = self._image().topic(TRANSACTION_STATE)
            number = self.runtime.partition_of(request.transactional_id)
            leader = state.partitions[number].leader if state else -1
            if leader == self._broker_id:
                return await self.join(request, deadline_ms=deadline_ms)
            path, address = paths.JOIN_TRANSACTION, self._internal_address(leader)
            return (
                await self._session.call(
                    JoinedTransaction, "POST", address, path, timeout_ms=deadline_ms, message=request
                )
            ).producer(request)
        except (UnknownOutcomeError, StaleRouteError) as error:
            # The partition may have joined; then it gets a needless marker. The caller's append was not done.
            raise RetriableError(
                f"the coordinator of {request.transactional_id!r} did not answer: {error.message}",
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ) from error

    async def write_markers(self, request: WriteMarkersRequest) -> WriteMarkersResponse:
        """Write a transaction's end to partitions that this broker leads, and groups that it coordinates.

        Raises:
            RetriableError: the marker's coordinator epoch is above all known leader epochs: this broker's metadata is
                stale, or the request is forged. Written, it would fence the real coordinators.
        """
        self._require_known_epoch(request.marker)
        work = [self._write_marker(request, partition) for partition in request.partitions]
        work += [self._write_to_group(request, group) for group in request.groups]
        return WriteMarkersResponse(errors=tuple(await concurrently(work, each=_MARKERS_AT_ONCE)))

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
            await self._groups.end_transaction(group, request.marker, request.timeout_ms)
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
            raise StaleRouteError(f"broker {broker_id} is not registered", code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
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
        """Decide; repeat the decision with a new producer id if it needs one."""
        try:
            return await self.runtime.decide(key, lambda state, now: decide(state, now, None), timeout_ms=deadline_ms)
        except NeedsProducerIdError:
            fresh = await self._producer_ids.take_transactional()
        return await self.runtime.decide(key, lambda state, now: decide(state, now, fresh), timeout_ms=deadline_ms)
