"""How much of what was read from a disk is sound: every flipped byte is noticed, and what lies before it is kept."""

from __future__ import annotations

import pytest

from raftlog.record import HEADER_BYTES, NewRecord, build_batch, sound_length, stamp


def batches(count: int) -> tuple[bytes, int]:
    built = []
    for number in range(count):
        batch = bytearray(build_batch([NewRecord(b"value", timestamp=1)]))
        stamp(batch, base_offset=number, leader_epoch=3)
        built.append(bytes(batch))
    return b"".join(built), len(built[0])


def test_sound_batches_are_sound_to_the_end():
    content, _ = batches(3)
    assert sound_length(content) == len(content)
    assert sound_length(b"") == 0


def test_every_single_byte_counts():
    content, one = batches(2)
    for at in range(one, 2 * one):
        damaged = bytearray(content)
        damaged[at] ^= 0x01
        assert sound_length(bytes(damaged)) == one, at


@pytest.mark.parametrize("cut", [1, 8, HEADER_BYTES, HEADER_BYTES + 8])
def test_a_batch_that_is_not_whole_is_not_sound(cut: int):
    content, one = batches(2)
    assert sound_length(content[: one + cut]) == one
