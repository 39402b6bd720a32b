"""How a broker finds the active controller when one of them hangs."""

from __future__ import annotations

from typing import Any

import pytest

from raftlog.broker.controller_channel import ControllerChannel
from raftlog.errors import RaftlogError, RetriableError, UnknownOutcomeError, UnreachableError
from raftlog.model import Address
from raftlog.wire.admin import AdminResponse
from raftlog.wire.controller import MetadataUpdate

CONTROLLERS = [Address("127.0.0.1", port) for port in (1, 2, 3)]


class Session:
    """Answers at once; raises `failing[address]` instead, and notes who was asked."""

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
