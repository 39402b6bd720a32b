"""Consumer fetches of many partitions: read, or parked until enough records arrive (long poll)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from raftlog.errors import RaftlogError
from raftlog.model import NO_LEADER_EPOCH, BrokerId, Isolation, Offset
from raftlog.partition.core.epochs import diverging_epoch, require_same_epoch
from raftlog.partition.replica import Replica
from raftlog.partition.storage.verified_reads import MOST_BATCHES, FileRange
from raftlog.partition.waiters import Notifier, wait_until
from raftlog.request_marks import current_request_id
from raftlog.wire.data import DivergingEpoch, FetchPartition, FetchRequest, FetchResult
from raftlog.wire.errors import WireError

FindReplica = Callable[[str, int, str], Replica]


class Served(NamedTuple):
    """The result of one partition."""

    result: FetchResult
    data: bytes | FileRange = b""
    """Whole batches."""
    records: int = 0
    """Records from the requested offset to the end of `data`; offsets that compaction has emptied count too."""
    batches: int = 0
    """The number of batches in `data`."""
    has_more: bool = False
    """Whether the partition has records after `data` for the consumer."""


class ReadSpace(Protocol):
    """Memory for what one fetch reads. A fetch that waits for records has none."""

    @property
    def taken(self) -> int:
        """Return how many bytes are reserved now."""

    def take(self, most: int) -> int:
        """Reserve up to `most` bytes for one read; return how many: 0 if there are too few."""

    def keep(self, most: int) -> None:
        """Release all but `most` bytes."""


Prefer = Callable[[Replica, str, Offset], BrokerId | None]
"""Return the follower to read instead (KIP-392), given the leader's replica, the consumer's rack and offset."""

_TURN_PARTITIONS, _TURN_BYTES = 128, 8 << 20
_BATCH_BYTES = _TURN_BYTES // MOST_BATCHES
"""A batch counts as at least so many bytes of a turn of the event loop: reading small ones takes time for each."""
_CROWDED_S, _CROWDED_LOOKS = 0.02, 5
"""A fetch without memory for records looks for some so often. Then it is answered without any."""
_TURNS = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]()
"""For each event loop, the lock that lets one long fetch run at a time."""


def _nobody(_: Replica, __: str, ___: Offset) -> None:
    return None


async def serve_fetch(
    find: FindReplica, request: FetchRequest, *, prefer: Prefer = _nobody, space: ReadSpace | None = None
) -> list[Served]:
    """Answer a consumer once there are `min_bytes`, one read of a partition finds less than it has, or one fails.

    At the deadline it is answered in any case.

    Args:
        find: returns this broker's replica, whatever its role, for topic, partition and topic id.
        space: the answer's memory, which the caller releases. Without space, partitions have no data, and the answer
            comes soon. None: what is read is sent from files.
    """
    deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
    event, notifiers, crowded = asyncio.Event(), list[Notifier](), 0
    try:
        waits = await _listen(find, request, event, notifiers)
        while True:
            event.clear()
            most = request.max_bytes if space is None else space.take(request.max_bytes)
            results = await _read_all(find, request, most, prefer)
            enough = sum(len(one.data) for one in results) >= request.min_bytes
            urgent = any(one.has_more or _must_answer(one.result) for one in results)
            if enough or urgent or not waits:
                return results
            if space is not None:
                space.keep(0)
            if space is not None and not most:  # No event says that there is space again.
                crowded += 1
                if crowded > _CROWDED_LOOKS or asyncio.get_running_loop().time() >= deadline:
                    return results
                await asyncio.sleep(_CROWDED_S)
                continue
            if not await wait_until(event, deadline):
                return results
    finally:
        await _stop_listening(event, notifiers)


async def _listen(find: FindReplica, request: FetchRequest, event: asyncio.Event, notifiers: list[Notifier]) -> bool:
    """Add `event` to the partitions' notifiers; return False if a partition has an error, which is answered at once."""
    partitions = request.partitions
    if len(partitions) <= _TURN_PARTITIONS:
        return _listen_to(find, partitions, event, notifiers)
    for start in range(0, len(partitions), _TURN_PARTITIONS):
        async with _long_turn():
            if not _listen_to(find, partitions[start : start + _TURN_PARTITIONS], event, notifiers):
                return False
    return True


def _listen_to(
    find: FindReplica, partitions: Sequence[FetchPartition], event: asyncio.Event, notifiers: list[Notifier]
) -> bool:
    for wanted in partitions:
        try:
            notifier = find(wanted.topic, wanted.partition, wanted.topic_id).visible_notifier
        except RaftlogError:
            return False  # `_read` returns the error in the partition's result.
        notifier.add(event)
        notifiers.append(notifier)
    return True


