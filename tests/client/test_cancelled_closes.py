"""Closing is cancelled at any moment (Ctrl-C, a time-out around it): no task, thread or connection is left behind."""

from __future__ import annotations

import asyncio
import gc
import threading
import uuid
import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

import raftlog
from raftlog.cli.local_cluster import LocalCluster

Opened = Callable[[], Awaitable[None]]
TURNS = 12
"""Closing waits in fewer places."""


async def _admin(url: str, topic: str) -> Opened:
    admin = raftlog.Admin(url)
    await admin.describe_topic(topic)
    return admin.close


async def _producer(url: str, topic: str) -> Opened:
    producer = raftlog.Producer(url)
    await producer.send(topic, b"value")
    producer.send_nowait(topic, b"on its way")
    return producer.close


async def _transactional_producer(url: str, topic: str) -> Opened:
    producer = raftlog.Producer(url, transactional_id=f"{topic}-id")
    async with producer.transaction():
        await producer.send(topic, b"value")
    return producer.close


async def _consumer(url: str, topic: str) -> Opened:
    consumer = raftlog.Consumer(url, topic, start="earliest")
    await anext(consumer)
    return consumer.close


async def _member(url: str, topic: str) -> Opened:
    consumer = raftlog.Consumer(url, topic, group_id=uuid.uuid4().hex, auto_offset_reset="earliest")
    await anext(consumer)
    return consumer.close


@pytest.mark.parametrize("opened", [_admin, _producer, _transactional_producer, _consumer, _member])
async def test_a_close_that_is_cancelled_leaves_nothing_behind(
    shared_cluster: LocalCluster, topic_name: str, opened: Callable[[str, str], Awaitable[Opened]]
):
    url = shared_cluster.bootstrap
    async with raftlog.Admin(url) as admin:
        await admin.create_topic(topic_name, partitions=1, replication_factor=1)
    async with raftlog.Producer(url) as producer:
        await producer.send(topic_name, b"first")
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context["message"])))
    threads = _threads()

    for turns in range(1, TURNS):
        close = await opened(url, topic_name)
        closing = asyncio.ensure_future(close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        del close, closing
        async with asyncio.timeout(10):
            while len(asyncio.all_tasks()) > 1:  # What was cancelled is about to end.
                await asyncio.sleep(0.01)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", ResourceWarning)
            gc.collect()
        assert [str(warning.message) for warning in warned if "127.0.0.1" in str(warning.message)] == []
        assert complaints == [], f"after {turns} turns"
    async with asyncio.timeout(10):
        while _threads() - threads:
            await asyncio.sleep(0.01)


def _threads() -> set[threading.Thread]:
    """Return the running threads, without those that asyncio keeps for `to_thread`: one or more, as calls overlap."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("asyncio_")}
