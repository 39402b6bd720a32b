"""Whether any broker answers a client that waits until one does: the log says so once, and once when it is over."""

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
        """Who was asked in vain since the last answer."""
        self._since_s: float | None = None
        self.count = 0

    @property
    def lasts_s(self) -> float:
        """Return for how long no broker has answered; 0.0 if the last one that was asked did."""
        return 0.0 if self._since_s is None else time.monotonic() - self._since_s

    def on_silence(self, address: Address, known: Collection[Address], error: RaftlogError) -> None:
        """Learn that a broker did not answer; once none of the known ones did, it is an outage."""
        self._silent.add(address)
        if self._since_s is not None or not self._silent.issuperset(known):
            return
        self._since_s = time.monotonic()
        self.count += 1
        if self._is_logged:
            _log.warning("no broker answers; waiting until one does. The last error: %s", error.message)

    def on_answer(self) -> None:
        """Learn that a broker has answered."""
        self._silent.clear()
        if self._since_s is None:
            return
        if self._is_logged:
            _log.warning("brokers answer again, after %.1f s", self.lasts_s)
        self._since_s = None
