"""The bytes that a connection has not sent yet: a peer that takes none of them is disconnected."""

from __future__ import annotations

import asyncio

_LOOKS = 4
"""How often the unsent bytes are looked at, in the time for which their number may stay the same."""


class Unsent:
    """The bytes that a connection's transport has not sent: it is aborted if the peer takes none of them for long.

    aiohttp waits without end for a peer that does not read, and so does a transport that is closed. The timer only runs
    while there are such bytes.

    Args:
        most_s: how long the number of bytes may stay the same.
    """

    def __init__(self, most_s: float) -> None:
        self.transport: asyncio.Transport | None = None
        self._most_s = most_s
        self._timer: asyncio.TimerHandle | None = None
        self._size = self._same = 0

    def watch(self) -> None:
        """Watch until nothing is unsent."""
        if self._timer is None and self.transport is not None:
            self._look()

    def stop(self) -> None:
        self.transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer, before = None, self._size
        self._size = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if not self._size or self.transport is None:
            return
        # Of a peer that reads, further responses might fill the buffer to the same size; hardly at each look.
        self._same = self._same + 1 if self._size == before else 0
        if self._same == _LOOKS:
            self.transport.abort()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._most_s / _LOOKS, self._look)
