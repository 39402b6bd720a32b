"""Frames of a connection, however its bytes arrive."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.broker.kafka.input import PIECE_BYTES, SMALL_BYTES, KafkaInput
from raftlog.errors import ErrorCode
from raftlog.wire.kafka.errors import KafkaProtocolError

TAKEN: list[int] = []


def take(length: int) -> memoryview:
    TAKEN.append(length)
    return memoryview(bytearray(length))


def an_input(limit: int = 1 << 20) -> KafkaInput:
    TAKEN.clear()
    return KafkaInput(max_frame_bytes=limit, take_buffer=take)


def framed(*contents: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(one)) + one for one in contents)


def receive(received: KafkaInput, data: bytes, sizes: list[int] | None = None) -> tuple[list[bytes], int]:
    """Write `data` in pieces of some sizes; return the frames, and how many bytes were counted."""
    frames, counted, at, turn = list[bytes](), 0, 0, 0
    while at < len(data):
        room = received.buffer()
        assert len(room) > 0
        size = min(len(room), len(data) - at, sizes[turn % len(sizes)] if sizes else len(data))
        turn += 1
        room[:size] = data[at : at + size]
        at += size
        received.wrote(size)
        counted += received.uncounted()
        while (found := received.next_frame()) is not None:
            frame, left = found
            frames.append(bytes(frame))
            counted += left
    return frames, counted


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([4, 5, 100, SMALL_BYTES - 4, SMALL_BYTES - 3, SMALL_BYTES, 3 * SMALL_BYTES]), max_size=6),
    st.lists(st.integers(1, 2 * SMALL_BYTES), min_size=1, max_size=5),
)
def test_frames_arrive_whole_and_in_order_and_each_byte_counts_once(lengths: list[int], sizes: list[int]) -> None:
    contents = [bytes([number]) * length for number, length in enumerate(lengths)]
    received = an_input()
    frames, counted = receive(received, framed(*contents), sizes)
    assert frames == contents
    assert counted == sum(lengths)
    assert not received.is_partial


def test_a_frame_above_the_limit_is_refused_before_it_has_a_buffer() -> None:
    received = an_input(100_000)
    with pytest.raises(KafkaProtocolError) as refusal:
        receive(received, struct.pack(">i", 100_001) + b"x")
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert not TAKEN


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 3])
def test_a_length_that_no_frame_has_is_refused(length: int) -> None:
    with pytest.raises(KafkaProtocolError):
        receive(an_input(), struct.pack(">i", length) + bytes(8))


def test_a_large_frame_is_received_in_pieces_that_can_be_counted() -> None:
    received = an_input()
    receive(received, struct.pack(">i", 900_000))
    assert TAKEN == [900_000]
    assert received.expected == 900_000
    assert len(received.buffer()) == PIECE_BYTES
    received.wrote(10)
    assert received.uncounted() == 10
    assert received.uncounted() == 0
    received.drop()
    assert not received.is_partial


def test_a_full_small_buffer_has_no_room_until_a_frame_is_taken() -> None:
    received = an_input()
    received.feed(framed(*[b"abcd"] * (SMALL_BYTES // 8)))
    assert not received.has_room
    assert received.next_frame() is not None
    assert received.has_room
    assert len(received.buffer()) == 8
