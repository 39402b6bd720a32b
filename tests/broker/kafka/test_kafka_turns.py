"""Requests of Kafka's protocol that move no records take turns with those of HTTP, and cost their address time."""

from __future__ import annotations

import asyncio

import pytest

from raftlog.serving.loop_shares import LoopShares
from tests.broker.kafka.kafka_listener import Client, Serving, client, heartbeat, is_free, produce, serving, until

HERE, OTHER = "127.0.0.1", "192.0.2.1"


def spend_share(served: Serving) -> None:
    """Let this address have used up its share while another is served."""
    served.turnstile.mark_active(OTHER)
    served.turnstile.charge(HERE, 0.4)


def waiting(served: Serving) -> int:
    return sum(not turn.done() for turn in served.turnstile._waiting.get(HERE, ()))


async def test_a_request_waits_after_its_address_has_used_its_share():
    async with serving() as served, client(served) as kafka:
        spend_share(served)
        asked_at = asyncio.get_running_loop().time()
        await kafka.send(heartbeat(), heartbeat(correlation=1))
        await until(lambda: waiting(served) == 1)
        assert served.handlers.begun == []
        assert [await kafka.heartbeat() for _ in range(2)] == [(0, 0), (1, 0)]
        assert asyncio.get_running_loop().time() - asked_at > 0.5
    assert is_free(served)


async def test_requests_of_many_connections_begin_a_few_at_a_time():
    async with serving() as served:
        connections = [client(served) for _ in range(20)]
        clients: list[Client] = [await one.__aenter__() for one in connections]
        begun, before = list[int](), 0
        for each in clients:
            each.writer.write(heartbeat())
        async with asyncio.timeout(10):
            while before < 20:
                await asyncio.sleep(0)
                begun.append(len(served.handlers.begun) - before)
                before += begun[-1]
        assert max(begun) <= 8  # Four that the loop's iteration admits, and four that began when they arrived.
        for one in connections:
            await one.__aexit__(None, None, None)


async def test_records_do_not_wait_and_cost_nothing_but_tell_that_their_address_is_served():
    async with serving() as served, client(served) as kafka:
        spend_share(served)
        before = served.turnstile.wait_s(HERE)
        async with asyncio.timeout(0.5):
            await kafka.send(produce("p"))
            await kafka.frame()
        assert served.handlers.ended == ["p"]
        assert served.turnstile.wait_s(HERE) <= before

    async with serving() as served, client(served) as kafka:
        served.turnstile.charge(OTHER, 0.4)
        served.turnstile.mark_active(OTHER)
        assert not served.turnstile.wait_s(OTHER), "nobody else is served"
        await kafka.send(produce("p"))
        await kafka.frame()
        assert served.turnstile.wait_s(OTHER)


async def test_a_connection_that_ends_while_it_waits_leaves_nothing():
    async with serving() as served, client(served) as gone, client(served) as kafka:
        spend_share(served)
        await gone.send(heartbeat("gone"))
        await kafka.send(heartbeat("stays"))
        await until(lambda: waiting(served) == 2)
        gone.writer.transport.abort()
        await until(lambda: served.connections.size == 1)
        assert await kafka.heartbeat() == (0, 0)
        assert served.handlers.begun == ["stays"]
    assert is_free(served)
    await until(lambda: waiting(served) == 0)


@pytest.mark.parametrize("group", ["g", "bug", "closes"])
async def test_a_request_costs_its_address_what_it_computes(group: str):
    charged = list[tuple[str, float]]()

    class Shares(LoopShares):
        def charge(self, address: str, seconds: float) -> None:
            charged.append((address, seconds))

    async with serving() as served:
        served.turnstile._shares = Shares()
        async with client(served) as kafka:
            await kafka.send(heartbeat(group))
            await kafka.reader.read(1)
            await until(lambda: len(charged) == 1)
    ((address, seconds),) = charged
    assert address == HERE
    assert seconds > 0
