"""Partitions on brokers that a request assigns."""

from __future__ import annotations

from typing import Any

import pytest
from metadata_support import TOPIC_ID, cluster, decided, with_partition

from raftlog.errors import ErrorCode, RaftlogError
from raftlog.metadata_quorum.controller.brokers import decide_fence
from raftlog.metadata_quorum.controller.topics import TopicDefaults, decide_alteration, decide_creation
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.wire.admin import AlterTopicRequest
from raftlog.wire.metadata import CreateTopicRequest

DEFAULTS = TopicDefaults(1, 3)


def refused(call: Any) -> RaftlogError:
    with pytest.raises(RaftlogError) as caught:
        call()
    return caught.value


def create(image: MetadataImage, assignments: Any, **more: Any) -> Any:
    request = CreateTopicRequest(topic="new", assignments=assignments, **more)
    return decide_creation(image, request, topic_id="n" * 32, defaults=DEFAULTS)


def test_each_partition_gets_its_brokers_in_their_order():
    image = cluster()
    image = decided(image, create(image, ((2, 1), (1, 3))))
    partitions = image.topics["n" * 32].partitions
    assert [state.replicas for state in partitions.values()] == [(2, 1), (1, 3)]
    assert [state.leader for state in partitions.values()] == [2, 1]
    assert [state.isr for state in partitions.values()] == [(2, 1), (1, 3)]


def test_a_broker_that_is_down_gets_its_replica_but_does_not_lead():
    image = cluster()
    image = decided(image, decide_fence(image, 2, image.brokers[2].broker_epoch))
    image = decided(image, create(image, ((2, 1),)))
    state = image.topics["n" * 32].partitions[0]
    assert (state.replicas, state.isr, state.leader) == ((2, 1), (1,), 1)


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((1, 1),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((1, 9),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((-1,),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((1, 2), (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((1,),) * 10_001, ErrorCode.INVALID_PARTITIONS),
    ],
)
def test_other_assignments_are_refused(assignments: Any, code: ErrorCode):
    assert refused(lambda: create(cluster(), assignments)).code is code


def test_brokers_that_are_all_down_are_refused():
    image = cluster()
    image = decided(image, decide_fence(image, 2, image.brokers[2].broker_epoch))
    assert "live broker" in refused(lambda: create(image, ((2,),))).message


def test_numbers_beside_assignments_are_refused():
    assert "leave out" in refused(lambda: create(cluster(), ((1,),), partitions=1)).message
    assert "leave out" in refused(lambda: create(cluster(), ((1,),), replication_factor=1)).message


def test_a_min_isr_above_the_assigned_replicas_is_refused():
    error = refused(lambda: create(cluster(), ((1, 2),), configs={"min_insync_replicas": 3}))
    assert error.code is ErrorCode.INVALID_CONFIG


class TestAddedPartitions:
    image = with_partition(cluster(), isr=(1, 2), leader=1)

    def alter(self, image: MetadataImage, **change: Any) -> Any:
        return decide_alteration(image, AlterTopicRequest(topic="t", **change))

    def test_they_get_their_brokers(self):
        factor = len(self.image.topics[TOPIC_ID].partitions[0].replicas)
        brokers = tuple(sorted(self.image.brokers, reverse=True))[:factor]
        image = decided(self.image, self.alter(self.image, partitions=3, assignments=(brokers, brokers)))
        added = image.topics[TOPIC_ID].partitions
        assert [added[number].replicas for number in (1, 2)] == [brokers, brokers]

    @pytest.mark.parametrize("assignments", [(), ((1,),), ((1, 2, 3, 9),), ((1, 2, 3), (1, 2, 3))])
    def test_another_number_of_brokers_or_partitions_is_refused(self, assignments: Any):
        error = refused(lambda: self.alter(self.image, partitions=2, assignments=assignments))
        assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_assignments_need_the_number_of_partitions(self):
        assert "partitions is missing" in refused(lambda: self.alter(self.image, assignments=((1,),))).message
