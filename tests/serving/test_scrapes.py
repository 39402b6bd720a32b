"""Scrapers share pages and wait for each other: many, fast, slow or rude ones cost the node a bounded part."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from raftlog.errors import InvalidRequestError, RetriableError
from raftlog.metrics import Page
from raftlog.model import Address
from raftlog.serving import scrapes as module
from raftlog.serving.admission import Admission
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.listener import AiohttpListener
from raftlog.serving.scrapes import Scrapes
from raftlog.serving.turnstile import Turnstile


class Source:
    """A source that counts its pages, and may be held."""

    def __init__(self, groups: int = 1) -> None:
        self.pages = 0
        self.version = 0
        self.at_once = self.most_at_once = 0
        self.may_go = asyncio.Event()
        self.may_go.set()
        self._groups = groups

    async def show(self, page: Page, detail: bool) -> None:
        self.pages += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        version = self.version
        await self.may_go.wait()
        self.at_once -= 1
        for number in range(self._groups if detail else 1):
            page.add("raftlog_group_lag_records", version, group=f"g{number}", topic="t" * 100)


@pytest.fixture
async def source() -> Source:
    return Source()


@pytest.fixture
async def scrapes(source: Source, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scrapes]:
    monkeypatch.setattr(module, "REST", 0.0)
    scrapes = Scrapes([source.show])
    yield scrapes
    await scrapes.close()


async def test_a_page_begins_after_its_request_and_is_shared(source: Source, scrapes: Scrapes):
    source.may_go.clear()
    first = asyncio.ensure_future(scrapes.page())
    while not source.pages:
        await asyncio.sleep(0)
    source.version = 1
    later = [asyncio.ensure_future(scrapes.page()) for _ in range(50)]
    await asyncio.sleep(0)
    source.may_go.set()

    assert b'topic="' + b"t" * 100 + b'"} 0' in await first
    assert {b'"} 1' in page for page in await asyncio.gather(*later)} == {True}
    assert (source.pages, source.most_at_once) == (2, 1)


async def test_a_scraper_that_gives_up_does_not_end_the_others_page(source: Source, scrapes: Scrapes):
    source.may_go.clear()
    first, second = asyncio.ensure_future(scrapes.page()), asyncio.ensure_future(scrapes.page())
    while not source.pages:
        await asyncio.sleep(0)
    first.cancel()
    source.may_go.set()

    assert b"raftlog_group_lag_records" in await second
    assert source.pages == 1


async def test_a_source_that_fails_fails_its_own_page_only(source: Source):
    fails = [True]

    async def broken(_: Page, __: bool) -> None:
        if fails:
            raise ValueError(fails.pop())

    scrapes = Scrapes([source.show, broken])
    with pytest.raises(ValueError, match="True"):
        await scrapes.page()
    assert b"raftlog_group_lag_records" in await scrapes.page()
    await scrapes.close()


async def test_a_node_rests_after_a_page(source: Source):
    scrapes = Scrapes([source.show])
    loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
    source.may_go.clear()
    loop.call_later(0.02, source.may_go.set)
    await scrapes.page()
    await scrapes.page()

    assert loop.time() - began > 0.02 * module.REST
    await scrapes.close()


@asynccontextmanager
async def served(scrapes: Scrapes) -> AsyncIterator[Address]:
    limits, turnstile = RequestLimits(max_body_bytes=1_000), Turnstile()
    app = web.Application(
        middlewares=[Admission(InflightLimits(max_requests=10, max_bytes=1_000), limits, turnstile).middleware]
    )
    app.router.add_get("/metrics", scrapes.handle)
    connections = ConnectionLimits("test", total=1_000, per_address=1_000)
    listener = AiohttpListener(app, limits=limits, connections=connections, turnstile=turnstile, drain_s=0.1)
    await listener.start(Address("127.0.0.1", 0))
    assert listener._listening is not None
    try:
        yield Address("127.0.0.1", listener._listening.sockets[0].getsockname()[1])
    finally:
        await listener.close()


async def rude_reader(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask for a large page, and read nothing of it."""
    connected = socket.create_connection((address.host, address.port))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    reader, writer = await asyncio.open_connection(sock=connected, limit=1_024)
    writer.write(b"GET /metrics?detail=partitions HTTP/1.1\r\nHost: x\r\n\r\n")
    return reader, writer


async def test_readers_that_do_not_read_keep_others_of_their_address_out_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(module, "REST", 0.0)
    monkeypatch.setattr(module, "SEND_S", 0.3)
    source = Source(groups=200_000)
    scrapes = Scrapes([source.show])
    async with served(scrapes) as address:
        rude = [await rude_reader(address) for _ in range(12)]
        while source.pages < 1:
            await asyncio.sleep(0.01)
        async with (
            asyncio.timeout(20),
            aiohttp.ClientSession() as http,
            http.get(f"{address.url}/metrics") as answer,
        ):
            assert answer.status == 200
            assert "raftlog_group_lag_records" in await answer.text()
        assert len(scrapes._from) == 1
        for _, writer in rude:
            writer.transport.abort()
        async with asyncio.timeout(20):
            while scrapes._from:
                await asyncio.sleep(0.01)
        assert scrapes._all._value == module.AT_ONCE
    await scrapes.close()


async def test_clients_that_leave_while_they_wait_give_their_places_free(source: Source, scrapes: Scrapes):
    source.may_go.clear()
    async with served(scrapes) as address, asyncio.timeout(20):
        rude = [await rude_reader(address) for _ in range(30)]
        while not source.pages:
            await asyncio.sleep(0.01)
        for _, writer in rude:
            writer.transport.abort()
        source.may_go.set()
        while scrapes._from:
            await asyncio.sleep(0.01)
        assert scrapes._all._value == module.AT_ONCE


async def test_a_scraper_that_cannot_be_served_in_time_gets_an_error(
    source: Source, scrapes: Scrapes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    for _ in range(module.AT_ONCE_PER_ADDRESS):
        await scrapes._enter("10.0.0.1")
    with pytest.raises(RetriableError, match="scrape less often"):
        await scrapes._enter("10.0.0.1")
    leave = await scrapes._enter("10.0.0.2")
    leave()

    assert set(scrapes._from) == {"10.0.0.1"}


@pytest.mark.parametrize("query", ["detail=topics", "datail=partitions", "detail=partitions&detail=all"])
async def test_an_unknown_query_is_refused(scrapes: Scrapes, query: str):
    with pytest.raises(InvalidRequestError, match="expected nothing or detail=partitions"):
        await scrapes.handle(make_mocked_request("GET", f"/metrics?{query}"))
