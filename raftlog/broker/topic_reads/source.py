"""The source of a topic's records: this broker's replicas, and the leaders of the other partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from raftlog.broker.context import BrokerContext
from raftlog.broker.offsets import describe_offsets
from raftlog.errors import (
    AuthenticationError,
    ErrorCode,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.model import Isolation, Offset, TopicId
from raftlog.partition.consumer_fetch import serve_fetch
from raftlog.partition.storage.verified_reads import FileRange
from raftlog.security.identity import UNKNOWN_SENDER, Sender
from raftlog.wire import paths
from raftlog.wire.codec import split_parts
from raftlog.wire.data import FetchPartition, FetchRequest, FetchResponse, FetchResult, OffsetResponse

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
CHUNK_BYTES = 2 << 20
"""Bytes fetched at once; a single larger batch comes whole. A part of a response has at least as many."""
PATIENCE_S = 30.0
"""How long a partition may have no leader, or a damaged batch under repair, before a read fails."""
_RETRY_S = 0.1
_CALL_TIMEOUT_MS = 10_000
Data = tuple[FetchResult, bytes | FileRange | memoryview]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The decoded rows of one read of a partition, and the next offset."""

    rows: pa.Table
    next_offset: Offset
    cuts: tuple[Offset, ...]
    """Offsets at which parts of the response end."""
    filled: int
    """Bytes of batches after the last cut."""


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to read of one partition."""

    partition: int
    offset: Offset


class TopicSource:
    """Reads one topic's partitions, from this broker or their leaders.

    A read fails if the topic was deleted and recreated.
    """

    def __init__(
        self,
        context: BrokerContext,
        topic: str,
        topic_id: TopicId,
        isolation: Isolation,
        sender: Sender = UNKNOWN_SENDER,
    ) -> None:
        self._sender = sender
        self._context = context
        self._topic = topic
        self._topic_id = topic_id
        self._isolation: Isolation = isolation

    async def offsets(self, partition: int, at: str) -> OffsetResponse:
        """Return the offset of earliest, latest or a time (ms since 1970), and the current log start and end.

        Raises:
            RaftlogError: no leader answered within `PATIENCE_S`.
        """
        return await self._patiently(lambda: self._offsets_once(partition, at))

    async def read(self, at: Position, *, check_crcs: bool = False) -> Data:
        """Return batches from a position on, below the end that readers see; the first may begin before the position.

        Args:
            check_crcs: the broker must verify checksums, after a damaged batch arrived.

        Raises:
            OffsetOutOfRangeError: retention or a deletion removed the records.
            RaftlogError: the partition cannot be read within `PATIENCE_S`.
        """

        async def once() -> Data:
            (found,) = await self.fetch([at], max_wait_ms=0, check_crcs=check_crcs)
            if found[0].error is not None:
                raise found[0].error.to_error()
            if not len(found[1]):
                raise RetriableError(
                    f"{self._topic}-{at.partition}: its leader returned nothing at offset {at.offset}, which was below "
                    f"the end before; a new leader may not have its high watermark yet",
                    code=ErrorCode.OFFSET_NOT_AVAILABLE,
                )
            return found

        return await self._patiently(once)

    async def fetch(
        self, positions: Sequence[Position], *, max_wait_ms: int, check_crcs: bool = False
    ) -> Sequence[Data]:
        """Fetch several partitions that one broker leads, by long poll; each result has its own error.

        Raises:
            RaftlogError: the leader cannot be reached, or there is none; or the sender may no longer read the topic, or
                follow it because its token has expired.
        """
        self._require_right()
        if max_wait_ms and self._context.clock.wall_us() >= 1e6 * self._sender.expires_s:
            raise AuthenticationError("the token with which the topic is followed has expired; read on with a new one")
        found = await self._fetch(positions, max_wait_ms, check_crcs)
        self._require_right()  # Rules may have changed during the long poll.
        return found

    def _require_right(self) -> None:
        self._context.access.require(self._sender, "read", "topic", self._topic)

    async def _fetch(self, positions: Sequence[Position], max_wait_ms: int, check_crcs: bool) -> Sequence[Data]:
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
            self._context.metrics.served(served)
            return [(one.result, one.data) for one in served]
        response, body = await self._context.session.call_frame(
            FetchResponse,
            "POST",
            self._context.leader_address(self._topic, first),
            paths.FETCH,
            timeout_ms=max_wait_ms + _CALL_TIMEOUT_MS,
            message=request,
            fields=self._context.quotas.node_header(),
        )
        parts = split_parts(body, [result.length for result in response.partitions], error=RaftlogError)
        return list(zip(response.partitions, parts, strict=True))

    def by_leader(self, positions: Sequence[Position]) -> list[list[Position]]:
        """Group positions by their partitions' leaders; skip partitions without a leader."""
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
            return await describe_offsets(replica, at, self._isolation)
        return await self._context.session.call(
            OffsetResponse,
            "GET",
            self._context.leader_address(self._topic, partition),
            paths.fill(paths.OFFSETS, topic=self._topic, partition=partition),
            timeout_ms=_CALL_TIMEOUT_MS,
            query={"at": at, "isolation": self._isolation},
            fields=self._context.quotas.node_header(),
        )

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Retry while that may help: leaders change, and damage is repaired."""
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
        """Return whether a retry may help; it does not after a deletion of the topic or of records."""
        if error.code is ErrorCode.UNKNOWN_TOPIC_ID:
            here = self._context.image.topic(self._topic)
            return here is not None and here.topic_id == self._topic_id  # Its leader's metadata lacks the new topic.
        return error.retriable or isinstance(error, StaleRouteError | UnknownOutcomeError)
