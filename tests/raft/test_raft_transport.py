"""Connections between voters end with their owner, whenever they came."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

from raftlog.metadata_quorum.raft.transport import RaftTransport
from raftlog.model import Address


def transport() -> RaftTransport:
    name = "127.0.0.1:1"
    return RaftTransport(
        name=name,
        names=[name],
        listen=Address("127.0.0.1", 0),
        key=b"key",
        cluster_id="c",
        dial={},
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
