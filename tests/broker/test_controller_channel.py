"""How a broker finds the active controller when one of them hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from raftlog.broker import controller_channel
from raftlog.broker.controller_channel import ControllerChannel
from raftlog.broker.shared_read import ROUND_S, SharedRead
from raftlog.errors import ErrorCode, RaftlogError, RetriableError, UnknownOutcomeError, UnreachableError
from raftlog.model import Address
from raftlog.serving.metered import Metered
from raftlog.wire.admin import AdminResponse
from raftlog.wire.controller import MetadataUpdate

CONTROLLERS = [Address("127.0.0.1", port) for port in (1, 2, 3)]


class Session:
    """Answers at once, or raises `failing[address]`; records the addresses of the requests."""

    def __init__(self) -> None:
        self.failing: dict[Address, RaftlogError] = {}
        self.asked: list[Address] = []

    async def call(self, cls: type[Any], method: str, address: Address, path: str, **request: Any) -> Any:
        self.asked.append(address)
        if address in self.failing:
            raise self.failing[address]
        return AdminResponse(metadata_offset=7) if cls is AdminResponse else MetadataUpdate(end_offset=7)


@pytest.fixture
def session() -> Session:
    return Session()


def channel_to(session: Session, controllers: list[Address]) -> ControllerChannel:
    return ControllerChannel(controllers, session)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [UnknownOutcomeError("no answer"), UnreachableError("refused")])
async def test_a_controller_that_did_not_answer_is_passed_over(session: Session, error: RaftlogError):
    channel = channel_to(session, CONTROLLERS)
    await channel.read(timeout_ms=1_000)
    hanging = session.asked[-1]
    session.failing[hanging] = error

    with pytest.raises(type(error)):
        await channel.watch(-1, broker_id=1)
    for _ in range(4):
        await channel.watch(-1, broker_id=1)

    assert session.asked.count(hanging) == 2
    assert len({*session.asked}) == 3


async def test_it_is_asked_again_once_another_one_fails(session: Session):
    channel = channel_to(session, CONTROLLERS)
    for address in CONTROLLERS:
        session.failing[address] = UnreachableError("refused")
    with pytest.raises(RetriableError):
        await channel.read(timeout_ms=200)
    assert {*session.asked} == {*CONTROLLERS}
    last = session.asked[-1]
    back = next(address for address in CONTROLLERS if address != last)
    del session.failing[back]

    assert await channel.read(timeout_ms=1_000) == 7
    assert session.asked[-1] == back


async def test_the_only_controller_is_asked_again(session: Session):
    channel = channel_to(session, CONTROLLERS[:1])
    session.failing[CONTROLLERS[0]] = UnreachableError("refused")
    with pytest.raises(RetriableError):
        await channel.read(timeout_ms=100)
    session.failing.clear()

    assert await channel.read(timeout_ms=1_000) == 7


async def test_a_read_says_in_time_that_nobody_answers_whatever_round_it_waits_for(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(controller_channel, "NO_CONTROLLER_MS", 50)
    monkeypatch.setattr(session, "call", lambda *_, **__: asyncio.Event().wait())
    channel = channel_to(session, CONTROLLERS)
    begun = asyncio.get_running_loop().time()
    said = await asyncio.gather(*(channel.read(timeout_ms=60_000) for _ in range(3)), return_exceptions=True)
    assert [getattr(error, "code", None) for error in said] == [ErrorCode.QUORUM_NOT_AVAILABLE] * 3
    assert asyncio.get_running_loop().time() - begun < 30
    await channel.close()


async def test_those_who_read_at_the_same_time_share_one_question_that_began_after_all_of_them():
    begun: list[asyncio.Future[int]] = []

    async def ask() -> int:
        begun.append(asyncio.get_running_loop().create_future())
        return await begun[-1]

    shared = SharedRead(ask)
    first = asyncio.create_task(shared.read(timeout_ms=10_000))
    await _until(lambda: len(begun) == 1)
    later = [asyncio.create_task(shared.read(timeout_ms=10_000)) for _ in range(100)]
    hurried = asyncio.create_task(shared.read(timeout_ms=1))
    with pytest.raises(RetriableError) as late:
        await hurried
    assert late.value.code is ErrorCode.QUORUM_NOT_AVAILABLE
    later[0].cancel()
    assert len(begun) == 1, "what was asked before they came tells them nothing"

    begun[0].set_result(3)
    assert await first == 3
    await _until(lambda: len(begun) == 2)
    begun[1].set_result(4)
    assert await asyncio.gather(*later[1:]) == [4] * 99
    assert len(begun) == 2

    again = asyncio.create_task(shared.read(timeout_ms=10_000))
    await _until(lambda: len(begun) == 3)
    begun[2].set_exception(RetriableError("no controller"))
    with pytest.raises(RetriableError, match="no controller"):
        await again
    ended = asyncio.create_task(shared.read(timeout_ms=10_000))
    await _until(lambda: len(begun) == 4)
    await shared.close()
    with pytest.raises(asyncio.CancelledError):
        await ended


async def test_those_who_share_a_round_are_charged_for_it_together():
    """Each round keeps the controllers busy: requests of one address must not cost only their own broker's time."""

    async def ask() -> int:
        return 3

    shared = SharedRead(ask)
    requests = [Metered(shared.read(timeout_ms=10_000)) for _ in range(4)]

    async def served(request: Metered[int]) -> int:
        return await request

    assert await asyncio.gather(*map(served, requests)) == [3] * 4
    for request in requests:
        assert ROUND_S / 4 <= request.seconds < ROUND_S
    await shared.close()


async def _until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not reached():
            await asyncio.sleep(0)
