"""Very many headers: no conversion holds the interpreter, and so a node's event loop, for 50 ms."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

import pyarrow as pa
import pytest
from kafka_records import TIME_MS, Sent, built, read

from raftlog.record import build_batch, parse_header, stamp, to_arrow
from raftlog.record.arrow import SCHEMA, build_batch_from_arrow
from raftlog.record.kafka.convert import from_kafka, to_kafka
from raftlog.record.model import NewRecord

T = TypeVar("T")
COUNT, EACH = 600_000, b"\x08abcd\x04xy"
LIMIT = 16 << 20
MOST_S, TRIES = 0.05, 5
"""A busy machine can hold this thread, too. A call that holds the interpreter does so each time."""


def without_a_gap(work: Callable[[], T]) -> T:
    """Do some work in a thread, while this one looks at the clock; return its result."""
    gaps = list[float]()
    for _ in range(TRIES):
        results, longest = list[T](), 0.0
        worker = Thread(target=lambda: results.append(work()))  # noqa: B023  (it ends in this turn)
        worker.start()
        seen = time.monotonic()
        while worker.is_alive():
            worker.join(0.001)
            longest, seen = max(longest, time.monotonic() - seen), time.monotonic()
        if longest < MOST_S:
            return results[0]
        gaps.append(longest)
    raise AssertionError(f"the other thread stood still for {[round(1000 * gap) for gap in gaps]} ms")


def with_headers(count: int) -> bytes:
    from test_hostile_kafka_records import ZSTD, with_body, with_headers  # noqa: PLC0415

    packed = pa.compress(with_headers(count, EACH), codec="zstd", asbytes=True)
    return with_body(packed, count=1, compression=ZSTD)


def test_a_record_of_very_many_headers_both_ways():
    batch = with_headers(COUNT)
    assert len(batch) < 1_000
    stored = without_a_gap(lambda: from_kafka(batch, max_message_bytes=LIMIT))
    stamp(stored, base_offset=0, leader_epoch=0)
    header = parse_header(stored)
    (row,) = to_arrow(header, stored).column(3)
    assert len(row) == COUNT
    assert row[COUNT - 1].as_py() == {"key": "abcd", "value": b"xy"}
    back = without_a_gap(lambda: to_kafka(header, stored))
    assert bytes(back).count(EACH) == COUNT


@pytest.mark.parametrize("count", [9_999, 10_000, 10_001, 25_000])
def test_headers_around_the_number_that_is_converted_at_once(count: int):
    headers = [(f"name-{number}", None if number % 3 else b"%d" % number) for number in range(count)]
    sent = [Sent(TIME_MS, b"key", b"value", []), Sent(TIME_MS, None, None, headers), Sent(TIME_MS, b"", b"", [])]
    batch = from_kafka(built(sent), max_message_bytes=LIMIT)
    stamp(batch, base_offset=0, leader_epoch=0)
    assert read(bytes(to_kafka(parse_header(batch), batch))) == sent


def test_headers_are_written_as_arrow_writes_its_own_rows():
    records = [
        NewRecord(b"a", timestamp=1, headers=(("one", b"1"), ("two", None))),
        NewRecord(b"b", timestamp=2),
        NewRecord(b"c", timestamp=3, headers=(("one", None),)),
    ]
    entries = [[{"key": key, "value": value} for key, value in one.headers] or None for one in records]
    rows = pa.record_batch(
        [
            pa.array([1, 2, 3], SCHEMA.field(0).type),
            pa.nulls(3, pa.binary()),
            pa.array([b"a", b"b", b"c"], pa.binary()),
            pa.array(entries, SCHEMA.field(3).type),
        ],
        schema=SCHEMA,
    )
    assert build_batch(records) == build_batch_from_arrow(rows)
