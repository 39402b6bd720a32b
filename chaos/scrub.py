"""Has every broker read its own copies to the end: a read finds damage on a disk, and nothing else does."""

from __future__ import annotations

from chaos.cluster import ChaosCluster
from chaos.sessions import open_session
from raftlog.errors import OffsetOutOfRangeError, RaftlogError
from raftlog.model import Address
from raftlog.record.batch import iter_batches
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.data import FetchPartition, FetchRequest, FetchResponse

PIECE_BYTES = 4 << 20
TIMEOUT_MS = 5_000
WAIT_MS = 500
"""How long to wait for records above the high watermark that a follower knows."""


async def read_every_replica(cluster: ChaosCluster, topic: str) -> list[str]:
    """Read every replica through its broker; return the errors. A broker repairs the damage that it finds."""
    problems = []
    info = await cluster.describe(topic)
    async with open_session() as session:
        for state in info.partitions:
            end = 0  # The leader, which is first, reports it; followers learn it a little later.
            for broker in sorted(state.replicas, key=lambda replica: replica != state.leader):
                address = cluster.nodes.node(f"broker-{broker}").health
                assert isinstance(address, Address)
                try:
                    end = max(end, await _read_to(end, session, address, topic, state.partition))
                except RaftlogError as error:
                    problems.append(f"{topic}-{state.partition} on broker-{broker}: {error}")
    return problems


async def _read_to(end: int, session: HttpSession, address: Address, topic: str, partition: int) -> int:
    """Read from the log start offset to `end` at least; return the offset after the last one read."""
    offset = 0
    while True:
        asked = FetchPartition(topic=topic, partition=partition, offset=offset, max_bytes=PIECE_BYTES, any_replica=True)
        request = FetchRequest(partitions=(asked,), max_wait_ms=WAIT_MS)
        response, data = await session.call_frame(
            FetchResponse, "POST", address, paths.FETCH, timeout_ms=TIMEOUT_MS, message=request
        )
        (result,) = response.partitions
        if result.error is not None:
            error = result.error.to_error()
            start = error.details.get("log_start_offset")
            if not isinstance(error, OffsetOutOfRangeError) or not isinstance(start, int) or start <= offset:
                raise error
            offset = start  # Retention has removed the records below.
            continue
        for header, _ in iter_batches(data):
            offset = header.next_offset
        end = end or result.high_watermark
        if offset >= end:
            return offset
