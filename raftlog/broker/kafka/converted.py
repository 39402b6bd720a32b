"""Converted batches that several readers of a partition share."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from raftlog.model import Offset, TopicId
from raftlog.record.batch import BatchHeader, Buffer, verify_payload_crc
from raftlog.record.kafka.convert import to_kafka

MOST_BYTES = 32 << 20


class _Key(NamedTuple):
    topic_id: TopicId
    partition: int
    base_offset: Offset
    header_crc: int
    """Covers everything else: the leader epoch, and the checksum of the payload."""


class ConvertedBatches:
    """The most recently used batches in Kafka's form. Safe in several threads.

    Args:
        most_bytes: the limit of their size. A larger batch than an eighth of it is not kept.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[_Key, bytes] = OrderedDict()
        self._changing = Lock()
        self.bytes = 0
        """The size of all that are kept."""
        self.hits = 0
        """How many conversions were saved."""
        self.misses = 0
        """How many batches were converted."""

    def get(self, topic_id: TopicId, partition: int, header: BatchHeader, batch: Buffer) -> bytes:
        """Return a stored batch in Kafka's form, after its payload was verified.

        Raises:
            CorruptBatchError: its payload is damaged.
        """
        key = _Key(topic_id, partition, header.base_offset, header.header_crc)
        with self._changing:
            if (found := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                self.hits += 1
                return found
        verify_payload_crc(header, batch)
        made = bytes(to_kafka(header, batch))
        with self._changing:
            self.misses += 1
            if len(made) <= self._most_bytes // 8 and key not in self._kept:
                self._kept[key] = made
                self.bytes += len(made)
            while self.bytes > self._most_bytes:
                self.bytes -= len(self._kept.popitem(last=False)[1])
        return made
