"""Eligible leaders, and what partitions wait for: ELR (KIP-966), lost disks, unclean elections, moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from metadata_support import TOPIC_ID, cluster, decided, register, state_of, then, with_partition
from test_controller_decisions import ask_to_register, heartbeat, refused

from raftlog.errors import ErrorCode
from raftlog.metadata_quorum.controller.brokers import (
    decide_fence,
    decide_heartbeat,
    decide_registration,
    decide_unregistration,
)
from raftlog.metadata_quorum.controller.elections import min_isr, unclean_elections
from raftlog.metadata_quorum.controller.isr import decide_alter_partitions
from raftlog.metadata_quorum.controller.leadership import decide_elections, decide_rebalance
from raftlog.metadata_quorum.controller.reassignment import decide_reassignment
from raftlog.metadata_quorum.controller.topics import decide_alteration
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import ChangePartition, ChangeTopicConfigs, CreateTopic
from raftlog.model import NO_LEADER, PartitionState
from raftlog.partition.core.leader import IsrLimits, LeaderCore, LogOffsets
from raftlog.wire.admin import (
    AlterTopicRequest,
    ElectionPartition,
    ElectLeadersRequest,
    ReassignmentRequest,
    ReassignPartition,
    UnregisterBrokerRequest,
)
from raftlog.wire.controller import (
    AlterPartition,
    AlterPartitionsRequest,
    HeartbeatRequest,
    IsrMember,
    OfflineReplica,
)

THE_PARTITION = (ElectionPartition(topic="t", partition=0),)


def fence(image: MetadataImage, *brokers: int) -> MetadataImage:
    for broker in brokers:
        image = decided(image, decide_fence(image, broker, image.brokers[broker].broker_epoch))
    return image


def wake(image: MetadataImage, broker: int) -> MetadataImage:
    return decided(image, heartbeat(image, broker))


def restart(image: MetadataImage, broker: int, *, storage_id: str = "", unclean: bool = False) -> MetadataImage:
    request = replace(ask_to_register(broker, f"again-{image.offset}"), storage_id=storage_id, unclean=unclean)
    return decided(image, decide_registration(image, request, cluster_id="c", session_alive=False))


def with_settings(image: MetadataImage, **configs: object) -> MetadataImage:
    return then(image, ChangeTopicConfigs(topic_id=TOPIC_ID, configs=configs))  # type: ignore[arg-type]


def on_disks(image: MetadataImage) -> MetadataImage:
    """Every broker has said which data folder it has."""
    return then(
        image,
        *(
            replace(register(broker), storage_id=f"disk-{broker}", broker_epoch=image.brokers[broker].broker_epoch)
            for broker in image.brokers
        ),
    )


def leading(state: PartitionState) -> LeaderCore:
    """Return the leader of a partition without records, whose topic requires two replicas in sync."""
    return LeaderCore(
        broker_id=state.leader,
        state=state,
        log=LogOffsets(start=0, end=0, own_end=0, high_watermark=0),
        min_insync_replicas=2,
        limits=IsrLimits(10_000, 2_000),
        now_ms=0,
    )


def propose(image: MetadataImage, *isr: int) -> MetadataImage:
    """Let the leader propose an ISR."""
    state = state_of(image)
    members = tuple(IsrMember(broker_id=m, broker_epoch=image.brokers[m].broker_epoch) for m in isr)
    asked = AlterPartition(
        topic_id=TOPIC_ID,
        partition=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr=members,
    )
    epoch = image.brokers[state.leader].broker_epoch
    request = AlterPartitionsRequest(broker_id=state.leader, broker_epoch=epoch, partitions=(asked,))
    decision = decide_alter_partitions(image, request)
    assert decision.response.partitions[0].error is None
    return decided(image, decision)


def seen(state: PartitionState) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return state.isr, state.elr, state.leader


class TestEligibleLeaderReplicas:
    def test_a_shrink_below_min_isr_makes_the_leaver_eligible_and_enough_replicas_clear_it(self):
        image = with_partition(cluster(), isr=(1, 2), leader=1)
        image = propose(image, 1)
        assert seen(state_of(image)) == ((1,), (2,), 1)
        image = propose(image, 1, 3)
        assert seen(state_of(image)) == ((1, 3), (), 1)

    def test_above_min_isr_who_leaves_is_not_eligible(self):
        image = propose(with_partition(cluster(), isr=(1, 2, 3), leader=1), 1, 2)
        assert seen(state_of(image)) == ((1, 2), (), 1)

    def test_the_last_two_die_and_whoever_comes_first_leads(self):
        image = fence(with_partition(cluster(), isr=(1, 2), leader=1), 2, 1)
        assert seen(state_of(image)) == ((), (1, 2), NO_LEADER)
        assert seen(state_of(wake(image, 2))) == ((2,), (1,), 2)
        assert seen(state_of(wake(image, 1))) == ((1,), (2,), 1)

    def test_a_broker_that_lost_its_disk_is_not_eligible_even_as_the_last_one(self):
        image = on_disks(with_partition(cluster(), isr=(1,), leader=1))
        image = restart(image, 1, storage_id="a new disk")
        assert seen(state_of(image)) == ((), (), NO_LEADER)
        assert state_of(wake(image, 1)).leader == NO_LEADER

    def test_a_broker_on_its_old_disk_leads_again(self):
        image = on_disks(with_partition(cluster(), isr=(1,), leader=1))
        image = wake(restart(image, 1, storage_id="disk-1"), 1)
        assert seen(state_of(image)) == ((1,), (), 1)

    @pytest.mark.parametrize(("flush", "eligible"), [("batch", (1,)), ("os", ())])
    def test_after_a_power_loss_only_what_was_synced_counts(self, flush: str, eligible: tuple[int, ...]):
        image = with_settings(with_partition(cluster(), isr=(1,), leader=1), flush=flush)
        assert state_of(restart(image, 1, unclean=True)).elr == eligible
        assert state_of(restart(image, 1, unclean=False)).elr == (1,)

    def test_an_eligible_replica_that_lost_its_disk_while_fenced_is_forgotten(self):
        image = on_disks(with_partition(cluster(), isr=(1, 2), leader=1))
        image = restart(fence(image, 2), 2, storage_id="a new disk")
        assert seen(state_of(image)) == ((1,), (), 1)

    def test_a_lower_min_isr_ends_eligibility_and_moves_the_partition_epoch(self):
        image = fence(with_partition(cluster(), isr=(1, 2), leader=1), 2)
        before = state_of(image).partition_epoch
        request = AlterTopicRequest(topic="t", configs={"min_insync_replicas": 1})
        image = decided(image, decide_alteration(image, request))
        assert seen(state_of(image)) == ((1,), (), 1)
        assert state_of(image).partition_epoch == before + 1

    def test_a_leader_that_does_not_know_the_new_min_isr_cannot_shrink_its_isr(self):
        image = with_settings(with_partition(cluster(), isr=(1, 2), leader=1), min_insync_replicas=1)
        stale = state_of(image)
        raised = decided(
            image, decide_alteration(image, AlterTopicRequest(topic="t", configs={"min_insync_replicas": 2}))
        )
        member = IsrMember(broker_id=1, broker_epoch=0)
        asked = AlterPartition(
            topic_id=TOPIC_ID,
            partition=0,
            leader_epoch=stale.leader_epoch,
            partition_epoch=stale.partition_epoch,
            new_isr=(member,),
        )
        decision = decide_alter_partitions(
            raised, AlterPartitionsRequest(broker_id=1, broker_epoch=0, partitions=(asked,))
        )
        error = decision.response.partitions[0].error
        assert error is not None
        assert error.code == "INVALID_UPDATE_VERSION"


class TestUncleanElections:
    def test_only_a_topic_that_opted_in_is_led_by_a_replica_that_lacks_records_and_the_log_says_so(self):
        waiting = fence(with_partition(cluster(), isr=(1,), leader=1), 1)
        assert seen(state_of(waiting)) == ((), (1,), NO_LEADER)
        request = AlterTopicRequest(topic="t", configs={"unclean_leader_election_enable": True})
        decision = decide_alteration(waiting, request)
        assert seen(state_of(decided(waiting, decision))) == ((2,), (), 2)
        (said,) = unclean_elections(waiting, decision.records)
        assert "t-0 is led by broker 2 in epoch 7; records that only brokers [1] have are lost" in said

        opted_in = with_settings(with_partition(cluster(), isr=(1,), leader=1), unclean_leader_election_enable=True)
        assert seen(state_of(fence(opted_in, 1))) == ((2,), (), 2)
        assert state_of(fence(opted_in, 1)).leader_epoch == 6

    def test_by_command_and_only_for_partitions_that_are_named(self):
        image = fence(with_partition(cluster(), isr=(1,), leader=1), 1)
        everywhere = ElectLeadersRequest(election="unclean")
        assert refused(lambda: decide_elections(image, everywhere)) is ErrorCode.INVALID_REQUEST
        decision = decide_elections(image, ElectLeadersRequest(election="unclean", partitions=THE_PARTITION))
        assert seen(state_of(decided(image, decision))) == ((2,), (), 2)

    def test_by_command_not_the_replica_that_cannot_open_its_log(self):
        """Its broker is alive. It was elected, and gave the leadership back with its next heartbeat, each time."""
        image = fence(with_partition(cluster(), isr=(1,), leader=1), 1)
        damaged = decide_heartbeat(
            image,
            HeartbeatRequest(
                broker_id=1,
                broker_epoch=image.brokers[1].broker_epoch,
                metadata_offset=image.offset,
                offline=(OfflineReplica(topic_id=TOPIC_ID, partition=0),),
            ),
        )
        image = decided(image, damaged)
        assert (image.brokers[1].fenced, seen(state_of(image))) == (False, ((), (1,), NO_LEADER))
        decision = decide_elections(image, ElectLeadersRequest(election="unclean", partitions=THE_PARTITION))
        assert seen(state_of(decided(image, decision))) == ((2,), (), 2)
        alone = fence(image, 2, 3)
        decision = decide_elections(alone, ElectLeadersRequest(election="unclean", partitions=THE_PARTITION))
        assert seen(state_of(decided(alone, decision))) == ((1,), (), 1), "there is no other"

    def test_the_only_target_of_a_move_completes_it(self):
        """The new leader has no ISR change to propose, so the move never ended, and could not be cancelled."""
        image = with_partition(cluster(), isr=(1,), leader=1)
        alone = replace(state_of(image), replicas=(1,))
        image = then(image, ChangePartition(topic_id=TOPIC_ID, partition=0, state=alone))
        move = ReassignPartition(topic="t", partition=0, replicas=(2,))
        image = fence(decided(image, decide_reassignment(image, ReassignmentRequest(partitions=(move,)))), 1)
        assert (state_of(image).adding, state_of(image).removing) == ((2,), (1,))
        decision = decide_elections(image, ElectLeadersRequest(election="unclean", partitions=THE_PARTITION))
        done = state_of(decided(image, decision))
        assert (done.replicas, done.isr, done.leader, done.adding, done.removing) == ((2,), (2,), 2, (), ())
        (said,) = unclean_elections(image, decision.records)
        assert "t-0 is led by broker 2" in said

    def test_a_partition_with_a_leader_is_left_alone(self):
        image = with_partition(cluster(), isr=(1,), leader=1)
        decision = decide_elections(image, ElectLeadersRequest(election="unclean", partitions=THE_PARTITION))
        assert decision.records == ()
        assert "an unclean election is not needed" in decision.response.partitions[0].error

    def test_clean_elections_are_not_called_unclean(self):
        image = fence(with_partition(cluster(), isr=(1, 2), leader=1), 2, 1)
        assert unclean_elections(image, heartbeat(image, 2).records) == []


class TestPreferredLeaders:
    def test_leadership_goes_back_to_the_preferred_leader_when_it_is_in_sync(self):
        image = with_partition(cluster(), isr=(1, 2, 3), leader=2)
        decision = decide_elections(image, ElectLeadersRequest())
        assert seen(state_of(decided(image, decision))) == ((1, 2, 3), (), 1)
        assert decision.response.partitions[0].leader == 1

    @pytest.mark.parametrize("isr", [(2, 3), (2,)])
    def test_not_to_one_that_is_not_in_sync(self, isr: tuple[int, ...]):
        image = with_partition(cluster(), isr=isr, leader=2)
        decision = decide_elections(image, ElectLeadersRequest(partitions=THE_PARTITION))
        assert decision.records == decide_rebalance(image).records == ()
        assert "broker 1, is not in sync" in decision.response.partitions[0].error

    def many(self, away: int, of: int = 20) -> MetadataImage:
        topic = CreateTopic(topic="many", topic_id=TOPIC_ID)
        changes = [
            ChangePartition(
                topic_id=TOPIC_ID,
                partition=number,
                state=PartitionState(
                    replicas=(1, 2, 3),
                    isr=(1, 2, 3),
                    leader=2 if number < away else 1,
                    leader_epoch=0,
                    partition_epoch=0,
                ),
            )
            for number in range(of)
        ]
        return then(cluster(), topic, *changes)

    def test_the_rebalance_acts_on_more_than_a_tenth(self):
        assert decide_rebalance(self.many(away=2)).records == ()
        assert len(decide_rebalance(self.many(away=3)).records) == 3

    def test_unknown_partitions_are_named(self):
        request = ElectLeadersRequest(partitions=(ElectionPartition(topic="t", partition=9),))
        image = with_partition(cluster(), isr=(1,), leader=1)
        assert refused(lambda: decide_elections(image, request)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestReassignment:
    def image(self, **state: object) -> MetadataImage:
        return with_partition(cluster((1, 2, 3, 4, 5)), isr=(1, 2, 3), leader=1)

    def ask(self, image: MetadataImage, *target: int, cancel: bool = False):
        asked = ReassignPartition(topic="t", partition=0, replicas=None if cancel else target)
        return decide_reassignment(image, ReassignmentRequest(partitions=(asked,)))

    def test_targets_join_and_only_then_the_others_go(self):
        image = decided(self.image(), self.ask(self.image(), 4, 2))
        moving = state_of(image)
        assert (moving.replicas, moving.adding, moving.removing) == ((4, 2, 1, 3), (4,), (1, 3))
        assert (moving.leader, moving.leader_epoch, moving.partition_epoch) == (1, 5, 8)

        image = propose(image, 1, 2, 3, 4)
        done = state_of(image)
        assert (done.replicas, done.isr, done.adding, done.removing) == ((4, 2), (4, 2), (), ())
        assert (done.leader, done.leader_epoch, done.partition_epoch) == (4, 6, 9)

    def test_what_is_in_sync_already_moves_at_once(self):
        image = decided(self.image(), self.ask(self.image(), 2, 1))
        state = state_of(image)
        assert (state.replicas, state.isr, state.leader, state.leader_epoch, state.partition_epoch) == (
            (2, 1),
            (2, 1),
            1,
            6,
            8,
        )

    def test_replicas_that_are_added_are_not_required_before_they_are_in_sync(self):
        """A topic with one replica took no acks=all record until another one had its whole log."""
        image = with_partition(cluster((1, 2, 3)), isr=(1,), leader=1)
        alone = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=5, partition_epoch=8)
        image = then(image, ChangePartition(topic_id=TOPIC_ID, partition=0, state=alone))
        assert state_of(image).most_in_sync == 1
        image = decided(image, self.ask(image, 1, 2, 3))
        growing = state_of(image)
        assert (growing.replicas, growing.adding, growing.most_in_sync) == ((1, 2, 3), (2, 3), 1)
        assert min_isr(image.topics[TOPIC_ID], growing) == 1
        assert not leading(growing).under_min_isr
        earlier = replace(growing, elr=(2,))  # An earlier version of the controller counts on 2, and may elect it.
        assert leading(earlier).under_min_isr
        image = propose(image, 1, 2, 3)
        assert (state_of(image).adding, min_isr(image.topics[TOPIC_ID], state_of(image))) == ((), 2)
        assert leading(state_of(image)).min_isr == 2

    def test_a_new_order_alone_changes_who_is_preferred(self):
        image = decided(self.image(), self.ask(self.image(), 3, 2, 1))
        assert (state_of(image).replicas, state_of(image).leader, state_of(image).leader_epoch) == ((3, 2, 1), 1, 5)
        assert decided(image, decide_elections(image, ElectLeadersRequest())).topics[TOPIC_ID].partitions[0].leader == 3

    def test_cancelling_goes_back(self):
        image = decided(self.image(), self.ask(self.image(), 4, 2))
        image = decided(image, self.ask(image, cancel=True))
        state = state_of(image)
        assert (set(state.replicas), state.adding, state.removing) == ({1, 2, 3}, (), ())
        assert (state.leader, state.leader_epoch) == (1, 6)
        assert refused(lambda: self.ask(image, cancel=True)) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    def test_redirecting_counts_from_where_it_began(self):
        image = decided(self.image(), self.ask(self.image(), 4, 2))
        image = decided(image, self.ask(image, 1, 2, 4))
        state = state_of(image)
        assert (state.replicas, state.adding, state.removing) == ((1, 2, 4, 3), (4,), (3,))

    def with_one_in_sync(self, *, isr: tuple[int, ...] = (4,), elr: tuple[int, ...] = ()) -> MetadataImage:
        """Return a partition that moves to broker 4 alone, while no other replica is in sync."""
        image = decided(self.image(), self.ask(self.image(), 4, 5))
        alone = replace(state_of(image), isr=isr, elr=elr, leader=isr[0] if isr else -1)
        return then(image, ChangePartition(topic_id=TOPIC_ID, partition=0, state=alone))

    def test_cancelling_needs_somebody_to_go_back_to(self):
        for image in (self.with_one_in_sync(), self.with_one_in_sync(isr=(), elr=(4,))):
            assert refused(lambda: self.ask(image, cancel=True)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT  # noqa: B023

    def test_cancelling_is_possible_where_none_is_in_sync(self):
        image = self.with_one_in_sync(isr=(), elr=())
        state = state_of(decided(image, self.ask(image, cancel=True)))
        assert (set(state.replicas), state.adding, state.removing) == ({1, 2, 3}, (), ())

    def test_redirecting_keeps_somebody_who_has_everything(self):
        for image in (self.with_one_in_sync(), self.with_one_in_sync(isr=(), elr=(4,))):
            for target in ((1, 2, 3), (5, 1)):
                asked = lambda: self.ask(image, *target)  # noqa: E731, B023
                assert refused(asked) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        image = self.with_one_in_sync()
        state = state_of(decided(image, self.ask(image, 1, 2, 3, 4)))
        assert (state.isr, state.leader, state.adding) == ((4,), 4, (4,))
        image = self.with_one_in_sync(isr=(4, 2))
        state = state_of(decided(image, self.ask(image, 1, 2, 3)))
        assert (state.replicas, state.isr, state.leader, state.adding) == ((1, 2, 3), (2,), 2, ())

    def test_a_partition_that_has_lost_everybody_can_be_moved(self):
        image = self.with_one_in_sync(isr=())
        assert state_of(decided(image, self.ask(image, 1, 2, 3))).replicas == (1, 2, 3)

    @pytest.mark.parametrize("target", [(), (1, 1), (1, 9)])
    def test_what_is_no_assignment(self, target: tuple[int, ...]):
        assert refused(lambda: self.ask(self.image(), *target)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_one_wrong_partition_refuses_all(self):
        asked = ReassignPartition(topic="t", partition=0, replicas=(4,))
        unknown = ReassignPartition(topic="nope", partition=0, replicas=(4,))
        image = self.image()
        both = ReassignmentRequest(partitions=(asked, unknown))
        twice = ReassignmentRequest(partitions=(asked, asked))
        assert refused(lambda: decide_reassignment(image, both)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert refused(lambda: decide_reassignment(image, twice)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


class TestUnregistration:
    def test_only_a_broker_that_is_gone_and_holds_nothing_is_forgotten(self):
        image = with_partition(cluster((1, 2, 3, 4)), isr=(1, 2, 3), leader=1)
        ask = lambda broker: decide_unregistration(image, UnregisterBrokerRequest(broker_id=broker))  # noqa: E731
        assert refused(lambda: ask(4)) is ErrorCode.INVALID_REQUEST
        assert refused(lambda: ask(9)) is ErrorCode.RESOURCE_NOT_FOUND
        image = fence(image, 4, 3)
        assert 4 not in decided(image, ask(4)).brokers
        assert refused(lambda: ask(3)) is ErrorCode.INVALID_REQUEST
