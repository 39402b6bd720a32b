"""Producers that keep their epoch (Kafka's TV1): the coordinator holds it, and numbers their transactions."""

from __future__ import annotations

import time
from typing import Any

import pytest
from transaction_support import Shard

from raftlog.coordinator.transaction.held import end_holding, verify
from raftlog.coordinator.transaction.records import TransactionChanged
from raftlog.coordinator.transaction.transitions import LAST_EPOCH
from raftlog.wire.transactions import (
    EndTransactionBody,
    JoinTransactionRequest,
    TransactionalProducer,
    TransactionPartition,
)


class Held(Shard):
    """A shard with requests of such a producer."""

    def hold(self, who: tuple[int, int], *, committed: bool = True) -> Any:
        asked = EndTransactionBody(producer_id=who[0], producer_epoch=who[1], committed=committed)
        made = self._do(lambda fresh: end_holding(self.state, self.now, "t", asked, fresh))
        return (made.producer_id, made.producer_epoch) if hasattr(made, "producer_id") else made

    def number(self, who: tuple[int, int], *partitions: int, verify_only: bool = True) -> Any:
        asked = JoinTransactionRequest(
            transactional_id="t",
            producer_id=who[0],
            producer_epoch=who[1],
            partitions=tuple(TransactionPartition(topic="x", partition=p, topic_id="a") for p in partitions),
            verify_only=verify_only,
        )
        made = self._do(lambda _: self.coordinator.join(self.state, self.now, asked))
        return (made.producer_id, made.producer_epoch) if hasattr(made, "producer_id") else made

    def init_as(self, who: tuple[int, int]) -> Any:
        given = TransactionalProducer(producer_id=who[0], producer_epoch=who[1])
        made = self._do(lambda fresh: self.coordinator.init(self.state, self.now, "t", 1_000, fresh, given))
        return (made.producer_id, made.producer_epoch) if hasattr(made, "producer_id") else made


def test_a_repeated_end_is_confirmed():
    """A coordinator that was replaced knows of an earlier transaction only, and called this one committed."""
    shard = Held()
    who = shard.init("t")
    shard.number(who, 0, verify_only=False)
    shard.hold(who)
    shard.complete("t")
    asked = EndTransactionBody(producer_id=who[0], producer_epoch=who[1], committed=True)
    again = end_holding(shard.state, shard.now, "t", asked)
    assert (list(again.records), again.is_confirmed) == ([], True)


def test_a_verification_takes_time_in_proportion_to_what_it_names():
    """Not to the product of what it names and what the transaction has."""
    joined = tuple(TransactionPartition(topic="x", partition=number, topic_id="a") for number in range(5_000))
    current = TransactionChanged(
        transactional_id="t",
        producer_id=1,
        producer_epoch=0,
        phase="ongoing",
        timeout_ms=1,
        changed_ms=0,
        partitions=joined,
    )
    asked = JoinTransactionRequest(
        transactional_id="t", producer_id=1, producer_epoch=0, partitions=joined[::-1], verify_only=True
    )
    began = time.thread_time()
    verify(current, asked)
    assert time.thread_time() - began < 1.0, "it compares 25 million pairs"


@pytest.fixture
def shard() -> Held:
    return Held()


def test_each_transaction_of_a_kept_epoch_has_a_number_of_its_own(shard: Held):
    who = shard.init()
    numbers = []
    for _ in range(4):
        assert shard.join(who, 0) == "joined"
        numbers.append(shard.number(who, 0))
        assert shard.hold(who) == who
        marker = shard.state.by_id["t"].marker_epoch
        assert marker == numbers[-1][1] + 1, "the marker fences late batches of its transaction"
        shard.complete()
    assert numbers == [(who[0], who[1] + number) for number in range(4)]


