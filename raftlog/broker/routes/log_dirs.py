"""Disk usage of a broker's replicas (as Kafka's DescribeLogDirs, KIP-113 and KIP-827)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, json_response, parse_integer
from raftlog.config import NodeConfig
from raftlog.errors import ErrorCode, NotFoundError, StaleRouteError
from raftlog.partition.replica import Replica
from raftlog.wire import paths
from raftlog.wire.admin import LogDir, LogDirsResponse, StoredReplica, UnusableReplica

_DISK_TIMEOUT_S = 2.0


class LogDirRoutes:
    """Handlers that describe this broker's folders."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_get(paths.LOG_DIRS, self.log_dirs)

    async def log_dirs(self, request: web.Request) -> web.Response:
        """List this broker's folders, and its replicas in each; other brokers redirect to it."""
        check_query(request)
        named = request.match_info["broker"]
        own = self._context.config.node_id
        if parse_integer(named) != own:
            return redirect_to_broker(self._context, request)
        found = tuple([await self._log_dir(folder) for folder in _folders(self._context.config)])
        return json_response(LogDirsResponse(broker_id=own, log_dirs=found, offline=self._offline()))

    async def _log_dir(self, folder: Path) -> LogDir:
        total, usable = await _space(folder)
        here = [replica for replica in self._context.replicas.replicas if replica.log.folder.parent.parent == folder]
        stored = sorted(map(self._stored, here), key=lambda replica: (replica.topic, replica.partition))
        return LogDir(path=str(folder), total_bytes=total, usable_bytes=usable, replicas=tuple(stored))

    def _offline(self) -> tuple[UnusableReplica, ...]:
        topics = self._context.image.topics
        named = [
            (topics[key.topic_id].topic, key.partition, error, self._context.replicas.repairs.lost(key))
            for key, error in self._context.replicas.offline.items()
            if key.topic_id in topics
        ]
        return tuple(
            UnusableReplica(topic=topic, partition=partition, error=error.message, lost_batches=lost)
            for topic, partition, error, lost in sorted(named, key=lambda offline: offline[:2])
        )

    def _stored(self, replica: Replica) -> StoredReplica:
        return StoredReplica(
            topic=replica.assignment.topic,
            partition=replica.assignment.partition,
            leader=replica.core is not None,
            size_bytes=replica.log.size_bytes,
            log_start_offset=replica.log.log_start_offset,
            log_end_offset=replica.log.log_end_offset,
            damage=replica.damage.reason if replica.damage is not None else "",
            lost_batches=self._context.replicas.repairs.lost(replica.assignment.key),
        )


def redirect_to_broker(context: BrokerContext, request: web.Request) -> web.Response:
    """Return a redirect to the broker whose id is in the path: only it knows its folders.

    Raises:
        NotFoundError: the broker does not exist.
    """
    named = request.match_info["broker"]
    broker_id, brokers = parse_integer(named), context.image.brokers
    broker = brokers.get(-1 if broker_id is None else broker_id)
    if broker is None:
        known = ", ".join(map(str, sorted(brokers)))
        raise NotFoundError(f"there is no broker {named!r:.80}; there are {known}", code=ErrorCode.NOT_FOUND)
    url = broker.public.url
    error = StaleRouteError(
        f"only broker {broker_id} at {url} knows its folders", details={"broker": broker_id, "url": url}
    )
    location = {"Location": f"{url}{request.rel_url.raw_path_qs}"}
    return json_response({"error": error.to_wire()}, status=307, headers=location)


def _folders(config: NodeConfig) -> list[Path]:
    return [Path(os.path.normpath(path)) for path in config.log_dirs or (config.data_dir,)]


async def _space(folder: Path) -> tuple[int, int]:
    """Return the total and the available bytes of a folder's file system; -1 if they are unknown."""
    try:
        async with asyncio.timeout(_DISK_TIMEOUT_S):
            disk = await asyncio.to_thread(os.statvfs, folder)
    except (OSError, TimeoutError):
        return -1, -1
    return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize
