"""Disk usage of this broker's replicas (as Kafka's DescribeLogDirs, KIP-113 and KIP-827)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from raftlog.broker.context import BrokerContext
from raftlog.config import NodeConfig
from raftlog.partition.replica import Replica
from raftlog.runtime import in_slices
from raftlog.wire.admin import LogDir, LogDirsResponse, StoredReplica, UnusableReplica

_DISK_TIMEOUT_S = 2.0


_SLICE = 256


async def describe_log_dirs(
    context: BrokerContext, *, topics: Collection[str] = (), only_damaged: bool = False
) -> LogDirsResponse:
    """Return this broker's folders, its replicas in each, and those that it cannot use.

    Args:
        topics: only replicas of these, in sums, too; none: of all.
        only_damaged: list only replicas with damage or lost batches.
    """
    of_topics = [one for one in context.replicas.replicas if not topics or one.assignment.topic in topics]
    folders = _folders(context.config)
    found = tuple([await _log_dir(context, one, of_topics, only_damaged=only_damaged) for one in folders])
    offline = tuple(one for one in _offline(context) if not topics or one.topic in topics)
    return LogDirsResponse(broker_id=context.config.node_id, log_dirs=found, offline=offline)


async def _log_dir(context: BrokerContext, folder: Path, replicas: Iterable[Replica], *, only_damaged: bool) -> LogDir:
    total, usable = await _space(folder)
    here = [one async for one in in_slices(replicas, _SLICE) if one.log.folder.parent.parent == folder]
    stored = [_stored(context, one) async for one in in_slices(here, _SLICE)]
    listed = [one for one in stored if not only_damaged or _is_damaged(one)]
    listed.sort(key=lambda replica: (replica.topic, replica.partition))
    return LogDir(
        path=str(folder),
        total_bytes=total,
        usable_bytes=usable,
        replicas=tuple(listed),
        replica_count=len(stored),
        size_bytes=sum(one.size_bytes for one in stored),
        damaged_count=sum(map(_is_damaged, stored)),
    )


def _is_damaged(replica: StoredReplica) -> bool:
    return bool(replica.damage or replica.lost_batches)


def _offline(context: BrokerContext) -> tuple[UnusableReplica, ...]:
    topics = context.image.topics
    named = [
        (topics[key.topic_id].topic, key.partition, error, context.replicas.repairs.lost(key))
        for key, error in context.replicas.offline.items()
        if key.topic_id in topics
    ]
    return tuple(
        UnusableReplica(topic=topic, partition=partition, error=error.message, lost_batches=lost)
        for topic, partition, error, lost in sorted(named, key=lambda offline: offline[:2])
    )


def _stored(context: BrokerContext, replica: Replica) -> StoredReplica:
    return StoredReplica(
        topic=replica.assignment.topic,
        partition=replica.assignment.partition,
        leader=replica.core is not None,
        size_bytes=replica.log.size_bytes,
        log_start_offset=replica.log.log_start_offset,
        log_end_offset=replica.log.log_end_offset,
        damage=replica.damage.reason if replica.damage is not None else "",
        lost_batches=context.replicas.repairs.lost(replica.assignment.key),
    )


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
