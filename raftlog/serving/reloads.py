"""SIGHUP: files of a node's settings are read again."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable

from raftlog.runtime import Tasks

_log = logging.getLogger(__name__)


class Reloads:
    """What a node does at SIGHUP. Without anything to do, the signal has no effect.

    Args:
        on_closed_terminal: is called instead, on a node that was started in a terminal: the terminal was closed.
    """

    def __init__(self, on_closed_terminal: Callable[[], None]) -> None:
        self._on_closed_terminal = on_closed_terminal
        self._reloads: list[Callable[[], Awaitable[object]]] = []
        self._hangup = asyncio.Event()
        self._tasks = Tasks("reloads")

    def add(self, reload: Callable[[], Awaitable[object]]) -> None:
        """Call a function after each SIGHUP; signals that arrive meanwhile lead to one more call."""
        self._reloads.append(reload)

    def start(self) -> None:
        """Handle the signal from now on, until the loop ends."""
        in_terminal = sys.stderr is not None and sys.stderr.isatty()
        handler = self._on_closed_terminal if in_terminal else self._hangup.set
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, handler)
        self._tasks.spawn(self._run(), name="reload")

    async def close(self) -> None:
        """Stop calling functions."""
        await self._tasks.close()

    async def _run(self) -> None:
        while True:
            await self._hangup.wait()
            self._hangup.clear()
            for reload in self._reloads:
                try:
                    await reload()
                except Exception:  # noqa: BLE001  (logged)
                    _log.exception("not reloaded")
