"""The uncompressed size of batches, and how many fit into a limit."""

from __future__ import annotations

import pytest

from raftlog.record import NewRecord, build_batch, iter_batches, stamp
from raftlog.record.unpacking import first_that_unpack_to, unpacked_bytes


def batch(size: int, compression: str | None = None) -> bytes:
    built = build_batch([NewRecord(bytes(size), timestamp=1)], compression=compression)  # type: ignore[arg-type]
    stamp(built, base_offset=0, leader_epoch=0)
    return bytes(built)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_batches_count_as_what_they_unpack_to(compression: str):
    packed = batch(100_000, compression)
    ((header, view),) = iter_batches(packed)
    assert len(packed) < 2_000
    assert 100_000 < unpacked_bytes(header, view) < 101_000


def test_others_count_as_they_are():
    ((header, view),) = iter_batches(batch(1_000))
    assert unpacked_bytes(header, view) == len(view)


@pytest.mark.parametrize(("most", "left"), [(0, 1), (150_000, 1), (250_000, 2), (10_000_000, 3)])
def test_the_result_has_whole_batches_and_at_least_one(most: int, left: int):
    packed = batch(100_000, "zstd")
    assert bytes(first_that_unpack_to(most, packed * 3)) == packed * left


def test_nothing_stays_nothing():
    assert first_that_unpack_to(1, b"") == b""
