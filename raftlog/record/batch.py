"""The record batch's 64-byte header, its two checksums, and walking over concatenated batches.

The producer writes the whole batch; the partition leader stamps three fields (base offset, leader epoch, header
checksum) and never touches the payload. The header checksum covers every header byte but its own, the payload
checksum included, so a flipped bit anywhere is caught and a payload cannot be swapped under a valid header.
See docs/reference/batch-format.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.errors import CorruptBatchError
from raftlog.model import (
    MAX_SEQUENCE,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
)

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 64
MAGIC = 1
ALIGNMENT = 8

ATTRIBUTE_COMPRESSION = 0b0000_0011
"""0 none, 1 lz4, 2 zstd: as in the payload, for readers of headers only."""
ATTRIBUTE_TRANSACTIONAL = 0b0000_0100
ATTRIBUTE_CONTROL = 0b0000_1000
ATTRIBUTE_COMPACTED = 0b0001_0000
"""Compaction removed records, so the payload has each record's offset. Readers that do not support it raise."""
ATTRIBUTE_SHORT = 0b0010_0000
"""One record without headers and without Arrow's metadata; see `record.short`. Readers without support for it raise."""
KNOWN_ATTRIBUTES = 0b0011_1111
_NOT_SHORT = ATTRIBUTE_COMPRESSION | ATTRIBUTE_CONTROL | ATTRIBUTE_COMPACTED

_HEADER = struct.Struct("<qIiIBBHIIqihHqII")
_STAMP_FRONT = struct.Struct("<q")
_EPOCH = struct.Struct("<i")
_CRC = struct.Struct("<I")
_PRODUCER, _PRODUCER_EPOCH = struct.Struct("<q"), struct.Struct("<h")
_EPOCH_AT, _HEADER_CRC_AT, _AFTER_CRC = 12, 16, 20
_ATTRIBUTES_AT, _PRODUCER_AT, _PRODUCER_EPOCH_AT = 21, 32, 44
assert _HEADER.size == HEADER_BYTES


class BatchHeader(NamedTuple):
    """The decoded header. `batch_length` counts header, payload and padding.

    It is a tuple, because a frozen dataclass takes eight times as long to create.
    """

    base_offset: Offset
    batch_length: int
    leader_epoch: LeaderEpoch
    header_crc: int
    magic: int
    attributes: int
    flags: int
    payload_crc32c: int
    record_count: int
    producer_id: ProducerId
    base_sequence: int
    producer_epoch: ProducerEpoch
    reserved_1: int
    max_timestamp: int
    last_offset_delta: int
    cleaned_at_s: int
    """When the cleaner first removed the records before a batch's tombstones, or all records of a marker's transaction.

    In s since 1970; 0: not yet.
    """

    @property
    def last_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; wraps to 0 after `MAX_SEQUENCE`."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % (MAX_SEQUENCE + 1)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & ATTRIBUTE_CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_compacted(self) -> bool:
        return bool(self.attributes & ATTRIBUTE_COMPACTED)

    @property
    def is_short(self) -> bool:
        return bool(self.attributes & ATTRIBUTE_SHORT)

    @property
    def is_empty(self) -> bool:
        """Compaction removed all its records; it still covers their offsets."""
        return self.record_count == 0


def _header_crc(header: Buffer, at: int = 0) -> int:
    whole = bytes(memoryview(header)[at : at + HEADER_BYTES])
    return crc32c(whole[_AFTER_CRC:], crc32c(whole[:_HEADER_CRC_AT]))


def write_header(
    buffer: bytearray,
    *,
    record_count: int,
    max_timestamp: int,
    attributes: int = 0,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    last_offset_delta: int | None = None,
    cleaned_at_s: int = 0,
) -> None:
    """Write the header of an unstamped batch into the first 64 bytes of `buffer`, whose payload is complete."""
    delta = record_count - 1 if last_offset_delta is None else last_offset_delta
    payload_crc = crc32c(memoryview(buffer)[HEADER_BYTES:])
    fields = (MAGIC, attributes, 0, payload_crc, record_count, producer_id, base_sequence, producer_epoch, 0)
    _HEADER.pack_into(buffer, 0, 0, len(buffer), NO_LEADER_EPOCH, 0, *fields, max_timestamp, delta, cleaned_at_s)
    _CRC.pack_into(buffer, _HEADER_CRC_AT, _header_crc(buffer))


