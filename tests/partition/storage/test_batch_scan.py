"""Finding intact batches in damaged bytes: none is missed, whatever precedes it."""

from __future__ import annotations

from typing import Any

import pytest

from raftlog.partition.storage.batch_scan import find_header, sound_batch_after
from raftlog.record import NewRecord, build_batch, stamp

_CHECKSUM_END = 19
"""The last byte of the header's checksum, just before the magic."""


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "zstd": {"compression": "zstd"},
    "transactional": {"transactional": True},
    "short": {"short": True},
    "short, transactional": {"transactional": True, "short": True},
}


def batch_whose_checksum_ends_with(byte: int, **kind: Any) -> tuple[int, bytes]:
    """Return a batch and its base offset."""
    batch = build_batch([NewRecord(b"value", timestamp=1)], **kind)
    for base_offset in range(100_000):
        stamp(batch, base_offset=base_offset, leader_epoch=1)
        if batch[_CHECKSUM_END] == byte:
            return base_offset, bytes(batch)
    raise AssertionError("checksums take every value")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte", [0, 1, 2, 255])
@pytest.mark.parametrize("before", [b"", b"\x01" * 8, b"\x01\x01\x00\x00" * 4, b"\x00" * 64])
def test_a_sound_batch_is_found_whatever_its_checksum_and_whatever_stands_before_it(
    kind: str, byte: int, before: bytes
):
    base_offset, batch = batch_whose_checksum_ends_with(byte, **KINDS[kind])
    data = before + batch

    def read(length: int, position: int) -> bytes:
        return data[position : position + length]

    assert find_header(read, 0, len(data), base_offset=base_offset) == len(before)
    found = sound_batch_after(read, 0, len(data), min_offset=base_offset)
    assert found is not None
    assert found.base_offset == base_offset
