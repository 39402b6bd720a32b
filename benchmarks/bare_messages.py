"""Messages of the suite `bare`: without content, or with all that raftlog's have.

Each class makes the five messages of one record and reads what the receiver needs. `length` says how long the next
message is: 0 if it is not complete.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import orjson

from raftlog import record

PRODUCE, PRODUCED, FETCH, FETCHED = range(4)
_BATCH_BYTES = 712
_BYTES = (300 + _BATCH_BYTES, 280, 300, 400 + _BATCH_BYTES)
_BLANK = tuple(map(bytes, _BYTES))
_VALUE = b"x" * 100
_MAX_MESSAGE_BYTES = 1 << 20
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"Content-Length: "
_U32 = struct.Struct("<I")
_TOPIC_ID = "0123456789abcdef" * 2


class Messages(Protocol):
    """The messages of one record, in the order in which they are sent."""

    batches_in_one: int
    """How many batches an answer to a follower may have."""

    def length(self, kind: int, data: bytes | bytearray) -> int: ...

    def produce(self) -> bytes: ...

    def batch(self, produce: bytes | bytearray) -> memoryview: ...

    def fetched(self, batches: Sequence[memoryview]) -> bytes: ...

    def replicated(self, fetched: bytes | bytearray) -> Iterable[memoryview]: ...

    def fetch(self) -> bytes: ...

    def acknowledged(self, fetch: bytes | bytearray) -> None: ...

    def produced(self) -> bytes: ...

    def offset(self, produced: bytes | bytearray) -> int: ...


class Blank:
    """Messages of the right lengths, without contents."""

    batches_in_one = 1

    def length(self, kind: int, data: bytes | bytearray) -> int:
        return _BYTES[kind] if len(data) >= _BYTES[kind] else 0

    def produce(self) -> bytes:
        return _BLANK[PRODUCE]

    def batch(self, produce: bytes | bytearray) -> memoryview:
        return memoryview(produce)[-_BATCH_BYTES:]

    def fetched(self, batches: Sequence[memoryview]) -> bytes:  # noqa: ARG002  (`Http` sends them)
        return _BLANK[FETCHED]

    def replicated(self, fetched: bytes | bytearray) -> Iterable[memoryview]:
        return (memoryview(fetched)[-_BATCH_BYTES:],)

    def fetch(self) -> bytes:
        return _BLANK[FETCH]

    def acknowledged(self, fetch: bytes | bytearray) -> None:
        pass

    def produced(self) -> bytes:
        return _BLANK[PRODUCED]

    def offset(self, produced: bytes | bytearray) -> int:  # noqa: ARG002  (`Http` reads it)
        return 0


class Http:
    """HTTP, JSON and Arrow as raftlog sends them, each read by the shortest code that reads it.

    Batches are built, validated, stamped and checked by raftlog's own functions: one for each record, on each side.
    """

    batches_in_one = 1_000

    def __init__(self) -> None:
        self._offset = 0

    def length(self, kind: int, data: bytes | bytearray) -> int:  # noqa: ARG002  (`Blank` needs it)
        end = data.find(_HEAD_END)
        if end < 0:
            return 0
        at = data.index(_LENGTH) + len(_LENGTH)
        total = end + len(_HEAD_END) + int(data[at : data.index(b"\r\n", at)])
        return total if len(data) >= total else 0

    def produce(self) -> bytes:
        part = {"topic": "bare", "partition": 0, "length": 0, "topic_id": _TOPIC_ID}
        batch = record.build_batch([record.NewRecord(_VALUE)])
        part["length"] = len(batch)
        head = {"acks": "all", "timeout_ms": 30_000, "transactional_id": "", "partitions": [part]}
        return _request(b"/v1/produce", b"application/vnd.raftlog.frame", _frame(head, batch))

    def batch(self, produce: bytes | bytearray) -> memoryview:
        fields, body = _split(produce)
        assert fields[b"content-type"] == b"application/vnd.raftlog.frame"
        head, batch = _unframe(body)
        assert head["partitions"][0]["length"] == len(batch)
        writable = memoryview(bytearray(batch))
        header = record.validate_batch(writable, max_message_bytes=_MAX_MESSAGE_BYTES)
        record.stamp(writable, base_offset=self._offset, leader_epoch=1)
        self._offset += header.record_count
        return writable

    def fetched(self, batches: Sequence[memoryview]) -> bytes:
        batch = batches[0] if len(batches) == 1 else b"".join(batches)
        part = {"topic_id": _TOPIC_ID, "partition": 0, "length": len(batch), "high_watermark": self._offset}
        part |= {"log_start_offset": 0, "leader_epoch": 1, "replicated_offset": self._offset}
        return _response(b"application/vnd.raftlog.frame", _frame({"session_id": "s", "partitions": [part]}, batch))

    def replicated(self, fetched: bytes | bytearray) -> Iterable[memoryview]:
        _, body = _split(fetched)
        _, left = _unframe(body)
        while left:
            header = record.parse_header(left)
            assert header.base_offset == self._offset
            batch, left = left[: header.batch_length], left[header.batch_length :]
            self._offset += record.validate_batch(batch, max_message_bytes=_MAX_MESSAGE_BYTES).record_count
            yield batch

    def fetch(self) -> bytes:
        part = {"topic_id": _TOPIC_ID, "partition": 0, "offset": self._offset, "leader_epoch": 1}
        head = {"replica_id": 2, "broker_epoch": 7, "max_wait_ms": 500, "session_id": "s", "session_epoch": 5}
        return _request(b"/internal/v1/fetch", b"application/json", orjson.dumps({**head, "partitions": [part]}))

    def acknowledged(self, fetch: bytes | bytearray) -> None:
        _, body = _split(fetch)
        assert orjson.loads(body)["partitions"][0]["offset"] <= self._offset

    def produced(self) -> bytes:
        part = {"topic": "bare", "partition": 0, "base_offset": self._offset, "last_offset": self._offset}
        part |= {"duplicate": False, "leader_epoch": 1, "outlived_retention_ms": -1, "error": None}
        return _response(b"application/json", orjson.dumps({"partitions": [part]}))

    def offset(self, produced: bytes | bytearray) -> int:
        _, body = _split(produced)
        offset: int = orjson.loads(body)["partitions"][0]["base_offset"]
        return offset


def _request(path: bytes, form: bytes, body: bytes) -> bytes:
    return (
        b"POST %s HTTP/1.1\r\nHost: 127.0.0.1:9092\r\nContent-Type: %s\r\nAccept: */*\r\n"
        b"X-Request-Id: 0123456789abcdef\r\nContent-Length: %d\r\n\r\n%s" % (path, form, len(body), body)
    )


def _response(form: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (form, len(body), body)


def _split(message: bytes | bytearray) -> tuple[dict[bytes, bytes], memoryview]:
    """Return the header fields and the body."""
    end = message.index(_HEAD_END)
    fields = dict(line.split(b": ", 1) for line in bytes(message[:end]).split(b"\r\n")[1:])
    return {name.lower(): value for name, value in fields.items()}, memoryview(message)[end + len(_HEAD_END) :]


def _frame(head: dict[str, Any], batch: bytes | bytearray | memoryview) -> bytes:
    encoded = orjson.dumps(head)
    return b"".join((_U32.pack(len(encoded)), encoded, batch))


def _unframe(body: memoryview) -> tuple[dict[str, Any], memoryview]:
    end = _U32.size + _U32.unpack_from(body)[0]
    return orjson.loads(body[_U32.size : end]), body[end:]
