"""The memory of one answer, reserved before records are read and converted for it.

A client that has many connections could otherwise have as many answers made that nothing may hold in the end.
"""

from __future__ import annotations

from raftlog.broker.kafka.call import KafkaCall

LEAST_BYTES = 64 << 10
"""Less space is not worth a read, unless all that the client asks for fits into it."""


class AnswerSpace:
    """Reserves bytes of a listener's limit of unsent answers, as `call.held_bytes`."""

    def __init__(self, call: KafkaCall) -> None:
        self._call = call
        self.is_refused = False
        """Whether the last read had no space."""

    @property
    def taken(self) -> int:
        """Return how many bytes are reserved now."""
        return self._call.held_bytes

    def take(self, most: int) -> int:
        """Reserve up to `most` bytes; return how many: 0 if there are too few."""
        size = min(most, self._call.answer_space())
        self.is_refused = size < min(most, LEAST_BYTES)
        if self.is_refused:
            return 0
        self._call.resize_answer(size)
        return size

    def keep(self, most: int) -> None:
        """Release all but `most` bytes."""
        self._call.resize_answer(min(most, self.taken))
