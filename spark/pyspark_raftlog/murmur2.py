"""The partition of a key, as Kafka's default partitioner has it: equal keys meet, whoever wrote them."""

from __future__ import annotations

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition, of `partitions`, that holds records with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 of `data`, unsigned, with Kafka's seed."""
    value = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        word = (word ^ (word >> 24)) * _M & _MASK
        value = (value * _M & _MASK) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ (value >> 13)) * _M & _MASK
    return value ^ (value >> 15)
