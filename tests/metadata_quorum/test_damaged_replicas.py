"""What the controller does about a replica whose disk is damaged: an heir leads, or everything stays as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from metadata_support import TOPIC_ID, cluster, decided, state_of, then, with_partition
from test_elections import fence, with_settings

from raftlog.errors import ErrorCode, RaftlogError
from raftlog.metadata_quorum.controller.damage import decide_damaged_replicas
from raftlog.metadata_quorum.controller.decision import change
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import PartitionState
from raftlog.wire.controller import DamagedReplica, DamagedReplicasRequest


def report(broker: int, image: MetadataImage, *, leader_epoch: int = 5, copies: int = 1, partition: int = 0):
    replicas = (DamagedReplica(topic_id=TOPIC_ID, partition=partition, leader_epoch=leader_epoch),) * copies
    request = DamagedReplicasRequest(
        broker_id=broker, broker_epoch=image.brokers[broker].broker_epoch, partitions=replicas
    )
    return decide_damaged_replicas(image, request)


def shown(state: PartitionState) -> tuple[int, tuple[int, ...], tuple[int, ...], int, int]:
    return state.leader, state.isr, state.elr, state.leader_epoch, state.partition_epoch


def refusal(image: MetadataImage, **request: int) -> str:
    decision = report(1, image, **request)
    (result,) = decision.response.partitions
    assert result.error is not None
    assert decision.records == ()
    return result.error.code


def test_another_in_sync_replica_leads_and_the_damaged_one_is_no_heir():
    image = with_settings(with_partition(cluster(), isr=(1, 2, 3), leader=1), min_insync_replicas=3)
    image = decided(image, report(1, image, copies=2))

    assert shown(state_of(image)) == (2, (2, 3), (), 6, 8)


def test_a_damaged_follower_leaves_and_the_leader_goes_on_in_a_new_epoch():
    """What the follower has said that it holds must not count any more: it will drop it."""
    image = with_partition(cluster(), isr=(1, 2, 3), leader=2)
    image = decided(image, report(1, image))
    assert shown(state_of(image)) == (2, (2, 3), (), 6, 8)

    image = decided(image, report(1, image, leader_epoch=6))
    assert shown(state_of(image)) == (2, (2, 3), (), 7, 9)


def test_an_eligible_replica_leads_where_the_isr_is_the_damaged_one_alone():
    image = with_settings(with_partition(cluster(), isr=(1,), leader=1), min_insync_replicas=2)
    image = then(image, change(TOPIC_ID, 0, replace(state_of(image), elr=(3,), partition_epoch=8)))
    image = decided(image, report(1, image))

    assert shown(state_of(image)) == (3, (3,), (), 6, 9)


def test_the_last_one_that_holds_everything_stays():
    image = with_partition(cluster(), isr=(1,), leader=1)
    assert refusal(image) == ErrorCode.NOT_ENOUGH_REPLICAS
    image = fence(with_partition(cluster(), isr=(1, 2), leader=1), 2)
    assert refusal(image, leader_epoch=state_of(image).leader_epoch) == ErrorCode.NOT_ENOUGH_REPLICAS


def test_even_an_unclean_election_is_none_for_a_replica_that_can_still_serve():
    image = with_settings(with_partition(cluster(), isr=(1,), leader=1), unclean_leader_election_enable=True)

    assert refusal(image) == ErrorCode.NOT_ENOUGH_REPLICAS


def test_late_early_and_foreign_reports_change_nothing():
    image = with_partition(cluster(), isr=(1, 2, 3), leader=1)
    assert refusal(image, leader_epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(image, leader_epoch=6) == ErrorCode.NOT_CONTROLLER
    assert refusal(image, partition=9) == ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(RaftlogError) as stale:
        decide_damaged_replicas(image, DamagedReplicasRequest(broker_id=1, broker_epoch=-1, partitions=()))

    assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH
