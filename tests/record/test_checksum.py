"""The checksum is CRC-32C, whatever path a processor takes for a length, and copies nothing."""

import random

import pytest

from raftlog.checksum import crc32c


def _reference(data: bytes) -> int:
    """Compute it bit by bit, as RFC 3720 defines it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_vectors_of_rfc_3720(data, expected):
    assert crc32c(data) == expected


def test_each_length_gives_what_the_definition_does():
    data = random.Random(7).randbytes(600)
    for length in [*range(300), 511, 512, 513, 600]:
        assert crc32c(data[:length]) == _reference(data[:length])


def test_long_buffers_in_one_go_and_in_pieces():
    data = random.Random(8).randbytes(70_001)
    expected = _reference(data)
    assert crc32c(data) == expected
    for cut in (0, 1, 63, 16_383, 16_384, 16_385, 65_536, 70_001):
        assert crc32c(memoryview(data)[cut:], crc32c(memoryview(data)[:cut])) == expected
        assert crc32c(data[cut:], crc32c(data[:cut], 0)) == expected


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_any_buffer_will_do(kind):
    assert crc32c(kind(b"123456789")) == 0xE3069283
