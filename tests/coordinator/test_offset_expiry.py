"""Expiry of many offsets: a tick examines few of them, whatever groups and open transactions there are."""

from __future__ import annotations

from itertools import pairwise

from group_support import FakeTopics, Shard

from raftlog.coordinator.group.coordinator import MAX_EXPIRED
from raftlog.coordinator.group.offsets import EXAMINED_AT_ONCE
from raftlog.coordinator.group.records import OffsetCommitted, OffsetPending, TopicMetadata
from raftlog.model import TopicPartition

GROUPS, OFFSETS = 60, 1_000
INTERVAL_MS, RETENTION_MS = 60_000, 3_600_000


class CountedTopics(FakeTopics):
    def __init__(self, **topics: int) -> None:
        super().__init__(**topics)
        self.asked = 0

    def get(self, topic: str) -> TopicMetadata | None:
        self.asked += 1
        return super().get(topic)


def filled_shard() -> tuple[Shard, CountedTopics]:
    """Return a shard with 60,000 offsets."""
    topics = CountedTopics(t=OFFSETS)
    shard = Shard(topics, offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=INTERVAL_MS)
    for group in range(GROUPS):
        for partition in range(OFFSETS):
            shard.state.replay(
                OffsetCommitted(
                    group_id=f"g{group}",
                    topic="t",
                    partition=partition,
                    offset=1,
                    topic_id="",
                    committed_at_ms=shard.now.wall_ms,
                )
            )
    shard.coordinator.on_loaded(shard.state, shard.now)
    return shard, topics


def examined_by_ticks(shard: Shard, topics: CountedTopics) -> list[int]:
    """Let ticks pass until one examines nothing; return how many offsets each examined."""
    found = []
    while not found or found[-1]:
        before = topics.asked
        shard.pass_time(200)
        found.append(topics.asked - before)
    return found


def test_a_check_without_a_find_takes_several_ticks():
    shard, topics = filled_shard()
    shard.pass_time(0)
    assert topics.asked == 0, "the check is not due yet"
    shard.now_ms += INTERVAL_MS
    ticks = examined_by_ticks(shard, topics)
    assert sum(ticks) == GROUPS * OFFSETS, "each offset is examined once"
    assert max(ticks) <= EXAMINED_AT_ONCE + OFFSETS
    shard.now_ms += INTERVAL_MS
    assert sum(examined_by_ticks(shard, topics)) == GROUPS * OFFSETS, "the next check begins after the interval"


def test_all_expired_offsets_are_deleted_few_in_each_tick():
    shard, topics = filled_shard()
    shard.now_ms += RETENTION_MS + 1
    known = [GROUPS * OFFSETS]
    while known[-1]:
        shard.pass_time(200)
        known.append(sum(map(len, shard.state.offsets.values())))
    assert max(before - after for before, after in pairwise(known)) <= MAX_EXPIRED
    assert len(known) <= 2 + GROUPS * OFFSETS / MAX_EXPIRED
    assert topics.asked < 3 * GROUPS * OFFSETS


def test_open_transactions_cost_each_tick_once():
    shard, _ = filled_shard()
    for partition in range(OFFSETS):
        shard.state.replay(
            OffsetPending(
                producer_id=1,
                producer_epoch=0,
                group_id="g3",
                topic="t",
                partition=partition,
                offset=2,
                committed_at_ms=0,
            )
        )
    shard.now_ms += RETENTION_MS + 1
    while len(shard.state.offsets) > 1 or shard.state.unchecked:
        shard.pass_time(200)
    assert set(shard.state.offsets) == {"g3"}
    assert set(shard.state.offsets["g3"]) == {TopicPartition("t", number) for number in range(OFFSETS)}


def test_a_group_that_is_deleted_during_a_check_does_not_stop_it():
    shard, topics = filled_shard()
    shard.now_ms += INTERVAL_MS
    shard.pass_time(0)
    waiting = shard.state.unchecked[0]
    del shard.state.offsets[waiting]
    assert topics.asked + sum(examined_by_ticks(shard, topics)) >= (GROUPS - 1) * OFFSETS
    assert shard.state.unchecked == []
