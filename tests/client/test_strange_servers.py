"""Another server at a broker's address: the client asks the other brokers, and looks the coordinator up again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.client.connection import Connection
from raftlog.client.coordinator_link import CoordinatorLink
from raftlog.errors import RetriableError
from raftlog.model import Address
from raftlog.transport import PeerAnswerError

TWO = "http://127.0.0.1:1,http://127.0.0.1:2"


def connection_of(answers: dict[int, Any]) -> tuple[Connection, list[int]]:
    """Return a connection to two brokers that answer by port, and the ports that are asked."""
    connection, asked = Connection(TWO, timeout_ms=2_000), list[int]()

    async def call(cls: type, method: str, address: Address, path: str, **_: Any) -> Any:
        asked.append(address.port)
        if isinstance(answer := answers[address.port], Exception):
            raise answer
        return answer

    connection.session.call = call  # type: ignore[method-assign,assignment]
    return connection, asked


@pytest.mark.parametrize("turn", [0, 1])
async def test_another_broker_is_asked_when_a_strange_server_answers(turn: int):
    connection, _ = connection_of({1: PeerAnswerError("a web page"), 2: "found"})
    connection._turn = turn
    assert await connection.ask_any(str, "GET", "/v1/x") == "found"
    assert await connection.ask_any(str, "GET", "/v1/x") == "found"
    await connection.close()


async def test_strange_servers_alone_are_an_error_at_once():
    connection, asked = connection_of({1: PeerAnswerError("a web page"), 2: PeerAnswerError("a web page")})
    with pytest.raises(PeerAnswerError, match="a web page"):
        await connection.ask_any(str, "GET", "/v1/x")
    assert sorted(asked) == [1, 2]
    await connection.close()


async def test_a_request_that_must_not_be_repeated_is_not_sent_to_another_broker():
    connection, asked = connection_of({1: PeerAnswerError("a web page"), 2: "found"})
    connection._turn = 1
    with pytest.raises(PeerAnswerError, match="a web page"):
        await connection.ask_any(str, "POST", "/v1/x", repeatable=False)
    assert asked == [1]
    await connection.close()


async def test_a_strange_server_and_a_broker_that_is_down_are_asked_until_the_time_ends():
    connection, asked = connection_of({1: PeerAnswerError("a web page"), 2: RetriableError("not now")})
    with pytest.raises(RetriableError, match="not now"):
        await connection.ask_any(str, "GET", "/v1/x", timeout_ms=200)
    assert len(asked) < 20, "it does not spin"
    await connection.close()


async def test_a_coordinator_is_looked_up_again_after_a_strange_servers_answer():
    found = SimpleNamespace(url="http://127.0.0.1:9")
    connection, asked = connection_of({1: found, 2: found, 9: PeerAnswerError("a page")})
    link = CoordinatorLink(connection, "group", "g")
    for _ in range(2):
        with pytest.raises(PeerAnswerError, match="a page"):
            await link.call(str, "POST", "/v1/x", timeout_ms=1_000)
    assert len(asked) == 4
    await connection.close()
