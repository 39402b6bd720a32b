"""How much a batch of a stream may hold, and how long one that is too small waits."""

from __future__ import annotations

import pickle

import pytest

from pyspark_raftlog.admission import Admission
from pyspark_raftlog.offsets import LogEnds, limit_bytes
from pyspark_raftlog.options import parse_options
from pyspark_raftlog.rack_replicas import AVOIDED_MS, LASTS_MS, RackReplicas
from raftlog.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class ManualClock:
    now_ms = 1_000_000.0

    def monotonic_ms(self) -> float:
        return self.now_ms


def admission(**given: str) -> Admission:
    options = parse_options({"bootstrap": "h:1", "subscribe": "t"} | given).for_stream()
    return Admission(options, clock=ManualClock())


def test_a_small_batch_waits_until_it_is_large_enough_or_time_is_up():
    held = admission(minOffsetsPerTrigger="10", maxTriggerDelay="30s")
    assert held.hold_back_ms({T0: 0}, {T0: 1}) == 0  # The first batch never waits.

    held.clock.now_ms += 10_000
    assert held.hold_back_ms({T0: 1}, {T0: 5, T1: 5}) == 20_000
    assert held.hold_back_ms({T0: 1}, {T0: 6, T1: 5}) == 0

    held.clock.now_ms += 29_999
    assert held.hold_back_ms({T0: 6}, {T0: 7}) == 1
    held.clock.now_ms += 1
    assert held.hold_back_ms({T0: 6}, {T0: 7}) == 0
    assert held.hold_back_ms({T0: 7}, {T0: 8}) == 30_000


def test_without_a_minimum_nothing_waits():
    assert admission().hold_back_ms({T0: 0}, {T0: 0}) == 0


def test_a_quiet_time_does_not_count_as_a_batch():
    held = admission(minOffsetsPerTrigger="10")
    assert held.hold_back_ms({T0: 5}, {T0: 5}) == 0
    assert held.hold_back_ms({T0: 5}, {T0: 6}) == 0
    assert held.hold_back_ms({T0: 6}, {T0: 7}) == 900_000


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(10_000, (100, 50)), (1_500, (15, 7)), (1, (1, 0)), (15_000, (100, 50)), (10_001, (100, 50))],
)
def test_bytes_are_limited_by_the_size_of_records(limit, expected):
    start, end = {T0: 0, T1: 0}, {T0: 100, T1: 50}

    limited = limit_bytes(start, end, limit, {T0: 50.0, T1: 100.0})

    assert (limited[T0], limited[T1]) == expected


def test_a_reader_that_is_ahead_of_an_open_transaction_stays_where_it_is():
    ends = LogEnds(0, 40, undecided=20)

    assert [ends.next_end(position) for position in (0, 40, 50, 60, 61)] == [40, 40, 50, 60, 40]


def test_limits_travel_with_the_reader():
    assert pickle.loads(pickle.dumps(Admission(admission().options))).options == admission().options


def test_a_near_replica_is_read_for_a_while_and_a_failed_one_left_for_a_while():
    clock = ManualClock()
    near = RackReplicas(clock)
    assert near.is_undecided(T0)

    near.decide(T0, 3)
    assert (near.is_undecided(T0), near.of(T0), near.of(T1)) == (False, 3, None)
    clock.now_ms += LASTS_MS
    assert near.is_undecided(T0)

    near.leave(T0)
    assert (near.is_undecided(T0), near.of(T0)) == (False, None)
    clock.now_ms += AVOIDED_MS
    assert near.is_undecided(T0)
