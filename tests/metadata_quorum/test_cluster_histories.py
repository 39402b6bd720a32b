"""Random histories of a cluster: the invariants hold after any requests in any order."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar, cast

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from metadata_support import register

from raftlog.errors import RaftlogError
from raftlog.metadata_quorum import records as r
from raftlog.metadata_quorum.assignments import Assignments
from raftlog.metadata_quorum.controller.brokers import decide_fence, decide_heartbeat, decide_registration
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.controller.elections import is_active, unclean_elections
from raftlog.metadata_quorum.controller.elections import min_isr as effective_min_isr
from raftlog.metadata_quorum.controller.isr import decide_alter_partitions
from raftlog.metadata_quorum.controller.leadership import decide_elections, decide_rebalance
from raftlog.metadata_quorum.controller.producer_ids import decide_producer_ids
from raftlog.metadata_quorum.controller.reassignment import decide_reassignment
from raftlog.metadata_quorum.controller.topics import TopicDefaults, decide_alteration, decide_creation, decide_deletion
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import image_from_plain, image_to_plain
from raftlog.metadata_quorum.replay import replay_command
from raftlog.model import NO_LEADER, PartitionState
from raftlog.wire.admin import AlterTopicRequest, ElectLeadersRequest, ReassignmentRequest, ReassignPartition
from raftlog.wire.codec import encode_json
from raftlog.wire.controller import (
    AlterPartition,
    AlterPartitionsRequest,
    HeartbeatRequest,
    IsrMember,
    ProducerIdBlockRequest,
    RegisterBrokerRequest,
)
from raftlog.wire.metadata import CreateTopicRequest, DeleteTopicRequest

T = TypeVar("T")
BROKERS = (1, 2, 3, 4)
DEFAULTS = TopicDefaults(partitions=2, replication_factor=3)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        return cast("T", ended.value)
    raise AssertionError("it waits")


class Cluster:
    """Decides, commits through the bytes that Raft would carry, and checks each step."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.sequence = 0
        self.topics = 0
        self.wants_shutdown: set[int] = set()
        self.lost: set[int] = set()
        self.proposed: dict[tuple[str, int], set[int]] = {}
        """By partition: the ISR that its leader proposes. Every member of it has every acknowledged record."""
        self.image, _ = self.replayed(-1, -1, (r.BeginEpoch(controller_id=101),))

    def replayed(self, epoch: int, sequence: int, records: tuple[r.Record, ...]):
        payload = r.encode_command(r.Command(controller_epoch=epoch, sequence=sequence, records=records))
        return replay_command(self.image, self.image.offset + 1, payload)

    def commit(self, decision: Decision) -> None:
        if not decision.records:
            return
        before, self.sequence = self.image, self.sequence + 1
        self.image, applied = self.replayed(before.controller_epoch, self.sequence, decision.records)
        assert applied == decision.records
        self.check(before)

    def act(self, name: str, broker: int, extra: int) -> None:
        self.lost, self.proposed = set(), {}
        with suppress(RaftlogError):  # A refusal changes nothing.
            self.commit(getattr(self, name)(broker, extra))

    def begin_epoch(self, broker: int, extra: int) -> Decision:
        before, self.sequence = self.image, 0
        self.image, _ = self.replayed(-1, -1, (r.BeginEpoch(controller_id=100 + extra),))
        self.check(before)
        return Decision((), None)

    def start(self, broker: int, extra: int) -> Decision:
        asked = register(broker, f"{broker}-{extra}", rack=str(broker % 2))
        decided = ("broker_epoch", "replaced")
        fields = {name: getattr(asked, name) for name in r.RegisterBroker.__slots__ if name not in decided}
        fields["storage_id"] = f"disk {extra // 3}"  # The last of the four starts on another disk.
        request = RegisterBrokerRequest(cluster_id="c", **fields)
        known = self.image.brokers.get(broker)
        self.lost = {broker} if known and known.storage_id not in ("", fields["storage_id"]) else set()
        decision = decide_registration(self.image, request, cluster_id="c", session_alive=extra % 2 == 0)
        if decision.records:
            self.wants_shutdown.discard(broker)
        return decision

    def heartbeat(self, broker: int, extra: int) -> Decision:
        known = self.image.brokers.get(broker)
        return decide_heartbeat(
            self.image,
            HeartbeatRequest(
                broker_id=broker,
                broker_epoch=known.broker_epoch if known else -1,
                metadata_offset=self.image.offset,
                want_shutdown=broker in self.wants_shutdown,  # A process that wants to stop never changes its mind.
            ),
        )

    def shut_down(self, broker: int, extra: int) -> Decision:
        if broker in self.image.brokers:
            self.wants_shutdown.add(broker)
        decision = self.heartbeat(broker, extra)
        if decision.response.should_shut_down:
            assert all(state.leader != broker for _, _, state in self.image.partitions())
        return decision

    def fence(self, broker: int, extra: int) -> Decision:
        known = self.image.brokers.get(broker)
        return decide_fence(self.image, broker, known.broker_epoch if known else -1)

    def create(self, broker: int, extra: int) -> Decision:
        self.topics += 1
        request = CreateTopicRequest(topic=f"t{extra}", partitions=1 + extra % 2)
        return decide_creation(self.image, request, topic_id=f"{self.topics:032x}", defaults=DEFAULTS)

    def delete(self, broker: int, extra: int) -> Decision:
        return decide_deletion(self.image, DeleteTopicRequest(topic=f"t{extra}"))

    def alter(self, broker: int, extra: int) -> Decision:
        """Every leader of anything proposes to add or remove one replica."""
        asked = []
        for topic, partition, state in self.image.partitions():
            if state.leader != broker:
                continue
            other = state.replicas[extra % len(state.replicas)]
            isr = set(state.isr) ^ ({other} - {broker})
            self.proposed[topic.topic_id, partition] = isr
            epochs = {member: self.image.brokers[member].broker_epoch for member in isr}
            members = tuple(IsrMember(broker_id=m, broker_epoch=epoch) for m, epoch in sorted(epochs.items()))
            asked.append(
                AlterPartition(
                    topic_id=topic.topic_id,
                    partition=partition,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=state.partition_epoch,
                    new_isr=members,
                )
            )
        epoch = self.image.brokers[broker].broker_epoch if broker in self.image.brokers else -1
        # The same changes twice in one request: the second copy must lose its compare-and-swap.
        request = AlterPartitionsRequest(broker_id=broker, broker_epoch=epoch, partitions=(*asked, *asked))
        decision = decide_alter_partitions(self.image, request)
        assert all(result.error is not None for result in decision.response.partitions[len(asked) :])
        return decision

    def reassign(self, broker: int, extra: int) -> Decision:
        target = tuple(BROKERS[(broker + step) % len(BROKERS)] for step in range(extra)) or None
        asked = ReassignPartition(topic="t1", partition=0, replicas=target)
        return decide_reassignment(self.image, ReassignmentRequest(partitions=(asked,)))

    def elect_preferred(self, broker: int, extra: int) -> Decision:
        return decide_elections(self.image, ElectLeadersRequest()) if extra % 2 else decide_rebalance(self.image)

    def min_isr(self, broker: int, extra: int) -> Decision:
        configs = {"min_insync_replicas": 1 + extra % 3}
        return decide_alteration(self.image, AlterTopicRequest(topic="t1", configs=configs))

    def producer_ids(self, broker: int, extra: int) -> Decision:
        epoch = self.image.brokers[broker].broker_epoch if broker in self.image.brokers else -1
        request = ProducerIdBlockRequest(broker_id=broker, broker_epoch=epoch)
        return decide_producer_ids(self.image, request, draw_key=lambda: "ab" * 16)

    def check(self, before: MetadataImage) -> None:
        for topic, partition, state in self.image.partitions():
            self.check_state(state, effective_min_isr(topic, state))
            earlier = before.partition(topic.topic_id, partition)
            if earlier is not None:
                self.check_change(earlier, state, self.proposed.get((topic.topic_id, partition), set()))
        assert self.image.next_producer_id >= before.next_producer_id
        assert {topic.topic: topic.topic_id for topic in self.image.topics.values()} == self.image.names
        assert image_from_plain(orjson.loads(encode_json(image_to_plain(self.image)))) == self.image
        hosted = sum(len(at_once(Assignments(broker).of(self.image))) for broker in BROKERS)
        assert hosted == sum(len(state.replicas) for _, _, state in self.image.partitions())

    def check_state(self, state: PartitionState, min_isr: int) -> None:
        members = (*state.isr, *state.elr)
        assert set(members) <= set(state.replicas)
        assert len(set(members)) == len(members)
        assert {*state.adding, *state.removing} <= {*state.replicas}
        assert not state.elr or len(state.isr) < min_isr
        if state.leader == NO_LEADER:
            assert not any(is_active(self.image, member) for member in members)
        else:
            assert state.leader in state.isr
            assert is_active(self.image, state.leader)
        assert not any(self.image.brokers[member].fenced for member in state.isr)

    def check_change(self, earlier: PartitionState, state: PartitionState, proposed: set[int]) -> None:
        if state == earlier:
            return
        assert state.partition_epoch == earlier.partition_epoch + 1
        dropped = not set(earlier.replicas) <= set(state.replicas)
        assert state.leader_epoch == earlier.leader_epoch + (dropped or state.leader != earlier.leader)
        if state.leader not in (earlier.leader, NO_LEADER):
            assert state.leader in (*earlier.isr, *earlier.elr, *proposed), "an unclean election"
        # A replica with every acknowledged record is never forgotten, unless enough others have them too.
        eligible = {*earlier.isr, *earlier.elr} & {*state.replicas} - self.lost
        assert state.elr == () or eligible <= {*state.isr, *state.elr}
        assert {*state.isr, *state.elr} & eligible or not eligible


