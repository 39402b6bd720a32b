"""The transactions of one partition, and its last stable offset (KIP-98, KIP-890). No IO.

A transaction begins here with a producer's first transactional batch and ends with its marker. It is *unstable* until
its marker is below the high watermark, because a failover could truncate the marker. Consumers with `read_committed`
stop at the **last stable offset**: the lower of the first unstable offset and the high watermark. The outcome of every
transaction below it is final. Aborted ones are in the index of aborted transactions.

Every replica derives this state from the log; only leaders check what may be appended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from raftlog.model import Offset, ProducerId
from raftlog.record.batch import BatchHeader


class Transactions:
    """Open transactions, and those that ended above the high watermark."""

    def __init__(self) -> None:
        self._ongoing: dict[ProducerId, Offset] = {}
        """First offset of each open transaction, in the order in which they began."""
        self._ended: deque[tuple[Offset, Offset]] = deque()
        """First offset and marker's offset, in the order of the markers; pruned as the high watermark passes them."""

    def __contains__(self, producer_id: ProducerId) -> bool:
        return producer_id in self._ongoing

    @property
    def ongoing(self) -> Mapping[ProducerId, Offset]:
        """The first offset of each open transaction, by producer."""
        return self._ongoing

    def on_batch(self, header: BatchHeader) -> None:
        """Add a transactional batch that was appended to the log."""
        self._ongoing.setdefault(header.producer_id, header.base_offset)

    def on_marker(self, producer_id: ProducerId, offset: Offset) -> None:
        """Add a marker that was appended to the log."""
        if (first := self._ongoing.pop(producer_id, None)) is not None:
            self._ended.append((first, offset))

    def first_offset_of(self, producer_id: ProducerId) -> Offset | None:
        """Return the first offset of a producer's open transaction; None if there is none."""
        return self._ongoing.get(producer_id)

    def stable_offset_after(self, producer_id: ProducerId, marker_offset: Offset) -> Offset:
        """Return the first offset of the transactions open after this marker, or the offset after the marker."""
        others = (first for producer, first in self._ongoing.items() if producer != producer_id)
        return next(others, marker_offset + 1)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Return the offset below which the outcome of every transaction is final."""
        self.forget_decided(high_watermark)
        undecided = min((first for first, _ in self._ended), default=high_watermark)
        return min(next(iter(self._ongoing.values()), high_watermark), undecided, high_watermark)

    def forget_decided(self, high_watermark: Offset) -> None:
        """Forget transactions whose markers are below the high watermark."""
        while self._ended and self._ended[0][1] < high_watermark:
            self._ended.popleft()

    def to_plain(self) -> dict[str, Any]:
        """Return everything as plain data, for a snapshot."""
        return {"ongoing": list(self._ongoing.items()), "ended": list(self._ended)}

    def load(self, plain: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Load what `to_plain` returned.

        Raises:
            ValueError, TypeError, KeyError: it is something else.
        """
        self._ongoing = {int(producer): int(first) for producer, first in plain["ongoing"]}
        self._ended = deque((int(first), int(offset)) for first, offset in plain["ended"])
