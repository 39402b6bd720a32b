"""The transactions of one partition: how far readers of committed records may go (KIP-98, KIP-890). No IO.

A transaction begins here with a producer's first transactional batch and ends with its marker. It is *unstable* until
its marker is below the high watermark: a marker that a failover could still undo decides nothing. Readers of committed
records stop at the **last stable offset**, the lower of the first unstable offset and the high watermark. So every
transaction that they may see part of is decided for good, and what was aborted is in the index of aborted transactions.

Every replica derives the same from the log; only leaders judge what may be appended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from raftlog.model import Offset, ProducerId
from raftlog.record.batch import BatchHeader


class Transactions:
    """Which transactions are under way, and which have ended above the high watermark."""

    def __init__(self) -> None:
        self._ongoing: dict[ProducerId, Offset] = {}
        """The first offset of each, in the order in which they began."""
        self._ended: deque[tuple[Offset, Offset]] = deque()
        """First offset and marker's offset, in the order of the markers; pruned as the high watermark passes them."""

    def __contains__(self, producer_id: ProducerId) -> bool:
        return producer_id in self._ongoing

    @property
    def ongoing(self) -> Mapping[ProducerId, Offset]:
        """Return the first offset of each transaction under way."""
        return self._ongoing

    def on_batch(self, header: BatchHeader) -> None:
        """Learn of a transactional batch that is in the log now."""
        self._ongoing.setdefault(header.producer_id, header.base_offset)

    def on_marker(self, producer_id: ProducerId, offset: Offset) -> None:
        """Learn of a marker that is in the log now."""
        if (first := self._ongoing.pop(producer_id, None)) is not None:
            self._ended.append((first, offset))

    def first_offset_of(self, producer_id: ProducerId) -> Offset | None:
        """Return where a producer's transaction began; None if none is under way."""
        return self._ongoing.get(producer_id)

    def stable_offset_after(self, producer_id: ProducerId, marker_offset: Offset) -> Offset:
        """Return at or after which every transaction began that is under way once this producer's has ended."""
        others = (first for producer, first in self._ongoing.items() if producer != producer_id)
        return next(others, marker_offset + 1)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Return the offset below which every transaction is decided for good."""
        self.forget_decided(high_watermark)
        undecided = min((first for first, _ in self._ended), default=high_watermark)
        return min(next(iter(self._ongoing.values()), high_watermark), undecided, high_watermark)

    def forget_decided(self, high_watermark: Offset) -> None:
        """Forget transactions whose markers no failover can undo."""
        while self._ended and self._ended[0][1] < high_watermark:
            self._ended.popleft()

    def to_plain(self) -> dict[str, Any]:
        """Return everything as plain data, for a snapshot."""
        return {"ongoing": list(self._ongoing.items()), "ended": list(self._ended)}

    def load(self, plain: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Take in what `to_plain` returned.

        Raises:
            ValueError, TypeError, KeyError: it is something else.
        """
        self._ongoing = {int(producer): int(first) for producer, first in plain["ongoing"]}
        self._ended = deque((int(first), int(offset)) for first, offset in plain["ended"])
