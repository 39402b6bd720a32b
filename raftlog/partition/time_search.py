"""Search of records by time: the event loop finds the batch, and a worker thread reads and decodes it."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from raftlog.errors import CorruptBatchError, RetriableError
from raftlog.model import Isolation, Offset
from raftlog.partition.core.leader import LeaderCore
from raftlog.partition.readable_replica import ReadableReplica
from raftlog.partition.storage.batch_reads import FoundRecord, Skipped
from raftlog.partition.storage.index import NO_TIMESTAMP
from raftlog.serving.workers import in_worker

_TURNS = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]()
"""For each event loop, the lock that lets one search run at a time: it bounds memory, and leaves a thread to others."""
_HEADERS_IN_A_TURN = 1_000
"""Headers that a search reads in one turn of the event loop: some 10 ms."""


async def record_at(
    replica: ReadableReplica, timestamp_us: int, isolation: Isolation = "read_uncommitted"
) -> tuple[FoundRecord | None, Offset]:
    """Return the first visible record at or after a time (us since 1970), and the end offset when the search began.

    A reader without such a record begins at that end: later records may have any time.

    Raises:
        RetriableError: OFFSET_NOT_AVAILABLE: no such record, and the end offset is not known.
        StaleRouteError: a batch that the search reads is damaged, and is being repaired; or this replica does not lead
            any more.
        StorageError: a batch that the search reads is damaged, or cannot be read.
    """
    unknown: RetriableError | None = None
    try:
        end = replica.end_offset(isolation)
    except RetriableError as error:
        end, unknown = replica.visible_end_offset(isolation), error
    found = await _record_since(replica, timestamp_us, end)
    if found is None and unknown is not None:
        raise unknown
    return found, end


async def newest_record(replica: ReadableReplica, isolation: Isolation = "read_uncommitted") -> FoundRecord | None:
    """Return the first visible record that has the newest time; None: there is no record.

    Raises:
        StaleRouteError: a batch that the search reads is damaged, and is being repaired.
        StorageError: a batch that the search reads is damaged, or cannot be read.
    """
    return await _record_since(replica, None, replica.visible_end_offset(isolation))


async def _record_since(replica: ReadableReplica, timestamp_us: int | None, limit: Offset) -> FoundRecord | None:
    """Return the first record below `limit` at or after a time (None: the newest time); None: there is none."""
    core = replica.core
    async with _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        with replica.searching():
            _require_role(replica, core)  # Other searches may have taken long.
            if timestamp_us is not None:
                return await _search(replica, timestamp_us, limit)
            newest = replica.log.newest_timestamp(limit_offset=limit)
            found = await _search(replica, newest, limit)
            if found is None and newest != NO_TIMESTAMP:  # It was the time of a marker.
                found = await _search(replica, await _newest_time(replica, limit), limit)
            return found


async def _search(replica: ReadableReplica, since: int, limit: Offset) -> FoundRecord | None:
    at, core, log = 0, replica.core, replica.log
    while (batch := log.batch_since(since, at, limit_offset=limit, max_headers=_HEADERS_IN_A_TURN)) is not None:
        if isinstance(batch, Skipped):
            await asyncio.sleep(0)
            _require_role(replica, core)
        else:
            try:
                found = await in_worker(batch.find, since)
            except (CorruptBatchError, OSError):
                # Damaged, or changed meanwhile: only this thread can tell.
                _require_role(replica, core)
                return log.record_since(since, at, limit_offset=limit)
            if found is not None:
                return found if found.offset < limit else None
        at = batch.next_offset
    return None


async def _newest_time(replica: ReadableReplica, limit: Offset) -> int:
    """Return the newest time (us since 1970) of the records below `limit`; `NO_TIMESTAMP` without records."""
    newest, core, log = NO_TIMESTAMP, replica.core, replica.log
    ends = log.segment_ends()
    # The last records first: most of the rest is older, and the index tells so.
    starts = {ends[0]: max(log.log_start_offset, limit - _HEADERS_IN_A_TURN)}
    for end in (ends[0], *ends):
        at: Offset | None = starts.pop(end, log.log_start_offset)
        while at is not None:
            newest, at = log.newest_of_records(newest, end, at, limit_offset=limit, max_headers=_HEADERS_IN_A_TURN)
            if at is not None:
                await asyncio.sleep(0)
                _require_role(replica, core)
    return newest


def _require_role(replica: ReadableReplica, core: LeaderCore | None) -> None:
    """Raise if a replica no longer leads, and did with `core`: its log may be closed, and its files removed.

    Raises:
        StaleRouteError: this replica does not lead any more.
    """
    if replica.core is not core:
        replica.require_leader()
