"""The group coordinator service of a broker: its shards, and heartbeats that are held until a change."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from raftlog.broker.classic_groups import ClassicGroups
from raftlog.broker.decisions import decide_all, decide_each, parts_of_commit, parts_of_deletion
from raftlog.broker.image_topics import ImageTopics
from raftlog.broker.paging import ALL, Names, Wanted, names_of
from raftlog.config import GroupConfig
from raftlog.coordinator.group.administration import decide_deletion, decide_description, group_ids, listing_of
from raftlog.coordinator.group.coordinator import GroupCoordinator
from raftlog.coordinator.group.membership import decide_heartbeat, has_changes, require_counts
from raftlog.coordinator.group.offsets import (
    decide_commit,
    decide_end_of_transaction,
    decide_fetch,
    decide_offset_deletion,
    decide_transactional_commit,
)
from raftlog.coordinator.group.records import TargetEpochChanged
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.runtime import CoordinatorRuntime, Decision, Now
from raftlog.errors import ErrorCode, RetriableError, TransactionAbortedError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import CONSUMER_OFFSETS, BrokerId, ProducerEpoch, ProducerId, TopicPartition
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.partition.waiters import Notifier, listening, wait_until
from raftlog.runtime import Clock, in_slices
from raftlog.serving.workers import in_worker
from raftlog.wire.groups import (
    GroupDescription,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    GroupListing,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetResults,
    count_of,
    flat,
)
from raftlog.wire.transactions import JoinTransactionRequest, TransactionMarker, TransactionOffsetsBody

_FEW = 1_000
"""So many partitions are handled on the event loop: each takes up to 1 us."""


class JoinsTransactions(Protocol):
    """Adds partitions and groups to transactions at their coordinators."""

    async def join_at_coordinator(self, request: JoinTransactionRequest, *, deadline_ms: int) -> object:
        """Add them within `deadline_ms`; raise if the coordinator refused, or did not answer."""
        ...


@dataclass(slots=True, eq=False)
class _PendingJoin:
    """A transaction that is being joined: the request to its coordinator is under way."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    ended: bool = False

    def is_of(self, producer_id: ProducerId, last_epoch: ProducerEpoch) -> bool:
        return self.producer_id == producer_id and self.producer_epoch <= last_epoch


