"""What controllers decide, on images, with no IO."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from metadata_support import TOPIC_ID, cluster, decided, register, state_of, then, with_partition

from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError
from raftlog.metadata_quorum.controller.brokers import (
    MAX_REPLACED,
    decide_fence,
    decide_heartbeat,
    decide_registration,
)
from raftlog.metadata_quorum.controller.isr import decide_alter_partitions
from raftlog.metadata_quorum.controller.placement import place
from raftlog.metadata_quorum.controller.producer_ids import decide_producer_ids
from raftlog.metadata_quorum.controller.topics import TopicDefaults, decide_alteration, decide_creation, decide_deletion
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import KEYED_PRODUCER_IDS, AllocateProducerIds, SetFeatureLevel
from raftlog.metadata_quorum.replay import replay
from raftlog.model import NO_LEADER, Address
from raftlog.wire.admin import AlterTopicRequest
from raftlog.wire.controller import (
    AlterPartition,
    AlterPartitionsRequest,
    HeartbeatRequest,
    IsrMember,
    ProducerIdBlockRequest,
    RegisterBrokerRequest,
)
from raftlog.wire.metadata import CreateTopicRequest, DeleteTopicRequest

DEFAULTS = TopicDefaults(partitions=2, replication_factor=3)


def ask_to_register(broker: int = 1, incarnation: str = "new", cluster_id: str = "c") -> RegisterBrokerRequest:
    return RegisterBrokerRequest(
        cluster_id=cluster_id,
        broker_id=broker,
        incarnation_id=incarnation,
        public=Address("h", 1),
        internal=Address("h", 2),
    )


def heartbeat(image: MetadataImage, broker: int, *, offset: int = 1_000, want_shutdown: bool = False):
    epoch = image.brokers[broker].broker_epoch
    return decide_heartbeat(
        image,
        HeartbeatRequest(broker_id=broker, broker_epoch=epoch, metadata_offset=offset, want_shutdown=want_shutdown),
    )


def refused(call) -> ErrorCode:
    with pytest.raises(RaftlogError) as caught:
        call()
    return caught.value.code


class TestRegistration:
    def test_a_new_broker_starts_fenced_and_is_unfenced_once_it_has_read_its_own_registration(self):
        image = decided(
            MetadataImage(),
            decide_registration(MetadataImage(), ask_to_register(), cluster_id="c", session_alive=False),
        )
        assert image.brokers[1].fenced

        assert heartbeat(image, 1, offset=-1).response.fenced
        assert not heartbeat(image, 1, offset=0).response.fenced
        assert not decided(image, heartbeat(image, 1, offset=0)).brokers[1].fenced

    def test_another_cluster_is_refused(self):
        request = ask_to_register(cluster_id="other")
        call = lambda: decide_registration(cluster(), request, cluster_id="c", session_alive=False)  # noqa: E731
        assert refused(call) is ErrorCode.INCONSISTENT_CLUSTER_ID

    def test_a_second_process_is_refused_while_the_first_lives(self):
        image = cluster()
        call = lambda alive: decide_registration(image, ask_to_register(), cluster_id="c", session_alive=alive)  # noqa: E731
        assert refused(lambda: call(True)) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        assert decided(image, call(False)).brokers[1].incarnation_id == "new"

    def test_the_same_process_asks_again_and_gets_the_same_epoch(self):
        image = cluster()
        fields = {name: getattr(image.brokers[1], name) for name in ("public", "internal", "incarnation_id")}
        request = RegisterBrokerRequest(cluster_id="c", broker_id=1, **fields)
        decision = decide_registration(image, request, cluster_id="c", session_alive=True)
        assert (decision.records, decision.response) == ((), image.brokers[1].broker_epoch)

    def test_the_same_process_amends_what_it_said_of_itself(self):
        image = with_partition(cluster(), isr=(1, 2, 3), leader=1)
        known = image.brokers[1]
        request = replace(
            ask_to_register(incarnation="incarnation-1"),
            public=known.public,
            internal=known.internal,
            storage_id=known.storage_id,
            version="9.9",
        )
        amended = decided(image, decide_registration(image, request, cluster_id="c", session_alive=True))
        broker = amended.brokers[1]
        assert (broker.version, broker.broker_epoch, broker.fenced) == ("9.9", 0, False)
        assert state_of(amended) == state_of(image)
        again = decide_registration(amended, request, cluster_id="c", session_alive=True)
        assert (again.records, again.response) == ((), 0)

    @pytest.mark.parametrize(
        "change", [{"public": Address("x", 9)}, {"internal": Address("x", 9)}, {"storage_id": "x"}]
    )
    def test_a_process_keeps_its_addresses_and_its_disk(self, change: dict):
        image = with_partition(cluster(), isr=(1, 2, 3), leader=1)
        known = image.brokers[1]
        same = {name: getattr(known, name) for name in ("public", "internal", "storage_id")}
        request = replace(ask_to_register(incarnation="incarnation-1"), **{**same, **change})
        assert (
            refused(lambda: decide_registration(image, request, cluster_id="c", session_alive=True))
            is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        )

    def test_a_restarted_leader_never_leads_its_old_epoch(self):
        image = with_partition(cluster(), isr=(1, 2), leader=1)
        image = decided(image, decide_registration(image, ask_to_register(1), cluster_id="c", session_alive=False))
        assert (state_of(image).isr, state_of(image).leader, state_of(image).leader_epoch) == ((2,), 2, 6)

    @pytest.mark.parametrize(
        ("previous", "eligible"),
        [(None, (1,)), (("incarnation-1",), (1,)), (("older", "incarnation-1", "failed"), (1,)), (("older",), ())],
    )
    def test_an_older_copy_of_a_folder_is_a_lost_disk(self, previous: tuple[str, ...] | None, eligible: tuple):
        image = with_partition(cluster(), isr=(1,), leader=1)
        request = replace(ask_to_register(1), previous_incarnations=previous)
        image = decided(image, decide_registration(image, request, cluster_id="c", session_alive=False))
        assert (state_of(image).isr, state_of(image).elr, state_of(image).leader) == ((), eligible, NO_LEADER)

    def test_a_request_of_a_dead_process_that_arrives_late_is_refused(self):
        """Its folder has seen later processes: it would count as an older copy, and lose every ISR."""
        image = with_partition(cluster(), isr=(1,), leader=1)
        late = replace(ask_to_register(1, "late"), previous_incarnations=("incarnation-1",))
        later = replace(ask_to_register(1, "later"), previous_incarnations=("incarnation-1", "late"))
        last = replace(ask_to_register(1, "last"), previous_incarnations=("later",))
        for request in (later, last):
            image = decided(image, decide_registration(image, request, cluster_id="c", session_alive=False))
            for incarnation in ("late", "incarnation-1"):
                stale = replace(late, incarnation_id=incarnation)
                with pytest.raises(InvalidRequestError, match="a later process of broker 1 has registered") as caught:
                    decide_registration(image, stale, cluster_id="c", session_alive=False)
                assert caught.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
            image = decided(image, heartbeat(image, 1))
            assert state_of(image).leader == 1

    def test_the_replaced_incarnations_that_are_remembered_are_limited(self):
        image = cluster()
        for number in range(2 * MAX_REPLACED):
            request = replace(ask_to_register(1, f"{number}"), previous_incarnations=("failed", f"{number - 1}"))
            image = decided(image, decide_registration(image, request, cluster_id="c", session_alive=False))
        assert len(image.brokers[1].replaced) == MAX_REPLACED
        assert image.brokers[1].replaced[-1] == f"{2 * MAX_REPLACED - 2}"

    def test_even_a_sole_replica_gets_a_new_epoch(self):
        image = with_partition(cluster(), isr=(1,), leader=1)
        image = decided(image, decide_registration(image, ask_to_register(1), cluster_id="c", session_alive=False))
        assert (state_of(image).isr, state_of(image).leader, state_of(image).leader_epoch) == ((), NO_LEADER, 6)
        assert state_of(image).elr == (1,)
        image = decided(image, heartbeat(image, 1))
        assert (state_of(image).isr, state_of(image).leader, state_of(image).leader_epoch) == ((1,), 1, 7)


class TestFencing:
    def fence(self, image: MetadataImage, broker: int) -> MetadataImage:
        return decided(image, decide_fence(image, broker, image.brokers[broker].broker_epoch))

    def test_a_fenced_leader_is_replaced_by_an_in_sync_replica_in_one_decision(self):
        image = self.fence(with_partition(cluster(), isr=(1, 2, 3), leader=1), 1)
        state = state_of(image)
        assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((2, 3), 2, 6, 8)
        assert image.brokers[1].fenced

    def test_a_fenced_follower_leaves_the_isr_and_the_leader_keeps_its_epoch(self):
        state = state_of(self.fence(with_partition(cluster(), isr=(1, 2, 3), leader=1), 3))
        assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((1, 2), 1, 5, 8)

    def test_whoever_leaves_an_isr_below_min_isr_stays_eligible_and_nobody_else_is(self):
        image = self.fence(with_partition(cluster(), isr=(1, 2), leader=1), 1)
        assert (state_of(image).isr, state_of(image).elr, state_of(image).leader) == ((2,), (1,), 2)
        image = self.fence(image, 2)
        assert (state_of(image).isr, state_of(image).elr, state_of(image).leader) == ((), (1, 2), NO_LEADER)

        image = decided(self.fence(image, 3), heartbeat(self.fence(image, 3), 3))
        assert state_of(image).leader == NO_LEADER
        image = decided(image, heartbeat(image, 1))
        assert (state_of(image).isr, state_of(image).elr, state_of(image).leader) == ((1,), (2,), 1)

    def test_fencing_twice_or_of_an_old_incarnation_changes_nothing(self):
        image = self.fence(cluster(), 1)
        assert decide_fence(image, 1, image.brokers[1].broker_epoch).records == ()
        assert decide_fence(image, 2, 99).records == ()
        assert decide_fence(image, 9, 0).records == ()

    def test_heartbeats_of_strangers_and_of_old_incarnations(self):
        request = HeartbeatRequest(broker_id=9, broker_epoch=0, metadata_offset=0)
        assert refused(lambda: decide_heartbeat(cluster(), request)) is ErrorCode.BROKER_ID_NOT_REGISTERED
        request = HeartbeatRequest(broker_id=1, broker_epoch=-1, metadata_offset=0)
        assert refused(lambda: decide_heartbeat(cluster(), request)) is ErrorCode.STALE_BROKER_EPOCH

    def test_a_controller_that_was_frozen_does_not_end_a_broker_that_registered_meanwhile(self):
        request = HeartbeatRequest(broker_id=1, broker_epoch=99, metadata_offset=99)
        assert refused(lambda: decide_heartbeat(cluster(), request)) is ErrorCode.NOT_CONTROLLER


class TestControlledShutdown:
    def test_leaderships_move_before_the_broker_may_stop(self):
        image = with_partition(cluster(), isr=(1, 2, 3), leader=1)
        first = heartbeat(image, 1, want_shutdown=True)
        assert not first.response.should_shut_down
        image = decided(image, first)
        assert (state_of(image).isr, state_of(image).leader) == ((2, 3), 2)
        assert heartbeat(image, 1, want_shutdown=True).response.should_shut_down

    def test_a_broker_that_stops_gets_no_new_leadership(self):
        image = decided(cluster(), heartbeat(cluster(), 1, want_shutdown=True))
        created = decided(
            image, decide_creation(image, CreateTopicRequest(topic="t"), topic_id=TOPIC_ID, defaults=DEFAULTS)
        )
        assert all(state.leader != 1 and 1 not in state.isr for _, _, state in created.partitions())

    def test_it_is_not_unfenced_for_a_last_heartbeat(self):
        image = decided(cluster(), heartbeat(cluster(), 1, want_shutdown=True))
        image = decided(image, decide_fence(image, 1, image.brokers[1].broker_epoch))
        assert heartbeat(image, 1).records == ()

    def test_its_next_process_registers_at_once(self):
        image = decided(cluster(), heartbeat(cluster(), 1, want_shutdown=True))
        decision = decide_registration(image, ask_to_register(1), cluster_id="c", session_alive=True)
        assert not decided(image, decision).brokers[1].in_controlled_shutdown


class TestAlterPartition:
    def ask(self, image: MetadataImage, *members: int, broker: int = 1, **change: object):
        asked: dict = {"topic_id": TOPIC_ID, "partition": 0, "leader_epoch": 5, "partition_epoch": 7, **change}
        epochs = {m: image.brokers[m].broker_epoch if m in image.brokers else 0 for m in members}
        if "epochs" in asked:
            epochs |= asked.pop("epochs")
        isr = tuple(IsrMember(broker_id=m, broker_epoch=epochs[m]) for m in members)
        request = AlterPartitionsRequest(
            broker_id=broker,
            broker_epoch=image.brokers[broker].broker_epoch,
            partitions=(AlterPartition(**asked, new_isr=isr),),
        )
        return decide_alter_partitions(image, request)

    def code(self, *args, **kwargs) -> str:
        (result,) = self.ask(*args, **kwargs).response.partitions
        assert result.error is not None
        return result.error.code

    def test_shrinking_and_expanding_take_a_partition_epoch_each(self):
        image = with_partition(cluster(), isr=(1, 2, 3), leader=1)
        image = decided(image, self.ask(image, 1, 2))
        assert (state_of(image).isr, state_of(image).partition_epoch, state_of(image).leader_epoch) == ((1, 2), 8, 5)
        image = decided(image, self.ask(image, 1, 2, 3, partition_epoch=8))
        assert (state_of(image).isr, state_of(image).partition_epoch) == ((1, 2, 3), 9)

    @pytest.mark.parametrize(
        ("members", "change", "code"),
        [
            ((1, 2), {"leader_epoch": 4}, "FENCED_LEADER_EPOCH"),
            ((1, 2), {"leader_epoch": 6}, "NOT_CONTROLLER"),
            ((1, 2), {"partition_epoch": 8}, "NOT_CONTROLLER"),
            ((1, 2), {"partition_epoch": 6}, "INVALID_UPDATE_VERSION"),
            ((1, 2), {"broker": 2}, "INVALID_REQUEST"),
            ((2, 3), {}, "INVALID_REQUEST"),
            ((1, 1), {}, "INVALID_REQUEST"),
            ((1, 4), {}, "INVALID_REQUEST"),
            ((1, 2), {"epochs": {2: 0}}, "INELIGIBLE_REPLICA"),
            ((1, 2), {"topic_id": "f" * 32}, "UNKNOWN_TOPIC_ID"),
        ],
    )
    def test_what_is_refused(self, members: tuple[int, ...], change: dict, code: str):
        image = with_partition(cluster(), isr=(1, 2, 3), leader=1)
        assert self.code(image, *members, **change) == code
        assert self.ask(image, *members, **change).records == ()

    def test_fenced_and_stopping_brokers_cannot_join(self):
        image = with_partition(cluster(), isr=(1,), leader=1)
        fenced = decided(image, decide_fence(image, 2, image.brokers[2].broker_epoch))
        stopping = decided(image, heartbeat(image, 2, want_shutdown=True))
        assert self.code(fenced, 1, 2) == "INELIGIBLE_REPLICA"
        assert self.code(stopping, 1, 2) == "INELIGIBLE_REPLICA"

    def test_a_second_proposal_in_a_request_is_compared_with_what_the_first_has_decided(self):
        image = with_partition(cluster(), isr=(1, 2, 3), leader=1)
        epochs = {member: image.brokers[member].broker_epoch for member in (1, 2)}

        def proposal(*members: int) -> AlterPartition:
            isr = tuple(IsrMember(broker_id=member, broker_epoch=epochs[member]) for member in members)
            return AlterPartition(topic_id=TOPIC_ID, partition=0, leader_epoch=5, partition_epoch=7, new_isr=isr)

        request = AlterPartitionsRequest(broker_id=1, broker_epoch=epochs[1], partitions=(proposal(1, 2), proposal(1)))
        decision = decide_alter_partitions(image, request)

        first, second = decision.response.partitions
        assert first.state is not None
        assert first.state.isr == (1, 2)
        assert second.error is not None
        assert second.error.code == "INVALID_UPDATE_VERSION"
        assert len(decision.records) == 1

    def test_a_request_of_an_old_incarnation_is_refused_whole(self):
        image = with_partition(cluster(), isr=(1, 2), leader=1)
        request = AlterPartitionsRequest(broker_id=1, broker_epoch=-1, partitions=())
        assert refused(lambda: decide_alter_partitions(image, request)) is ErrorCode.STALE_BROKER_EPOCH


class TestTopics:
    def create(self, image: MetadataImage, **asked: object):
        request = CreateTopicRequest(**{"topic": "t", **asked})  # type: ignore[arg-type]
        return decide_creation(image, request, topic_id=TOPIC_ID, defaults=DEFAULTS)

    def test_validation_decides_the_same_and_changes_nothing(self):
        asked = {"partitions": 2, "configs": {"retention_ms": 9}}
        created = decided(cluster(), self.create(cluster(), **asked)).topic("t")
        validated = self.create(cluster(), **asked, validate_only=True)
        assert created is not None
        assert validated.records == ()
        assert (validated.response.topic_id, validated.response.configs) == ("", created.configs)
        assert [p.replicas for p in validated.response.partitions] == [s.replicas for s in created.partitions.values()]
        refusal = refused(lambda: self.create(cluster(), validate_only=True, replication_factor=4))
        assert refusal is ErrorCode.INVALID_REPLICATION_FACTOR
        existing = decided(cluster(), self.create(cluster()))
        assert refused(lambda: self.create(existing, validate_only=True)) is ErrorCode.TOPIC_ALREADY_EXISTS

    def test_defaults_and_replicas_that_fit_the_brokers(self):
        topic = decided(cluster(), self.create(cluster())).topic("t")
        assert topic is not None
        assert len(topic.partitions) == 2
        assert all(len(state.replicas) == 3 for state in topic.partitions.values())
        alone = decided(cluster((1,)), self.create(cluster((1,)))).topic("t")
        assert alone is not None
        assert alone.partitions[0].replicas == (1,)

    @pytest.mark.parametrize(
        ("asked", "code"),
        [
            ({"topic": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
            ({"topic": "a/b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
            ({"partitions": 10_001}, ErrorCode.INVALID_PARTITIONS),
            ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
            ({"replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
            ({"configs": {"x": 1}}, ErrorCode.INVALID_CONFIG),
            ({"replication_factor": 2, "configs": {"min_insync_replicas": 3}}, ErrorCode.INVALID_CONFIG),
        ],
    )
    def test_what_is_refused(self, asked: dict, code: ErrorCode):
        assert refused(lambda: self.create(cluster(), **asked)) is code

    @pytest.mark.parametrize("asked", [{}, {"replication_factor": 3}])
    def test_a_broker_that_restarts_gets_its_replicas(self, asked: dict):
        image = cluster()
        image = decided(image, decide_fence(image, 1, image.brokers[1].broker_epoch))
        topic = decided(image, self.create(image, **asked)).topic("t")
        assert topic is not None
        assert [state.replicas for state in topic.partitions.values()] == [(2, 3, 1), (3, 2, 1)]
        assert [state.isr for state in topic.partitions.values()] == [(2, 3), (3, 2)]

    def test_partitions_that_are_added_have_as_many_replicas_as_the_others(self):
        image = decided(cluster(), self.create(cluster(), partitions=1))
        image = decided(image, decide_fence(image, 1, image.brokers[1].broker_epoch))
        image = decided(image, decide_alteration(image, AlterTopicRequest(topic="t", partitions=2)))
        added = image.topics[TOPIC_ID].partitions[1]
        assert (added.replicas, added.isr, added.leader) == ((3, 2, 1), (3, 2), 3)

    def test_with_live_brokers_enough_those_that_are_down_get_nothing(self):
        image = cluster()
        image = decided(image, decide_fence(image, 1, image.brokers[1].broker_epoch))
        topic = decided(image, self.create(image, replication_factor=2, partitions=9)).topic("t")
        assert topic is not None
        assert all(set(state.replicas) == {2, 3} for state in topic.partitions.values())

    def test_without_a_live_broker_nothing_is_created(self):
        image = cluster((1,))
        image = decided(image, decide_fence(image, 1, image.brokers[1].broker_epoch))
        assert refused(lambda: self.create(image)) is ErrorCode.INVALID_REPLICATION_FACTOR

    def test_without_brokers_nothing_is_created(self):
        assert refused(lambda: self.create(MetadataImage())) is ErrorCode.INVALID_REPLICATION_FACTOR

    def test_a_name_is_taken_once_until_it_is_deleted(self):
        image = decided(cluster(), self.create(cluster()))
        assert refused(lambda: self.create(image)) is ErrorCode.TOPIC_ALREADY_EXISTS
        assert self.create(image, if_not_exists=True).response == TOPIC_ID
        image = decided(image, decide_deletion(image, DeleteTopicRequest(topic="t")))
        assert (image.topics, image.names) == ({}, {})
        call = lambda: decide_deletion(image, DeleteTopicRequest(topic="t"))  # noqa: E731
        assert refused(call) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestPlacement:
    def test_leaders_and_replicas_are_spread_evenly(self):
        placed = place([(b, "") for b in range(1, 6)], partitions=20, replication_factor=3, load=Counter())
        assert set(Counter(replicas[0] for replicas in placed).values()) == {4}
        assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {12}
        assert all(len(set(replicas)) == 3 for replicas in placed)

    def test_no_two_replicas_share_a_rack_while_there_are_racks(self):
        racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
        placed = place(sorted(racks.items()), partitions=30, replication_factor=3, load=Counter())
        assert all({racks[broker] for broker in replicas} == {"a", "b", "c"} for replicas in placed)

    def test_brokers_that_are_down_fill_up_evenly_and_other_racks_first(self):
        down = [(4, "b"), (5, "b"), (6, "a")]
        placed = place([(1, "a"), (2, "a")], partitions=30, replication_factor=3, load=Counter(), down=down)
        assert Counter(replicas[2] for replicas in placed) == {4: 20, 5: 10}
        placed = place([(1, ""), (2, "")], partitions=30, replication_factor=3, load=Counter(), down=[(4, ""), (5, "")])
        assert Counter(replicas[2] for replicas in placed) == {4: 15, 5: 15}

    def test_a_topic_of_one_partition_goes_to_the_least_loaded_broker(self):
        placed = place(
            [(1, ""), (2, ""), (3, "")], partitions=1, replication_factor=1, load=Counter({1: 5, 2: 3, 3: 4})
        )
        assert placed == [(2,)]


def test_producer_ids_are_given_once():
    image = cluster()
    blocks = []
    for broker in (1, 2, 1):
        epoch = image.brokers[broker].broker_epoch
        request = ProducerIdBlockRequest(broker_id=broker, broker_epoch=epoch)
        decision = decide_producer_ids(image, request, draw_key=lambda: "ab" * 16)
        blocks.append((decision.response.first, decision.response.key))
        image = decided(image, decision)
        if image.feature_level < KEYED_PRODUCER_IDS:
            image = replay(image, image.offset + 1, [SetFeatureLevel(level=KEYED_PRODUCER_IDS)])
    assert blocks == [(0, ""), (1_000, "ab" * 16), (2_000, "ab" * 16)]
    assert (image.producer_id_key, image.plain_producer_ids) == ("ab" * 16, 1_000)


def test_the_key_of_producer_ids_is_drawn_once():
    image = replay(cluster(), 99, [AllocateProducerIds(next_producer_id=2_000, key="ab" * 16)])
    again = replay(image, 100, [AllocateProducerIds(next_producer_id=3_000, key="cd" * 16)])
    assert (again.producer_id_key, again.next_producer_id, again.plain_producer_ids) == ("ab" * 16, 3_000, 0)


def test_a_registration_replaces_the_one_before():
    image = then(cluster(), register(1, "second"))
    assert (image.brokers[1].incarnation_id, image.brokers[1].broker_epoch, image.brokers[1].fenced) == (
        "second",
        image.offset,
        True,
    )
