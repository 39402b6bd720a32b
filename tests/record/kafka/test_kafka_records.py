"""Kafka's record batch to raftlog's and back: nothing is lost, and both implementations agree."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka_records import TIME_MS, Sent, as_stored, built, read, with_checksum

from raftlog.record import build_batch, parse_header, stamp, to_arrow, validate_batch
from raftlog.record.kafka import convert
from raftlog.record.kafka.convert import from_kafka, to_kafka

LIMIT = 32 << 20
texts = st.binary(max_size=200) | st.none()
records = st.builds(
    Sent,
    st.integers(TIME_MS - 10_000_000, TIME_MS + 10_000_000) | st.integers(-(2**50), 2**50),
    texts,
    texts,
    st.lists(st.tuples(st.text(max_size=20), texts), max_size=4),
)


def stored(batch: bytes, few: int) -> bytearray:
    convert.FEW_RECORDS, before = few, convert.FEW_RECORDS
    try:
        return from_kafka(batch, max_message_bytes=LIMIT)
    finally:
        convert.FEW_RECORDS = before


def returned(batch: bytearray, few: int) -> bytes:
    convert.FEW_RECORDS, before = few, convert.FEW_RECORDS
    try:
        return bytes(to_kafka(parse_header(batch), batch))
    finally:
        convert.FEW_RECORDS = before


LOOP, COLUMNS = 10**9, 1


@settings(max_examples=300, deadline=None)
@given(st.lists(records, min_size=1, max_size=80), st.sampled_from([0, 1, 2, 3, 4]))
def test_records_come_back_as_they_were_sent(sent: list[Sent], compression: int):
    batch = built(sent, compression=compression, producer=(7, 3, 2**31 - 1))
    slow, fast = stored(batch, LOOP), stored(batch, COLUMNS)
    assert slow == fast, "a repeat that another broker converts has the same payload checksum"
    header = validate_batch(fast, max_message_bytes=LIMIT)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 2**31 - 1)
    if compression == 0:
        assert fast[64:] == build_batch([as_stored(one) for one in sent])[64:]
    stamp(fast, base_offset=1000, leader_epoch=5)
    slow_back, fast_back = returned(fast, LOOP), returned(fast, COLUMNS)
    assert slow_back == fast_back
    assert read(fast_back) == sent
    assert fast_back[:8] == (1000).to_bytes(8, "big")


@pytest.mark.parametrize("size", [0, 1, 56, 63, 64, 100, 8190, 70_000])
@pytest.mark.parametrize("count", [1, 49, 50, 64, 65, 129, 300])
def test_runs_of_records_of_one_length(size: int, count: int):
    sent = [Sent(TIME_MS + number // 3, None, bytes([number % 256]) * size, []) for number in range(count)]
    batch = stored(built(sent), COLUMNS)
    assert batch == stored(built(sent), LOOP)
    stamp(batch, base_offset=0, leader_epoch=0)
    assert read(returned(batch, COLUMNS)) == sent


def test_a_batch_of_many_lengths():
    chosen = random.Random(4)
    sent = [
        Sent(TIME_MS, chosen.randbytes(chosen.randrange(90)), chosen.randbytes(chosen.randrange(3000)), [])
        for _ in range(5000)
    ]
    batch = from_kafka(built(sent), max_message_bytes=64 << 20)
    assert to_arrow(parse_header(batch), batch).num_rows == 5000
    stamp(batch, base_offset=0, leader_epoch=0)
    assert read(bytes(to_kafka(parse_header(batch), batch))) == sent


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_large_records_of_each_compression(compression: int):
    sent = [Sent(TIME_MS, b"k" * number, b"v" * 100 * number, []) for number in range(100)]
    batch = stored(built(sent, compression=compression), COLUMNS)
    assert batch == stored(built(sent, compression=compression), LOOP)
    stamp(batch, base_offset=0, leader_epoch=0)
    assert read(returned(batch, COLUMNS)) == sent


def test_large_records_in_one_snappy_block():
    """As librdkafka compresses them; Java's clients and aiokafka send frames of blocks."""
    sent = [Sent(TIME_MS, b"k" * number, b"v" * 100 * number, []) for number in range(100)]
    plain = built(sent)
    head = bytearray(plain[:61])
    head[22] = 2
    batch = with_checksum(head + pa.compress(plain[61:], codec="snappy", asbytes=True))
    assert stored(batch, COLUMNS) == stored(batch, LOOP)


def test_a_node_loads_numpy_for_the_first_large_batch(tmp_path: Path):
    """pyarrow was imported without it."""
    sent = [Sent(TIME_MS + number, b"key", b"value", [("a", None)]) for number in range(100)]
    file = tmp_path / "batch"
    file.write_bytes(built(sent))
    code = """if True:
        import sys
        from raftlog.broker import node
        node.keep_pyarrow_small()
        from raftlog.record import parse_header, stamp
        from raftlog.record.kafka.convert import from_kafka, to_kafka
        assert "numpy" not in sys.modules
        batch = from_kafka(open(sys.argv[1], "rb").read(), max_message_bytes=1 << 20)
        assert "numpy" in sys.modules and "pandas" not in sys.modules
        stamp(batch, base_offset=0, leader_epoch=0)
        open(sys.argv[2], "wb").write(to_kafka(parse_header(batch), batch))
        """
    subprocess.run([sys.executable, "-c", code, file, tmp_path / "back"], check=True)
    assert read((tmp_path / "back").read_bytes()) == sent


def test_a_record_of_many_headers():
    sent = [Sent(TIME_MS, None, b"v", [("k", b"1")] * 300)] * 60
    assert stored(built(sent), COLUMNS) == stored(built(sent), LOOP)


def test_microseconds_are_rounded_down():
    batch = build_batch([as_stored(Sent(-1, None, b"v", []))._replace(timestamp=-1)])
    stamp(batch, base_offset=0, leader_epoch=0)
    assert read(bytes(to_kafka(parse_header(batch), batch)))[0].timestamp == -1
