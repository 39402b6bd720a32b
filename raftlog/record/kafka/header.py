"""The 61-byte header of Kafka's record batch, and what a batch from a producer must have."""

from __future__ import annotations

import struct
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.errors import CorruptBatchError, ErrorCode, InvalidRequestError
from raftlog.model import NO_PRODUCER_ID
from raftlog.record.batch import Buffer

HEADER_BYTES = 61
MAGIC = 2
MAX_OFFSET_DELTA = 2**31 - 1
"""How far the last offset of a batch is from the first one, at most."""
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
"""Compression: bits 0 to 2 of the attributes."""
COMPRESSION, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
"""Attributes."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC = struct.Struct(">I")
_COUNT = struct.Struct(">i")
_MAGIC_AT, _CRC_AT, _CRC_FROM, _ATTRIBUTES_AT, _COUNT_AT = 16, 17, 21, 21, 57
_AFTER_LENGTH = 12
"""`batch_length` counts the bytes after itself."""
assert _HEADER.size == HEADER_BYTES


class KafkaHeader(NamedTuple):
    """The fields of the header, in their order. Timestamps are in milliseconds since 1970 UTC."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


def invalid(problem: str) -> InvalidRequestError:
    """Return the error for records that cannot be stored. Clients do not send them again, unlike corrupt ones."""
    return InvalidRequestError(f"{problem}; nothing was appended", code=ErrorCode.INVALID_RECORD)


def record_count(batch: Buffer) -> int:
    """Return how many records a batch of at least `HEADER_BYTES` states."""
    return int(_COUNT.unpack_from(batch, _COUNT_AT)[0])


def compression_of(batch: Buffer) -> int:
    """Return the number of the compression that a batch of at least `HEADER_BYTES` states; 0: none."""
    return batch[_ATTRIBUTES_AT + 1] & COMPRESSION


def is_compressed(batch: Buffer) -> bool:
    """Return whether a batch of at least `HEADER_BYTES` states that its records are compressed."""
    return bool(compression_of(batch))


def parse_produced(records: Buffer) -> KafkaHeader:
    """Return the header of the one batch that a produce request has for a partition, its checksum verified.

    Raises:
        CorruptBatchError: too few bytes, or a wrong checksum: the client sends it again.
        InvalidRequestError: INVALID_RECORD: not exactly one batch of magic 2 with records of a client;
            INVALID_TIMESTAMP: the producer claims the log's append time.
    """
    size = len(records)
    if size <= _MAGIC_AT:
        raise CorruptBatchError(f"a Kafka record batch has at least {HEADER_BYTES} bytes, received {size}")
    if (magic := records[_MAGIC_AT]) != MAGIC:
        raise invalid(f"expected a record batch of magic {MAGIC}, received message format {magic}: update the client")
    if size < HEADER_BYTES:
        raise CorruptBatchError(f"a Kafka record batch has at least {HEADER_BYTES} bytes, received {size}")
    header = KafkaHeader._make(_HEADER.unpack_from(records))
    if header.batch_length + _AFTER_LENGTH != size:
        raise invalid(
            "a produce request has exactly one record batch for each partition: the first one has "
            f"{header.batch_length + _AFTER_LENGTH} bytes, received {size}"
        )
    if (crc := crc32c(memoryview(records)[_CRC_FROM:])) != header.crc:
        raise CorruptBatchError(f"the record batch's checksum is {header.crc:#010x}, its bytes give {crc:#010x}")
    _require_of_client(header)
    return header


def _require_of_client(header: KafkaHeader) -> None:
    if header.attributes & CONTROL:
        raise invalid("clients do not write control records, received a control batch")
    if header.attributes & LOG_APPEND_TIME:
        raise InvalidRequestError(
            "a producer's timestamps are creation times, received a batch of append times",
            code=ErrorCode.INVALID_TIMESTAMP,
        )
    if header.is_transactional and header.producer_id == NO_PRODUCER_ID:
        raise invalid("a transactional batch names its producer, received none")
    if header.compression > ZSTD:
        raise invalid(f"expected compression {NONE} to {ZSTD}, received {header.compression}")
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise invalid(
            f"a batch of {header.record_count} records has a last offset delta of {header.last_offset_delta}: "
            "expected at least one record, and offsets without gaps"
        )


def assemble(header: KafkaHeader, *records: Buffer) -> bytearray:
    """Return a batch of encoded records; length and checksum of `header` are replaced."""
    total = sum(map(len, records))
    batch = bytearray(HEADER_BYTES + total)
    length = HEADER_BYTES - _AFTER_LENGTH + total
    _HEADER.pack_into(batch, 0, *header._replace(batch_length=length, magic=MAGIC, crc=0))
    at = HEADER_BYTES
    for piece in records:
        batch[at : at + len(piece)] = piece
        at += len(piece)
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))
    return batch
