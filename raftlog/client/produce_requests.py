"""Produce requests: encodes batches, groups them into requests, and matches results to batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from raftlog import record, transport
from raftlog.client.core.pending_batch import PendingBatch
from raftlog.client.record_outcomes import Handle
from raftlog.client.unexpected import explained
from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    RaftlogError,
    RetriableError,
    UnknownOutcomeError,
    with_request_of,
)
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
from raftlog.wire.metadata import SHORT_BATCHES

MAX_REQUEST_BYTES = 1 << 20
"""The largest request with several batches; halved when a broker finds one too large.

Larger requests make producer, leader and followers wait for each other: a partition has five batches in flight."""
Batch: TypeAlias = PendingBatch[Handle]
Routed: TypeAlias = tuple[TopicPartition, Batch]


class ProduceRequests:
    """Builds the requests of one producer."""

    def __init__(self, *, acks: AcksText, compression: Compression | None, transactional_id: str) -> None:
        self._acks = acks
        self._compression: Compression | None = compression
        self._transactional_id = transactional_id
        self._request_bytes = MAX_REQUEST_BYTES
        self._build_batch = record.build_batch  # Imports Arrow now, before records wait.

    def encode(self, batch: Batch, *, feature_level: int) -> RaftlogError | None:
        """Encode a batch once for its sequence; return the error if it cannot be encoded."""
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
                short=feature_level >= SHORT_BATCHES,
            )
        except (ValueError, TypeError, OverflowError) as error:
            return InvalidRequestError(f"the records cannot be encoded: {error}", code=ErrorCode.INVALID_RECORD)
        except Exception as error:  # noqa: BLE001  (such as a lack of memory, which may pass)
            return explained(error, "encoding a batch", RetriableError)
        return None

    def share(self, routed: Sequence[Routed]) -> Iterator[list[Routed]]:
        """Group encoded batches into requests of bounded size; a partition's batches stay in order."""
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
        """Return the request body: a frame with the batches."""
        partitions = tuple(
            ProducePartition(topic=p.topic, partition=p.partition, length=len(b.encoded), topic_id=b.topic_id)
            for p, b in routed
        )
        head = ProduceRequest(
            acks=self._acks, timeout_ms=timeout_ms, transactional_id=self._transactional_id, partitions=partitions
        )
        return encode_frame(head, [batch.encoded for _, batch in routed])

    def of_request(self, error: RaftlogError, batches: int) -> RaftlogError:
        """Return the error of each batch when the whole request failed."""
        if isinstance(error, transport.PeerAnswerError):
            # A server answered with something else than a produce response: the batches may be in the log.
            return with_request_of(UnknownOutcomeError(error.message), error)
        if error.code is ErrorCode.MESSAGE_TOO_LARGE and batches > 1:
            self._request_bytes = max(1, self._request_bytes // 2)
            return with_request_of(RetriableError(error.message, code=error.code), error)
        return error


def in_order(routed: Sequence[Routed], response: ProduceResponse) -> list[ProduceResult | RaftlogError]:
    """Return each batch's result; results have the order of the request."""
    unknown = UnknownOutcomeError(
        "the broker's response lacks a batch, or has another one; the batch may be in the log"
    )
    results = [*response.partitions, *([None] * len(routed))]
    return [
        result if result is not None and (result.topic, result.partition) == partition else unknown
        for (partition, _), result in zip(routed, results, strict=False)
    ]
