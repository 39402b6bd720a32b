"""A broker's figures on its node's page of metrics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import ParkedFetches
from raftlog.broker.metrics.coordinator_figures import show_groups, show_transactions
from raftlog.broker.metrics.replica_figures import show_replicas
from raftlog.config import NodeConfig
from raftlog.metrics import Page
from raftlog.serving.node_metrics import FromThread


class BrokerFigures:
    """Adds everything that a broker knows to a page.

    Args:
        parked: the consumers' fetches that wait.
    """

    def __init__(self, context: BrokerContext, parked: ParkedFetches) -> None:
        self._context = context
        self._parked = parked
        self._disks = [(str(folder), FromThread(_Space(folder))) for folder in folders_of(context.config)]

    async def show(self, page: Page, detail: bool) -> None:
        """Add the samples; `detail` adds those of each partition."""
        context = self._context
        names = context.listener.image.names
        if names:
            context.metrics.forget_deleted(names)
        context.metrics.show(page)
        page.add("raftlog_access_refusals_total", context.access.refused)
        page.add("raftlog_broker_fenced", int(context.lifecycle.fenced))
        page.add("raftlog_metadata_offset", context.listener.offset)
        page.add("raftlog_parked_requests", self._parked.count, kind="fetch")
        page.add("raftlog_parked_requests", context.groups.parked, kind="heartbeat")
        page.add("raftlog_parked_requests", context.groups.classic.parked, kind="classic_member")
        await show_replicas(page, context.replicas, context.metrics.partition, detail=detail)
        page.add("raftlog_group_rebalances_total", context.groups.rebalances + context.groups.classic.generations)
        await show_groups(page, context.groups.runtime.active.values(), context.replicas, detail=detail)
        now_ms = context.clock.wall_us() // 1000
        await show_transactions(page, context.transactions.runtime.active.values(), now_ms)
        await self._show_disks(page)

    async def _show_disks(self, page: Page) -> None:
        for folder, disk in self._disks:
            if (space := await disk.read()) is not None:
                free, size = space
                page.add("raftlog_disk_free_bytes", free, folder=folder)
                page.add("raftlog_disk_size_bytes", size, folder=folder)


class _Space:
    """Returns the available and the total bytes of a folder's file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self) -> tuple[int, int]:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize


def folders_of(config: NodeConfig) -> Sequence[Path]:
    """Return the folders of a broker's logs."""
    return [Path(os.path.normpath(path)) for path in config.log_dirs or (config.data_dir,)]
