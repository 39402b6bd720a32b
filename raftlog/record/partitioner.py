"""The partition of a key, by murmur2 as in Kafka's default partitioner."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 of `data`, as an unsigned number."""
    length = len(data)
    value = (0x9747B28C ^ length) & _MASK
    for at in range(0, length - length % 4, 4):
        chunk = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        chunk = (chunk ^ (chunk >> 24)) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ chunk
    if tail := data[length - length % 4 :]:
        value = (value ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    value = (value ^ (value >> 13)) * _MULTIPLIER & _MASK
    return value ^ (value >> 15)


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of `key` among `partitions`: the same as Kafka's default partitioner."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
