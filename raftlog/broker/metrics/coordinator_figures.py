"""The figures of the groups and transactions that a broker coordinates, gathered in slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping

from raftlog.coordinator.group.records import OffsetCommitted
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.transaction.state import Transactions
from raftlog.metrics import Page
from raftlog.metrics.page import OTHER
from raftlog.model import TopicPartition
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.runtime import in_slices

MOST_LAGS = 500
"""Series of lag, by group and topic; the others are added up as (other)."""
MOST_OFFSETS = 20_000
"""Series of committed offsets, with `?detail=partitions`."""
_SLICE = 32
_OFFSETS_SLICE = 256


async def show_groups(page: Page, states: Iterable[GroupsState], replicas: ReplicaManager, *, detail: bool) -> None:
    """Add the figures of groups to a page.

    Args:
        states: the active shards.
        detail: also each committed offset.
    """
    phases, members = Counter[str](), 0
    lags, unknown, shown = Counter[tuple[str, str]](), 0, 0
    for state in list(states):
        async for group in in_slices(state.groups.values(), _SLICE):
            phases[group.phase] += 1
            members += len(group.members)
        async for classic in in_slices(state.classic.values(), _SLICE):
            phases[classic.phase] += 1
            members += len(classic.members)
        known = state.groups.keys() | state.classic.keys()
        phases["Empty"] += sum(group_id not in known for group_id in state.offsets)
        async for committed in _committed(state.offsets):
            group_id, topic, partition = committed.group_id, committed.topic, committed.partition
            replica = replicas.find(topic, partition)
            if replica is None or committed.topic_id not in ("", replica.assignment.topic_id):
                unknown += 1
            else:
                lags[group_id, topic] += max(0, replica.high_watermark - committed.offset)
            if detail and shown < MOST_OFFSETS:
                shown += 1
                page.add(
                    "raftlog_group_committed_offset", committed.offset, group=group_id, topic=topic, partition=partition
                )
    for phase, count in sorted(phases.items()):
        page.add("raftlog_groups", count, state=phase)
    page.add("raftlog_group_members", members)
    page.add("raftlog_group_partitions_without_lag", unknown)
    _show_lags(page, lags)


async def _committed(offsets: Mapping[str, Mapping[TopicPartition, OffsetCommitted]]) -> AsyncIterator[OffsetCommitted]:
    for group_id in list(offsets):
        async for committed in in_slices(offsets.get(group_id, {}).values(), _OFFSETS_SLICE):
            yield committed


def _show_lags(page: Page, lags: Counter[tuple[str, str]]) -> None:
    largest = lags.most_common(MOST_LAGS)
    for (group_id, topic), lag in largest:
        page.add("raftlog_group_lag_records", lag, group=group_id, topic=topic)
    if len(lags) > MOST_LAGS:
        rest = lags.total() - sum(lag for _, lag in largest)
        page.add("raftlog_group_lag_records", rest, group=OTHER, topic=OTHER)


async def show_transactions(page: Page, states: Iterable[Transactions], now_ms: int) -> None:
    """Add the figures of transactions to a page.

    Args:
        states: the active shards.
        now_ms: since 1970.
    """
    ongoing, ending, oldest_ms = 0, 0, now_ms
    for state in list(states):
        ongoing += len(state.ongoing)
        ending += len(state.ending)
        async for transactional_id in in_slices(state.ongoing, _OFFSETS_SLICE):
            transaction = state.by_id.get(transactional_id)
            if transaction is not None and transaction.began_ms >= 0:
                oldest_ms = min(oldest_ms, transaction.began_ms)
    page.add("raftlog_transactions", ongoing, state="ongoing")
    page.add("raftlog_transactions", ending, state="ending")
    page.add("raftlog_transaction_oldest_seconds", (now_ms - oldest_ms) / 1000)
