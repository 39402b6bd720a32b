"""Broker sessions: soft state of the active controller. They start afresh with each controller epoch."""

from __future__ import annotations

from collections.abc import Iterable

from raftlog.model import BrokerId


class Sessions:
    """When each broker was last heard of, by a monotonic clock in ms."""

    def __init__(self, *, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._heard: dict[BrokerId, int] = {}

    def restart(self, brokers: Iterable[BrokerId], now_ms: int) -> None:
        """Give every unfenced broker a whole session from now on: the last controller's knowledge is lost."""
        self._heard = dict.fromkeys(brokers, now_ms)

    def heard(self, broker: BrokerId, now_ms: int) -> None:
        self._heard[broker] = now_ms

    def end(self, broker: BrokerId) -> None:
        """Learn that a broker's process is gone."""
        self._heard.pop(broker, None)

    def alive(self, broker: BrokerId, now_ms: int) -> bool:
        return broker in self._heard and now_ms - self._heard[broker] <= self._timeout_ms

    def silent_for(self, broker: BrokerId, now_ms: int) -> int:
        """Return for how many ms a broker has not been heard of; a whole session's worth if never."""
        return now_ms - self._heard[broker] if broker in self._heard else self._timeout_ms + 1
