"""What a record of an iteration costs a member that reads many partitions."""

from __future__ import annotations

import math

import pytest

from raftlog import Consumer
from raftlog.model import TopicPartition
from raftlog.record import Record

PARTITIONS, RECORDS = 100, 50


class Counted(TopicPartition):
    """A partition that counts how often one is compared."""

    comparisons = 0
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return tuple.__eq__(self, other)  # type: ignore[arg-type]

    __hash__ = TopicPartition.__hash__


def some(count: int) -> frozenset[TopicPartition]:
    return frozenset(Counted("t", number) for number in range(count))


@pytest.mark.parametrize("waiting", [0, 1], ids=["all are read", "one waits for its start offset"])
async def test_no_record_compares_the_assignment_again(waiting: int):
    consumer = Consumer("http://127.0.0.1:1", "t", group_id="g")
    consumer._started = True
    group = consumer._group
    assert group is not None
    group._commit_due_s = math.inf
    group._take_again_s = math.inf
    membership = group.membership
    membership.phase, membership.owned, membership.target = "member", some(PARTITIONS), some(PARTITIONS + waiting)
    consumer._reader.positions[TopicPartition("t", 0)] = 0
    consumer._reader.keep_ready([Record("t", 0, offset, 0, None, b"", ()) for offset in range(RECORDS + 1)])
    records = aiter(consumer)
    Counted.comparisons = 0
    assert [(await anext(records)).offset for _ in range(RECORDS)] == list(range(RECORDS))
    assert Counted.comparisons <= 3 * PARTITIONS
    assert membership.reconciling is bool(waiting)
    membership.phase = "joining"
    await consumer.close()
