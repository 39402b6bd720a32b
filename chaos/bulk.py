"""Bulk load beside the checked keys: its values, its orders, and the files that its two processes write.

A value is 100 bytes: the number of the writer's life, the record's number in that life (both 64-bit little-endian), and
padding. So a reader counts every record with a few array operations, and can tell all records apart. The suite's
checker also judges every `SAMPLE`th record; of the others, only counts are judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

VALUE_BYTES = 100
SAMPLE = 1_000
"""The checker judges one record in `SAMPLE`."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOrders:
    """The arguments of the writer's and the reader's process."""

    bootstrap: list[str]
    dial: dict[str, str]
    topic: str
    partitions: int
    rate: int
    """Records a second."""
    sent_file: str
    """The writer logs its sends here: one JSON object (`Sent`) a line."""
    result_file: str
    """The reader writes its `BulkResult` here as JSON, once its standard input is closed."""
    parent_pid: int
    """Both processes exit when this process exits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One call of `send_many` and its outcome.

    Args:
        life: the number of the writer's life.
        first, count: the numbers of its records.
        ok: all of them were acknowledged with acks=all; otherwise any of them may be in the log, or not.
        sample: of the acknowledged, (record number, partition, offset) of each `SAMPLE`th.
    """

    life: int
    first: int
    count: int
    ok: bool
    invoked_ns: int
    completed_ns: int
    sample: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One sampled record, as a reader received it."""

    life: int
    number: int
    partition: int
    offset: int
    seen_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """The result of a bulk load: counts over every record, and four other fields.

    Args:
        lost: acknowledged records that the tailing reader did not receive.
        repeated: records that a reader received at two offsets.
        foreign: values that were never sent.
        gaps: offsets that a reader skipped.
        problems: errors of the reader that no fault excuses.
        sent, tail, final: samples.
        log_starts: the log start offsets of the partitions.
    """

    acknowledged: int
    unknown: int
    read: int
    lost: int
    repeated: int
    foreign: int
    gaps: int
    problems: list[str]
    sent: list[Sent]
    tail: list[Sighting]
    final: list[Sighting]
    log_starts: dict[str, int]


def make_values(life: int, first: int, count: int) -> list[bytes]:
    """Return the values of `count` records of a life, from number `first` on."""
    rows = np.zeros((count, VALUE_BYTES), dtype=np.uint8)
    words = rows[:, :16].view(np.dtype("<i8"))
    words[:, 0] = life
    words[:, 1] = np.arange(first, first + count)
    data = rows.tobytes()
    return [data[at : at + VALUE_BYTES] for at in range(0, len(data), VALUE_BYTES)]


def numbers_of(values: pa.ChunkedArray) -> tuple[Numbers, Numbers, int]:
    """Return the lives and record numbers of a column of values, and how many values have another format."""
    lives, numbers, foreign = list[Numbers](), list[Numbers](), 0
    for chunk in values.chunks:
        if not len(chunk):
            continue
        lengths = chunk.cast(pa.large_binary()) if chunk.type != pa.large_binary() else chunk
        offsets = np.frombuffer(lengths.buffers()[1], dtype=np.int64)[lengths.offset : lengths.offset + len(chunk) + 1]
        if chunk.null_count or not bool((np.diff(offsets) == VALUE_BYTES).all()):
            rows = [_numbers_of_one(value) for value in chunk.to_pylist()]
            foreign += sum(life < 0 for life, _ in rows)
            lives.append(np.array([life for life, _ in rows], dtype=np.int64))
            numbers.append(np.array([number for _, number in rows], dtype=np.int64))
            continue
        data = np.frombuffer(lengths.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
        words = np.ascontiguousarray(data.reshape(-1, VALUE_BYTES)[:, :16]).view(np.dtype("<i8"))
        lives.append(words[:, 0])
        numbers.append(words[:, 1])
    if not lives:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), 0
    return np.concatenate(lives), np.concatenate(numbers), foreign


def _numbers_of_one(value: bytes | None) -> tuple[int, int]:
    if value is None or len(value) != VALUE_BYTES:
        return -1, -1
    return int.from_bytes(value[:8], "little"), int.from_bytes(value[8:16], "little")
