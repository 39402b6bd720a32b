"""Keys are partitioned as by Kafka's clients."""

from __future__ import annotations

import pytest

from raftlog.record.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, expected: int):
    """Values of Apache Kafka's UtilsTest.testMurmur2."""
    assert murmur2(key) == expected % 2**32


def test_partitions_are_in_range_and_use_all():
    found = {partition_for_key(b"key-%d" % i, 6) for i in range(200)}

    assert found == set(range(6))
