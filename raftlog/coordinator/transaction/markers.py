"""Writes the markers of ended transactions to their partitions and groups, with retries, until each has its own.

- A marker is sent only after its decision is replicated, with the leader epoch of the shard that decided.
- The next coordinator writes the remaining markers again. Partitions refuse markers of earlier coordinator epochs, and
  accept a repeated one without effect.
- A transaction whose first attempt failed waits apart from new ones. So partitions without a leader do not stop the
  transactions of others, however many have such a partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from raftlog.coordinator.runtime import CoordinatorRuntime, Decision
from raftlog.coordinator.transaction.core import TransactionCoordinator
from raftlog.coordinator.transaction.records import TransactionChanged
from raftlog.coordinator.transaction.state import Transactions
from raftlog.errors import ErrorCode, FencedError, RaftlogError, StaleRouteError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import CONSUMER_OFFSETS, BrokerId, LeaderEpoch, PartitionState
from raftlog.record.partitioner import partition_for_key
from raftlog.runtime import Tasks
from raftlog.wire.errors import WireError
from raftlog.wire.transactions import TransactionMarker, TransactionPartition, WriteMarkersRequest, set_of

_log = logging.getLogger(__name__)
Send = Callable[[BrokerId, WriteMarkersRequest], Awaitable[Sequence[WireError | None]]]
Participant: TypeAlias = TransactionPartition | str
"""A partition, or a group."""
POLL_S = 0.2
MAX_AT_ONCE = 256
"""New ends that are written concurrently, and as many that are tried again; others wait."""
RETRIES_PER_S = 1_000
"""Attempts of all transactions whose partitions do not take their markers."""
_LOOKS_PER_S, _FREE_LOOKS = 1_000_000, 1_000
DECISION_TIMEOUT_MS = 10_000
MARKER_TIMEOUT_MS = 5_000
SETTLE_S = 5.0
"""A partition without a leader takes its marker later; the decision is safe all the same."""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.002, 0.1
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.02, 1.0


@dataclass(slots=True, kw_only=True)
class _End:
    """The end of one transaction, as far as it is written."""

    name: str
    epoch: LeaderEpoch
    decided: TransactionChanged | None = None
    """None until the decision is known to be replicated."""
    remaining: list[Participant] = field(default_factory=list)


class MarkerWriter:
    """Ends the transactions of one broker's active shards.

    Args:
        image: returns the newest metadata.
        catch_up: returns once this broker has applied all metadata that was committed before the call.
        send: sends markers to a broker; returns an error or None for each.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[Transactions],
        coordinator: TransactionCoordinator,
        *,
        image: Callable[[], MetadataImage],
        catch_up: Callable[[], Awaitable[None]],
        send: Send,
    ) -> None:
        self._runtime = runtime
        self._coordinator = coordinator
        self._image = image
        self._catch_up = catch_up
        self._send = send
        self._tasks = Tasks("transaction markers")
        self._working: dict[str, asyncio.Task[None]] = {}
        self._apart = set[str]()
        """Those of `_working` that failed once."""
        self._retries = asyncio.Semaphore(MAX_AT_ONCE)
        self._wake = asyncio.Event()

    async def start(self) -> None:
        self._tasks.keep(self._run, name="look")

    async def close(self) -> None:
        await self._tasks.close()

    def wake(self) -> None:
        """Look for ended transactions now: an end was decided."""
        self._wake.set()

    async def settled(self, set_id: str) -> None:
        """Return once all ends that were decided for a set are in their partitions, or after `SETTLE_S`."""
        pause_s = _FIRST_PAUSE_S
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                while self._is_ending(set_id):
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    def _is_ending(self, set_id: str) -> bool:
        return any(set_of(name) == set_id for state in self._runtime.active.values() for name in state.ending)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if (looks := self._start_pending()) > _FREE_LOOKS:
                await asyncio.sleep(looks / _LOOKS_PER_S)
            try:
                async with asyncio.timeout(POLL_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _start_pending(self) -> int:
        """Start transactions that have ended, oldest first; return how many were looked at."""
        looks = 0
        for state in self._runtime.active.values():
            for name in state.ending:
                if len(self._working) - len(self._apart) >= MAX_AT_ONCE:
                    return looks
                looks += 1
                if name not in self._working:
                    self._working[name] = self._tasks.spawn(self._complete(name), name=f"end {name}")
        return looks

    async def _complete(self, name: str) -> None:
        """Write one transaction's markers, in as many attempts as it takes."""
        backoff_s = _FIRST_BACKOFF_S
        try:
            end = _End(name=name, epoch=self._runtime.epoch_of(name))
            done = await self._attempt(end)
            while not done:
                self._apart.add(name)
                self.wake()
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, max(_LAST_BACKOFF_S, len(self._apart) / RETRIES_PER_S))
                async with self._retries:
                    done = self._runtime.epoch_of(name) != end.epoch or await self._attempt(end)
        except StaleRouteError:
            _log.info("the end of transaction %s is left to its next coordinator", name)
        else:
            self.wake()
        finally:
            self._apart.discard(name)
            del self._working[name]

    async def _attempt(self, end: _End) -> bool:
        """Write an end to the participants that still need it; return whether it is complete."""
        try:
            decided = end.decided or await self._read(end)
            if decided is None:
                return True
            end.remaining = await self._write(_marker(decided, end.epoch), end.remaining)
            if not end.remaining:
                await self._runtime.decide(
                    end.name,
                    lambda state, now: self._coordinator.complete(state, now, decided),
                    timeout_ms=DECISION_TIMEOUT_MS,
                )
        except RaftlogError as error:
            _log.info("cannot write the end of transaction %s yet: %s", end.name, error.message)
            return False
        return not end.remaining

    async def _read(self, end: _End) -> TransactionChanged | None:
        """Read an end through the log: a decision that a failover could undo must not be sent."""
        decided = await self._runtime.decide(
            end.name, lambda state, _: Decision([], state.by_id.get(end.name)), timeout_ms=DECISION_TIMEOUT_MS
        )
        if decided is None or decided.marker_id < 0 or self._runtime.epoch_of(end.name) != end.epoch:
            return None
        end.decided, end.remaining = decided, [*decided.partitions, *decided.groups]
        return decided

    async def _write(self, marker: TransactionMarker, participants: Iterable[Participant]) -> list[Participant]:
        """Write a marker to participants with a leader; return the participants that still need it."""
        image = self._image()
        by_leader = defaultdict[BrokerId, list[Participant]](list)
        remaining, unknown = list[Participant](), list[TransactionPartition]()
        for participant in participants:
            state = _partition_of(image, participant)
            if state is None and not isinstance(participant, str):
                unknown.append(participant)
            elif state is not None and state.leader in image.brokers:
                by_leader[state.leader].append(participant)
            else:
                remaining.append(participant)
        refused = await asyncio.gather(*(self._write_at(leader, marker, of) for leader, of in by_leader.items()))
        remaining += [participant for participants in refused for participant in participants]
        return remaining + await self._existing(unknown)

    async def _write_at(
        self, leader: BrokerId, marker: TransactionMarker, participants: Sequence[Participant]
    ) -> list[Participant]:
        partitions = tuple(partition for partition in participants if not isinstance(partition, str))
        groups = tuple(group for group in participants if isinstance(group, str))
        request = WriteMarkersRequest(marker=marker, partitions=partitions, groups=groups, timeout_ms=MARKER_TIMEOUT_MS)
        try:
            errors = await self._send(leader, request)
        except RaftlogError as error:
            _log.info("cannot send markers to broker %d: %s", leader, error.message)
            return list(participants)
        requested: list[Participant] = [*partitions, *groups]
        remaining = list[Participant]()
        for participant, refusal in zip(requested, errors, strict=True):
            if refusal is not None and not self._is_obsolete(marker, participant, refusal):
                remaining.append(participant)
        return remaining

    @staticmethod
    def _is_obsolete(marker: TransactionMarker, participant: Participant, error: WireError) -> bool:
        """Return whether a participant has seen a later producer epoch, so that it needs no marker of this one.

        Raises:
            FencedError: another coordinator has taken over.
        """
        if error.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED.value:
            raise FencedError(error.message, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        if error.code != ErrorCode.INVALID_PRODUCER_EPOCH.value:
            return False
        _log.warning("%s needs no marker of producer %d any more: %s", participant, marker.producer_id, error.message)
        return True

    async def _existing(self, unknown: list[TransactionPartition]) -> list[Participant]:
        """Return the partitions that exist in newer metadata; the others' topics were deleted."""
        if not unknown:
            return []
        await self._catch_up()
        image = self._image()
        return [
            partition for partition in unknown if image.partition(partition.topic_id, partition.partition) is not None
        ]


def _marker(decided: TransactionChanged, epoch: LeaderEpoch) -> TransactionMarker:
    return TransactionMarker(
        producer_id=decided.marker_id,
        producer_epoch=decided.marker_epoch,
        coordinator_epoch=epoch,
        committed=decided.phase == "committing",
    )


def _partition_of(image: MetadataImage, participant: Participant) -> PartitionState | None:
    """Return the partition that a marker is written to; for a group, that of its coordinator."""
    if not isinstance(participant, str):
        return image.partition(participant.topic_id, participant.partition)
    topic = image.topic(CONSUMER_OFFSETS)
    return topic.partitions[partition_for_key(participant.encode(), len(topic.partitions))] if topic else None
