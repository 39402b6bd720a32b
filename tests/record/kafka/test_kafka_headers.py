"""Very many headers: no conversion holds the interpreter, and so a node's event loop, for 50 ms."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import TypeVar

import pyarrow as pa
import pytest
from kafka_records import TIME_MS, Sent, built, read

from raftlog.broker.node import SWITCH_S
from raftlog.broker.topic_reads.stream_encoders import Events
from raftlog.record import build_batch, parse_header, stamp, to_arrow
from raftlog.record.arrow import READ_SCHEMA, SCHEMA, build_batch_from_arrow
from raftlog.record.formats import encoder
from raftlog.record.kafka.convert import from_kafka, to_kafka
from raftlog.record.model import NewRecord
from raftlog.wire.codec import Buffer

T = TypeVar("T")
COUNT, EACH = 600_000, b"\x08abcd\x04xy"
LIMIT = 16 << 20
MOST_S, TRIES = 0.02, 5
"""A busy machine can hold this thread, too. A call that holds the interpreter does so each time."""


@pytest.fixture(autouse=True)
def _switch_interval_of_nodes() -> Iterator[None]:
    """Let threads take turns as in a node."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    yield
    sys.setswitchinterval(before)


def without_a_gap(work: Callable[[], T]) -> T:
    """Do some work in a thread, while this one looks at the clock; return its result."""
    gaps = list[float]()
    for _ in range(TRIES):
        result, longest = in_thread(work)
        if longest < MOST_S:
            return result
        gaps.append(longest)
    raise AssertionError(f"the other thread computed for {[round(1000 * gap) for gap in gaps]} ms at a time")


def in_thread(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of some work, and for how long its thread computed at most while this one waited for it.

    Not for how long this one waited: other processes may have had the processors.
    """
    results, began, seen_all = list[T](), Event(), Event()

    def run() -> None:
        began.set()
        results.append(work())
        seen_all.wait()  # The thread's clock ends with it.

    worker = Thread(target=run)
    worker.start()
    began.wait()
    assert worker.ident is not None
    clock, longest = time.pthread_getcpuclockid(worker.ident), 0.0
    seen = time.clock_gettime(clock)
    while not results and worker.is_alive():
        worker.join(0.001)
        computed = time.clock_gettime(clock)
        longest, seen = max(longest, computed - seen), computed
    seen_all.set()
    worker.join()
    return results[0], longest


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


@pytest.mark.parametrize("form", ["ndjson", "json", "csv", "events"])
def test_a_record_of_very_many_headers_as_text(form: str):
    """It held the interpreter for 30 to 70 ms: no header is text without escapes, and 50 MB of text were copied."""
    headers = [{"key": 'a"b', "value": b"\xff"}] * COUNT
    times = pa.array([1], READ_SCHEMA.field(1).type)
    column = pa.array([headers], READ_SCHEMA.field(4).type)
    one = [pa.array([7]), times, pa.array([None], pa.binary()), pa.array([b"x"]), column]
    rows = pa.record_batch(one, schema=READ_SCHEMA)

    def render() -> Buffer:
        columns = ("offset", "headers")
        writer = Events({0: 7}, columns) if form == "events" else encoder(form, columns)
        writer.begin()
        return writer.write("t", 0, rows)

    assert bytes(without_a_gap(render)).count(b"base64") == COUNT


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
