"""Transactions whose end is refused: such a one counts as aborted only if it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from transaction_settings import SETTINGS

from raftlog.client.transactions import TransactionManager
from raftlog.errors import (
    ErrorCode,
    FencedError,
    InvalidRequestError,
    RaftlogError,
    StorageError,
    TransactionAbortedError,
    UnknownOutcomeError,
)
from raftlog.transport import PeerAnswerError
from raftlog.wire import paths
from raftlog.wire.transactions import TransactionalProducer

PAGE = PeerAnswerError("status 500 without an error body: '<html>'")
INTERNAL = RaftlogError("internal error", code=ErrorCode.UNKNOWN_SERVER_ERROR)
EXPIRED = InvalidRequestError("it is not known", code=ErrorCode.INVALID_PRODUCER_ID_MAPPING, details={"expired": True})
TAKEN = InvalidRequestError("another has it", code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
HAS_ENDED = InvalidRequestError("it has ended", code=ErrorCode.INVALID_TXN_STATE)


class Sent:
    """Something was sent in each transaction."""

    used = True

    def begin_epoch(self, producer: TransactionalProducer) -> None: ...

    async def flush(self) -> None: ...

    async def discard(self, error: RaftlogError) -> None: ...


def manager(*answers: RaftlogError | None) -> tuple[TransactionManager, list[bool]]:
    """Return a manager whose coordinator answers the ends of transactions so; and what those ask."""
    made = TransactionManager(object(), Sent(), SETTINGS)  # type: ignore[arg-type]
    asked: list[bool] = []
    left = list(answers)

    async def call(_: object, __: str, path: str, *, message: Any, **___: object) -> TransactionalProducer:
        if path == paths.fill(paths.END_TRANSACTION, transactional_id="id"):
            asked.append(message.committed)
            if (answer := left.pop(0)) is not None:
                raise answer
        return TransactionalProducer(producer_id=1, producer_epoch=1)

    made._link.call = call  # type: ignore[method-assign,assignment]
    return made, asked


async def run(made: TransactionManager) -> None:
    async with asyncio.timeout(10):
        async with made.transaction():
            pass


@pytest.mark.parametrize("answer", [PAGE, INTERNAL], ids=["page", "internal error"])
async def test_an_answer_that_does_not_say_what_happened_is_asked_for_again(answer: RaftlogError):
    made, asked = manager(answer, None)
    await run(made)
    assert (asked, made.state) == ([True, True], "ready")


@pytest.mark.parametrize("answers", [(PAGE, HAS_ENDED), (StorageError("the disk"), HAS_ENDED)], ids=["page", "disk"])
async def test_a_refused_commit_without_a_confirmed_abort_is_unknown(answers: Sequence[RaftlogError]):
    made, _ = manager(*answers)
    with pytest.raises(UnknownOutcomeError, match="may be committed or not"):
        await run(made)
    assert made.state == "new"
    assert await made.begin() is None, "the next transaction begins"


async def test_a_producer_whose_id_has_expired_goes_on():
    made, asked = manager(EXPIRED, EXPIRED, None)
    with pytest.raises(TransactionAbortedError, match="run it again"):
        await run(made)
    assert made.state == "new", "the next transaction takes the id again"
    leaders = InvalidRequestError("from the leader", code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    with pytest.raises(TransactionAbortedError, match="run it again"):
        async with made.transaction():
            raise leaders
    await run(made)
    assert (asked, made.state) == ([True, False, True], "ready")


async def test_a_producer_whose_id_another_one_has_is_fenced():
    made, _ = manager(TAKEN)
    with pytest.raises(FencedError, match="close this one"):
        await run(made)
    assert made.state == "fenced"
