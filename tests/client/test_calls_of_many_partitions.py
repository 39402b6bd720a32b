"""A call that asks about several partitions at once ends with all of its requests, also if one of them fails.

Requests that went on beyond the end of their client opened connections that nothing closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

import pytest

import raftlog
from raftlog.client import admin_topics, reader
from raftlog.errors import InvalidRequestError, NotFoundError
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


async def test_a_consumers_lookups_go_on_though_its_calls_are_cancelled(monkeypatch: pytest.MonkeyPatch):
    asked, go = list[int](), asyncio.Event()

    async def ask(_: object, partition: TopicPartition, *__: object) -> int:
        asked.append(partition.partition)
        await go.wait()
        return 7

    monkeypatch.setattr(reader, "offset_at", ask)
    consumer = raftlog.Consumer(BOOTSTRAP, "t", partitions=[0, 1])
    infos = mock.AsyncMock(return_value=mock.Mock(partitions=[0, 1]))
    monkeypatch.setattr(consumer._connection, "topic", infos)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await consumer.fetch()
    go.set()
    await consumer._ensure_started()
    assert consumer.assignment == [("t", 0), ("t", 1)]
    assert asked == [0, 1]
    await consumer.close()


async def test_a_call_learns_that_its_consumer_is_closed_while_it_begins(monkeypatch: pytest.MonkeyPatch):
    consumer = raftlog.Consumer(BOOTSTRAP, "t")
    asked = asyncio.Event()

    async def topic(_: str) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(consumer._connection, "topic", topic)
    call = asyncio.create_task(consumer.fetch())
    async with asyncio.timeout(5):
        await asked.wait()
        await consumer.close()
        with pytest.raises(InvalidRequestError, match="closed"):
            await call


async def test_a_seek_does_not_bring_back_a_partition_that_is_given_up_meanwhile(monkeypatch: pytest.MonkeyPatch):
    consumer = raftlog.Consumer(BOOTSTRAP, "t")
    consumer._started = True
    consumer._reader.begin({TopicPartition("t", 0): 0, TopicPartition("t", 1): 0})

    async def ask(*_: object) -> int:
        consumer._reader.end([TopicPartition("t", 0)])
        return 7

    monkeypatch.setattr(reader, "offset_at", ask)
    await consumer.seek_to("latest")
    assert consumer.assignment == [("t", 1)]
    assert consumer.position("t", 1) == 7
    await consumer.close()
