"""The record batch on one core, without network or disk: 1,000 records of 100 B, built, checked, read and rendered."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pyarrow as pa

from benchmarks.report import Effort, Figure
from raftlog.record import (
    SCHEMA,
    NewRecord,
    build_batch,
    build_batch_from_arrow,
    parse_header,
    read_records,
    to_arrow,
    to_arrow_with_offsets,
    validate_batch,
)
from raftlog.record.formats import FORMATS, encoder
from raftlog.record.model import Compression

_RECORDS = 1_000
_NOW_US = 1_700_000_000_000_000
_SLICE_S = 0.2
_RENDERED_AT_ONCE = 8_000
"""Records that are rendered by one call: about a megabyte."""


def _records(count: int) -> list[NewRecord]:
    return [NewRecord(os.urandom(100), timestamp=_NOW_US + number) for number in range(count)]


def cpu_rates(work: Callable[[], object], records: int, effort: Effort) -> list[float]:
    """Return records per second of CPU time, of some slices: other processes of the machine do not count."""
    samples = []
    for _ in range(effort.pick(9, quick=3)):
        count, started = 0, time.process_time()
        while (took := time.process_time() - started) < _SLICE_S:
            work()
            count += 1
        samples.append(count * records / took)
    return samples


def building(effort: Effort) -> list[Figure]:
    """Batches from records and from Arrow rows, and how large they are."""
    records = _records(_RECORDS)
    batch = build_batch(records)
    arrow = pa.RecordBatch.from_arrays(to_arrow(parse_header(batch), batch).columns, schema=SCHEMA)
    ways: dict[str, Compression | None] = {"plain": None, "lz4": "lz4", "zstd": "zstd"}
    figures = [
        Figure(
            name=f"build_{name}_records_per_s",
            samples=cpu_rates(lambda way=way: build_batch(records, compression=way), _RECORDS, effort),  # type: ignore[misc]
            better="more",
            notes={"bytes_per_record": len(build_batch(records, compression=way)) / _RECORDS},
        )
        for name, way in ways.items()
    ]
    from_arrow = cpu_rates(lambda: build_batch_from_arrow(arrow), _RECORDS, effort)
    return [*figures, Figure(name="build_from_arrow_records_per_s", samples=from_arrow, better="more")]


def checking(effort: Effort) -> list[Figure]:
    """A broker's work on a batch before the append: by batch, not by record."""
    batch = build_batch(_records(_RECORDS))
    samples = cpu_rates(lambda: validate_batch(batch, max_message_bytes=8 << 20), 1, effort)
    return [Figure(name="validate_batches_per_s", samples=samples, better="more", notes={"bytes": len(batch)})]


def reading(effort: Effort) -> list[Figure]:
    """Batches to Arrow rows, which point into the batch, and to Python objects."""
    batch = build_batch(_records(_RECORDS))
    header = parse_header(batch)
    as_arrow = cpu_rates(lambda: to_arrow(header, batch), _RECORDS, effort)
    as_objects = cpu_rates(lambda: read_records(batch, topic="t", partition=0), _RECORDS, effort)
    return [
        Figure(name="to_arrow_records_per_s", samples=as_arrow, better="more"),
        Figure(name="to_objects_records_per_s", samples=as_objects, better="more"),
    ]


def one_record(effort: Effort) -> list[Figure]:
    """A batch of a single record: what it adds to latency."""
    record = _records(1)
    samples = [1e6 / rate for rate in cpu_rates(lambda: build_batch(record), 1, effort)]
    note = {"bytes": len(build_batch(record))}
    return [Figure(name="build_one_us", samples=samples, better="less", notes=note)]


def rendering(effort: Effort) -> list[Figure]:
    """Rows in the formats of readers: of plain text, of JSON text, and of bytes that are not text."""
    values: dict[str, Callable[[int], bytes]] = {
        "text": lambda _number: os.urandom(50).hex().encode(),
        "json": lambda number: (
            b'{"id": %12d, "name": "%s", "tags": ["a", "b"]}' % (number, os.urandom(24).hex().encode())
        ),
        "bytes": lambda _number: os.urandom(100),
    }
    return [_rendered(form, kind, value, effort) for form in FORMATS for kind, value in values.items()]


def _rendered(form: str, kind: str, value: Callable[[int], bytes], effort: Effort) -> Figure:
    batch = build_batch([NewRecord(value(number), timestamp=_NOW_US + number) for number in range(_RENDERED_AT_ONCE)])
    rows = to_arrow_with_offsets(parse_header(batch), batch)
    made = encoder(form)
    made.begin()
    return Figure(
        name=f"render_{form}_{kind}_records_per_s",
        samples=cpu_rates(lambda: made.write("topic", 0, rows), len(rows), effort),
        better="more",
        notes={"bytes_per_record": len(made.write("topic", 0, rows)) / len(rows)},
    )


FIGURES = {
    "building": building,
    "checking": checking,
    "reading": reading,
    "one_record": one_record,
    "rendering": rendering,
}
