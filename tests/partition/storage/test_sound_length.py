"""The intact length of bytes read from a disk: every flipped byte is detected, and the batches before it are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from raftlog.partition.storage.file_pool import FilePool
from raftlog.partition.storage.segment import Segment
from raftlog.partition.storage.verified_reads import find_verified
from raftlog.record import HEADER_BYTES, NewRecord, build_batch, stamp
from raftlog.record.compacted import build_filler

SoundLength = Callable[[bytes], int]


@pytest.fixture
def sound_length(tmp_path: Path) -> SoundLength:
    """Return a function that says how much of a file with some content is found sound."""
    segment = Segment.create(tmp_path / "0.log", 0, FilePool())

    def measure(content: bytes) -> int:
        segment.path.write_bytes(content)
        segment.size = len(content)
        found = find_verified(segment, 0, 1 << 30, 1 << 30)
        assert bool(found.problem) == (len(found.data) < len(content))
        return len(found.data)

    return measure


def batches(count: int) -> tuple[bytes, int]:
    built = []
    for number in range(count):
        batch = bytearray(build_batch([NewRecord(b"value", timestamp=1)]))
        stamp(batch, base_offset=number, leader_epoch=3)
        built.append(bytes(batch))
    return b"".join(built), len(built[0])


def test_sound_batches_are_sound_to_the_end(sound_length: SoundLength):
    content, _ = batches(3)
    assert sound_length(content) == len(content)
    assert sound_length(b"") == 0


def test_every_single_byte_counts(sound_length: SoundLength):
    content, one = batches(2)
    for at in range(one, 2 * one):
        damaged = bytearray(content)
        damaged[at] ^= 0x01
        assert sound_length(bytes(damaged)) == one, at


def test_batches_that_compaction_has_emptied_are_sound_and_guarded_as_others(sound_length: SoundLength):
    filler = build_filler(0, 9, leader_epoch=3, max_timestamp=1)
    content = filler + build_filler(10, 11, leader_epoch=4, max_timestamp=1)
    assert sound_length(content) == len(content) == 2 * HEADER_BYTES
    for at in range(HEADER_BYTES, 2 * HEADER_BYTES):
        damaged = bytearray(content)
        damaged[at] ^= 0x01
        assert sound_length(bytes(damaged)) == HEADER_BYTES, at


@pytest.mark.parametrize("cut", [1, 8, HEADER_BYTES, HEADER_BYTES + 8])
def test_an_incomplete_batch_is_damaged(sound_length: SoundLength, cut: int):
    content, one = batches(2)
    assert sound_length(content[: one + cut]) == one
