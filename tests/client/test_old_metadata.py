"""Metadata that is old and not known to be wrong: it is used while it is refreshed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_fetching import T0, Log, _reader

from raftlog import Producer
from raftlog.client.connection import METADATA_MAX_AGE_S, Connection
from raftlog.client.sender import Sender
from raftlog.errors import NotFoundError, RaftlogError, RetriableError, StaleRouteError
from raftlog.model import Address
from raftlog.wire.data import ProduceResponse, ProduceResult, ProducerIdResponse
from raftlog.wire.metadata import BrokerInfo, ClientMetadata, PartitionInfo, TopicInfo

BROKERS = tuple(BrokerInfo(broker_id=number, url=f"http://127.0.0.1:{number}") for number in (1, 2))


def led_by(leader: int) -> ClientMetadata:
    partition = PartitionInfo(partition=0, leader=leader, leader_epoch=leader, replicas=(1, 2), isr=(1, 2))
    topic = TopicInfo(topic="t", topic_id="f" * 32, partitions=(partition,))
    return ClientMetadata(cluster_id="c", metadata_offset=leader, brokers=BROKERS, topics=(topic,))


NOTHING = ClientMetadata(cluster_id="c", metadata_offset=9, brokers=BROKERS, topics=())


class Cluster:
    """Takes records at once, and answers requests for metadata once `metadata` is set. The client's metadata is old."""

    def __init__(self, **options: Any) -> None:
        self.producer = Producer("http://127.0.0.1:1", **options)
        self.asked = 0
        self.was_asked = asyncio.Event()
        self.metadata: asyncio.Future[ClientMetadata] = asyncio.get_running_loop().create_future()
        self.sent_to: list[int] = []
        self.refusals: list[RaftlogError] = []
        connection = self.producer._connection
        connection._remember(["t"], led_by(1))
        connection._refreshed_at["t"] -= METADATA_MAX_AGE_S + 1
        connection.session.call = self.call  # type: ignore[method-assign,assignment]

    @property
    def connection(self) -> Connection:
        return self.producer._connection

    async def call(self, cls: type, method: str, address: Address, path: str, **_: Any) -> Any:
        if cls is ClientMetadata:
            self.asked += 1
            self.was_asked.set()
            return await asyncio.shield(self.metadata)
        if cls is ProducerIdResponse:
            return ProducerIdResponse(producer_id=7)
        self.sent_to.append(address.port)
        if self.refusals:
            raise self.refusals.pop()
        return ProduceResponse(partitions=(ProduceResult(topic="t", partition=0, base_offset=len(self.sent_to)),))


async def test_a_producer_sends_while_its_old_metadata_is_refreshed():
    cluster = Cluster()
    async with asyncio.timeout(10), cluster.producer as producer:
        await producer.send("t", b"before")
        await producer.send("t", b"before")
        await cluster.was_asked.wait()
        assert (cluster.sent_to, cluster.asked) == ([1, 1], 1)
        cluster.metadata.set_result(led_by(2))
        while cluster.connection.is_stale("t"):
            await asyncio.sleep(0)
        await producer.send("t", b"after")
        assert (cluster.sent_to, cluster.asked) == ([1, 1, 2], 1)


async def test_a_producer_waits_for_metadata_when_it_was_wrong(monkeypatch: pytest.MonkeyPatch):
    route, routes = Sender._route, list[Address | None]()

    def noted(self: Sender, *arguments: Any) -> Address | None:
        routes.append(route(self, *arguments))
        return routes[-1]

    monkeypatch.setattr(Sender, "_route", noted)
    cluster = Cluster()
    cluster.refusals.append(StaleRouteError("another broker leads"))
    async with asyncio.timeout(10), cluster.producer as producer:
        sending = asyncio.create_task(producer.send("t", b"x"))
        while len(routes) < 2:
            await asyncio.sleep(0)
        assert (cluster.sent_to, routes[1]) == ([1], None)
        cluster.metadata.set_result(led_by(2))
        await sending
        assert cluster.sent_to == [1, 2]


async def test_a_producer_that_cannot_refresh_its_metadata_sends_and_asks_at_intervals():
    cluster = Cluster(request_timeout_ms=1)
    cluster.metadata.set_exception(RetriableError("not now"))
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(20), cluster.producer as producer:
        for _ in range(50):
            await producer.send("t", b"x")
        assert cluster.asked <= 2 + (loop.time() - began) / 0.1
    assert set(cluster.sent_to) == {1}


async def test_a_record_fails_once_its_topic_is_known_to_be_deleted():
    cluster = Cluster()
    async with asyncio.timeout(10), cluster.producer as producer:
        await producer.send("t", b"before")
        cluster.metadata.set_result(NOTHING)
        while cluster.connection.is_stale("t"):
            await asyncio.sleep(0)
        with pytest.raises(NotFoundError, match="'t'"):
            await producer.send("t", b"after")


class Old(Log):
    """Metadata that no task refreshes."""

    def __init__(self) -> None:
        super().__init__(end=100)
        self.refreshed = 0

    async def refresh(self, topics: list[str], *, max_age_s: float) -> None:
        self.refreshed += 1
        await asyncio.Event().wait()


async def test_a_consumer_reads_while_its_old_metadata_is_refreshed():
    log = Old()
    log.is_old = True
    reader = _reader(log)
    reader.begin({T0: 0})
    found: list[int] = []
    async with asyncio.timeout(10):
        while len(found) < 20:
            if (chunk := await reader.next_completed(1_000)) is not None:
                found += [record.offset for record in reader.take(chunk, None)]
    assert found == list(range(20))
    assert log.refreshed == 1
    await reader.fetcher.close()


async def test_a_consumer_that_always_has_records_ready_refreshes_its_metadata():
    log = Old()
    reader = _reader(log)
    reader.begin({T0: 0})
    await reader.fetcher.wait(5_000)
    log.is_old = True
    await reader.next_completed(5_000)
    assert (log.refreshed, log.positions) == (1, [{0: 0}, {0: 2}])
    await reader.fetcher.close()
