"""A transaction that is cancelled while it commits: its producer says whether it may count."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from transaction_settings import SETTINGS

from raftlog.client.transactions import TransactionManager
from raftlog.errors import (
    ErrorCode,
    FencedError,
    InvalidRequestError,
    RaftlogError,
    RetriableError,
    TransactionAbortedError,
    TransactionInDoubtError,
)
from raftlog.wire import paths
from raftlog.wire.metadata import COMMITS_BY_TOPIC_ID
from raftlog.wire.transactions import TransactionalProducer

ALREADY_COMMITTED = InvalidRequestError("it has ended", code=ErrorCode.INVALID_TXN_STATE)


class Sent:
    """Something was sent in each transaction."""

    used = True

    def __init__(self, flush: Callable[[], Awaitable[None]]) -> None:
        self.flush = flush

    def begin_epoch(self, producer: TransactionalProducer) -> None: ...

    async def discard(self, error: RaftlogError) -> None: ...


class Managed(TransactionManager):
    """Its coordinator answers commits and offsets never, and an abort as it is told."""

    def __init__(self, flush: Callable[[], Awaitable[None]]) -> None:
        super().__init__(cast("Any", SimpleNamespace(feature_level=COMMITS_BY_TOPIC_ID)), Sent(flush), SETTINGS)
        self.refusal: Exception | None = None
        self.is_silent = False
        """Abortions are not answered either."""
        self.asked = asyncio.Event()
        self.said: list[bool] = []

    async def _persist(self, link: object, cls: type[Any], path: str, body: Any, **_: Any) -> Any:
        if path == paths.TRANSACTION_OFFSETS:
            await asyncio.Event().wait()
        if path == paths.END_TRANSACTION:
            self.said.append(body.committed)
            self.asked.set()
            if body.committed or self.is_silent:
                await asyncio.Event().wait()
            if self.refusal is not None:
                raise self.refusal
        return TransactionalProducer(producer_id=1, producer_epoch=1)


async def run(manager: Managed) -> None:
    async with manager.transaction():
        pass


async def nothing() -> None: ...


async def test_a_commit_that_was_cancelled_and_cannot_be_aborted_is_in_doubt():
    manager = Managed(nothing)
    manager.refusal = ALREADY_COMMITTED
    task = asyncio.ensure_future(run(manager))
    await manager.asked.wait()
    task.cancel()
    with pytest.raises(TransactionInDoubtError, match="cancelled while it committed"):
        await task
    manager.refusal = None
    assert (manager.said, manager.state) == ([True, False], "new")


async def test_a_commit_that_was_cancelled_and_aborted_in_time_is_only_cancelled():
    manager = Managed(nothing)
    task = asyncio.ensure_future(run(manager))
    await manager.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (manager.said, manager.state) == ([True, False], "ready")


async def test_a_transaction_that_was_cancelled_before_it_was_to_commit_is_not_in_doubt():
    flushing = asyncio.Event()

    async def flush() -> None:
        flushing.set()
        await asyncio.Event().wait()

    manager = Managed(flush)
    manager.refusal = ALREADY_COMMITTED
    task = asyncio.ensure_future(run(manager))
    await flushing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert manager.said == [False]


async def test_a_time_out_during_the_commit_tells_of_the_doubt():
    manager = Managed(nothing)
    manager.refusal = ALREADY_COMMITTED
    with pytest.raises(TransactionInDoubtError):
        async with asyncio.timeout(0.05):
            await run(manager)


async def test_leaving_by_a_cancellation_waits_for_a_silent_coordinator_for_a_short_time(
    caplog: pytest.LogCaptureFixture,
):
    manager = Managed(nothing)
    manager.is_silent = True

    async def work() -> None:
        async with manager.transaction():
            await asyncio.Event().wait()

    async with asyncio.timeout(10):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work(), 0.01)
    assert (manager.said, manager.state) == ([False], "new")
    assert "could not be aborted within 0.1 s" in caplog.text


async def test_a_commit_that_was_cancelled_before_a_silent_coordinator_is_in_doubt():
    manager = Managed(nothing)
    manager.is_silent = True
    task = asyncio.ensure_future(run(manager))
    await manager.asked.wait()
    task.cancel()

    async with asyncio.timeout(10):
        with pytest.raises(TransactionInDoubtError):
            await task
    assert (manager.said, manager.state) == ([True, False], "new")


async def test_a_loop_that_repeats_transactions_ends_with_a_commit_that_was_cancelled_and_is_in_doubt():
    """Such as that of examples/exactly_once.py: it would take the doubt for something to repeat, and never end."""
    manager = Managed(nothing)
    manager.refusal = ALREADY_COMMITTED

    async def work() -> None:
        while True:
            with suppress(RetriableError, TransactionAbortedError):
                await run(manager)

    task = asyncio.ensure_future(work())
    await manager.asked.wait()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=5)
    try:
        assert done, "it was cancelled, and goes on"
        assert isinstance(task.exception(), TransactionInDoubtError)
    finally:
        task.cancel()


async def test_a_transaction_that_may_lack_the_offsets_is_aborted():
    """An application that waits for them for a time and goes on would commit its output without its input."""
    manager = Managed(nothing)
    async with asyncio.timeout(10):
        with pytest.raises(TransactionAbortedError, match="send_offsets was cancelled"):  # noqa: PT012
            async with manager.transaction() as transaction:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(transaction.send_offsets({("in", 0): 5}, "group"), 0.01)
    assert manager.said == [False]


@pytest.mark.parametrize("is_replaced", [True, False])
async def test_an_epoch_that_a_leader_refuses_is_explained_by_the_coordinator(is_replaced: bool):
    """It refuses the epoch of a transaction that has timed out as well: that producer may go on."""
    manager = Managed(nothing)
    refused = FencedError("an older epoch", code=ErrorCode.INVALID_PRODUCER_EPOCH)
    manager.refusal = FencedError("a newer producer", code=ErrorCode.INVALID_PRODUCER_EPOCH) if is_replaced else None

    with pytest.raises(FencedError) as caught:
        async with manager.transaction():
            raise refused

    expected = ErrorCode.PRODUCER_FENCED if is_replaced else ErrorCode.INVALID_PRODUCER_EPOCH
    assert (caught.value.code, manager.state) == (expected, "fenced" if is_replaced else "ready")


@pytest.mark.parametrize(("then", "state"), [("begin", "in transaction"), ("init", "ready")])
async def test_after_an_abort_that_was_cancelled_the_next_transaction_waits_for_it(then: str, state: str):
    manager = Managed(nothing)
    manager.is_silent = True

    async def work() -> None:
        async with manager.transaction():
            raise ValueError

    task = asyncio.ensure_future(work())
    await manager.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        await getattr(manager, then)()
    assert (manager.said, manager.state) == ([False], state)


@pytest.mark.parametrize("was_commit_asked", [True, False])
async def test_after_a_commit_whose_abort_was_cancelled_too_the_next_transaction_waits_for_it(was_commit_asked: bool):
    flushing = asyncio.Event()

    async def flush() -> None:
        flushing.set()
        await asyncio.Event().wait()

    manager = Managed(nothing if was_commit_asked else flush)
    manager.is_silent = True
    task = asyncio.ensure_future(run(manager))
    await (manager.asked if was_commit_asked else flushing).wait()
    manager.asked.clear()
    task.cancel()
    await manager.asked.wait()
    task.cancel()
    with pytest.raises(TransactionInDoubtError if was_commit_asked else asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        await manager.begin()
    assert (manager.said, manager.state) == ([True, False] if was_commit_asked else [False], "in transaction")
