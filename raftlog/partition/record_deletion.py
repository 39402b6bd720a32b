"""DeleteRecords: the leader advances its log start offset, then waits for every replica that may lead next."""

from __future__ import annotations

import asyncio

from raftlog.errors import ErrorCode, OffsetOutOfRangeError, StaleRouteError, UnknownOutcomeError
from raftlog.model import LeaderEpoch, Offset
from raftlog.partition.core.leader import LeaderCore
from raftlog.partition.replica import Replica
from raftlog.partition.waiters import listening, wait_until


async def delete_records(replica: Replica, before_offset: Offset | None, *, timeout_ms: int) -> Offset:
    """Delete every record below an offset (None: the high watermark); return the log start offset.

    Raises:
        StaleRouteError: this replica does not lead; nothing was deleted.
        OffsetOutOfRangeError: the offset is above the high watermark; nothing was deleted.
        UnknownOutcomeError: deleted here, but a replica that may lead next has not confirmed in time.
    """
    core, epoch = replica.require_leader(), replica.state.leader_epoch
    offset = core.high_watermark if before_offset is None else before_offset
    if offset > core.high_watermark:
        raise OffsetOutOfRangeError(
            f"before_offset: expected at most the high watermark {core.high_watermark}, received {offset}",
            details={"log_start_offset": replica.log.log_start_offset, "high_watermark": core.high_watermark},
        )
    if offset > replica.log.log_start_offset:
        await replica.keep_producers_in_thread(offset)
        if replica.core is not core:
            replica.require_leader()
            raise StaleRouteError(f"{replica.assignment.topic_partition}: the leader of epoch {epoch} has resigned")
    replica.delete_before(offset, core.high_watermark, are_producers_kept=True)
    core.on_deletion(offset)
    replica.data_notifier.fire()  # Wakes parked fetches of followers at once.
    await _until_deleted_everywhere(replica, core, epoch, offset, timeout_ms)
    return replica.log.log_start_offset


async def _until_deleted_everywhere(
    replica: Replica, core: LeaderCore, epoch: LeaderEpoch, offset: Offset, timeout_ms: int
) -> None:
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    with listening([replica.followers_notifier]) as event:
        while core.low_watermark(replica.log.log_start_offset) < offset:
            event.clear()
            in_time = await wait_until(event, deadline)
            if not in_time or replica.core is not core:
                raise UnknownOutcomeError(
                    f"{replica.assignment.topic_partition}: the leader of epoch {epoch} has deleted the records below "
                    f"{offset}, but not every replica that may lead next has confirmed: send the request again",
                    code=ErrorCode.REQUEST_TIMED_OUT,
                    details={"log_start_offset": replica.log.log_start_offset},
                )
