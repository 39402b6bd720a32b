"""Kafka's record batches with right checksums and wrong contents: both implementations agree, and none fails."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pyarrow as pa

from fuzz.batches import MutatedBatches, changed
from raftlog.checksum import crc32c
from raftlog.errors import RaftlogError
from raftlog.record import NewRecord, build_batch, parse_header, stamp, validate_batch
from raftlog.record.kafka import convert
from raftlog.record.kafka.convert import from_kafka, to_kafka
from raftlog.record.kafka.header import GZIP, HEADER_BYTES, LZ4, SNAPPY, ZSTD

LIMIT = 1 << 20
_BY_RECORD, _BY_COLUMN = 1 << 31, 1
"""Values of `FEW_RECORDS` that choose an implementation."""
_CODECS = {SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}


class KafkaRecords(MutatedBatches):
    """The target: Kafka's batches as a broker receives them."""

    def __init__(self) -> None:
        super().__init__("kafka_records", "batches of Kafka", judge=judge, mutated=mutated, seeds=seeds)


def seeds() -> list[bytes]:
    """Return valid batches of each compression."""
    headed = [NewRecord(b"value", b"key", 1_700_000_000_000_000 + i, (("h", b"x"), ("", None))) for i in range(60)]
    bare = [NewRecord(b"v" * (i % 200), None, 1) for i in range(150)]
    return [
        _packed(records, compression)
        for records in (headed, bare, headed[:2], [NewRecord(None, b"gone", 1)])
        for compression in (0, GZIP, SNAPPY, LZ4, ZSTD)
    ]


def _packed(records: list[NewRecord], compression: int) -> bytes:
    ours = build_batch(records)
    stamp(ours, base_offset=0, leader_epoch=0)
    plain = bytes(to_kafka(parse_header(ours), ours))
    body = plain[HEADER_BYTES:]
    if compression == GZIP:
        body = zlib.compress(body, wbits=31)
    elif compression:
        body = pa.compress(body, codec=_CODECS[compression], asbytes=True)
    return resealed(bytearray(plain[:22]) + bytes([compression]) + plain[23:HEADER_BYTES] + body)


def mutated(batch: bytes, how: list[Any]) -> bytes:
    """Return the batch with some changes, and with right length and checksum."""
    return resealed(bytearray(changed(batch, how)))


def resealed(batch: bytearray) -> bytes:
    """Return a batch with right length and checksum."""
    if len(batch) >= HEADER_BYTES:
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)


def judge(data: bytes) -> str:
    """Return what an implementation did wrong with a batch, or ""."""
    by_record, by_column = (_stored(data, few) for few in (_BY_RECORD, _BY_COLUMN))
    if isinstance(by_record, str) and isinstance(by_column, str):
        return ""  # A batch with two faults has two codes.
    if by_record != by_column:
        return f"the implementations disagree: {by_record!r:.200} and {by_column!r:.200}"
    assert isinstance(by_record, bytearray)
    try:
        header = validate_batch(by_record, max_message_bytes=64 * LIMIT)
    except RaftlogError as error:
        return f"validation refuses what was converted: {error.message}"
    stamp(by_record, base_offset=0, leader_epoch=0)
    back = [_returned(by_record, few) for few in (_BY_RECORD, _BY_COLUMN)]
    if back[0] != back[1]:
        return "the implementations return different records"
    again = from_kafka(back[0], max_message_bytes=64 * LIMIT)
    return "" if parse_header(again).record_count == header.record_count else "records were lost on the way back"


def _stored(data: bytes, few: int) -> bytearray | str:
    convert.FEW_RECORDS = few
    try:
        return from_kafka(data, max_message_bytes=LIMIT)
    except RaftlogError as error:
        return error.code


def _returned(batch: bytearray, few: int) -> bytes:
    convert.FEW_RECORDS = few
    return bytes(to_kafka(parse_header(batch), batch))