async def _stop_listening(event: asyncio.Event, notifiers: list[Notifier]) -> None:
    """Remove `event` from `notifiers`; many in slices, because many fetches end at the same moment."""
    try:
        if len(notifiers) > _TURN_PARTITIONS:
            for start in range(0, len(notifiers), _TURN_PARTITIONS):
                async with _long_turn():
                    for notifier in notifiers[start : start + _TURN_PARTITIONS]:
                        notifier.remove(event)
            return
    except asyncio.CancelledError:
        for notifier in notifiers:
            notifier.remove(event)
        raise
    for notifier in notifiers:
        notifier.remove(event)


async def _read_all(find: FindReplica, request: FetchRequest, most: int, prefer: Prefer) -> list[Served]:
    results, left, partitions = list[Served](), most, iter(request.partitions)
    is_long = len(request.partitions) > _TURN_PARTITIONS

    def read_slice() -> None:
        nonlocal left
        turn = 0
        while turn < _TURN_BYTES and (wanted := next(partitions, None)) is not None:
            served = _read(find, wanted, left, prefer, request.isolation)
            left -= len(served.data)
            turn += max(len(served.data), served.batches * _BATCH_BYTES) + _TURN_BYTES // _TURN_PARTITIONS
            results.append(served)

    while len(results) < len(request.partitions):
        if results:
            await asyncio.sleep(0)  # Reading all partitions at once would block other requests.
        if is_long:
            async with _long_turn():
                read_slice()
        else:
            read_slice()
    return results


@asynccontextmanager
async def _long_turn() -> AsyncIterator[None]:
    """Run one slice of a long fetch; long fetches run one at a time, and other requests are served in between.

    One record may wake hundreds of long fetches. Running a slice of each in one loop iteration would block the loop.
    """
    async with _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        yield
        await asyncio.sleep(0)


def _read(find: FindReplica, wanted: FetchPartition, left: int, prefer: Prefer, isolation: Isolation) -> Served:
    try:
        replica = find(wanted.topic, wanted.partition, wanted.topic_id)
        preferred = prefer(replica, wanted.rack, wanted.offset) if wanted.rack else None
        if preferred is not None:
            named = FetchResult(topic=wanted.topic, partition=wanted.partition, preferred_read_replica=preferred)
            return Served(named)
        if (diverging := _diverging(replica, wanted)) is not None:
            return Served(FetchResult(topic=wanted.topic, partition=wanted.partition, diverging=diverging))
        max_bytes = min(wanted.max_bytes, max(0, left))
        read = replica.read(
            wanted.offset, max_bytes, any_replica=wanted.any_replica, isolation=isolation, check_crcs=wanted.check_crcs
        )
    except RaftlogError as error:
        return Served(
            FetchResult(topic=wanted.topic, partition=wanted.partition, error=WireError.of(error, current_request_id()))
        )
    data = read.data if left > 0 else b""
    result = FetchResult(
        topic=wanted.topic,
        partition=wanted.partition,
        length=len(data),
        high_watermark=read.high_watermark,
        log_start_offset=read.log_start_offset,
        leader_epoch=read.leader_epoch,
        last_stable_offset=read.last_stable_offset,
        aborted=read.aborted if data else (),
    )
    if not data:
        return Served(result)
    return Served(result, data, max(0, read.end_offset - wanted.offset), read.batches, read.has_more)


def _must_answer(result: FetchResult) -> bool:
    return result.error is not None or result.diverging is not None or result.preferred_read_replica >= 0


def _diverging(replica: Replica, wanted: FetchPartition) -> DivergingEpoch | None:
    """Return the diverging epoch if the consumer's last record is not in the leader's log (KIP-320); None if it agrees.

    Followers always return None: their logs may be behind.

    Raises:
        StaleRouteError: this replica does not lead, or the consumer has read from a later leader.
    """
    if wanted.any_replica or wanted.last_fetched_epoch == NO_LEADER_EPOCH:
        return None
    replica.require_leader()
    if wanted.last_fetched_epoch > replica.state.leader_epoch:
        require_same_epoch(replica.state.leader_epoch, wanted.last_fetched_epoch, replica.assignment.topic_partition)
    found = diverging_epoch(
        replica.log.epochs,
        log_start_offset=replica.log.log_start_offset,
        log_end_offset=replica.log.log_end_offset,
        fetch_offset=wanted.offset,
        last_fetched_epoch=wanted.last_fetched_epoch,
    )
    if found is None:
        return None
    epoch, end_offset = found
    if epoch == NO_LEADER_EPOCH:  # Every record here is of a later epoch, from `end_offset` on.
        if wanted.offset <= end_offset:
            return None  # Retention may have deleted what the consumer has read.
        epoch = wanted.last_fetched_epoch  # As Kafka answers: nothing is of that epoch.
    return DivergingEpoch(epoch=epoch, end_offset=end_offset)
