"""Broker sessions: soft state of the active controller, reset with each controller epoch."""

from __future__ import annotations

from collections.abc import Iterable

from raftlog.model import BrokerId


class Sessions:
    """The time of each broker's last heartbeat, by a monotonic clock in ms."""

    def __init__(self, *, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._last_contact_ms: dict[BrokerId, int] = {}

    def restart(self, brokers: Iterable[BrokerId], now_ms: int) -> None:
        """Give every unfenced broker a full session from now: the last controller's sessions are unknown."""
        self._last_contact_ms = dict.fromkeys(brokers, now_ms)

    def touch(self, broker: BrokerId, now_ms: int) -> None:
        self._last_contact_ms[broker] = now_ms

    def extend(self, ms: int) -> None:
        """Extend every session by the time for which this controller was blocked: heartbeats wait in its sockets."""
        self._last_contact_ms = {broker: at + ms for broker, at in self._last_contact_ms.items()}

    def end(self, broker: BrokerId) -> None:
        """End a broker's session: its process has exited."""
        self._last_contact_ms.pop(broker, None)

    def alive(self, broker: BrokerId, now_ms: int) -> bool:
        return broker in self._last_contact_ms and now_ms - self._last_contact_ms[broker] <= self._timeout_ms

    def silent_for(self, broker: BrokerId, now_ms: int) -> int:
        """Return the ms since a broker's last heartbeat; more than a session's timeout if it never sent one."""
        return now_ms - self._last_contact_ms[broker] if broker in self._last_contact_ms else self._timeout_ms + 1
