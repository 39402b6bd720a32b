"""Answering consumers: fetches of many partitions, parked until there is something to say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from raftlog.errors import RaftlogError
from raftlog.partition.replica import Replica
from raftlog.partition.waiters import listening, wait_until
from raftlog.wire.data import FetchPartition, FetchRequest, FetchResult
from raftlog.wire.errors import WireError

FindLeader = Callable[[str, int, str], Replica]


async def serve_fetch(find: FindLeader, request: FetchRequest) -> list[tuple[FetchResult, bytes]]:
    """Answer a consumer: at once if there are `min_bytes` or an error, else when there are or time is up."""
    deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
    pulses = []
    for asked in request.partitions:
        try:
            pulses.append(find(asked.topic, asked.partition, asked.topic_id).visible_pulse)
        except RaftlogError:
            continue  # `_read` says so, in the partition's own result.
    with listening(pulses) as event:
        while True:
            event.clear()
            results = _read_all(find, request)
            enough = sum(len(data) for _, data in results) >= request.min_bytes
            if enough or any(result.error for result, _ in results) or not await wait_until(event, deadline):
                return results


def _read_all(find: FindLeader, request: FetchRequest) -> list[tuple[FetchResult, bytes]]:
    results, left = [], request.max_bytes
    for asked in request.partitions:
        result, data = _read(find, asked, left)
        left -= len(data)
        results.append((result, data))
    return results


def _read(find: FindLeader, asked: FetchPartition, left: int) -> tuple[FetchResult, bytes]:
    try:
        replica = find(asked.topic, asked.partition, asked.topic_id)
        read = replica.read(asked.offset, min(asked.max_bytes, max(0, left)))
    except RaftlogError as error:
        return FetchResult(topic=asked.topic, partition=asked.partition, error=WireError.of(error)), b""
    data = read.data if left > 0 else b""
    result = FetchResult(
        topic=asked.topic,
        partition=asked.partition,
        length=len(data),
        high_watermark=read.high_watermark,
        log_start_offset=read.log_start_offset,
        leader_epoch=read.leader_epoch,
    )
    return result, data
