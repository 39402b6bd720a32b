"""Kafka's record batches to raftlog's and back on one core, beside aiokafka's compiled codec; no network, no disk."""

from __future__ import annotations

import random
from collections.abc import Callable

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from benchmarks.codec import cpu_rates
from benchmarks.report import Effort, Figure
from raftlog.record import parse_header, stamp
from raftlog.record.kafka.convert import from_kafka, to_kafka

_TIME_MS = 1_700_000_000_000
_LIMIT = 8 << 20


def _batch(count: int, size: int, *, vary: bool = False) -> bytes:
    chosen = random.Random(1)
    builder = DefaultRecordBatchBuilder(2, 0, False, 7, 0, 0, 1 << 30)
    for number in range(count):
        length = chosen.randrange(size // 2, size * 3 // 2) if vary else size
        key = b"key-%06d" % chosen.randrange(10**6) if vary else None
        builder.append(number, _TIME_MS + number // 10, key, chosen.randbytes(length), [])
    return bytes(builder.build())


def _read_by_aiokafka(batch: bytes) -> int:
    return sum(1 for _ in DefaultRecordBatch(batch))


def _built_by_aiokafka(values: list[bytes]) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, 7, 0, 0, 1 << 30)
    for number, value in enumerate(values):
        builder.append(number, _TIME_MS, None, value, [])
    return bytes(builder.build())


def _both_ways(name: str, count: int, size: int, effort: Effort, *, vary: bool = False) -> list[Figure]:
    sent = _batch(count, size, vary=vary)
    stored = from_kafka(sent, max_message_bytes=_LIMIT)
    stamp(stored, base_offset=0, leader_epoch=0)
    header = parse_header(stored)
    values = [record.value for record in DefaultRecordBatch(sent)]
    works: dict[str, Callable[[], object]] = {
        "from_kafka": lambda: from_kafka(sent, max_message_bytes=_LIMIT),
        "to_kafka": lambda: to_kafka(header, stored),
        "read_by_aiokafka": lambda: _read_by_aiokafka(sent),
        "built_by_aiokafka": lambda: _built_by_aiokafka(values),
    }
    return [
        Figure(name=f"{way}_{name}_records_per_s", samples=cpu_rates(work, count, effort), better="more")
        for way, work in works.items()
    ]


def of_100_bytes(effort: Effort) -> list[Figure]:
    """A full batch of a Java client, 16 kB, and large ones of librdkafka."""
    figures = _both_ways("100b", 8000, 100, effort) + _both_ways("100b_varying", 8000, 100, effort, vary=True)
    return figures + _both_ways("100b_of_16kb", 150, 100, effort)


def of_1_kilobyte(effort: Effort) -> list[Figure]:
    """Batches of about a megabyte."""
    return _both_ways("1kb", 900, 1024, effort) + _both_ways("1kb_varying", 900, 1024, effort, vary=True)


def of_few_records(effort: Effort) -> list[Figure]:
    """The fixed cost of a batch."""
    return _both_ways("one_record", 1, 100, effort) + _both_ways("ten_records", 10, 100, effort)


FIGURES = {"100b": of_100_bytes, "1kb": of_1_kilobyte, "few": of_few_records}
