"""Where the records of a whole topic come from: this broker's replicas, and the leaders of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from raftlog.broker.context import BrokerContext
from raftlog.broker.offsets import describe_offsets
from raftlog.errors import ErrorCode, RaftlogError, RetriableError, StaleRouteError, UnknownOutcomeError
from raftlog.model import Isolation, Offset, TopicId
from raftlog.partition.consumer_fetch import Served, serve_fetch
from raftlog.wire import paths
from raftlog.wire.codec import split_parts
from raftlog.wire.data import FetchPartition, FetchRequest, FetchResponse, FetchResult, OffsetResponse

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
CHUNK_BYTES = 2 << 20
"""Batches that are fetched at once; a single larger one comes whole. A part of an answer holds as much, or more."""
PATIENCE_S = 30.0
"""How long a partition may have no leader, or a damaged place be under repair, before a read fails."""
_RETRY_S = 0.1
_CALL_TIMEOUT_MS = 10_000
Data = Served | tuple[FetchResult, memoryview]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a read of a partition brought, decoded, and where to go on."""

    rows: pa.Table
    next_offset: Offset
    cuts: tuple[Offset, ...]
    """Where parts of the answer end."""
    filled: int
    """Bytes of batches behind the last cut."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where one partition is read next."""

    partition: int
    offset: Offset


class TopicSource:
    """Reads one topic's partitions, wherever they are led.

    A topic that was deleted and recreated is another topic: reading it fails.
    """

    def __init__(self, context: BrokerContext, topic: str, topic_id: TopicId, isolation: Isolation) -> None:
        self._context = context
        self._topic = topic
        self._topic_id = topic_id
        self._isolation: Isolation = isolation

    async def offsets(self, partition: int, at: str) -> OffsetResponse:
        """Translate earliest, latest or a time (ms since 1970) into an offset; with the marks of that moment.

        Raises:
            RaftlogError: the partition cannot be asked within `PATIENCE_S`.
        """
        return await self._patiently(lambda: self._offsets_once(partition, at))

    async def read(self, at: Position, *, check_crcs: bool = False) -> Data:
        """Return batches from a position on, below what readers were told is the end; the first may begin before it.

        Args:
            check_crcs: one has arrived damaged: the broker looks whether its disk is to blame.

        Raises:
            OffsetOutOfRangeError: retention or a deletion has taken what was to be read.
            RaftlogError: the partition cannot be read within `PATIENCE_S`.
        """

        async def once() -> Data:
            (found,) = await self.fetch([at], max_wait_ms=0, check_crcs=check_crcs)
            if found[0].error is not None:
                raise found[0].error.to_error()
            if not len(found[1]):
                raise RetriableError(
                    f"{self._topic}-{at.partition}: its leader knows of nothing at offset {at.offset}, which was below "
                    f"the end before: a new leader learns its high watermark first",
                    code=ErrorCode.OFFSET_NOT_AVAILABLE,
                )
            return found

        return await self._patiently(once)

    async def fetch(
        self, positions: Sequence[Position], *, max_wait_ms: int, check_crcs: bool = False
    ) -> Sequence[Data]:
        """Fetch several partitions that one broker leads, long-polled; each result has an error of its own.

        Raises:
            RaftlogError: the leader cannot be reached, or there is none.
        """
        request = FetchRequest(
            partitions=tuple(
                FetchPartition(
                    topic=self._topic,
                    partition=at.partition,
                    offset=at.offset,
                    topic_id=self._topic_id,
                    max_bytes=CHUNK_BYTES,
                    check_crcs=check_crcs,
                )
                for at in positions
            ),
            max_wait_ms=max_wait_ms,
            max_bytes=CHUNK_BYTES,
            isolation=self._isolation,
        )
        first = positions[0].partition
        if self._leads(first):
            served = await serve_fetch(self._context.replica, request)
            self._context.metrics.bytes_out += sum(len(data) for _, data in served)
            return served
        response, body = await self._context.session.call_frame(
            FetchResponse,
            "POST",
            self._context.leader_address(self._topic, first),
            paths.FETCH,
            timeout_ms=max_wait_ms + _CALL_TIMEOUT_MS,
            message=request,
        )
        parts = split_parts(body, [result.length for result in response.partitions], error=RaftlogError)
        return list(zip(response.partitions, parts, strict=True))

    def by_leader(self, positions: Sequence[Position]) -> list[list[Position]]:
        """Group positions by the broker that leads their partitions; those without a leader are left out."""
        groups: dict[int, list[Position]] = {}
        for at in positions:
            state = self._context.partition(self._topic, at.partition, self._topic_id)
            groups.setdefault(state.leader, []).append(at)
        groups.pop(-1, None)
        return list(groups.values())

    def _leads(self, partition: int) -> bool:
        state = self._context.partition(self._topic, partition, self._topic_id)
        return state.leader == self._context.config.node_id

    async def _offsets_once(self, partition: int, at: str) -> OffsetResponse:
        if self._leads(partition):
            replica = self._context.leader(self._topic, partition, self._topic_id)
            return describe_offsets(replica, at, self._isolation)
        return await self._context.session.call(
            OffsetResponse,
            "GET",
            self._context.leader_address(self._topic, partition),
            paths.fill(paths.OFFSETS, topic=self._topic, partition=partition),
            timeout_ms=_CALL_TIMEOUT_MS,
            query={"at": at, "isolation": self._isolation},
        )

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again while that may help: leaders change, and damage is repaired."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while True:
            try:
                return await ask()
            except RaftlogError as error:
                if not self.may_pass(error) or loop.time() > deadline:
                    raise
            await asyncio.sleep(_RETRY_S)

    def may_pass(self, error: RaftlogError) -> bool:
        """Tell whether reading again may help; not when the topic is deleted, or records are."""
        if error.code is ErrorCode.UNKNOWN_TOPIC_ID:
            here = self._context.image.topic(self._topic)
            return here is not None and here.topic_id == self._topic_id  # Its leader has not heard of it yet.
        return error.retriable or isinstance(error, StaleRouteError | UnknownOutcomeError)
