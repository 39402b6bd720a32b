"""Records that the producer of a blocking one refuses once they are accepted, and errors that many records share."""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType
from typing import Any

import pytest

from raftlog.blocking.outbox import Outbox, QueueingProducer
from raftlog.client.delivery import Delivery, SharedHandle
from raftlog.errors import InvalidRequestError, RetriableError
from raftlog.record import NewRecord

RECORD = NewRecord(b"value", None, 0, ())


def refusing(producer: QueueingProducer, error: Exception) -> Outbox:
    """Return the outbox of a producer that refuses every record."""

    def refuse(*_: Any, **__: Any) -> Delivery:
        raise error

    producer.send_nowait = refuse  # type: ignore[method-assign]
    return Outbox(producer, lambda work: asyncio.ensure_future(work()), RuntimeError)


@pytest.mark.parametrize("error", [InvalidRequestError("no such name"), TypeError("no name")], ids=["own", "foreign"])
async def test_a_refused_record_fails_its_transaction(error: Exception):
    producer = QueueingProducer("http://127.0.0.1:1", transactional_id="id")
    transactions = producer._gate.transactions
    assert transactions is not None
    transactions.state = "in transaction"
    outbox = refusing(producer, error)
    outcome = outbox.put("t", None, RECORD, 5)
    await outbox.passed()
    assert type(outcome.exception(timeout=0)) is type(error)
    assert transactions.state == "failed"


async def test_an_exit_in_a_records_callback_lets_later_records_be_sent():
    outbox = refusing(QueueingProducer("http://127.0.0.1:1"), RetriableError("no replicas"))
    first, second = (outbox.put("t", None, RECORD, 5) for _ in range(2))
    first.add_done_callback(lambda _: sys.exit(3))
    await outbox.passed()
    assert isinstance(first.exception(timeout=0), RetriableError)
    assert isinstance(second.exception(timeout=0), RetriableError)


def frames(trace: TracebackType | None) -> int:
    return 0 if trace is None else 1 + frames(trace.tb_next)


async def test_the_traceback_of_an_error_does_not_grow_with_the_records_that_share_it():
    handle = SharedHandle(asyncio.get_running_loop())
    handle.count = 3
    handle.failed(RetriableError("no replicas"))
    seen = []
    for at in range(3):
        with pytest.raises(RetriableError) as raised:
            await Delivery(handle, at)
        seen.append(frames(raised.value.__traceback__))
    assert seen == seen[:1] * 3


async def test_each_record_of_a_blocking_producer_has_an_error_of_its_own():
    cause = ValueError("why")
    error = RetriableError("no replicas", details={"partition": 1})
    error.__cause__ = cause
    outbox = refusing(QueueingProducer("http://127.0.0.1:1"), error)
    outcomes = [outbox.put("t", None, RECORD, 5) for _ in range(2)]
    await outbox.passed()
    first, second = (outcome.exception(timeout=0) for outcome in outcomes)
    assert isinstance(first, RetriableError)
    assert first is not second
    assert (first.message, first.details, first.__cause__) == ("no replicas", {"partition": 1}, cause)
