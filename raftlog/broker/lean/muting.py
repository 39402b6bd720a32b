"""Pausing and muting a connection: it reads nothing, or it reads but begins no request because of a quota."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable

from raftlog.broker.quotas import MUTE_S


class LeanMuting:
    """Whether one connection reads, and whether it begins requests.

    Args:
        most_paused_s: after so long without reading, a connection that is unmuted is aborted.
    """

    __slots__ = ("_loop", "_most_paused_s", "_paused_at", "_transport", "is_paused", "muted")

    def __init__(self, transport: asyncio.Transport, *, most_paused_s: float) -> None:
        self._transport = transport
        self._most_paused_s = most_paused_s
        self._loop = asyncio.get_running_loop()
        self.muted: asyncio.TimerHandle | None = None
        """Set while no request is begun because of a quota."""
        self.is_paused = False
        """Whether nothing is read."""
        self._paused_at = 0.0

    def pause(self) -> None:
        """Read nothing until `resume`."""
        self.is_paused, self._paused_at = True, self._loop.time()
        self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        self.is_paused = False
        self._transport.resume_reading()

    def mute(self, wait_s: float, then: Callable[[], None]) -> None:
        """Begin no request for some time, `MUTE_S` at the longest; then call `then`, which may mute again."""
        self.muted = self._loop.call_later(min(wait_s, MUTE_S), self._unmute, then)

    def end(self) -> None:
        """Stop: the connection is lost, or is handed to aiohttp."""
        if self.muted is not None:
            self.muted.cancel()
            self.muted = None

    def _unmute(self, then: Callable[[], None]) -> None:
        self.muted = None
        is_stuck = self.is_paused and self._loop.time() - self._paused_at > self._most_paused_s
        if is_stuck or (self.is_paused and peer_has_disconnected(self._transport)):
            self._transport.abort()  # A closed peer cannot be seen behind bytes that do not fit into the socket.
        else:
            then()


def peer_has_disconnected(transport: asyncio.BaseTransport) -> bool:
    """Return whether the peer has closed a connection from which nothing is read."""
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(select, "POLLRDHUP"):
        return False
    if sock.fileno() < 0:
        return True  # The transport has closed it; `poll` takes no such descriptor.
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))
