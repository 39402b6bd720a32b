"""Offsets that open transactions will commit: unstable until a newer commit has replaced them, or all have ended."""

from __future__ import annotations

import pytest
from group_support import GROUP, Shard

from raftlog.coordinator.group.offsets import (
    OFFSETS_AT_ONCE,
    decide_end_of_transaction,
    decide_transactional_commit,
)
from raftlog.wire.groups import CommitOffset, OffsetCommitRequest, TopicPartitions

PLACE = (TopicPartitions(topic="t", partitions=(0,)),)


def pend(shard: Shard, producer_id: int, offset: int) -> None:
    shard.run(
        decide_transactional_commit,
        GROUP,
        OffsetCommitRequest(offsets=(CommitOffset(topic="t", partition=0, offset=offset),)),
        producer_id=producer_id,
        producer_epoch=1,
        topics=shard.topics,
        settings=shard.settings,
    )


def shown(shard: Shard) -> int | str:
    (found,) = shard.fetched(require_stable=True, partitions=PLACE)
    return found.error.code if found.error else found.offset


def end(shard: Shard, producer_id: int, *, commit: bool = True) -> None:
    shard.run(decide_end_of_transaction, producer_id=producer_id, producer_epoch=1, commit=commit)
    shard.fail_over(compacted=True)


@pytest.fixture(params=[True, False], ids=["failed-over", "same-coordinator"])
def shard(request: pytest.FixtureRequest) -> Shard:
    """Producers 8 and 9 have sent offsets, 9 the last one."""
    shard = Shard()
    for producer_id in (9, 8, 9):
        pend(shard, producer_id, 10 * producer_id)
        pend(shard, producer_id, 10 * producer_id + 1)
    if request.param:
        shard.fail_over(compacted=True)
    assert shown(shard) == "UNSTABLE_OFFSET_COMMIT"
    return shard


@pytest.mark.parametrize("is_committed", [True, False])
def test_an_offset_is_unstable_until_the_last_transaction_has_ended(shard: Shard, is_committed: bool):
    end(shard, 8)
    assert shown(shard) == "UNSTABLE_OFFSET_COMMIT"
    end(shard, 9, commit=is_committed)
    assert shown(shard) == (91 if is_committed else 81)
    assert (shard.state.pending, shard.state.unstable) == ({}, {})


def test_a_transaction_that_sent_its_offset_earlier_and_ends_later_does_not_move_it_back(shard: Shard):
    end(shard, 9)
    assert shown(shard) == 91  # Transaction 8 is still open; whatever becomes of it, this offset stays.
    end(shard, 8)
    assert shown(shard) == 91


def test_a_transaction_that_aborts_replaces_no_offset(shard: Shard):
    end(shard, 9, commit=False)
    assert shown(shard) == "UNSTABLE_OFFSET_COMMIT"
    end(shard, 8)
    assert shown(shard) == 81


def test_a_plain_commit_replaces_what_open_transactions_sent_before(shard: Shard):
    """Also that of a topic which was created again meanwhile."""
    shard.topics.set("t", None)
    shard.topics.set("t", 4)
    shard.commit(100)
    shard.fail_over(compacted=True)
    assert shown(shard) == 100
    pend(shard, 8, 101)
    end(shard, 9)
    assert shown(shard) == "UNSTABLE_OFFSET_COMMIT"
    end(shard, 8)
    assert shown(shard) == 101


def test_one_commit_deletes_a_bounded_number_of_pending_offsets():
    """A hostile client may open many transactions for a partition; no request then holds the loop for all of them."""
    shard = Shard()
    for producer_id in range(3_000):
        pend(shard, producer_id, 5)
    before = len(shard.log)
    shard.commit(7)
    assert len(shard.log) - before <= 2 * OFFSETS_AT_ONCE
    before = len(shard.log)
    end(shard, 2_999)
    assert len(shard.log) - before <= 3 * OFFSETS_AT_ONCE
