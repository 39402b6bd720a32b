"""Figures of controllers: raftlog_quorum_waiting_decisions, raftlog_unclean_elections_total, elections, files."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.metrics import QuorumMetrics, show_cluster, show_counters
from raftlog.metadata_quorum.records import ChangePartition
from raftlog.metrics import TABLE, Page
from raftlog.model import NO_LEADER, PartitionState

STATE = PartitionState(replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=0, partition_epoch=0)


def image(*states: PartitionState) -> MetadataImage:
    topic = TopicImage(topic="t", topic_id="id", partitions=dict(enumerate(states)))
    return MetadataImage(topics={"id": topic}, names={"t": "id"})


def change(partition: int, **changes: object) -> ChangePartition:
    state = replace(STATE, **changes)  # type: ignore[arg-type]
    return ChangePartition(topic_id="id", partition=partition, state=state)


def values(page: Page) -> dict[str, float]:
    return {
        sample.name + "".join(f"/{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.text())
        for sample in family.samples
    }


def test_an_election_is_a_new_leader_of_an_existing_partition():
    metrics = QuorumMetrics()
    records = [
        change(0, leader=2),  # elected
        change(0, isr=(1,)),  # only the ISR
        change(0, leader=NO_LEADER),  # lost its leader
        change(1, leader=2),  # created
    ]
    metrics.note_decision(image(STATE), records)

    assert metrics.partition_elections == 1


def test_what_a_controller_has_counted_is_shown():
    page = Page(TABLE)
    counted = QuorumMetrics(elections=2, partition_elections=3, unclean_elections=4)
    show_counters(page, counted, active=True, waiting=5)

    assert values(page) == {
        "raftlog_active_controller": 1,
        "raftlog_quorum_elections_total": 2,
        "raftlog_partition_elections_total": 3,
        "raftlog_unclean_elections_total": 4,
        "raftlog_quorum_waiting_decisions": 5,
    }


async def test_partitions_without_a_leader_or_with_another_than_the_preferred_one_are_counted():
    page = Page(TABLE)
    await show_cluster(page, image(STATE, replace(STATE, leader=2), replace(STATE, leader=NO_LEADER, isr=())))
    found = values(page)

    assert found["raftlog_cluster_partitions"] == 3
    assert found["raftlog_cluster_offline_partitions"] == 1
    assert found["raftlog_cluster_imbalanced_partitions"] == 1
