"""Kafka batches for tests, built by aiokafka's codec, and read by it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from raftlog.checksum import crc32c
from raftlog.record import NewRecord

TIME_MS = 1_700_000_000_000


class Sent(NamedTuple):
    """A record as a Kafka client sends or gets it."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def built(records: Sequence[Sent], *, compression: int = 0, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """Return one batch."""
    producer_id, epoch, sequence = producer
    builder = DefaultRecordBatchBuilder(2, compression, False, producer_id, epoch, sequence, 1 << 30)
    for number, record in enumerate(records):
        added = builder.append(number, record.timestamp, record.key, record.value, record.headers)
        assert added is not None
    return bytes(builder.build())


def read(batch: bytes) -> list[Sent]:
    """Return the records of one batch."""
    decoded: Any = DefaultRecordBatch(bytes(batch))
    assert decoded.validate_crc()
    return [Sent(one.timestamp, one.key, one.value, list(one.headers)) for one in decoded]


def as_stored(record: Sent) -> NewRecord:
    """Return a record as raftlog stores it."""
    return NewRecord(record.value, record.key, record.timestamp * 1000, tuple(record.headers))


def with_checksum(batch: bytes | bytearray) -> bytes:
    """Return a changed batch with the right length and checksum: its changes reach the decoder."""
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return bytes(changed)
