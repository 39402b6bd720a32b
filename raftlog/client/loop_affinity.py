"""Binds a client to the event loop in which it is first used."""

from __future__ import annotations

import asyncio


class LoopAffinity:
    """The event loop of one client. Its connections, futures and tasks do not work in another one."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._loop: asyncio.AbstractEventLoop | None = None

    def require(self) -> asyncio.AbstractEventLoop:
        """Return the running loop.

        Raises:
            RuntimeError: no event loop is running, or another one than at first use.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                f"a {self._what} needs a running event loop: use it in a coroutine, or use raftlog.blocking"
            ) from None
        if self._loop is not loop:
            if self._loop is not None:
                state = "is closed" if self._loop.is_closed() else "still exists"
                raise RuntimeError(
                    f"this {self._what} belongs to another event loop, which {state}: make one in each loop"
                )
            self._loop = loop
        return loop