KINDS = ["start", "heartbeat", "shut_down", "fence", "create", "delete", "alter", "producer_ids", "begin_epoch"]
KINDS += ["reassign", "elect_preferred", "min_isr"]
STEPS = st.tuples(st.sampled_from(KINDS), st.sampled_from(BROKERS), st.integers(0, 3))


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_what_always_holds(steps: list[tuple[str, int, int]]):
    cluster = Cluster()
    for broker in BROKERS:
        cluster.act("start", broker, 1)
        cluster.act("heartbeat", broker, 0)
    cluster.act("create", 1, 1)
    for step in steps:
        cluster.act(*step)


def test_a_restarted_broker_leads_nothing_until_it_is_unfenced():
    cluster = Cluster()
    for broker in BROKERS[:3]:
        cluster.act("start", broker, 1)
        cluster.act("heartbeat", broker, 0)
    cluster.act("create", 1, 1)
    led = [key for key in (0, 1) if cluster.image.topic("t1").partitions[key].leader == 1]  # type: ignore[union-attr]
    assert led
    cluster.act("start", 1, 3)

    for key in led:
        state = cluster.image.topic("t1").partitions[key]  # type: ignore[union-attr]
        assert (state.leader != 1, 1 in state.isr, 1 in state.elr, state.leader_epoch) == (True, False, False, 1)


