"""Clients that close while requests are in progress: their Produce requests go on, and the others are cancelled."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from raftlog.broker.kafka import connection
from tests.broker.kafka.kafka_listener import client, heartbeat, is_free, produce, serving, until


@pytest.mark.parametrize("group", ["wait", "wait for more members"])
async def test_a_client_that_disconnects_cancels_what_is_no_produce_request(group: str):
    async with serving() as served:
        async with client(served) as kafka:
            await kafka.send(heartbeat(group), heartbeat("never"), struct.pack(">i", 500_000))
            await until(lambda: served.handlers.begun == [group])
        await until(lambda: served.handlers.cancelled == [group])
        await until(lambda: is_free(served) and not served.connections.size)
        assert served.handlers.begun == [group]


@pytest.mark.parametrize("acks", [0, 1])
async def test_produce_requests_go_on_when_their_client_has_closed(acks: int):
    async with serving() as served:
        async with client(served) as kafka:
            await kafka.send(produce("wait a", acks=acks), produce("b", acks=acks))
            await kafka.send(heartbeat("never"), *[produce(name, acks=acks) for name in ("wait c", "d")])
            await until(lambda: served.handlers.begun == ["wait a", "b"])
        await until(lambda: served.handlers.begun == ["wait a", "b", "wait c", "d"])
        assert served.connections.size == 1, "it counts until its requests have ended"
        assert served.inflight.requests == 4
        for name in ("wait c", "wait a"):
            served.handlers.event(name).set()
        await until(lambda: is_free(served) and not served.connections.size)
    assert sorted(served.handlers.ended) == ["b", "d", "wait a", "wait c"]
    assert served.handlers.cancelled == []


async def test_produce_requests_behind_a_cancelled_one_begin_in_their_order():
    async with serving() as served:
        async with client(served) as kafka:
            await kafka.send(heartbeat("wait"), produce("a", acks=0), heartbeat("never"), produce("b", acks=0))
            await until(lambda: served.inflight.bytes > 0 and served.handlers.begun == ["wait"])
        await until(lambda: is_free(served) and not served.connections.size)
    assert served.handlers.begun == ["wait", "a", "b"]
    assert served.handlers.cancelled == ["wait"]


async def test_produce_requests_that_wait_for_a_place_begin_after_the_client_has_closed():
    async with serving(max_requests=1) as served, client(served) as other:
        await other.send(heartbeat("wait"))
        await served.handlers.event("begun wait").wait()
        async with client(served) as kafka:
            await kafka.send(produce("a", acks=0), produce("b", acks=0))
            await until(lambda: served.connections.size == 2 and served.inflight.bytes > len(heartbeat("wait")))
        served.handlers.event("wait").set()
        await until(lambda: is_free(served) and served.connections.size == 1)
    assert served.handlers.begun == ["wait", "a", "b"]


async def test_more_requests_than_are_read_at_once_are_served_after_the_client_has_closed():
    names = ["wait", *map(str, range(100))]
    async with serving() as served:
        async with client(served) as kafka:
            await kafka.send(*[produce(name, acks=0) for name in names])
            await served.handlers.event("begun wait").wait()
        served.handlers.event("wait").set()
        await until(lambda: is_free(served) and not served.connections.size)
    assert served.handlers.begun == names


async def test_a_listener_that_closes_cancels_what_a_lost_connection_left():
    async with serving(drain_s=0.1) as served:
        async with client(served) as kafka:
            await kafka.send(produce("wait a", acks=0), produce("wait b", acks=0), heartbeat("never"))
            await until(lambda: len(served.handlers.begun) == 2)
        await until(lambda: served.inflight.requests == 2)
        await served.listener.close()
        await until(lambda: is_free(served) and not served.connections.size)
    assert sorted(served.handlers.cancelled) == ["wait a", "wait b"]


async def test_a_listener_that_closes_lets_a_lost_connection_end():
    async with serving(drain_s=10) as served:
        async with client(served) as kafka:
            await kafka.send(produce("wait", acks=0), heartbeat("never"), produce("late", acks=0))
            await until(lambda: served.handlers.begun == ["wait"])
        await until(lambda: served.inflight.requests == 1)
        closing = asyncio.create_task(served.listener.close())
        await asyncio.sleep(0)
        served.handlers.event("wait").set()
        await closing
        await until(lambda: is_free(served) and not served.connections.size)
    assert served.handlers.ended[:1] == ["wait"]


async def test_a_client_that_closes_while_a_listener_closes_loses_nothing_that_has_begun():
    async with serving(drain_s=10) as served:
        async with client(served) as kafka:
            await kafka.send(produce("wait a", acks=0), produce("wait b", acks=0))
            await until(lambda: served.handlers.begun == ["wait a", "wait b"])
            closing = asyncio.create_task(served.listener.close())
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)  # Nothing is to happen.
        for name in ("wait a", "wait b"):
            served.handlers.event(name).set()
        await closing
        await until(lambda: is_free(served) and not served.connections.size)
    assert (served.handlers.ended, served.handlers.cancelled) == (["wait a", "wait b"], [])


async def test_requests_of_a_closed_client_do_not_go_on_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "GO_ON_S", 0.2)
    async with serving(max_requests=1) as served, client(served) as other:
        await other.send(heartbeat("wait"))
        await served.handlers.event("begun wait").wait()
        async with client(served) as kafka:
            await kafka.send(produce("a", acks=0))
            await until(lambda: served.connections.size == 2 and served.inflight.bytes > len(heartbeat("wait")))
        await until(lambda: served.connections.size == 1)
        served.handlers.event("wait").set()
        await until(lambda: is_free(served))
        assert served.handlers.begun == ["wait"]


async def test_closed_clients_do_not_wait_for_memory_that_they_hold_themselves():
    """Half of a broker's memory for requests was held until it was restarted."""
    async with serving() as served:
        async with client(served) as first, client(served) as second:
            for kafka in (first, second):
                await kafka.send(struct.pack(">i", 500_000) + bytes(100_000))
            await until(lambda: served.inflight.bytes >= 150_000)
            served.inflight._max_bytes = served.inflight.bytes
        await until(lambda: is_free(served) and not served.connections.size)


async def test_a_client_that_resets_in_the_middle_of_a_frame_frees_what_it_held():
    async with serving() as served:
        for _ in range(20):
            async with client(served) as kafka:
                await kafka.send(heartbeat(), struct.pack(">i", 500_000) + bytes(100_000))
                await kafka.heartbeat()
                sock = kafka.writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                kafka.writer.transport.abort()
        await until(lambda: is_free(served) and not served.connections.size)