def stamp(buffer: bytearray | memoryview, *, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
    """Write base offset and leader epoch into a batch, in place: the leader's only change to a producer's batch."""
    _STAMP_FRONT.pack_into(buffer, 0, base_offset)
    _EPOCH.pack_into(buffer, _EPOCH_AT, leader_epoch)
    _CRC.pack_into(buffer, _HEADER_CRC_AT, _header_crc(buffer))


def set_producer(buffer: bytearray | memoryview, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
    """Write another producer id and epoch into a batch, in place, before it is appended."""
    _PRODUCER.pack_into(buffer, _PRODUCER_AT, producer_id)
    _PRODUCER_EPOCH.pack_into(buffer, _PRODUCER_EPOCH_AT, producer_epoch)
    _CRC.pack_into(buffer, _HEADER_CRC_AT, _header_crc(buffer))


def parse_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """Decode and check the header that starts at `at`. The batch's payload need not be there.

    Raises:
        CorruptBatchError: too few bytes, a wrong checksum, or an invalid field.
    """
    available = len(buffer) - at
    if available < HEADER_BYTES:
        raise CorruptBatchError(f"a batch header has {HEADER_BYTES} bytes, received {max(0, available)}")
    # Not BatchHeader(*numbers): that is a Python function.
    header: BatchHeader = tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, at))
    if header.magic != MAGIC:
        raise CorruptBatchError(f"batch at byte {at}: expected magic {MAGIC}, received {header.magic}")
    if (crc := _header_crc(buffer, at)) != header.header_crc:
        raise CorruptBatchError(
            f"batch at byte {at}: header checksum is {header.header_crc:#010x}, its bytes give {crc:#010x}"
        )
    if problem := _implausible(header):
        raise CorruptBatchError(f"batch at byte {at}: {problem}")
    return header


def is_marked_short(batch: Buffer) -> bool:
    """Return whether the header, which need not be valid, has the mark of a short batch."""
    return len(batch) > _ATTRIBUTES_AT and bool(batch[_ATTRIBUTES_AT] & ATTRIBUTE_SHORT)


def _implausible(header: BatchHeader) -> str:
    least = HEADER_BYTES if header.is_compacted and header.is_empty else HEADER_BYTES + ALIGNMENT
    if header.batch_length < least or header.batch_length % ALIGNMENT:
        return f"batch_length must exceed {HEADER_BYTES} and be a multiple of {ALIGNMENT}: {header.batch_length}"
    if header.base_offset < 0 or header.leader_epoch < NO_LEADER_EPOCH:
        return f"negative base_offset {header.base_offset} or leader_epoch {header.leader_epoch}"
    unknown = header.flags or header.reserved_1 or header.attributes & ~KNOWN_ATTRIBUTES
    if unknown or (header.cleaned_at_s and not header.is_compacted):
        return f"reserved bits are set: attributes {header.attributes:#x}, flags {header.flags:#x}"
    if header.is_empty and (not header.is_compacted or header.batch_length != HEADER_BYTES):
        return f"only a compacted batch without payload has no records: batch_length {header.batch_length}"
    if header.last_offset_delta < header.record_count - 1:
        return f"record_count {header.record_count} does not fit last_offset_delta {header.last_offset_delta}"
    if header.attributes & ATTRIBUTE_SHORT and (header.last_offset_delta or header.attributes & _NOT_SHORT):
        return f"a short batch is one record: attributes {header.attributes:#x}, last_offset_delta not 0"
    return ""


def iter_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Iterate over whole batches, checking headers only. Views are of `buffer`.

    Raises:
        CorruptBatchError: at a wrong header, or a batch that is longer than what is left.
    """
    view, at = memoryview(buffer), 0
    while at < len(view):
        header = parse_header(view, at)
        if at + header.batch_length > len(view):
            raise CorruptBatchError(f"batch at byte {at} has {header.batch_length} bytes, {len(view) - at} are left")
        yield header, view[at : at + header.batch_length]
        at += header.batch_length


def verify_payload_crc(header: BatchHeader, batch: Buffer) -> None:
    """Check the payload's checksum.

    Raises:
        CorruptBatchError: it differs.
    """
    payload = memoryview(batch)[HEADER_BYTES : header.batch_length]
    if (crc := crc32c(payload)) != header.payload_crc32c:
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: payload checksum is {header.payload_crc32c:#010x}, "
            f"its bytes give {crc:#010x}"
        )
