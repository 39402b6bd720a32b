"""A broker's figures of replicas and groups: faults, limits of series, lag."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from raftlog.broker.metrics import coordinator_figures, replica_figures
from raftlog.broker.metrics.coordinator_figures import show_groups, show_transactions
from raftlog.broker.metrics.replica_figures import show_replicas
from raftlog.broker.metrics.traffic import MOST_TOPICS, BrokerMetrics
from raftlog.coordinator.group.records import OffsetCommitted
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.transaction.records import TransactionChanged
from raftlog.coordinator.transaction.state import Transactions
from raftlog.errors import DamagedDataError, DiskFullError, StorageError
from raftlog.metrics import TABLE, Page
from raftlog.model import TopicPartition
from raftlog.partition.metrics import PartitionMetrics


def values(page: Page) -> dict[str, float]:
    return {
        sample.name + "".join(f"/{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.text())
        for sample in family.samples
    }


def replica(topic: str, *, size: int = 10, **more: Any) -> Any:
    log = SimpleNamespace(size_bytes=size, segment_count=1, refusal=more.get("refusal"), log_end_offset=9)
    return SimpleNamespace(
        assignment=SimpleNamespace(topic=topic, topic_partition=(topic, 0), topic_id="id"),
        log=log,
        core=None,
        waiting_appends=2,
        high_watermark=more.get("high_watermark", 8),
    )


def manager(replicas: Iterable[Any], **more: Any) -> Any:
    class Repairs(dict):  # type: ignore[type-arg]
        repaired_batches, lost_batches = 5, 6

    by_topic = {one.assignment.topic: one for one in replicas}
    return SimpleNamespace(
        replicas=list(by_topic.values()),
        find=lambda topic, _: by_topic.get(topic),
        offline=more.get("offline", {}),
        quarantined=1,
        damage={1: 1, 2: 2},
        repairs=Repairs({1: 1, 2: 2, 3: 3}),
        scrubber=SimpleNamespace(checked_bytes=7, found=8, longest_unchecked_ms=9_500),
        isr=SimpleNamespace(shrinks=1, expands=2),
        followers=SimpleNamespace(session_count=1, session_partitions=2, under_way=3),
        open_files=4,
    )


async def test_faults_are_shown_with_their_reasons():
    offline = {1: DamagedDataError("x"), 2: StorageError("y"), 3: DamagedDataError("z")}
    page = Page(TABLE)
    full = replica("full", refusal=DiskFullError("no space"))
    await show_replicas(page, manager([full], offline=offline), PartitionMetrics(), detail=False)
    found = values(page)

    assert found["raftlog_offline_replicas/damaged"] == 2
    assert found[f"raftlog_offline_replicas/{StorageError('y').code.value}"] == 1
    assert found["raftlog_refusing_replicas/INSUFFICIENT_STORAGE"] == 1
    assert found["raftlog_quarantined_logs"] == 1
    assert found["raftlog_corrupt_replicas"] == 2
    assert found["raftlog_repairing_replicas"] == 3
    assert found["raftlog_repaired_batches_total"] == 5
    assert found["raftlog_lost_batches"] == 6
    assert found["raftlog_scrub_damage_found_total"] == 8
    assert found["raftlog_scrub_longest_unchecked_seconds"] == 9.5
    assert found["raftlog_parked_requests/produce"] == 2


async def test_the_largest_topics_have_series_and_the_rest_is_added_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replica_figures, "MOST_TOPICS", 2)
    page = Page(TABLE)
    replicas = [replica(f"t{number}", size=number) for number in (1, 5, 3, 4)]
    await show_replicas(page, manager(replicas), PartitionMetrics(), detail=False)

    assert {name: value for name, value in values(page).items() if "log_bytes" in name} == {
        "raftlog_log_bytes/t5": 5,
        "raftlog_log_bytes/t4": 4,
        "raftlog_log_bytes/(other)": 4,
    }


def test_a_client_that_creates_topics_does_not_create_series_without_end():
    metrics = BrokerMetrics()
    for number in range(MOST_TOPICS + 50):
        metrics.appended(f"t{number}", records=2, size=3)
        metrics.sent(f"t{number}", records=1, size=1)
    page = Page(TABLE)
    metrics.show(page)
    found = values(page)

    assert sum(name.startswith("raftlog_topic_records_in_total/") for name in found) == MOST_TOPICS + 1
    assert found["raftlog_topic_records_in_total/(other)"] == 100
    assert found["raftlog_records_in_total"] == 2 * (MOST_TOPICS + 50)
    assert found["raftlog_bytes_in_total"] == 3 * (MOST_TOPICS + 50)
    assert found["raftlog_records_out_total"] == MOST_TOPICS + 50


def test_totals_never_decrease_when_topics_are_deleted():
    metrics = BrokerMetrics()
    metrics.appended("old", records=2, size=20)
    metrics.appended("kept", records=1, size=10)
    metrics.forget_deleted({"kept": "id"})
    metrics.appended("new", records=4, size=40)
    page = Page(TABLE)
    metrics.show(page)
    found = values(page)

    assert "raftlog_topic_records_in_total/old" not in found
    assert found["raftlog_records_in_total"] == 7
    assert found["raftlog_bytes_in_total"] == 70


def groups(offsets: dict[str, dict[TopicPartition, int]]) -> GroupsState:
    state = GroupsState()
    for group, committed in offsets.items():
        for (topic, partition), offset in committed.items():
            state.replay(
                OffsetCommitted(group_id=group, topic=topic, partition=partition, offset=offset, committed_at_ms=0)
            )
    return state


async def test_lag_counts_partitions_with_a_replica_here():
    state = groups({"a": {TopicPartition("t", 0): 3, TopicPartition("t", 1): 8, TopicPartition("far", 0): 1}})
    page = Page(TABLE)
    await show_groups(page, [state], manager([replica("t", high_watermark=8)]), detail=True)
    found = values(page)

    assert found["raftlog_group_lag_records/a/t"] == 5
    assert found["raftlog_group_partitions_without_lag"] == 1
    assert found["raftlog_groups/Empty"] == 1
    assert found["raftlog_group_committed_offset/a/far/0"] == 1


async def test_offsets_of_a_topic_that_was_deleted_and_recreated_have_no_lag():
    state, page = GroupsState(), Page(TABLE)
    state.replay(OffsetCommitted(group_id="a", topic="t", partition=0, offset=3, topic_id="old", committed_at_ms=0))
    await show_groups(page, [state], manager([replica("t")]), detail=False)
    found = values(page)

    assert "raftlog_group_lag_records/a/t" not in found
    assert found["raftlog_group_partitions_without_lag"] == 1


async def test_an_offset_beyond_the_high_watermark_is_no_negative_lag():
    page = Page(TABLE)
    state = groups({"a": {TopicPartition("t", 0): 50}})
    await show_groups(page, [state], manager([replica("t", high_watermark=8)]), detail=False)

    assert values(page)["raftlog_group_lag_records/a/t"] == 0


async def test_groups_beyond_the_limit_are_added_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(coordinator_figures, "MOST_LAGS", 2)
    monkeypatch.setattr(coordinator_figures, "MOST_OFFSETS", 2)
    state = groups({f"g{number}": {TopicPartition("t", 0): number} for number in range(4)})
    page = Page(TABLE)
    await show_groups(page, [state], manager([replica("t", high_watermark=8)]), detail=True)
    found = {name: value for name, value in values(page).items() if "lag_records" in name or "committed" in name}

    assert found == {
        "raftlog_group_lag_records/g0/t": 8,
        "raftlog_group_lag_records/g1/t": 7,
        "raftlog_group_lag_records/(other)/(other)": 11,
        "raftlog_group_committed_offset/g0/t/0": 0,
        "raftlog_group_committed_offset/g1/t/0": 1,
    }


async def test_the_oldest_transaction_counts():
    state = Transactions()
    for name, phase, began in (("a", "ongoing", 7_000), ("b", "ongoing", 2_000), ("c", "committing", 500)):
        state.apply(
            TransactionChanged(
                transactional_id=name,
                producer_id=1,
                producer_epoch=0,
                phase=phase,  # type: ignore[arg-type]
                timeout_ms=1,
                began_ms=began,
                changed_ms=0,
            )
        )
    page, empty = Page(TABLE), Page(TABLE)
    await show_transactions(page, [state], now_ms=10_000)
    await show_transactions(empty, [], now_ms=10_000)

    assert values(page) == {
        "raftlog_transactions/ongoing": 2,
        "raftlog_transactions/ending": 1,
        "raftlog_transaction_oldest_seconds": 8,
    }
    assert values(empty)["raftlog_transaction_oldest_seconds"] == 0
