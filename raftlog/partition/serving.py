"""Answering fetches: consumers' and followers', over many partitions, parked until there is something to say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from raftlog.errors import OffsetOutOfRangeError, RaftlogError
from raftlog.model import TopicIdPartition
from raftlog.partition.core.epochs import diverging_epoch, require_same_epoch
from raftlog.partition.core.leader import Follower
from raftlog.partition.replica import Replica
from raftlog.partition.waiters import listening, wait_until
from raftlog.wire.data import FetchPartition, FetchRequest, FetchResult
from raftlog.wire.errors import WireError
from raftlog.wire.replication import (
    DivergingEpoch,
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)

FindLeader = Callable[[str, int, str], Replica]
FindReplica = Callable[[TopicIdPartition], Replica]


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


async def serve_replica_fetch(
    find: FindReplica, request: ReplicaFetchRequest
) -> tuple[ReplicaFetchResponse, list[bytes]]:
    """Answer a follower; its fetch offsets are what it acknowledges."""
    deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
    replicas = [_acknowledge(find, request, asked) for asked in request.partitions]
    pulses = [replica.data_pulse for replica in replicas if isinstance(replica, Replica)]
    with listening(pulses) as event:
        while True:
            event.clear()
            pairs = _replica_results(replicas, request)
            if _worth_answering(pairs, replicas, request) or not await wait_until(event, deadline):
                break
    _note_told(pairs, replicas, request)
    return ReplicaFetchResponse(partitions=tuple(result for result, _ in pairs)), [data for _, data in pairs]


def _acknowledge(find: FindReplica, request: ReplicaFetchRequest, asked: ReplicaFetchPartition) -> Replica | WireError:
    """Let the leader's core learn the follower's position, unless histories differ or an epoch does."""
    try:
        replica = find(TopicIdPartition(asked.topic_id, asked.partition))
        replica.require_leader()
        require_same_epoch(replica.state.leader_epoch, asked.leader_epoch, replica.assignment.topic_partition)
        if _diverging(replica, asked) is None:
            _require_in_range(replica, asked)
            replica.on_follower_fetch(
                request.replica_id,
                broker_epoch=request.broker_epoch,
                fetch_offset=asked.fetch_offset,
                log_start_offset=asked.log_start_offset,
            )
    except RaftlogError as error:
        return WireError.of(error)
    return replica


def _diverging(replica: Replica, asked: ReplicaFetchPartition) -> tuple[int, int] | None:
    return diverging_epoch(
        replica.log.epochs,
        log_end_offset=replica.log.log_end_offset,
        fetch_offset=asked.fetch_offset,
        last_fetched_epoch=asked.last_fetched_epoch,
    )


def _require_in_range(replica: Replica, asked: ReplicaFetchPartition) -> None:
    start, end = replica.log.log_start_offset, replica.log.log_end_offset
    if not start <= asked.fetch_offset <= end:
        raise OffsetOutOfRangeError(
            f"follower asks for offset {asked.fetch_offset}, the leader's log holds {start} to {end}",
            details={"log_start_offset": start, "log_end_offset": end},
        )


def _replica_results(
    replicas: Sequence[Replica | WireError], request: ReplicaFetchRequest
) -> list[tuple[ReplicaFetchResult, bytes]]:
    pairs, left = [], request.max_bytes
    for replica, asked in zip(replicas, request.partitions, strict=True):
        result, data = _replica_result(replica, asked, min(request.partition_max_bytes, left))
        left -= len(data)
        pairs.append((result, data))
    return pairs


def _replica_result(
    replica: Replica | WireError, asked: ReplicaFetchPartition, max_bytes: int
) -> tuple[ReplicaFetchResult, bytes]:
    named = {"topic_id": asked.topic_id, "partition": asked.partition}
    if isinstance(replica, WireError):
        return ReplicaFetchResult(**named, error=replica), b""  # type: ignore[arg-type]
    try:
        core = replica.require_leader()
        require_same_epoch(replica.state.leader_epoch, asked.leader_epoch, replica.assignment.topic_partition)
        if (diverging := _diverging(replica, asked)) is not None:
            told = DivergingEpoch(epoch=diverging[0], end_offset=diverging[1])
            return ReplicaFetchResult(**named, diverging=told), b""  # type: ignore[arg-type]
        end = replica.log.log_end_offset
        data = replica.log.read(asked.fetch_offset, max_bytes, limit_offset=end) if max_bytes > 0 else b""
    except RaftlogError as error:
        return ReplicaFetchResult(**named, error=WireError.of(error)), b""  # type: ignore[arg-type]
    result = ReplicaFetchResult(
        topic_id=asked.topic_id,
        partition=asked.partition,
        length=len(data),
        high_watermark=core.high_watermark,
        log_start_offset=replica.log.log_start_offset,
        leader_epoch=replica.state.leader_epoch,
        replicated_offset=core.replicated_offset,
    )
    return result, data


def _worth_answering(
    pairs: Sequence[tuple[ReplicaFetchResult, bytes]],
    replicas: Sequence[Replica | WireError],
    request: ReplicaFetchRequest,
) -> bool:
    """Decide whether there is news: enough bytes, an error, a divergence, or a mark not yet told."""
    if sum(len(data) for _, data in pairs) >= request.min_bytes:
        return True
    for (result, _), replica in zip(pairs, replicas, strict=True):
        if result.diverging is not None or result.error is not None:
            return True
        known = _follower(replica, request.replica_id)
        told = (known.high_watermark_told, known.log_start_told) if known else (-1, -1)
        if result.high_watermark > told[0] or result.log_start_offset > told[1]:
            return True
    return False


def _follower(replica: Replica | WireError, follower: int) -> Follower | None:
    return replica.core.followers.get(follower) if isinstance(replica, Replica) and replica.core else None


def _note_told(
    pairs: Sequence[tuple[ReplicaFetchResult, bytes]],
    replicas: Sequence[Replica | WireError],
    request: ReplicaFetchRequest,
) -> None:
    for (result, _), replica in zip(pairs, replicas, strict=True):
        known = _follower(replica, request.replica_id)
        if known is not None and result.error is None:
            known.high_watermark_told, known.log_start_told = result.high_watermark, result.log_start_offset
