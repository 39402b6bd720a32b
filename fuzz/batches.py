"""Record batches with right checksums and wrong contents: validation and every reader agree, and none fails."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Self

import orjson
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fuzz.child import Child
from raftlog.broker.render import render
from raftlog.checksum import crc32c
from raftlog.errors import RaftlogError
from raftlog.partition.readable_replica import ReadResult
from raftlog.record import (
    HEADER_BYTES,
    NewRecord,
    build_batch,
    iter_batches,
    parse_header,
    read_records,
    readable_batches,
    stamp,
    to_arrow,
    to_table,
    validate_batch,
    verify_payload_crc,
)
from raftlog.record.arrow import COMPACTED_SCHEMA
from raftlog.record.compacted import keep_rows
from raftlog.wire import media

LIMIT = 1 << 20
_NUMBERS = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    16,
    64,
    255,
    1 << 15,
    1 << 16,
    1 << 20,
    1 << 31,
    (1 << 31) - 1,
    1 << 40,
    1 << 62,
    -1,
    -8,
)
_WIDTHS = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}


class MutatedBatches:
    """A target: valid batches are changed, and judged in a child process.

    Args:
        what: what is counted, for the summary.
        judge: see `Child`.
        mutated: returns a batch with some changes.
        seeds: returns valid batches.
    """

    def __init__(
        self,
        name: str,
        what: str,
        *,
        judge: Callable[[bytes], str],
        mutated: Callable[[bytes, list[Any]], bytes],
        seeds: Callable[[], list[bytes]],
    ) -> None:
        self.name = name
        self._what = what
        self._mutated = mutated
        self._seeds = seeds
        self._child = Child(judge)
        self._judged = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close()

    def inputs(self) -> SearchStrategy[bytes]:
        return st.builds(self._mutated, st.sampled_from(self._seeds()), st.lists(changes(), min_size=1, max_size=5))

    def judge(self, data: bytes) -> None:
        self._judged += 1
        self._child.run(data)

    def finish(self) -> str:
        return f"{self._judged} {self._what}"


class Batches(MutatedBatches):
    """The target: batches as a broker and as a client receives them."""

    def __init__(self) -> None:
        super().__init__("batches", "batches", judge=judge, mutated=mutated, seeds=seeds)


def seeds() -> list[bytes]:
    """Return valid batches of each kind."""
    headed = [NewRecord(b"value", b"key", 1_700_000_000_000_000 + i, (("h", b"x"), ("", None))) for i in range(3)]
    bare = [NewRecord(b"v" * 9, None, 1)] * 70
    found = [
        build_batch(records, compression=compression)
        for records in (headed, bare, headed[:1], [NewRecord(b"hello", None, 1)], [NewRecord(None, b"gone", 1)])
        for compression in (None, "lz4", "zstd")
    ]
    found += [build_batch([NewRecord(value, key, 1)], short=True) for key, value in ((b"k", b"value"), (None, None))]
    for batch in found:
        stamp(batch, base_offset=1_000, leader_epoch=3)
    whole = bytes(found[0])
    header = parse_header(whole)
    rows = to_arrow(header, whole).slice(1)
    deltas = pa.array(range(1, 1 + rows.num_rows), pa.int32())
    compacted = pa.record_batch([*rows.columns, deltas], schema=COMPACTED_SCHEMA)
    return [*map(bytes, found), keep_rows(header, compacted, cleaned_at_s=0)]


def changes() -> SearchStrategy[Any]:
    """Return a strategy for one change of some bytes."""
    place = st.integers(0, 1 << 16)
    return st.one_of(
        st.tuples(st.just("bit"), place, st.integers(0, 7)),
        st.tuples(st.just("number"), place, st.sampled_from((4, 8)), st.sampled_from(_NUMBERS)),
        st.tuples(st.just("number"), place, st.sampled_from((1, 2)), st.integers(0, 255)),
        st.tuples(st.just("copy"), place, place, st.integers(1, 64)),
        st.tuples(st.just("cut"), place),
        st.tuples(st.just("attributes"), st.integers(0, 63)),
    )


def mutated(batch: bytes, how: list[Any]) -> bytes:
    """Return the batch with some changes, and with right checksums."""
    data = bytearray(changed(batch, how))
    if len(data) >= HEADER_BYTES:
        struct.pack_into("<I", data, 8, len(data))
        reseal(data)
    return bytes(data)


def changed(original: bytes, how: list[Any]) -> bytes:
    """Return bytes with some changes."""
    data = bytearray(original)
    for kind, *details in how:
        if data:
            _CHANGES[kind](data, *details)
    return bytes(data)


def reseal(batch: bytearray) -> None:
    """Write both right checksums."""
    struct.pack_into("<I", batch, 24, crc32c(memoryview(batch)[HEADER_BYTES:]))
    struct.pack_into("<I", batch, 16, crc32c(bytes(batch[:16]) + bytes(batch[20:HEADER_BYTES])))


def _bit(data: bytearray, at: int, bit: int) -> None:
    data[at % len(data)] ^= 1 << bit


def _number(data: bytearray, at: int, width: int, number: int) -> None:
    at = at % len(data) // width * width
    if at + width <= len(data):
        struct.pack_into(_WIDTHS[width], data, at, number % (1 << 8 * width))


def _copy(data: bytearray, to: int, start: int, size: int) -> None:
    piece = data[start % len(data) :][:size]
    to %= len(data)
    data[to : to + len(piece)] = piece


def _cut(data: bytearray, at: int) -> None:
    del data[at % len(data) :]


def _attributes(data: bytearray, value: int) -> None:
    if len(data) > 21:
        data[21] = value


_CHANGES: dict[str, Callable[..., None]] = {
    "bit": _bit,
    "number": _number,
    "copy": _copy,
    "cut": _cut,
    "attributes": _attributes,
}


def judge(data: bytes) -> str:
    """Return what a reader or validation did wrong with a batch, or ""."""
    try:
        validate_batch(data, max_message_bytes=LIMIT)
        is_valid = True
    except RaftlogError:
        is_valid = False
    counts: list[int | None] = []
    for reader in (_by_records, _by_table, _by_stream, _by_json):
        try:
            counts.append(reader(data))
        except RaftlogError as error:
            if is_valid:
                return f"validation accepts what {reader.__name__} refuses: {error.message}"
            counts.append(None)
    if len(set(counts)) > 1:
        return f"readers disagree: {counts}"
    return ""


def _by_records(data: bytes) -> int:
    return len(read_records(data, topic="t", partition=0))


def _by_table(data: bytes) -> int:
    found = list(readable_batches(iter_batches(data)))
    for header, batch in found:
        verify_payload_crc(header, batch)
    table = to_table(found)
    table.validate(full=True)
    return int(table.num_rows)


def _read_of(data: bytes) -> ReadResult:
    return ReadResult(data=data, high_watermark=0, log_start_offset=0, leader_epoch=0)


def _by_stream(data: bytes) -> int:
    rendered = render(media.ARROW_STREAM, _read_of(data), topic="t", partition=0, offset=0)
    with pa.ipc.open_stream(rendered) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return int(table.num_rows)


def _by_json(data: bytes) -> int:
    lines = render(media.NDJSON, _read_of(data), topic="t", partition=0, offset=0).splitlines()
    for line in lines:
        orjson.loads(line)
    return len(lines)