SCALARS = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=5) | st.just(1.5)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
FIELDS = ["offset", "controller_id", "controller_epoch", "last_sequence", "next_producer_id", "brokers", "topics"]


@given(ANYTHING | st.dictionaries(st.sampled_from(FIELDS), ANYTHING))
def test_what_is_no_image_is_refused_as_such(plain: object):
    try:
        image_from_plain(plain)  # type: ignore[arg-type]
    except r.UnreadableRecordError:
        return


def test_every_kind_has_a_golden_record():
    from test_metadata_replay import EVERY_RECORD  # noqa: PLC0415

    assert {type(record).__name__ for record in EVERY_RECORD} == set(r._KINDS)


def test_who_ends_a_reassignment_by_coming_into_the_isr_leads_cleanly():
    cluster = Cluster()
    for broker in BROKERS:
        cluster.act("start", broker, 1)
        cluster.act("heartbeat", broker, 0)
    cluster.act("create", 1, 1)
    cluster.act("reassign", 3, 1)
    before = cluster.image
    (moving,) = {topic.topic_id for topic, _, state in before.partitions() if state.adding}
    decision = cluster.alter(1, 0)
    cluster.commit(decision)

    ended = [state for topic, _, state in cluster.image.partitions() if topic.topic_id == moving and not state.adding]
    assert any(state.isr == (4,) and state.leader == 4 for state in ended)
    assert unclean_elections(before, decision.records) == []
