"""How long brokers have asked a client to pause, because of quotas."""

from __future__ import annotations

import time
from collections import deque

from raftlog.model import Address

MAX_S = 30.0
"""The longest pause that a client takes, whatever a broker says. A broker reads its next request later, if need be."""
_RECENT = 1_000
_MAX_ADDRESSES = 1_000


class Throttles:
    """The pauses that the answers of each broker have asked for."""

    def __init__(self) -> None:
        self.count = 0
        """Answers that asked for a pause."""
        self.latest_ms: deque[float] = deque(maxlen=_RECENT)
        """The latest pauses."""
        self._until: dict[Address, float] = {}

    def note(self, address: Address, text: str) -> None:
        """Note the header of an answer; a text that is no number of milliseconds is ignored."""
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            return
        now = time.monotonic()
        self.count += 1
        self.latest_ms.append(float(text))
        if len(self._until) >= _MAX_ADDRESSES:
            self._until = {other: until for other, until in self._until.items() if until > now}
        self._until[address] = max(self._until.get(address, now), now + min(int(text) / 1000, MAX_S))

    def left_s(self, address: Address) -> float:
        """Return how long the next request to a broker should wait."""
        until = self._until.get(address)
        return 0.0 if until is None else max(0.0, until - time.monotonic())
