"""Writing the ends of transactions into their partitions: again and again, until each has its marker.

A marker goes out only once its decision is replicated, with the leader epoch of the shard that decided. Whoever
coordinates next does the same; partitions refuse what comes from an earlier epoch, and know a marker that they have.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

from raftlog.coordinator.runtime import CoordinatorRuntime, Decision
from raftlog.coordinator.transaction.core import TransactionCoordinator
from raftlog.coordinator.transaction.records import TransactionChanged
from raftlog.coordinator.transaction.state import Transactions
from raftlog.errors import ErrorCode, FencedError, RaftlogError
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
LOOK_S = 0.2
MAX_AT_ONCE = 256
"""Transactions that are ended at the same time; others wait."""
DECISION_TIMEOUT_MS = 10_000
MARKER_TIMEOUT_MS = 5_000
SETTLE_S = 5.0
"""A partition without a leader takes its marker later; the decision is safe all the same."""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.002, 0.1
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.02, 1.0


class MarkerWriter:
    """Runs beside the shards of one broker.

    Args:
        image: the newest metadata.
        catch_up: returns once this broker knows all metadata there was at the call.
        send: has a broker write markers; returns what became of each.
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
        self._hint = asyncio.Event()

    async def start(self) -> None:
        self._tasks.spawn(self._run(), name="look")

    async def close(self) -> None:
        await self._tasks.close()

    def hint(self) -> None:
        """Say that an end was decided."""
        self._hint.set()

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
            self._hint.clear()
            self._look()
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._hint.wait()
            except TimeoutError:
                continue

    def _look(self) -> None:
        self._working = {name: task for name, task in self._working.items() if not task.done()}
        for state in self._runtime.active.values():
            for name in state.ending:
                if len(self._working) >= MAX_AT_ONCE:
                    return
                if name not in self._working:
                    self._working[name] = self._tasks.spawn(self._finish(name), name=f"end {name}")

    async def _finish(self, name: str) -> None:
        """End one transaction, or leave it to whoever coordinates it now; what failed is begun anew by `_look`."""
        try:
            epoch = self._runtime.epoch_of(name)
            # Not before it is certain: a decision that a failover undid must not have gone out.
            ended = await self._runtime.decide(
                name, lambda state, _: Decision([], state.by_id.get(name)), timeout_ms=DECISION_TIMEOUT_MS
            )
            if ended is None or ended.marker_id < 0 or self._runtime.epoch_of(name) != epoch:
                return
            await self._write_all(ended, epoch)
            await self._runtime.decide(
                name,
                lambda state, now: self._coordinator.complete(state, now, ended),
                timeout_ms=DECISION_TIMEOUT_MS,
            )
            self.hint()
        except RaftlogError as error:
            _log.info("the end of transaction %s is not written yet: %s", name, error.message)
            await asyncio.sleep(LOOK_S)

    async def _write_all(self, ended: TransactionChanged, epoch: LeaderEpoch) -> None:
        marker = TransactionMarker(
            producer_id=ended.marker_id,
            producer_epoch=ended.marker_epoch,
            coordinator_epoch=epoch,
            committed=ended.phase == "committing",
        )
        left: list[Participant] = [*ended.partitions, *ended.groups]
        backoff_s = _FIRST_BACKOFF_S
        while left:
            if self._runtime.epoch_of(ended.transactional_id) != epoch:
                raise FencedError(f"{ended.transactional_id!r} is coordinated in another epoch now")
            left = await self._write(marker, left)
            if left:
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, _LAST_BACKOFF_S)

    async def _write(self, marker: TransactionMarker, participants: Iterable[Participant]) -> list[Participant]:
        """Write a marker where that is possible now; return where it was not."""
        image = self._image()
        by_leader = defaultdict[BrokerId, list[Participant]](list)
        left, unknown = list[Participant](), list[TransactionPartition]()
        for participant in participants:
            state = _state_of(image, participant)
            if state is None and not isinstance(participant, str):
                unknown.append(participant)
            elif state is not None and state.leader in image.brokers:
                by_leader[state.leader].append(participant)
            else:
                left.append(participant)
        refused = await asyncio.gather(*(self._write_at(leader, marker, of) for leader, of in by_leader.items()))
        left += [participant for participants in refused for participant in participants]
        return left + await self._not_gone(unknown)

    async def _write_at(
        self, leader: BrokerId, marker: TransactionMarker, participants: Sequence[Participant]
    ) -> list[Participant]:
        partitions = tuple(one for one in participants if not isinstance(one, str))
        groups = tuple(one for one in participants if isinstance(one, str))
        request = WriteMarkersRequest(marker=marker, partitions=partitions, groups=groups, timeout_ms=MARKER_TIMEOUT_MS)
        try:
            errors = await self._send(leader, request)
        except RaftlogError as error:
            _log.info("markers for broker %d: %s", leader, error.message)
            return list(participants)
        asked: list[Participant] = [*partitions, *groups]
        left = list[Participant]()
        for participant, refusal in zip(asked, errors, strict=True):
            if refusal is not None and not self._is_past(marker, participant, refusal):
                left.append(participant)
        return left

    @staticmethod
    def _is_past(marker: TransactionMarker, participant: Participant, error: WireError) -> bool:
        """Tell whether a participant has come to know of later things than this marker.

        Raises:
            FencedError: another coordinator has taken over.
        """
        if error.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED.value:
            raise FencedError(error.message, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        if error.code != ErrorCode.INVALID_PRODUCER_EPOCH.value:
            return False
        _log.warning("%s needs no marker of producer %d any more: %s", participant, marker.producer_id, error.message)
        return True

    async def _not_gone(self, unknown: list[TransactionPartition]) -> list[Participant]:
        """Return those whose topic was created a moment ago, rather than deleted."""
        if not unknown:
            return []
        await self._catch_up()
        image = self._image()
        return [one for one in unknown if image.partition(one.topic_id, one.partition) is not None]


def _state_of(image: MetadataImage, participant: Participant) -> PartitionState | None:
    """Return the partition that a marker goes to; for a group, that which its coordinator leads."""
    if not isinstance(participant, str):
        return image.partition(participant.topic_id, participant.partition)
    topic = image.topic(CONSUMER_OFFSETS)
    return topic.partitions[partition_for_key(participant.encode(), len(topic.partitions))] if topic else None
