"""Damaged and invented Kafka batches: refused with an error that says what is wrong, in bounded memory."""

from __future__ import annotations

import random
import resource
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from kafka_records import TIME_MS, Sent, built, with_checksum

from raftlog.errors import CorruptBatchError, ErrorCode, InvalidRequestError, RaftlogError
from raftlog.record import validate_batch
from raftlog.record.kafka import convert
from raftlog.record.kafka.convert import from_kafka
from raftlog.record.kafka.loop import put_number

LIMIT = 1 << 20
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def refusal(batch: bytes, *, limit: int = LIMIT) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        from_kafka(batch, max_message_bytes=limit)
    return caught.value


def sent(count: int = 60) -> list[Sent]:
    return [Sent(TIME_MS + number, b"key", b"value %d" % number, [("h", None), ("h", b"x")]) for number in range(count)]


def changed(at: int, layout: str, value: int, batch: bytes | None = None) -> bytes:
    copy = bytearray(built(sent()) if batch is None else batch)
    struct.pack_into(layout, copy, at, value)
    return with_checksum(copy)


def with_body(body: bytes, *, count: int, compression: int) -> bytes:
    head = bytearray(built(sent(1))[:61])
    struct.pack_into(">h", head, 21, compression)
    struct.pack_into(">i", head, 23, count - 1)
    struct.pack_into(">i", head, 57, count)
    return with_checksum(head + body)


def with_headers(count: int, each: bytes, *, records: int = 1) -> bytes:
    """Return records with so many headers each."""
    out = bytearray()
    for number in range(records):
        record = bytearray(2)  # Attributes, and the delta of its time.
        for field in (number, -1, -1, count):
            put_number(record, field)
        record += each * count
        put_number(out, len(record))
        out += record
    return bytes(out)


@pytest.mark.parametrize("records", [1, 2_000])
def test_headers_of_two_bytes_do_not_fill_the_memory(records: int):
    """8 MiB of zeros are packed in 275 bytes, and took 1.1 GB as headers."""
    body = with_headers(120_000 // records, b"\0\0", records=records)
    packed = pa.compress(body, codec="zstd", asbytes=True)
    error = refusal(with_body(packed, count=records, compression=ZSTD))
    assert error.code == ErrorCode.INVALID_RECORD
    assert "at most 100,000 headers" in error.message


def test_many_headers_of_some_bytes_are_kept():
    body = with_headers(110_000, b"\x06abc\x06xyz")
    batch = from_kafka(with_body(body, count=1, compression=0), max_message_bytes=8 * LIMIT)
    validate_batch(batch, max_message_bytes=8 * LIMIT)


def test_a_wrong_checksum_is_corrupt():
    batch = bytearray(built(sent()))
    batch[-1] ^= 1
    assert refusal(bytes(batch)).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [0, 1, 16, 17, 60])
def test_a_cut_header_is_corrupt(size: int):
    with pytest.raises(CorruptBatchError):
        from_kafka(built(sent())[:size], max_message_bytes=LIMIT)


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (changed(16, ">b", 1), "message format 1"),
        (changed(16, ">b", 0), "message format 0"),
        (changed(57, ">i", 0), "0 records"),
        (changed(57, ">i", -1), "-1 records"),
        (changed(57, ">i", 2**31 - 1), "2147483647 records"),
        (changed(23, ">i", 60), "last offset delta of 60"),
        (changed(21, ">h", 0x20), "control"),
        (changed(21, ">h", 5), "compression"),
        (changed(21, ">h", 0x10), "names its producer"),
        (built(sent()) + built(sent()), "exactly one"),
    ],
)
def test_a_false_header(batch: bytes, text: str):
    error = refusal(batch)
    assert error.code == ErrorCode.INVALID_RECORD
    assert text in error.message


def test_append_times_of_a_producer():
    assert refusal(changed(21, ">h", 8)).code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("count", [1, 60])
@pytest.mark.parametrize("base", [2**63 - 1, -(2**63), 2**60])
def test_times_that_do_not_fit(base: int, count: int):
    assert refusal(changed(27, ">q", base, built(sent(count)))).code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("few", [1, 10**9])
def test_a_header_key_that_is_not_text(monkeypatch: pytest.MonkeyPatch, few: int):
    monkeypatch.setattr(convert, "FEW_RECORDS", few)
    batch = built([Sent(TIME_MS, None, b"v", [("name", b"x")])] * 3).replace(b"name", b"na\xffe")
    error = refusal(with_checksum(batch))
    assert error.code == ErrorCode.INVALID_RECORD
    assert "UTF-8" in error.message


