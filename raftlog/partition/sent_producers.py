"""What a leader sends to a follower that starts its log over: the producers of batches below the leader's log start.

The follower never gets those batches. As a later leader it would append a producer's repeat of one a second time. The
bytes have the form of a `.kept-producers` file. They follow a fetch's error or diverging epoch, where earlier versions
send none and read none.
"""

from __future__ import annotations

from typing import Any

import orjson

from raftlog.checksum import crc32c
from raftlog.errors import CorruptBatchError
from raftlog.model import MAX_PRODUCER_EPOCH, MAX_SEQUENCE, Offset
from raftlog.partition.core.producers import MOST_KEPT, REMEMBERED_BATCHES, ProducerLimits, ProducerStates
from raftlog.partition.storage.producer_snapshots import HEAD, MAGIC, encode_producers
from raftlog.record.batch import Buffer

MOST_BYTES = 1 << 20
"""Limit of the bytes of one partition: `MOST_KEPT` producers with the largest numbers take half of it."""
_LARGEST = 2**63 - 1
_LARGEST_CRC = 2**32 - 1
_LARGEST_COORDINATOR_EPOCH = 2**31 - 1


def kept_by_leader(producers: ProducerStates, log_start: Offset, *, now_ms: int) -> tuple[bytes, int]:
    """Return what a leader sends of batches below its log start, and of how many; nothing if it knows of none."""
    plain = producers.plan_below(log_start, now_ms - producers.limits.min_idle_ms)()
    count = sum(len(batches) + 1 for _, _, _, batches, *_ in plain["producers"])
    return (encode_producers(log_start, plain) if count else b""), count


def received_producers(
    content: Buffer, log_start: Offset, *, limits: ProducerLimits, now_ms: int
) -> ProducerStates | None:
    """Return the producers that a leader sent, all seen at `now_ms`: its clock may differ.

    1,000 producers take 20 ms.

    Returns:
        None: it sent none, or in the form of a later version.

    Raises:
        CorruptBatchError: they were damaged in transit, or no leader sends them.
    """
    content = bytes(content)
    if not content or content[: len(MAGIC)] != MAGIC:
        return None
    body = content[HEAD.size :]
    if not HEAD.size < len(content) <= MOST_BYTES or HEAD.unpack_from(content)[1] != crc32c(body):
        raise CorruptBatchError(f"the producers of batches below {log_start} were damaged in transit")
    try:
        document = orjson.loads(body)
        entries = document["producers"]
        if document["offset"] != log_start or len(entries) > MOST_KEPT:
            raise ValueError(f"{len(entries)} producers below {document['offset']}")
        for entry in entries:
            _require_sound(entry, log_start)
        states = ProducerStates(limits=limits, now_ms=now_ms)
        seen = [[producer, epoch, now_ms, *rest] for producer, epoch, _, *rest in entries]
        states.load({"producers": seen, "ongoing": [], "ended": []})
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptBatchError(f"the leader's producers of batches below {log_start} are refused: {error}") from error
    return states


def _require_sound(entry: Any, log_start: Offset) -> None:
    """Require an entry of `ProducerStates.to_plain`, of batches below the log start.

    Raises:
        ValueError, TypeError: it is something else.
    """
    producer, epoch, seen_ms, batches, coordinator_epoch, marker_offset, *before = entry
    _require_within(producer, 0, _LARGEST)
    _require_within(epoch, 0, MAX_PRODUCER_EPOCH)
    _require_within(seen_ms, -_LARGEST, _LARGEST)
    _require_within(coordinator_epoch, -1, _LARGEST_COORDINATOR_EPOCH)
    _require_within(marker_offset, -1, log_start - 1)
    if len(batches) > REMEMBERED_BATCHES:
        raise ValueError(f"producer {producer} has {len(batches)} batches")
    for batch in batches:
        _require_batch(batch, log_start)
    if before:
        last, last_epoch = before
        _require_batch(last, log_start)
        _require_within(last_epoch, 0, MAX_PRODUCER_EPOCH)


def _require_batch(batch: Any, log_start: Offset) -> None:
    base_sequence, last_sequence, base_offset, last_offset, payload_crc = batch
    _require_within(base_sequence, 0, MAX_SEQUENCE)
    _require_within(last_sequence, 0, MAX_SEQUENCE)
    _require_within(last_offset, 0, log_start - 1)
    _require_within(base_offset, 0, last_offset)
    _require_within(payload_crc, -1, _LARGEST_CRC)


def _require_within(number: Any, least: int, most: int) -> None:
    if type(number) is not int or not least <= number <= most:
        raise ValueError(f"expected a number from {least} to {most}, received {number!r}")
