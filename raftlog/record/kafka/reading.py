"""Which batches of a fetch Kafka's readers get.

- Batches that compaction has emptied are left out: answers without any record have stopped several clients. Only if
  nothing else is there, the last one is sent, so that the reader goes on. A filler of more offsets than Kafka's batch
  can have is sent from the reader's offset on: its first part would be the same batch again, without an end.
- Records of aborted transactions are left out for read_committed. A client would drop a producer's records from an
  aborted transaction's first offset to its marker. Where compaction has removed the marker, it would drop committed
  ones, too. Only if nothing else is there, the last aborted batch is sent, with its transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from raftlog.model import AbortedTransaction, Offset
from raftlog.record.batch import BatchHeader, Buffer, iter_batches, parse_header
from raftlog.record.compacted import begin_at
from raftlog.record.control import AbortedBatches
from raftlog.record.kafka.header import MAX_OFFSET_DELTA


class ForReader(NamedTuple):
    """What a reader gets."""

    batches: list[tuple[BatchHeader, memoryview]]
    aborted: tuple[AbortedTransaction, ...] = ()
    """Transactions whose batches are among them."""


def for_reader(data: Buffer, from_offset: Offset, aborted: Sequence[AbortedTransaction] = ()) -> ForReader:
    """Return which of the batches to send.

    Args:
        data: whole batches.
        aborted: aborted transactions with batches among them; none for read_uncommitted.

    Raises:
        CorruptBatchError: a header is damaged.
    """
    dropped = AbortedBatches(aborted)
    batches = [one for one in iter_batches(data) if one[0].next_offset > from_offset]
    kept = [one for one in batches if not one[0].is_empty and one[0] not in dropped]
    if kept or not batches:
        return ForReader(kept)
    last = batches[-1]
    if last[0] not in dropped:
        return ForReader([_from(*last, from_offset)])
    return ForReader([last], tuple(one for one in aborted if _has(one, last[0])))


def _from(header: BatchHeader, batch: memoryview, offset: Offset) -> tuple[BatchHeader, memoryview]:
    if header.last_offset_delta <= MAX_OFFSET_DELTA or offset <= header.base_offset:
        return header, batch
    rest = memoryview(begin_at(header, offset))
    return parse_header(rest), rest


def _has(transaction: AbortedTransaction, header: BatchHeader) -> bool:
    ends = transaction.first_offset, transaction.last_offset
    return transaction.producer_id == header.producer_id and ends[0] <= header.base_offset <= ends[1]
