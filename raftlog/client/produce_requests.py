"""Produce requests: batches get their bytes, share requests, and each finds its own result in the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from raftlog import record, transport
from raftlog.client.core.partition_queue import PendingBatch
from raftlog.client.record_outcomes import Handle
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError, RetriableError, UnknownOutcomeError
from raftlog.model import TopicPartition
from raftlog.record import Compression
from raftlog.wire.codec import Buffer, encode_frame
from raftlog.wire.data import (
    MAX_REQUEST_PARTITIONS,
    AcksText,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
)

MAX_REQUEST_BYTES = 1 << 20
"""How large a request may be that has several batches; less once a broker has found one too large.

A large one keeps producer, leader and followers waiting for each other: a partition has five batches on their way."""
Batch: TypeAlias = PendingBatch[Handle]
Routed: TypeAlias = tuple[TopicPartition, Batch]


class ProduceRequests:
    """Makes the requests of one producer."""

    def __init__(self, *, acks: AcksText, compression: Compression | None, transactional_id: str) -> None:
        self._acks = acks
        self._compression: Compression | None = compression
        self._transactional_id = transactional_id
        self._request_bytes = MAX_REQUEST_BYTES
        self._build_batch = record.build_batch  # Loads Arrow now, rather than while records wait.

    def encode(self, batch: Batch) -> RaftlogError | None:
        """Give a batch its bytes, which stay the same while it has its place in the sequence; say what prevents it."""
        if batch.encoded:
            return None
        assert batch.identity is not None
        try:
            batch.encoded = self._build_batch(
                batch.records,
                producer_id=batch.identity.producer_id,
                producer_epoch=batch.identity.producer_epoch,
                base_sequence=batch.sequence,
                compression=self._compression,
                transactional=bool(self._transactional_id),
            )
        except (ValueError, TypeError, OverflowError) as error:
            return InvalidRequestError(f"the records cannot be encoded: {error}", code=ErrorCode.INVALID_RECORD)
        return None

    def share(self, routed: Sequence[Routed]) -> Iterator[list[Routed]]:
        """Share encoded batches out to requests that are not too large; a partition's stay in their order."""
        request: list[Routed] = []
        size = 0
        for partition, batch in routed:
            full = len(request) == MAX_REQUEST_PARTITIONS or size + len(batch.encoded) > self._request_bytes
            if request and full:
                yield request
                request, size = [], 0
            request.append((partition, batch))
            size += len(batch.encoded)
        if request:
            yield request

    def body(self, routed: Sequence[Routed], *, timeout_ms: int) -> list[Buffer]:
        """Return the frame that carries some batches."""
        asked = tuple(
            ProducePartition(topic=p.topic, partition=p.partition, length=len(b.encoded), topic_id=b.topic_id)
            for p, b in routed
        )
        head = ProduceRequest(
            acks=self._acks, timeout_ms=timeout_ms, transactional_id=self._transactional_id, partitions=asked
        )
        return encode_frame(head, [batch.encoded for _, batch in routed])

    def of_request(self, error: RaftlogError, batches: int) -> RaftlogError:
        """Return what an error of a whole request means for each of its batches."""
        if isinstance(error, transport.PeerAnswerError):
            # They arrived somewhere, and the answer says nothing: they may be in the log.
            return UnknownOutcomeError(error.message)
        if error.code is ErrorCode.MESSAGE_TOO_LARGE and batches > 1:
            self._request_bytes = max(1, self._request_bytes // 2)
            return RetriableError(error.message, code=error.code)
        return error


def in_order(routed: Sequence[Routed], response: ProduceResponse) -> list[ProduceResult | RaftlogError]:
    """Return each batch's result: results are in the order of the request."""
    unknown = UnknownOutcomeError("the broker's answer leaves out a batch, or names another one")
    results = [*response.partitions, *([None] * len(routed))]
    return [
        result if result is not None and (result.topic, result.partition) == partition else unknown
        for (partition, _), result in zip(routed, results, strict=False)
    ]