class GroupService:
    """Serves the members and administrators of the groups that this broker coordinates.

    Args:
        max_parked: how many heartbeats may be held at once; further ones are answered at once.
        max_parked_members: how many requests of members of classic groups may wait at once; further ones are refused.

    Every method raises `StaleRouteError` NOT_COORDINATOR for other groups, and the errors of `Shard.decide`.
    """

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        config: GroupConfig,
        replicas: ReplicaManager,
        clock: Clock,
        max_parked: int,
        max_parked_members: int,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._config = config
        self._topics = ImageTopics(MetadataImage())
        self._max_parked = max_parked
        self._pending_joins: list[_PendingJoin] = []
        self.parked = 0
        """The number of held heartbeats."""
        self.rebalances = 0
        """Assignments that were computed here."""
        self._partitions = 0
        self._updates: dict[str, Notifier] = defaultdict(Notifier)
        """The groups with held heartbeats."""
        self._waiting: dict[str, int] = defaultdict(int)
        self.runtime: CoordinatorRuntime[GroupsState] = CoordinatorRuntime(
            GroupCoordinator(config, topics=lambda: self._topics, on_changed=self._notify),
            topic=CONSUMER_OFFSETS,
            partitions=lambda: self._partitions,
            replicas=replicas,
            clock=clock,
        )
        self.classic = ClassicGroups(self.runtime, config, topics=lambda: self._topics, max_parked=max_parked_members)
        """Serves the members of groups of Kafka's classic protocol."""

    def know_topics(self, image: MetadataImage) -> None:
        """Decide with newer topics from now on.

        A group's earlier coordinator has assigned them, perhaps, and this one may lead before every log is open.
        """
        self._topics = self._topics.of(image)

    def on_image(self, image: MetadataImage) -> None:
        """Apply newer metadata: coordinated partitions and subscribed topics may have changed."""
        topic = image.topic(CONSUMER_OFFSETS)
        self.know_topics(image)
        self._partitions = len(topic.partitions) if topic else 0
        self.runtime.update_shards()
        for pulse in self._updates.values():
            pulse.fire()
        self.classic.wake_all()

    async def heartbeat(
        self, group_id: str, request: GroupHeartbeatRequest, *, client_host: str, timeout_ms: int
    ) -> GroupHeartbeatResponse:
        """Answer a member's heartbeat, at the latest after `max_wait_ms`; earlier if its assignment changes."""
        owned = await _owned(request)
        loop = asyncio.get_running_loop()
        wait_ms = min(request.max_wait_ms, self._config.heartbeat_interval_ms, timeout_ms)
        if self.parked >= self._max_parked:
            wait_ms = 0  # Idle members must not exclude other requests. They send again after the interval.
        deadline = loop.time() + wait_ms / 1000
        with listening([self._subscribe(group_id)]) as event:
            try:
                while True:
                    event.clear()
                    await self._find_topics(group_id, request)
                    decide = partial(self._decide_heartbeat, group_id, request, client_host, owned)
                    response = await self.runtime.decide(group_id, decide, timeout_ms=timeout_ms)
                    if has_changes(request, owned, response) or request.member_epoch <= 0:
                        return response
                    if not await wait_until(event, deadline):
                        return response
            finally:
                self._unsubscribe(group_id)

    async def _find_topics(self, group_id: str, request: GroupHeartbeatRequest) -> None:
        """Find the topics of the group's patterns in slices, if the decision about a heartbeat may need them.

        Raises:
            InvalidRequestError: the request's pattern is none.
        """
        if request.pattern:
            await self._topics.patterns.find(request.pattern)
        state = self.runtime.state_of(group_id)
        group = None if state is None else state.groups.get(group_id)
        if state is None or group is None:
            return
        is_same = request.member_epoch > 0 and not request.pattern and request.topics is None
        if not is_same or state.topics_version.get(group_id) != self._topics.version:
            for pattern in sorted({member.pattern for member in group.members.values() if member.pattern}):
                await self._topics.patterns.find(pattern)

    async def commit(
        self, group_id: str, request: OffsetCommitRequest, *, timeout_ms: int, instance_id: str | None = None
    ) -> OffsetResults:
        """Commit offsets; return once they are replicated. Errors as `decide_commit`.

        Many are committed by several decisions. After an error the first of them may be committed.

        Args:
            instance_id: of a static member of a classic group.
        """

        def decided(part: OffsetCommitRequest, state: GroupsState, now: Now) -> Decision[OffsetResults]:
            return decide_commit(
                state, now, group_id, part, topics=self._topics, settings=self._config, instance_id=instance_id
            )

        return await decide_each(self.runtime, group_id, parts_of_commit(request), decided, timeout_ms)

    async def commit_in_transaction(
        self,
        transactional_id: str,
        body: TransactionOffsetsBody,
        *,
        transactions: JoinsTransactions,
        timeout_ms: int,
        instance_id: str | None = None,
    ) -> OffsetResults:
        """Store pending offsets of a transaction, after the group joined it at the transaction's coordinator.

        A transaction that ends while the join is under way must not leave pending offsets without an end (KIP-890).

        Raises:
            FencedError, InvalidRequestError, RetriableError: the transaction's coordinator refused; nothing was stored.
            TransactionAbortedError: the transaction ended meanwhile.
        """
        join = JoinTransactionRequest(
            transactional_id=transactional_id,
            producer_id=body.producer_id,
            producer_epoch=body.producer_epoch,
            groups=(body.group_id,),
        )
        commit = OffsetCommitRequest(offsets=body.offsets, member_id=body.member_id, member_epoch=body.member_epoch)
        epoch = self.runtime.epoch_of(body.group_id)  # Raises before the join if this broker is not the coordinator.
        pending = _PendingJoin(body.producer_id, body.producer_epoch)
        self._pending_joins.append(pending)
        try:
            await transactions.join_at_coordinator(join, deadline_ms=timeout_ms)
            if self.runtime.epoch_of(body.group_id) != epoch:
                pending.ended = True  # Another broker coordinated meanwhile, and may have processed the end.
            store = partial(self._store_pending, body.group_id, instance_id, pending)
            return await decide_each(self.runtime, body.group_id, parts_of_commit(commit), store, timeout_ms)
        finally:
            self._pending_joins.remove(pending)

    def _store_pending(
        self,
        group_id: str,
        instance_id: str | None,
        pending: _PendingJoin,
        commit: OffsetCommitRequest,
        state: GroupsState,
        now: Now,
    ) -> Decision[OffsetResults]:
        if pending.ended:
            raise TransactionAbortedError("the transaction ended while the group joined it; nothing was stored")
        return decide_transactional_commit(
            state,
            now,
            group_id,
            commit,
            producer_id=pending.producer_id,
            producer_epoch=pending.producer_epoch,
            topics=self._topics,
            settings=self._config,
            instance_id=instance_id,
        )

    async def end_transaction(self, group_id: str, marker: TransactionMarker, timeout_ms: int) -> None:
        """Commit or drop a transaction's pending offsets. The marker's epoch is the transaction's plus one."""

        def end(state: GroupsState, now: Now) -> Decision[int]:
            epoch = marker.producer_epoch - 1
            for pending in self._pending_joins:
                pending.ended = pending.ended or pending.is_of(marker.producer_id, epoch)
            return decide_end_of_transaction(
                state, now, producer_id=marker.producer_id, producer_epoch=epoch, commit=marker.committed
            )

        await decide_all(self.runtime, group_id, end, timeout_ms)

    async def fetch_offsets(
        self, group_id: str, request: OffsetFetchRequest, *, timeout_ms: int
    ) -> OffsetFetchResponse:
        """Return committed offsets, as far as they are replicated."""
        found = await self.runtime.decide(
            group_id, lambda state, now: decide_fetch(state, now, group_id, request), timeout_ms=timeout_ms
        )
        described = [one.described(self._topics) async for one in in_slices(found, 256)]
        return OffsetFetchResponse(offsets=tuple(described))

    async def delete_offsets(self, group_id: str, request: OffsetDeleteRequest, *, timeout_ms: int) -> OffsetResults:
        """Delete committed offsets. After an error some of them may be deleted."""

        def decided(part: OffsetDeleteRequest, state: GroupsState, now: Now) -> Decision[OffsetResults]:
            return decide_offset_deletion(state, now, group_id, part)

        return await decide_each(self.runtime, group_id, parts_of_deletion(request), decided, timeout_ms)

    async def describe(self, group_id: str, *, timeout_ms: int) -> GroupDescription:
        """Describe one group."""
        return await self.runtime.decide(
            group_id,
            lambda state, now: decide_description(state, now, group_id, self._broker_id),
            timeout_ms=timeout_ms,
        )

    async def delete(self, group_id: str, *, timeout_ms: int) -> None:
        """Delete a group without members. After an error some of its offsets may be deleted."""
        await decide_all(self.runtime, group_id, lambda state, now: decide_deletion(state, now, group_id), timeout_ms)

    async def listed(
        self, wanted: Wanted = ALL, sees: Callable[[str], bool] = lambda _: True
    ) -> tuple[list[GroupListing], Names]:
        """Return a page of the groups that this broker coordinates, and their ids.

        Args:
            sees: whether the sender may know of a group.

        Raises:
            RetriableError: COORDINATOR_LOAD_IN_PROGRESS, a shard is still loading.
        """
        self.runtime.update_shards()
        if self.runtime.loading:
            raise RetriableError("this broker is still loading groups", code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        shard_of: dict[str, GroupsState] = {}
        for state in self.runtime.active.values():
            shard_of |= dict.fromkeys(group_ids(state), state)
            await asyncio.sleep(0)
        page = await names_of(shard_of, wanted, sees)
        listed = [listing_of(shard_of[name], name, self._broker_id) async for name in in_slices(page.shown, 256)]
        if wanted.is_page:
            listed = [replace(one, lag_records=await self._lag(shard_of[one.group_id], one.group_id)) for one in listed]
        return listed, page

    async def _lag(self, state: GroupsState, group_id: str) -> int:
        """Return how many records a group has still to read; -1: this broker has no replica of a partition."""
        lag = 0
        async for committed in in_slices(state.offsets.get(group_id, {}).values(), 256):
            replica = self._replicas.find(committed.topic, committed.partition)
            if replica is None or committed.topic_id not in ("", replica.assignment.topic_id):
                return -1
            lag += max(0, replica.high_watermark - committed.offset)
        return lag

    def _decide_heartbeat(
        self,
        group_id: str,
        request: GroupHeartbeatRequest,
        client_host: str,
        owned: frozenset[TopicPartition] | None,
        state: GroupsState,
        now: Now,
    ) -> Decision[GroupHeartbeatResponse]:
        decision = decide_heartbeat(
            state,
            now,
            group_id,
            request,
            topics=self._topics,
            settings=self._config,
            client_host=client_host,
            owned=owned,
        )
        self.rebalances += sum(isinstance(record, TargetEpochChanged) for record in decision.records)
        return decision

    def _subscribe(self, group_id: str) -> Notifier:
        self.parked += 1
        self._waiting[group_id] += 1
        return self._updates[group_id]

    def _unsubscribe(self, group_id: str) -> None:
        self.parked -= 1
        self._waiting[group_id] -= 1
        if not self._waiting[group_id]:
            del self._waiting[group_id], self._updates[group_id]

    def _notify(self, group_id: str) -> None:
        if group_id in self._updates:
            self._updates[group_id].fire()
        self.classic.wake(group_id)


async def _owned(request: GroupHeartbeatRequest) -> frozenset[TopicPartition] | None:
    """Return the partitions that a member reports; None: it reports none.

    Raises:
        InvalidRequestError: there are too many.
    """
    require_counts(request)
    if request.owned is None:
        return None
    return flat(request.owned) if count_of(request.owned) <= _FEW else await in_worker(flat, request.owned)
