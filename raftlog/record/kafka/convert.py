"""Kafka's record batches to raftlog's, and back.

What changes on the way: timestamps are milliseconds in Kafka and microseconds here (rounded down on the way back);
gzip becomes zstd and snappy becomes lz4, as Arrow has no others; Kafka gets records uncompressed. Everything else is
kept: keys, values, headers with their order, duplicates and nulls, producer id, epoch and sequence.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from raftlog.record.arrow import build_batch, build_batch_from_arrow
from raftlog.record.batch import BatchHeader, Buffer
from raftlog.record.control import parse_marker
from raftlog.record.kafka import arrays
from raftlog.record.kafka import header as kafka
from raftlog.record.kafka.compression import too_large, unpack
from raftlog.record.kafka.decode import TooManyHeaders, decode_columns
from raftlog.record.kafka.encode import encode_columns
from raftlog.record.kafka.header import KafkaHeader, assemble, parse_produced
from raftlog.record.kafka.loop import decode_records, encode_records, put_record
from raftlog.record.model import Compression, RecordColumns
from raftlog.record.reading import to_arrow

FEW_RECORDS = 50
"""Fewer records are converted one by one: columns have a fixed cost of about 0.15 ms."""
_COMPRESSION: dict[int, Compression | None] = {
    kafka.NONE: None,
    kafka.GZIP: "zstd",
    kafka.SNAPPY: "lz4",
    kafka.LZ4: "lz4",
    kafka.ZSTD: "zstd",
}
MANY_HEADERS = 5_000
"""So many headers take more than `serving.workers.INLINE_BYTES`. One by one, more would hold the interpreter."""
_HEADERS, _OFFSET_DELTA = 3, 4
"""Columns; the second one is that of a compacted batch."""
_MARKER_KEY, _MARKER_VALUE = struct.Struct(">hh"), struct.Struct(">hi")
_MARKER_VERSION = 0


def from_kafka(records: Buffer, *, max_message_bytes: int) -> bytearray:
    """Return the batch of a produce request as an unstamped raftlog batch.

    Args:
        max_message_bytes: the most bytes of its unpacked records.

    Raises:
        CorruptBatchError: its checksum is wrong.
        InvalidRequestError: INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE.
    """
    header = parse_produced(records)
    unpacked = unpack(memoryview(records)[kafka.HEADER_BYTES :], header.compression, most=max_message_bytes)
    decoded = _decoded(header, unpacked)
    build = build_batch if isinstance(decoded, RecordColumns) else build_batch_from_arrow
    batch = build(
        decoded,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        compression=_COMPRESSION[header.compression],
        transactional=header.is_transactional,
    )
    if len(batch) > max_message_bytes:  # The leader would refuse it, after it had been in memory with others.
        raise too_large(max_message_bytes)
    return batch


def _decoded(header: KafkaHeader, unpacked: Buffer) -> RecordColumns | pa.RecordBatch:
    if header.record_count >= FEW_RECORDS and arrays.is_available():
        try:
            return decode_columns(header, unpacked)
        except TooManyHeaders:
            pass
    return decode_records(header, unpacked)


def to_kafka(header: BatchHeader, batch: Buffer) -> bytearray:
    """Return a stored batch as Kafka's, uncompressed. A batch without records stays one.

    Raises:
        CorruptBatchError: the payload is damaged.
    """
    if header.is_empty:
        return _without_records(header)
    if header.is_control:
        return _marker(header, batch)
    rows = to_arrow(header, batch)
    compacted = rows.column(_OFFSET_DELTA) if header.is_compacted else None
    is_large = rows.num_rows >= FEW_RECORDS or len(rows.column(_HEADERS).values) > MANY_HEADERS
    if is_large and arrays.is_available():
        deltas = None if compacted is None else arrays.numbers_of(compacted, "int32").astype("int64")
        base, newest, records = encode_columns(rows, deltas)
    else:
        base, newest, records = encode_records(
            rows, range(rows.num_rows) if compacted is None else compacted.to_pylist()
        )
    attributes = kafka.TRANSACTIONAL if header.is_transactional else 0
    return assemble(_header(header, attributes, base, newest), records)


def _header(header: BatchHeader, attributes: int, base_ms: int, newest_ms: int) -> KafkaHeader:
    return KafkaHeader(
        base_offset=header.base_offset,
        batch_length=0,
        leader_epoch=header.leader_epoch,
        magic=kafka.MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=min(header.last_offset_delta, kafka.MAX_OFFSET_DELTA),
        base_timestamp=base_ms,
        max_timestamp=newest_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=header.record_count,
    )


def _without_records(header: BatchHeader) -> bytearray:
    """Return a batch whose records compaction has removed.

    A filler may cover more offsets than Kafka's batch can. Then it covers the first ones, and the reader asks again:
    `for_reader` cuts it.
    """
    time = header.max_timestamp // 1000
    attributes = (kafka.TRANSACTIONAL if header.is_transactional else 0) | (kafka.CONTROL if header.is_control else 0)
    return assemble(_header(header, attributes, time, time))


def _marker(header: BatchHeader, batch: Buffer) -> bytearray:
    """Return a transaction's marker as Kafka's control record (KIP-98)."""
    marker, time, record = parse_marker(header, batch), header.max_timestamp // 1000, bytearray()
    put_record(
        record,
        timestamp_delta=0,
        offset_delta=0,
        key=_MARKER_KEY.pack(_MARKER_VERSION, int(marker.committed)),
        value=_MARKER_VALUE.pack(_MARKER_VERSION, marker.coordinator_epoch),
        headers=(),
    )
    return assemble(_header(header, kafka.TRANSACTIONAL | kafka.CONTROL, time, time), record)