def outcome(batch: bytes, few: int) -> bytes | ErrorCode:
    convert.FEW_RECORDS, before = few, convert.FEW_RECORDS
    try:
        made = from_kafka(batch, max_message_bytes=LIMIT)
        validate_batch(made, max_message_bytes=4 * LIMIT)
        return bytes(made)
    except RaftlogError as error:
        return error.code
    finally:
        convert.FEW_RECORDS = before


@pytest.mark.parametrize("seed", range(8))
def test_damaged_records_are_refused_or_read_alike(seed: int):
    chosen = random.Random(seed)
    refused = 0
    for _ in range(250):
        batch = bytearray(built(sent(chosen.choice([1, 2, 60, 200]))))
        for _ in range(chosen.choice([1, 1, 2, 5])):
            batch[chosen.randrange(61, len(batch))] = chosen.choice([0, 1, 2, 0x7F, 0x80, 0xFF, chosen.randrange(256)])
        if chosen.random() < 0.2:
            del batch[chosen.randrange(61, len(batch)) :]
        by_loop, by_column = (outcome(with_checksum(batch), few) for few in (10**9, 1))
        assert by_loop == by_column
        refused += not isinstance(by_loop, bytes)
    assert refused


def bombs() -> dict[str, tuple[int, bytes]]:
    """Return bodies of a few kB that unpack to 256 MiB, or state that they do."""
    zeros = bytes(256 << 20)
    gzip = zlib.compressobj(9, wbits=31)
    xerial = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    block = pa.compress(bytes(900_000), codec="snappy", asbytes=True)
    return {
        "gzip": (GZIP, gzip.compress(zeros) + gzip.flush()),
        "zstd": (ZSTD, pa.compress(zeros, codec="zstd", asbytes=True)),
        "lz4": (LZ4, pa.compress(zeros, codec="lz4", asbytes=True)),
        "snappy states 4 GiB": (SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(1000)),
        "xerial": (SNAPPY, xerial + (struct.pack(">i", len(block)) + block) * 20),
    }


@pytest.mark.parametrize("name", ["gzip", "zstd", "lz4", "snappy states 4 GiB", "xerial"])
def test_a_bomb_stops_at_the_limit(name: str):
    compression, body = bombs()[name]
    batch = with_body(body, count=100, compression=compression)
    arrow_before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        error = refusal(batch)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD)
    assert peak < 8 * LIMIT
    assert pa.total_allocated_bytes() - arrow_before < 8 * LIMIT


def test_blocks_without_content_are_not_walked_through():
    body = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + (struct.pack(">i", 1) + b"\0") * LIMIT
    assert refusal(with_body(body, count=100, compression=SNAPPY)).code == ErrorCode.MESSAGE_TOO_LARGE


CUTS: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "half": lambda body: body[: len(body) // 2],
    "flipped": lambda body: bytes([body[0] ^ 0xFF, *body[1:]]),
    "noise": lambda body: random.Random(3).randbytes(len(body)),
    "followed": lambda body: body + b"more",
}


@pytest.mark.parametrize("compression", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("cut", CUTS)
def test_damaged_compression(compression: int, cut: str):
    whole = built(sent(100), compression=compression)
    assert (whole[22] & 7) == compression
    assert refusal(with_body(CUTS[cut](whole[61:]), count=100, compression=compression)).code in (
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
    )


def test_xerial_frames():
    plain = built(sent(100))[61:]
    blocks = [pa.compress(plain[at : at + 1000], codec="snappy", asbytes=True) for at in range(0, len(plain), 1000)]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    body = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed
    made = from_kafka(with_body(body, count=100, compression=SNAPPY), max_message_bytes=LIMIT)
    assert validate_batch(made, max_message_bytes=LIMIT).record_count == 100
    for wrong in (framed[:-1], struct.pack(">i", -1) + framed, struct.pack(">i", 2**31 - 1) + framed, framed + b"\0"):
        assert refusal(with_body(body[:16] + wrong, count=100, compression=SNAPPY)).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("compression", [LZ4, ZSTD])
def test_damaged_streams_leave_no_memory_behind(compression: int):
    whole = built(sent(2_000), compression=compression)
    damaged = with_body(whole[61:-40], count=2_000, compression=compression)
    flipped = bytearray(whole[61:])
    flipped[len(flipped) // 2] ^= 0xFF
    for batch in (damaged, with_body(bytes(flipped), count=2_000, compression=compression)):
        grew = list[int]()
        for _ in range(3):  # What leaks does so each time; a thread of another test maps 64 MiB once.
            before = _mapped_bytes()
            for _ in range(200):
                refusal(batch)
            grew.append(_mapped_bytes() - before)
        assert min(grew) < 50 << 20, grew


def _mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
