"""Connections between voters end with their owner, whenever they came."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from raftlog.metadata_quorum.raft.transport import RaftTransport
from raftlog.model import Address


def transport(name: str = "127.0.0.1:1", *others: str, dial: dict[str, str] | None = None) -> RaftTransport:
    return RaftTransport(
        name=name,
        names=[name, *others],
        listen=Address("127.0.0.1", 0),
        key=b"key",
        dial=dial or {},
        wake=lambda: None,
    )


async def test_a_connection_that_came_just_before_the_end_is_closed():
    voter, writer = transport(), Mock()
    await voter.start()
    voter._accept(asyncio.StreamReader(), writer)  # Its task has not begun yet.

    await voter.close()
    await asyncio.sleep(0)

    writer.transport.abort.assert_called()


async def test_a_connection_that_came_after_the_end_is_closed():
    voter, writer = transport(), Mock()
    await voter.start()
    await voter.close()

    voter._accept(asyncio.StreamReader(), writer)

    writer.transport.abort.assert_called_once_with()


async def test_after_a_message_that_cannot_be_handled_they_connect_again(caplog: pytest.LogCaptureFixture):
    """Or one bug, or one voter of another version, would cut two voters off from each other until a restart."""
    low, high = "127.0.0.1:1", "127.0.0.1:2"
    listening = transport(low, high)
    await listening.start()
    assert listening._server is not None
    port = listening._server.sockets[0].getsockname()[1]
    dialling = transport(high, low, dial={low: f"127.0.0.1:{port}"})
    received, taken = list[object](), asyncio.Event()

    def take(node: object, message: dict[str, object]) -> None:
        received.append(message["type"])
        taken.set()

    dialling.setOnMessageReceivedCallback(take)
    connected = asyncio.Event()
    listening.setOnNodeConnectedCallback(lambda _: connected.set())
    await dialling.start()
    try:
        async with asyncio.timeout(20):
            await connected.wait()
            connected.clear()
            listening.send(listening.nodes[0], {"no": "type"})
            await connected.wait()
            listening.send(listening.nodes[0], {"type": "status"})
            await taken.wait()
    finally:
        await dialling.close()
        await listening.close()

    assert received == ["status"]
    assert "cannot handle a message" in caplog.text
