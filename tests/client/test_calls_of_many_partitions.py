"""A call that asks about several partitions at once ends with all of its requests, also if one of them fails.

Requests that went on beyond the end of their client opened connections that nothing closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import raftlog
from raftlog.client import admin_topics, reader
from raftlog.errors import NotFoundError
from raftlog.model import TopicPartition

BOOTSTRAP = "http://127.0.0.1:1"


async def of_an_admin(monkeypatch: pytest.MonkeyPatch, ask: Callable[..., Awaitable[Any]]) -> None:
    monkeypatch.setattr(admin_topics, "ask_offset", ask)
    async with raftlog.Admin(BOOTSTRAP) as admin:
        await admin.list_offsets("t", partitions=[0, 1, 2])


async def of_a_consumer(monkeypatch: pytest.MonkeyPatch, ask: Callable[..., Awaitable[Any]]) -> None:
    monkeypatch.setattr(reader, "offset_at", ask)
    consumer = raftlog.Consumer(BOOTSTRAP, "t")
    try:
        await consumer._reader.offsets([TopicPartition("t", number) for number in range(3)], "latest")
    finally:
        await consumer.close()


@pytest.mark.parametrize("call", [of_an_admin, of_a_consumer])
async def test_no_request_goes_on_after_another_has_failed(
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[pytest.MonkeyPatch, Callable[..., Awaitable[Any]]], Awaitable[None]],
):
    asked, cancelled = list[int](), list[int]()

    async def ask(_: object, partition: TopicPartition, *__: object) -> None:
        asked.append(partition.partition)
        if len(asked) == 3:
            raise NotFoundError("it is gone")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(partition.partition)
            raise

    with pytest.raises(NotFoundError, match="it is gone"):
        await call(monkeypatch, ask)
    assert asked == [0, 1, 2]
    assert cancelled == [0, 1]
