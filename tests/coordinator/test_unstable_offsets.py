"""Offsets that several open transactions will commit are unstable until all of these have ended."""

from __future__ import annotations

import pytest
from group_support import GROUP, Shard

from raftlog.coordinator.group.offsets import decide_end_of_transaction, decide_fetch, decide_transactional_commit
from raftlog.wire.groups import CommitOffset, OffsetCommitRequest, OffsetFetchRequest, TopicPartitions

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
    request = OffsetFetchRequest(require_stable=True, partitions=PLACE)
    (found,) = shard.run(decide_fetch, GROUP, request, topics=shard.topics).offsets
    return found.error.code if found.error else found.offset


@pytest.mark.parametrize("order", [(8, 9), (9, 8)])
def test_an_offset_is_unstable_until_the_last_transaction_has_ended(order: tuple[int, int]):
    shard = Shard()
    for producer_id in (8, 9):
        pend(shard, producer_id, 10 * producer_id)
        pend(shard, producer_id, 10 * producer_id + 1)
    shard.fail_over(compacted=True)
    first, last = order
    shard.run(decide_end_of_transaction, producer_id=first, producer_epoch=1, commit=True)
    assert shown(shard) == "UNSTABLE_OFFSET_COMMIT"
    shard.fail_over(compacted=True)
    assert shown(shard) == "UNSTABLE_OFFSET_COMMIT"
    shard.run(decide_end_of_transaction, producer_id=last, producer_epoch=1, commit=True)
    assert shown(shard) == 10 * last + 1
    shard.fail_over()
    assert (shard.state.pending, shard.state.unstable) == ({}, {})
