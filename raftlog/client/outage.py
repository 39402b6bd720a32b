"""Outage detection: no known broker answers. A waiting client logs the start and the end, once each."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from raftlog.errors import RaftlogError
from raftlog.model import Address

_log = logging.getLogger(__name__)


class Outage:
    """Counts the times in which no broker has answered.

    Args:
        is_logged: the client waits until brokers answer again, rather than raise an error.
    """

    def __init__(self, *, is_logged: bool) -> None:
        self._is_logged = is_logged
        self._silent: set[Address] = set()
        """Brokers that did not answer since the last answer of any broker."""
        self._since_s: float | None = None
        self.count = 0

    @property
    def lasts_s(self) -> float:
        """Return how long no broker has answered; 0.0 if there is no outage."""
        return 0.0 if self._since_s is None else time.monotonic() - self._since_s

    def on_silence(self, address: Address, known: Collection[Address], error: RaftlogError) -> None:
        """Note that a broker did not answer. An outage begins when no known broker has."""
        self._silent.add(address)
        if self._since_s is not None or not self._silent.issuperset(known):
            return
        self._since_s = time.monotonic()
        self.count += 1
        if self._is_logged:
            _log.warning("no broker answers; waiting until one does. The last error: %s", error.message)

    def on_answer(self) -> None:
        """Note that a broker answered: an outage ends."""
        self._silent.clear()
        if self._since_s is None:
            return
        if self._is_logged:
            _log.warning("brokers answer again, after %.1f s", self.lasts_s)
        self._since_s = None
