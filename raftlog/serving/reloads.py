"""SIGHUP: files of a node's settings are read again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

from raftlog.runtime import Tasks


class Reloads:
    """What a node does at SIGHUP. Without anything to do, the signal keeps its default."""

    def __init__(self) -> None:
        self._reloads: list[Callable[[], Awaitable[object]]] = []
        self._tasks = Tasks("reloads")

    def add(self, reload: Callable[[], Awaitable[object]]) -> None:
        """Call a function at each SIGHUP."""
        self._reloads.append(reload)

    def start(self) -> None:
        """Handle the signal from now on."""
        if self._reloads:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._on_hangup)

    async def close(self) -> None:
        """Give the signal its default back."""
        if self._reloads:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        await self._tasks.close()

    def _on_hangup(self) -> None:
        for reload in self._reloads:
            self._tasks.spawn(_call(reload), name="reload")


async def _call(reload: Callable[[], Awaitable[object]]) -> None:
    await reload()
