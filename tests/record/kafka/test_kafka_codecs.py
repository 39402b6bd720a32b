"""Batches of other codecs are read, and other codecs read ours; golden files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatch as PythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as PythonBuilder
from kafka_records import TIME_MS, Sent, as_stored, built, read
from kio.records.readers import read_batch as read_by_kio

from raftlog.record import build_batch, parse_header, stamp
from raftlog.record.kafka.convert import from_kafka, to_kafka

GOLDEN = Path(__file__).parent / "golden"
SENT = [
    Sent(TIME_MS, b"key", b"value", []),
    Sent(TIME_MS + 1, None, None, [("twice", b"1"), ("twice", None), ("", b""), ("\u00e9", b"\xff")]),
    Sent(TIME_MS - 5_000, b"", b"", []),
    Sent(TIME_MS + 100_000, b"k" * 70, b"v" * 9_000, []),
]


@pytest.mark.parametrize("count", [1, 4, 80])
@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_kafka_python(compression: int, count: int):
    sent = (SENT * 20)[:count]
    builder = PythonBuilder(2, compression, False, 5, 1, 0, 1 << 30)
    for number, one in enumerate(sent):
        builder.append(number, one.timestamp, one.key, one.value, one.headers)
    ours = from_kafka(bytes(builder.build()), max_message_bytes=1 << 20)
    stamp(ours, base_offset=3, leader_epoch=1)
    decoded: Any = PythonBatch(bytes(to_kafka(parse_header(ours), ours)))
    assert decoded.validate_crc()
    assert [Sent(one.timestamp, one.key, one.value, list(one.headers)) for one in decoded] == sent


@pytest.mark.parametrize("count", [1, 4, 80])
def test_kio(count: int):
    sent = (SENT * 20)[:count]
    ours = build_batch([as_stored(one) for one in sent], producer_id=5, producer_epoch=1, base_sequence=8)
    stamp(ours, base_offset=3, leader_epoch=1)
    batch, size = read_by_kio(bytes(to_kafka(parse_header(ours), ours)), 0)
    assert size > 0
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, 8)
    assert [(one.key, one.value) for one in batch.records] == [(one.key, one.value) for one in sent]


@pytest.mark.parametrize("name", ["four", "eighty"])
def test_golden_files(name: str):
    """The bytes that brokers store and send for the same records never change: a repeat is known by its checksum.

    No file is of compressed records: their bytes depend on the zstd and lz4 of the installed pyarrow.
    """
    sent = SENT if name == "four" else SENT * 20
    stored = from_kafka(built(sent, producer=(7, 2, 40)), max_message_bytes=1 << 20)
    stamp(stored, base_offset=1000, leader_epoch=6)
    returned = bytes(to_kafka(parse_header(stored), stored))
    assert read(returned) == sent
    for suffix, made in ((".batch", bytes(stored)), (".kafka", returned)):
        golden = (GOLDEN / name).with_suffix(suffix)
        if os.environ.get("REWRITE"):
            GOLDEN.mkdir(exist_ok=True)
            golden.write_bytes(made)
        assert golden.read_bytes() == made
