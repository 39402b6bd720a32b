"""The broker's scrubber: verifies every replica on disk periodically, to find bit rot in records that are not read.

One log at a time, the least recently checked first, in slices in a worker thread, at a limited rate. Damage is repaired
from other replicas, like damage that a read finds (docs/adr/0017).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from raftlog.errors import RaftlogError
from raftlog.model import TopicIdPartition
from raftlog.partition.replica import Replica
from raftlog.partition.storage.scrub import ScrubState, SegmentScrub
from raftlog.partition.storage.segment import Segment
from raftlog.runtime import Clock, in_slices

_log = logging.getLogger(__name__)
LONGEST_LOOK_S = 60.0
"""Longest time between two searches for logs that are due."""
_LOOKS_PER_INTERVAL = 10
NEVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubSettings:
    """The broker's settings; see `BrokerConfig`."""

    interval_ms: int = NEVER
    bytes_per_second: int = 16 << 20


@dataclass(frozen=True, slots=True)
class ScrubProgress:
    """How much of the requested check is left."""

    replicas_left: int
    bytes_left: int


class Scrubber:
    """Verifies the logs of one broker until cancelled."""

    def __init__(self, settings: ScrubSettings, *, replicas: Callable[[], Iterable[Replica]], clock: Clock) -> None:
        self._settings = settings
        self._replicas = replicas
        self._clock = clock
        self._states: dict[TopicIdPartition, ScrubState] = {}
        self._requested: set[TopicIdPartition] = set()
        """Logs requested to be checked now."""
        self._retry_at_ms: dict[TopicIdPartition, int] = {}
        """Logs that could not be read, and the monotonic time (ms) before which they are not retried."""
        self._wanted = asyncio.Event()
        self._free_at = 0.0
        self.checked_bytes = 0
        self.found = 0
        """How many damaged places this scrubber has found."""
        self.failed = 0
        """How many checks ended because a log could not be read."""

    @property
    def longest_unchecked_ms(self) -> int:
        """Age of the oldest check among all logs, in ms."""
        now_ms = self._now_ms()
        return max((now_ms - state.finished_ms for state in self._states.values()), default=0)

    def ask(self, topics: Collection[str] = ()) -> None:
        """Request a check of the logs of some topics (none named: all) from their start."""
        for replica in self._replicas():
            key = replica.assignment.key
            wanted = not topics or replica.assignment.topic in topics
            if wanted and key not in self._requested and _can_check(replica):
                self._requested.add(key)
                if (state := self._states.get(key)) is not None:
                    state.checked_below = 0
        self._wanted.set()

    def progress(self) -> ScrubProgress:
        """Return how much of the requested check is left."""
        left = [
            replica for replica in self._replicas() if replica.assignment.key in self._requested and _is_left(replica)
        ]
        return ScrubProgress(len(left), sum(self._bytes_left(replica) for replica in left))

    def _bytes_left(self, replica: Replica) -> int:
        state = self._states.get(replica.assignment.key)
        below = state.checked_below if state is not None else 0
        return sum(segment.size for segment in replica.log.segments if segment.next_offset > below)

    async def run(self) -> None:
        """Check every log that is due, until cancelled."""
        interval_s = self._settings.interval_ms / 1000
        look_s = min(LONGEST_LOOK_S, interval_s / _LOOKS_PER_INTERVAL) if interval_s >= 0 else None
        while True:
            self._wanted.clear()
            if overdue := await self._overdue():
                for replica in overdue:
                    if _can_check(replica):
                        await self._check(replica)
                continue
            try:
                async with asyncio.timeout(look_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _overdue(self) -> list[Replica]:
        """Return the replicas whose check is due, the longest overdue first."""
        now_ms = self._now_ms()
        found = list[tuple[int, Replica]]()
        present = set[TopicIdPartition]()
        async for replica in in_slices(self._replicas()):
            key = replica.assignment.key
            present.add(key)
            if not _can_check(replica) or (self._settings.interval_ms == NEVER and key not in self._requested):
                continue
            if (state := self._states.get(key)) is None:
                state = await asyncio.to_thread(ScrubState, replica.log.folder, now_ms=now_ms)
                self._states[key] = state
                if key in self._requested:
                    state.checked_below = 0
            # A check that finished in the future: the clock was set back, so its age is unknown.
            forced = key in self._requested or state.finished_ms > now_ms
            due_ms = 0 if forced else state.finished_ms + self._settings.interval_ms
            if due_ms > now_ms or self._retry_at_ms.get(key, 0) > self._clock.monotonic_ms():
                continue
            found.append((due_ms, replica))
        self._states = {key: state for key, state in self._states.items() if key in present}
        self._requested &= present
        self._retry_at_ms = {
            key: until for key, until in self._retry_at_ms.items() if until > self._clock.monotonic_ms()
        }
        return [replica for _, replica in sorted(found, key=lambda each: each[0])]

    async def _check(self, replica: Replica) -> None:
        """Check the rest of a log, up to its present end."""
        key, state = replica.assignment.key, self._states[replica.assignment.key]
        end = replica.log.log_end_offset
        try:
            while (segment := _segment_after(replica, state)) is not None and segment.base_offset < end:
                if not await self._check_segment(replica, segment):
                    return  # The log is closed, or has failed.
                state.checked_below = segment.next_offset
                await asyncio.to_thread(state.save)
        except Exception as error:  # noqa: BLE001  (too little memory, or a bug: other logs are checked all the same)
            said = error if isinstance(error, RaftlogError | OSError) else repr(error)
            name = replica.assignment.topic_partition
            _log.warning("%s cannot be checked: %s", name, said, exc_info=said is not error)
            self.failed += 1
            self._retry_at_ms[key] = self._clock.monotonic_ms() + int(1000 * LONGEST_LOOK_S)
            self._requested.discard(key)
            return
        self._requested.discard(key)
        state.checked_below, state.finished_ms = 0, self._now_ms()
        if replica.log.failure is None:
            await asyncio.to_thread(state.save)

    async def _check_segment(self, replica: Replica, segment: Segment) -> bool:
        """Check all of a segment; return whether to go on with the next one."""
        cuts, work = segment.cuts, SegmentScrub(segment)
        while not work.done:
            failed: OSError | None = None
            try:
                count = await asyncio.to_thread(work.step)
            except OSError as error:
                count, failed = 0, error
            self.checked_bytes += count
            await self._throttle(count)
            if replica.log.failure is not None:
                return False
            if segment.cuts != cuts or segment not in replica.log.segments:
                return True  # Truncated, compacted or deleted: the next pass checks what is there now.
            if failed is not None:
                raise failed
        if work.problem:
            self.found += 1
            _log.warning("%s: the scrubber found damage", replica.assignment.topic_partition)
            replica.note_damage(work.offset, work.problem)
        return True

    async def _throttle(self, count: int) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(now, self._free_at) + count / self._settings.bytes_per_second
        await asyncio.sleep(self._free_at - now)

    def _now_ms(self) -> int:
        return self._clock.wall_us() // 1000


def _can_check(replica: Replica) -> bool:
    """Return whether a log can be checked now. A log under repair would be found damaged again."""
    return replica.log.failure is None and replica.damage is None and replica.log.size_bytes > 0


def _is_left(replica: Replica) -> bool:
    """Return whether a requested log will still be checked: now, or once it is repaired, unless it cannot be."""
    lost = replica.damage is not None and bool(replica.suspects) and all(replica.suspects.values())
    return replica.log.failure is None and replica.log.size_bytes > 0 and not lost


def _segment_after(replica: Replica, state: ScrubState) -> Segment | None:
    """Return the first segment that this pass has not checked, and whose records are not all deleted."""
    below = max(state.checked_below, replica.log.log_start_offset)
    return next((segment for segment in replica.log.segments if segment.next_offset > below), None)
