"""Groups that read as many partitions as a topic may have: no decision keeps the coordinator's event loop for long."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from classic_support import DELAY_MS, ClassicShard
from converted_support import Consumer, shard_of
from group_support import GROUP, FakeTopics

from raftlog.config import GroupConfig
from raftlog.coordinator.group.assignors import ASSIGNORS
from raftlog.coordinator.group.classic import decide_sync
from raftlog.coordinator.group.classic_requests import ClassicSync
from raftlog.coordinator.group.conversion import MAX_CONVERTED_BYTES
from raftlog.coordinator.group.membership import decide_heartbeat
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.runtime import Now
from raftlog.metadata_quorum.controller.topics import MAX_PARTITIONS
from raftlog.model import TopicPartition, numbers_by_topic
from raftlog.wire.groups import GroupHeartbeatRequest


@pytest.fixture(autouse=True)
def without_collections() -> Iterator[None]:
    """Keep the garbage collector from what other tests have left: a node's own is small, and frozen."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def join_times_ms(assignor: str, members: int) -> list[float]:
    """Let members join one after another; return what each decision took of the processor, with its effect."""
    state, topics, took = GroupsState(), FakeTopics(large=MAX_PARTITIONS), []
    for number in range(members):
        joins = GroupHeartbeatRequest(
            member_id=f"m{number}",
            member_epoch=0,
            topics=("large",),
            assignor=assignor,  # type: ignore[arg-type]
        )
        began = time.thread_time()
        decision = decide_heartbeat(state, Now(0, 0), GROUP, joins, topics=topics, settings=GroupConfig())
        for record in decision.records:
            state.replay(record)
        took.append(1000 * (time.thread_time() - began))
    assert sum(map(len, state.groups[GROUP].target.values())) == MAX_PARTITIONS
    return took


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_join_a_group_of_ten_thousand_partitions_at_once(assignor: str):
    rounds: list[list[float]] = []
    while len(rounds) < 15:  # The fastest of several is what the code needs: other processes share the caches.
        rounds.append(join_times_ms(assignor, 4))
        fastest = [min(times) for times in zip(*rounds, strict=True)]
        if len(rounds) >= 3 and max(fastest) < 100:
            break
    assert max(fastest) < 100, fastest


class ManyTopics(FakeTopics):
    """10,000 topics of one partition, which one pattern matches."""

    def __init__(self) -> None:
        super().__init__(**{f"t{number}": 1 for number in range(MAX_PARTITIONS)})
        self._names = tuple(self._topics)

    def matching(self, pattern: str) -> Iterable[str]:
        return self._names


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_of_a_pattern_join_a_group_of_ten_thousand_topics_at_once(assignor: str):
    """No decision looks at each topic for each member: 20 members took 300 ms."""
    state, topics = GroupsState(), ManyTopics()

    def join(number: int) -> float:
        joins = GroupHeartbeatRequest(
            member_id=f"m{number}",
            member_epoch=0,
            pattern="t.*",
            assignor=assignor,  # type: ignore[arg-type]
        )
        began = time.thread_time()
        decision = decide_heartbeat(state, Now(0, 0), GROUP, joins, topics=topics, settings=GroupConfig())
        took = time.thread_time() - began
        for record in decision.records:
            state.replay(record)
        return took

    few = min(join(number) for number in range(5))
    for number in range(100, 400):
        state.replay(replace(state.groups[GROUP].members["m0"], member_id=f"m{number}"))
    many = min(join(number) for number in range(5, 10))
    assert sum(map(len, state.groups[GROUP].target.values())) == MAX_PARTITIONS
    assert many < 3 * few


def test_partitions_are_written_in_order():
    partitions = [TopicPartition(topic, number) for topic in ("b", "a") for number in (10, 9, 1)]
    assert numbers_by_topic(partitions) == {"a": (1, 9, 10), "b": (1, 9, 10)}


def test_a_thousand_members_of_a_classic_group_join_and_are_assigned_at_once():
    """As large as a group may be: 1,000 members with 2,000 bytes of metadata, and as many of assignments."""
    shard, took = ClassicShard(), list[float]()
    for _ in range(1_000):
        began = time.thread_time()
        shard.join(protocols=(("range", b"m" * 2_000),))
        took.append(1000 * (time.thread_time() - began))
    shard.pass_time(DELAY_MS)
    leader = shard.classic.leader
    given = tuple((member_id, b"a" * 2_000) for member_id in shard.classic.members)
    sync = ClassicSync(member_id=leader, generation=1, assignments=given)
    for _ in range(5):  # The fastest of several is what the code needs.
        group, began = shard.classic.copy(), time.thread_time()
        decision = decide_sync(shard.state, shard.now, GROUP, sync, settings=shard.settings)
        for record in decision.records:
            shard.coordinator.codec.encode(record)
            group.replay(record)
        took.append(1000 * (time.thread_time() - began))
    assert group.phase == "Stable"
    assert min(took[-5:]) < 50, took[-5:]
    assert sorted(took[:-5])[-50] < 10


def conversion_ms() -> float:
    """Convert the largest group that may be converted; return what the decision took, with its effect."""
    shard = shard_of(t=3_950)
    consumer = Consumer(shard)
    for _ in range(2):  # Its second join says what it reads.
        consumer.doing = "join"
        while consumer.doing != "read":
            consumer.step()
            shard.pass_time(DELAY_MS)
    assert 0.95 * MAX_CONVERTED_BYTES < shard.classic.size <= MAX_CONVERTED_BYTES
    joins = GroupHeartbeatRequest(member_id="x", member_epoch=0, topics=("t",))
    began = time.thread_time()
    decision = decide_heartbeat(shard.state, shard.now, GROUP, joins, topics=shard.topics, settings=shard.settings)
    for record in decision.records:
        shard.coordinator.codec.encode(record)
        shard.state.replay(record)
    took = 1000 * (time.thread_time() - began)
    assert set(shard.group.members) == {"x", consumer.member_id}
    return took


def test_the_largest_group_that_may_be_converted_is_converted_at_once():
    took = list[float]()
    while len(took) < 15:  # The fastest of several is what the code needs.
        took.append(conversion_ms())
        if len(took) >= 3 and min(took) < 50:
            break
    assert min(took) < 50, took