def test_a_late_batch_is_verified_before_it_gets_the_number_of_the_next_transaction(shard: Held):
    who = shard.init()
    shard.join(who, 0)
    shard.hold(who)
    assert shard.number(who, 0) == "CONCURRENT_TRANSACTIONS"
    shard.complete()
    assert shard.number(who, 0) == "INVALID_TXN_STATE"
    shard.join(who, 1)
    assert shard.number(who, 0) == "INVALID_TXN_STATE"
    assert shard.number(who, 1) == (who[0], who[1] + 1)


def test_ends_may_be_repeated_and_not_contradicted(shard: Held):
    who = shard.init()
    assert shard.hold(who) == "INVALID_TXN_STATE"
    shard.join(who, 0)
    assert shard.hold(who) == who
    assert shard.hold(who) == "CONCURRENT_TRANSACTIONS"
    assert shard.hold(who, committed=False) == "INVALID_TXN_STATE"
    shard.complete()
    shard.fail_over()
    assert shard.hold(who) == who
    assert shard.hold(who, committed=False) == "INVALID_TXN_STATE"
    assert len(shard.log) == 4


def test_an_init_fences_the_held_epoch(shard: Held):
    zombie = shard.init()
    shard.join(zombie, 0)
    shard.hold(zombie)
    shard.complete()
    shard.join(zombie, 0)
    assert shard.init() is None
    shard.complete()
    new = shard.init()
    assert new[1] > zombie[1] + 1
    assert shard.number(zombie, 0, verify_only=False) == "INVALID_PRODUCER_EPOCH"
    assert shard.hold(zombie) == "INVALID_PRODUCER_EPOCH"
    assert shard.init_as(zombie) == "PRODUCER_FENCED"


def test_the_same_producer_begins_again_with_its_identity(shard: Held):
    who = shard.init()
    shard.join(who, 0)
    shard.hold(who)
    shard.complete()
    shard.join(who, 0)
    assert shard.init_as(who) is None, "its transaction is aborted first"
    assert shard.init_as(who) is None
    shard.complete()
    again = shard.init_as(who)
    assert again == (who[0], who[1] + 3)
    assert shard.number(who, 0, verify_only=False) == "INVALID_PRODUCER_EPOCH"


def test_an_init_with_an_identity_may_be_repeated_when_its_answer_was_lost(shard: Held):
    who = shard.init()
    shard.join(who, 0)
    shard.hold(who)
    shard.complete()
    again = shard.init_as(who)
    assert shard.init_as(who) == again, "the same answer: a late repeat fences nobody"
    assert shard.number(who, 0, verify_only=False) == "INVALID_PRODUCER_EPOCH"
    assert shard.hold(who, committed=False) == "INVALID_PRODUCER_EPOCH"
    assert shard.end(who, committed=False) == "INVALID_PRODUCER_EPOCH"
    shard.fail_over()
    assert shard.init_as(who) == again
    shard.join(again, 0)
    assert shard.init_as(who) == "PRODUCER_FENCED", "a transaction has begun since"


def test_an_init_with_an_identity_is_not_repeated_after_another_producer(shard: Held):
    zombie = shard.init()
    assert shard.init_as(zombie) == (zombie[0], zombie[1] + 1)
    assert shard.init() == (zombie[0], zombie[1] + 2)
    assert shard.init_as(zombie) == "PRODUCER_FENCED"


def test_a_time_out_fences_a_held_epoch(shard: Held):
    who = shard.init()
    shard.join(who, 0)
    shard.hold(who)
    shard.complete()
    shard.join(who, 0)
    assert shard.tick(1_000) == 1
    shard.complete()
    assert shard.number(who, 0, verify_only=False) == "INVALID_PRODUCER_EPOCH"
    assert shard.hold(who) == "INVALID_PRODUCER_EPOCH"


def test_a_kept_epoch_outlives_all_numbers_of_a_producer_id(shard: Held):
    who = shard.init()
    for _ in range(LAST_EPOCH + 10):
        assert shard.join(who, 0) == "joined"
        assert shard.hold(who) == who
        shard.complete()
        shard.log.clear()
    shard.join(who, 0)
    number = shard.number(who, 0)
    assert number[0] != who[0]
    assert number[1] < 20
