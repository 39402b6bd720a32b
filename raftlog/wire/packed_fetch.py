"""The packed form of a follower's fetch: numbers at fixed places in place of JSON.

A follower that keeps up sends thousands of small fetches a second, each with the same fields. JSON costs ten times as
much as these structs. A leader announces with the first answer of a session that it reads packed requests
(`ReplicaFetchResponse.packs`), and it answers them packed. What is rare has no packed form, and is sent as JSON at any
time: many partitions, forgotten ones, errors, diverging epochs. The first byte tells the forms apart: JSON begins with
`{`.

All numbers are little-endian.
"""

from __future__ import annotations

import struct

from raftlog.errors import InvalidRequestError, RaftlogError
from raftlog.model import TopicId
from raftlog.wire.codec import Buffer, decode_json
from raftlog.wire.replication import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)

VERSION = 1
"""The first byte of both messages."""
MOST_PARTITIONS = 64
_REQUEST = struct.Struct("<BBBBiqIIIII")
"""Version, flags, number of partitions, length of the session id; replica id, broker epoch, session epoch, longest wait
(ms), least bytes, most bytes, most bytes of a partition. Then the session id, then the partitions."""
_POSITION = struct.Struct("<16sIiqiqB")
"""Topic id, partition, leader epoch, fetch offset, last fetched epoch, log start offset, whether to check checksums."""
_RESPONSE = struct.Struct("<BBB")
"""Version, number of partitions, length of the session id. Then the session id, then the results."""
_RESULT = struct.Struct("<16sIIqqiq")
"""Topic id, partition, length, high watermark, log start offset, leader epoch, replicated offset."""
_ANSWERS_LOST = 1
_ID_BYTES = 16


def is_packed(message: Buffer) -> bool:
    """Return whether a request, or the head of an answer, is packed."""
    return len(message) > 0 and message[0] == VERSION


def pack_request(request: ReplicaFetchRequest) -> bytes | None:
    """Return a request's packed form; None: it has none."""
    if request.forgotten or len(request.partitions) > MOST_PARTITIONS:
        return None
    try:
        session = request.session_id.encode("ascii")
        head = _REQUEST.pack(
            VERSION,
            _ANSWERS_LOST if request.answers_lost else 0,
            len(request.partitions),
            len(session),
            request.replica_id,
            request.broker_epoch,
            request.session_epoch,
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.partition_max_bytes,
        )
        positions = [_packed_position(position) for position in request.partitions]
    except (struct.error, ValueError):
        return None
    return b"".join((head, session, *positions))


def _packed_position(position: ReplicaFetchPartition) -> bytes:
    return _POSITION.pack(
        _packed_id(position.topic_id),
        position.partition,
        position.leader_epoch,
        position.fetch_offset,
        position.last_fetched_epoch,
        position.log_start_offset,
        position.check_crcs,
    )


def unpack_request(message: Buffer) -> ReplicaFetchRequest:
    """Return the request of a packed form.

    Raises:
        InvalidRequestError: it is not one that `pack_request` returns.
    """
    if len(message) < _REQUEST.size:
        raise InvalidRequestError(f"a packed fetch has at least {_REQUEST.size} bytes, received {len(message)}")
    _, flags, count, session_bytes, replica_id, broker_epoch, session_epoch, wait_ms, least, most, most_of_one = (
        _REQUEST.unpack_from(message)
    )
    session_id, at = _session_id(message, _REQUEST.size, session_bytes, InvalidRequestError)
    if flags > _ANSWERS_LOST or count > MOST_PARTITIONS or len(message) != at + count * _POSITION.size:
        raise InvalidRequestError(
            f"a packed fetch of {count} partitions with flags {flags:#x} has {at + count * _POSITION.size} bytes and "
            f"at most {MOST_PARTITIONS} partitions, received {len(message)} bytes"
        )
    return ReplicaFetchRequest(
        replica_id=replica_id,
        broker_epoch=broker_epoch,
        max_wait_ms=wait_ms,
        min_bytes=least,
        max_bytes=most,
        partition_max_bytes=most_of_one,
        session_id=session_id,
        session_epoch=session_epoch,
        answers_lost=flags == _ANSWERS_LOST,
        partitions=tuple(_position_at(message, at + number * _POSITION.size) for number in range(count)),
    )


def _position_at(message: Buffer, at: int) -> ReplicaFetchPartition:
    topic_id, partition, epoch, offset, last_epoch, start, checks = _POSITION.unpack_from(message, at)
    return ReplicaFetchPartition(
        topic_id=topic_id.hex(),
        partition=partition,
        leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=start,
        check_crcs=bool(checks),
    )


def pack_response(response: ReplicaFetchResponse) -> bytes | None:
    """Return the packed form of an answer to a packed request; None: it has none."""
    if len(response.partitions) > MOST_PARTITIONS:
        return None
    try:
        session = response.session_id.encode("ascii")
        results = [_packed_result(result) for result in response.partitions]
        return b"".join((_RESPONSE.pack(VERSION, len(results), len(session)), session, *results))
    except (struct.error, ValueError):
        return None


def _packed_result(result: ReplicaFetchResult) -> bytes:
    if result.error is not None or result.diverging is not None:
        raise ValueError("an error or a diverging epoch has no packed form")
    return _RESULT.pack(
        _packed_id(result.topic_id),
        result.partition,
        result.length,
        result.high_watermark,
        result.log_start_offset,
        result.leader_epoch,
        result.replicated_offset,
    )


def decode_response(head: Buffer, error: type[RaftlogError]) -> ReplicaFetchResponse:
    """Return the answer of a frame's head in either form.

    Raises:
        error: it is neither.
    """
    if not is_packed(head):
        return decode_json(ReplicaFetchResponse, head, error=error, ignore_unknown=True)
    if len(head) < _RESPONSE.size:
        raise error(f"a packed answer has at least {_RESPONSE.size} bytes, received {len(head)}")
    _, count, session_bytes = _RESPONSE.unpack_from(head)
    session_id, at = _session_id(head, _RESPONSE.size, session_bytes, error)
    if len(head) != at + count * _RESULT.size:
        raise error(f"a packed answer with {count} results has {at + count * _RESULT.size} bytes, received {len(head)}")
    results = tuple(_result_at(head, at + number * _RESULT.size) for number in range(count))
    return ReplicaFetchResponse(session_id=session_id, partitions=results, packs=True)


def _result_at(head: Buffer, at: int) -> ReplicaFetchResult:
    topic_id, partition, length, high_watermark, start, epoch, replicated = _RESULT.unpack_from(head, at)
    return ReplicaFetchResult(
        topic_id=topic_id.hex(),
        partition=partition,
        length=length,
        high_watermark=high_watermark,
        log_start_offset=start,
        leader_epoch=epoch,
        replicated_offset=replicated,
    )


def _session_id(message: Buffer, at: int, length: int, error: type[RaftlogError]) -> tuple[str, int]:
    """Return the session id at a place, and the place after it."""
    try:
        return bytes(message[at : at + length]).decode("ascii"), at + length
    except UnicodeDecodeError:
        raise error("a packed fetch: the session id is not ASCII") from None


def _packed_id(topic_id: TopicId) -> bytes:
    """Return a topic id's 16 bytes.

    Raises:
        ValueError: it is not the hexadecimal form of 16 bytes.
    """
    packed = bytes.fromhex(topic_id)
    if len(packed) != _ID_BYTES or packed.hex() != topic_id:
        raise ValueError(f"topic id {topic_id!r:.80} has no packed form")
    return packed
