"""The audit log of one node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from raftlog.config import NodeConfig
from raftlog.metrics import Page
from raftlog.runtime import Clock, Tasks
from raftlog.security.audit import AuditTrail
from raftlog.security.audit_file import AuditFile

_SLICE = 64
"""Sums that are written in one turn of the event loop."""


class NodeAudit:
    """Decides what is written (`trail`), and writes it.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, config: NodeConfig, clock: Clock) -> None:
        settings = config.security
        self._file = AuditFile(
            settings.audit_file,
            max_bytes=settings.audit_max_bytes,
            files=settings.audit_files,
            to_log=settings.audit_to_log,
        )
        self._interval_s = settings.audit_interval_s
        kinds = [name for name, is_it in (("controller", config.is_controller), ("broker", config.is_broker)) if is_it]
        self.trail = AuditTrail(f"{'+'.join(kinds)}-{config.node_id}", self._file.put, clock.wall_us)
        self._sums: Iterator[None] = iter(())
        """Writes those of the last interval that are left."""
        self._tasks = Tasks("audit")

    def start(self) -> None:
        """Write sums after each interval."""
        self._tasks.keep(self._sum_up, name="sums")

    async def reopen(self) -> None:
        """Open the file again: another program has renamed it."""
        self._file.reopen()

    async def show(self, page: Page, _: bool) -> None:
        """Add the figures of the audit log to the page of metrics."""
        page.add("raftlog_audit_lost_lines_total", self._file.lost)
        page.add("raftlog_audit_waiting_lines", self._file.waiting)

    async def close(self) -> None:
        """Write what is left."""
        await self._tasks.close()
        for _ in (*self._sums, *self.trail.next_interval()):
            pass
        await asyncio.to_thread(self._file.close)

    async def _sum_up(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            self._sums = self.trail.next_interval()
            for number, _ in enumerate(self._sums):
                if number % _SLICE == 0:
                    await asyncio.sleep(0)
