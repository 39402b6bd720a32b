"""The rules of producers that keep their epoch (Kafka's TV1). Worlds with such producers find most of them."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.broker.kafka import transactional
from raftlog.coordinator.transaction import core, held, transitions

HELD = "tests/coordinator/test_held_transactions.py"
HISTORIES = "tests/coordinator/test_held_histories.py"


@mutant
@told_by(HELD, HISTORIES)
def a_late_batch_of_a_kept_epoch_goes_into_the_present_transaction(patch: Any) -> None:
    patch.edit(held.verify, "or missing or absent", "")


@mutant
@told_by(HELD, HISTORIES)
def an_init_leaves_the_epoch_that_was_kept(patch: Any) -> None:
    patch.edit(
        core.TransactionCoordinator.init,
        "timeout_ms=timeout_ms,\n",
        "timeout_ms=timeout_ms,\n"
        "            held_id=current.held_id if current else NO_PRODUCER_ID,\n"
        "            held_epoch=current.held_epoch if current else NO_PRODUCER_EPOCH,\n",
    )


@mutant
@told_by(HELD, HISTORIES)
def transactions_of_a_kept_epoch_have_one_number(patch: Any) -> None:
    patch.edit(
        transitions.prepare_end,
        "producer_id, epoch = current.producer_id, marker_epoch\n",
        "producer_id, epoch = current.producer_id, current.producer_epoch if held else marker_epoch\n",
    )


@mutant
@told_by(HELD, HISTORIES)
def a_time_out_leaves_the_epoch_that_was_kept(patch: Any) -> None:
    patch.edit(
        core.TransactionCoordinator.on_tick,
        "timed_out=True)",
        "timed_out=True, held=TransactionalProducer(producer_id=current.held_id, producer_epoch=current.held_epoch))",
    )


@mutant
@told_by(HELD, HISTORIES)
def an_init_repeated_with_an_identity_gets_another_epoch(patch: Any) -> None:
    """A repeat that comes late fences the producer that sent it."""
    patch(core, "is_repeated_init", lambda current, given: False)


@mutant
@told_by("tests/broker/kafka/test_kafka_transaction_requests.py")
def batches_of_a_kept_epoch_have_no_number(patch: Any) -> None:
    """All transactions of a producer have its own epoch in the log: the first marker fences it."""
    patch.edit(transactional._numbered, "set_producer(batch, found.producer_id, found.producer_epoch)", "pass")
