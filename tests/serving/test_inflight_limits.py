"""What each address may hold of a listener's memory: a client of one address leaves memory for others."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, TCPConnector, web

from raftlog.errors import OverloadedError
from raftlog.model import Address
from raftlog.serving.admission import Admission
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.listener import AiohttpListener
from raftlog.serving.turnstile import Turnstile

MOST, LARGE = 64 << 20, 8 << 20


def filled(limits: InflightLimits, address: str, each: int = 1) -> int:
    """Hold bytes for an address until they are refused; return how many."""
    held = 0
    while True:
        try:
            limits.hold(each, address)
        except OverloadedError:
            return held
        held += each


def test_each_address_takes_at_most_what_is_left_for_all_others():
    limits = InflightLimits(max_requests=1, max_bytes=1_200, of_one=100)
    held = [filled(limits, address) for address in ("a", "b", "c")]
    assert held[0] == 600
    assert held[1] == 300
    assert held[2] >= 100
    assert filled(limits, "d") >= 100
    limits.release(held[0], "a")
    assert filled(limits, "b") > 100
    assert filled(limits, "") + limits._bodies_of["b"] + held[2] + limits._bodies_of["d"] == 1_200


def test_an_address_may_always_hold_one_request_within_the_limit_of_all():
    limits = InflightLimits(max_requests=1, max_bytes=1_200, of_one=1_000)
    limits.hold(1_000, "a")
    with pytest.raises(OverloadedError, match="from a are being handled, and other addresses need space"):
        limits.hold(1, "a")
    assert filled(limits, "b") == 200
    with pytest.raises(OverloadedError, match="being handled; slow down"):
        limits.hold(1, "c")


def test_the_space_for_an_answer_is_what_may_be_held():
    dice = random.Random(1)
    limits = InflightLimits(max_requests=1, max_bytes=1_000, of_one=200)
    for _ in range(500):
        address = dice.choice(["", "a", "b", "c"])
        space = limits.answer_space(address)
        with pytest.raises(OverloadedError):
            limits.hold_answer(space + 1, address)
        if space:
            limits.hold_answer(space, address)
            limits.release_answer(dice.randrange(space + 1), address)
        if limits.answer_bytes > 900:
            limits = InflightLimits(max_requests=1, max_bytes=1_000, of_one=200)


def test_answers_are_limited_apart_from_bodies_and_both_are_forgotten():
    limits = InflightLimits(max_requests=1, max_bytes=1_000, of_one=10)
    one = limits.of("a")
    one.hold(500)
    one.hold_answer(500)
    with pytest.raises(OverloadedError, match="responses of 501 bytes to a wait to be read"):
        one.hold_answer(1)
    one.release(200)
    one.release(300)
    one.release_answer(500)
    assert (limits.bytes, limits.answer_bytes, limits._bodies_of, limits._answers_of) == (0, 0, {}, {})


def test_an_address_that_holds_nothing_is_not_remembered():
    """A client may have any number of addresses."""
    limits = InflightLimits(max_requests=1, max_bytes=1_000)
    for number in range(100):
        limits.hold(0, f"2001:db8::{number:x}")
        limits.hold_answer(0, f"2001:db8::{number:x}")
    assert (limits._bodies_of, limits._answers_of) == ({}, {})


async def large(_: web.Request) -> web.Response:
    return web.Response(body=bytes(LARGE))


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Address, InflightLimits]]:
    limits, turnstile = RequestLimits(max_body_bytes=LARGE), Turnstile()
    inflight = InflightLimits(max_requests=100, max_bytes=MOST, of_one=LARGE)
    app = web.Application(middlewares=[Admission(inflight, limits, turnstile).middleware])
    app.router.add_get("/large", large)
    connections = ConnectionLimits("test", total=1_000, per_address=1_000)
    listener = AiohttpListener(app, limits=limits, connections=connections, turnstile=turnstile, drain_s=0.1)
    await listener.start(Address("127.0.0.1", 0))
    assert listener._listening is not None
    try:
        yield Address("127.0.0.1", listener._listening.sockets[0].getsockname()[1]), inflight
    finally:
        await listener.close()


async def silent_reader(address: Address) -> asyncio.StreamWriter:
    """Ask for a large answer, and read nothing of it."""
    connected = socket.create_connection((address.host, address.port))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    _, writer = await asyncio.open_connection(sock=connected, limit=1_024)
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    return writer


async def test_others_get_their_answers_while_one_address_reads_none_of_its_own():
    async with serving() as (address, inflight):
        silent = [await silent_reader(address) for _ in range(20)]
        async with asyncio.timeout(10):
            while inflight.answer_bytes < MOST // 2:
                await asyncio.sleep(0.01)
        url = f"http://{address.host}:{address.port}/large"
        async with ClientSession(connector=TCPConnector(local_addr=("127.0.0.2", 0))) as other:
            for _ in range(3):
                async with other.get(url) as answer:
                    assert (answer.status, len(await answer.read())) == (200, LARGE)
        assert inflight.answer_bytes <= MOST // 2
        for writer in silent:
            writer.transport.abort()
        async with asyncio.timeout(10):
            while inflight.answer_bytes:
                await asyncio.sleep(0.01)
