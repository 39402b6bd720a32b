"""The quick proof of ordinary batches accepts exactly what the thorough checks accept."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.batches import changes, mutated
from raftlog.errors import CorruptBatchError
from raftlog.record import HEADER_BYTES, NewRecord, build_batch, layouts, parse_header, structure, to_arrow

ROWS = 70
SHAPES = {
    "values alone": [NewRecord(b"v" * 9, timestamp=1)] * ROWS,
    "unequal values": [NewRecord(b"v" * n, timestamp=n) for n in range(ROWS)],
    "keys": [NewRecord(b"v" * 9, key=b"k%d" % n, timestamp=1) for n in range(ROWS)],
    "some keys": [NewRecord(b"v", key=b"k" if n % 2 else None, timestamp=1) for n in range(ROWS)],
    "tombstones": [NewRecord(None, key=b"k%d" % n, timestamp=1) for n in range(ROWS)],
    "nulls alone": [NewRecord(None, timestamp=1)] * ROWS,
    "one": [NewRecord(b"v", timestamp=1)],
    "headers": [NewRecord(b"v", headers=(("a", b"b"),), timestamp=1)] * ROWS,
}
BATCHES = {name: bytes(build_batch(records)) for name, records in SHAPES.items()}
ORDINARY = [name for name in SHAPES if name != "headers"]


def columns_of(batch: bytes) -> tuple[int, ...] | None:
    return structure.check_structure(parse_header(batch), batch)[1]


def rows_or_refusal(batch: bytes) -> pa.RecordBatch | None:
    """Return the rows; None if the batch is refused. The payload's checksum is not looked at."""
    try:
        return to_arrow(parse_header(batch), batch)
    except CorruptBatchError:
        return None


@contextmanager
def thorough() -> Iterator[None]:
    with mock.patch.object(structure, "columns_with_contents", return_value=None):
        yield


def require_same(batch: bytes) -> None:
    quick = rows_or_refusal(batch)
    with thorough():
        slow = rows_or_refusal(batch)
    assert (quick is None) == (slow is None)
    if quick is not None:
        quick.validate(full=True)
        assert quick.equals(slow)


@pytest.mark.parametrize("shape", SHAPES)
def test_ordinary_batches_have_less_to_validate(shape: str) -> None:
    expected = {"keys": (1, 2), "some keys": (1, 2), "tombstones": (1,), "nulls alone": (), "headers": None}
    assert columns_of(BATCHES[shape]) == expected.get(shape, (2,))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_batches_are_not_ordinary(compression: str) -> None:
    assert columns_of(bytes(build_batch(SHAPES["values alone"], compression=compression))) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES)
def test_each_changed_byte_is_accepted_or_refused_as_by_the_thorough_checks(shape: str) -> None:
    sound = BATCHES[shape]
    require_same(sound)
    for at in range(HEADER_BYTES, len(sound)):
        for flip in (1, 4, 0x80):
            batch = bytearray(sound)
            batch[at] ^= flip
            require_same(bytes(batch))


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_several_changes_are_accepted_or_refused_as_by_the_thorough_checks(shape: str, data: st.DataObject) -> None:
    batch = mutated(BATCHES[shape], data.draw(st.lists(changes(), min_size=1, max_size=4)))
    try:
        parse_header(batch)
    except CorruptBatchError:
        return
    require_same(batch)


@pytest.mark.parametrize("shape", ORDINARY)
def test_each_number_of_the_metadata_is_looked_at(shape: str) -> None:
    sound = BATCHES[shape]
    (length,) = struct.unpack_from("<i", sound, HEADER_BYTES + 4)
    for at in range(HEADER_BYTES + 8, HEADER_BYTES + 8 + length, 8):
        for number in (0, 1, 4, 8, ROWS + 1, 1 << 20, (1 << 32) - 8, 1 << 40, -8, -1):
            batch = bytearray(sound)
            struct.pack_into("<q", batch, at, number)
            require_same(bytes(batch))


def test_long_metadata_is_not_remembered() -> None:
    """A producer could have a broker keep many messages of the largest size."""
    sound = BATCHES["values alone"]
    (length,) = struct.unpack_from("<i", sound, HEADER_BYTES + 4)
    batch = bytearray(sound)
    batch[HEADER_BYTES + 8 + length : HEADER_BYTES + 8 + length] = bytes(layouts.MAX_METADATA_BYTES)
    struct.pack_into("<i", batch, HEADER_BYTES + 4, length + layouts.MAX_METADATA_BYTES)
    layouts._layouts.clear()

    structure.check_structure(parse_header(sound)._replace(batch_length=len(batch)), batch)

    assert not layouts._layouts
