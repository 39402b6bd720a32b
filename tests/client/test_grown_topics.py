"""A topic that has just got more partitions: brokers with older metadata do not remove any."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from raftlog.broker.context import BrokerContext
from raftlog.client.connection import Connection
from raftlog.errors import NotFoundError, StaleRouteError
from raftlog.wire.metadata import BrokerInfo, ClientMetadata, PartitionInfo, TopicInfo


def topic(partitions: int, topic_id: str = "id") -> TopicInfo:
    infos = tuple(
        PartitionInfo(partition=number, leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
        for number in range(partitions)
    )
    return TopicInfo(topic="t", topic_id=topic_id, partitions=infos)


async def known_after(before: TopicInfo, answer: TopicInfo) -> TopicInfo | None:
    connection = Connection("http://127.0.0.1:1", timeout_ms=300)
    connection._topics["t"] = before
    brokers = (BrokerInfo(broker_id=1, url="http://127.0.0.1:1"),)
    metadata = ClientMetadata(cluster_id="c", metadata_offset=5, brokers=brokers, topics=(answer,))
    with mock.patch.object(connection, "ask_any", mock.AsyncMock(return_value=metadata)):
        await connection.refresh(["t"])
    await connection.close()
    return connection.cached_topic("t")


async def test_a_broker_that_has_not_heard_of_added_partitions_takes_none_away():
    assert await known_after(topic(4), topic(1)) == topic(4)
    assert await known_after(topic(1), topic(4)) == topic(4)


async def test_a_topic_that_was_recreated_has_the_partitions_of_the_new_one():
    assert await known_after(topic(4), topic(1, "other")) == topic(1, "other")


async def test_many_topics_with_long_names_are_refreshed_in_requests_that_fit_a_url():
    connection = Connection("http://127.0.0.1:1", timeout_ms=300)
    names = [f"{number:04}{'x' * 200}" for number in range(100)]
    asked = list[str]()

    async def answer(cls: type, method: str, path: str) -> ClientMetadata:
        asked.append(path)
        brokers = (BrokerInfo(broker_id=1, url="http://127.0.0.1:1"),)
        infos = tuple(replace(topic(1), topic=name) for name in names if name in path)
        return ClientMetadata(cluster_id="c", metadata_offset=5, brokers=brokers, topics=infos)

    with mock.patch.object(connection, "ask_any", answer):
        await connection.refresh(names)
    await connection.close()

    assert len(asked) == 4
    assert max(map(len, asked)) < 8_000
    assert all(connection.cached_topic(name) for name in names)


def test_who_names_the_topics_id_may_know_more_partitions_than_a_broker():
    context = BrokerContext.__new__(BrokerContext)
    here = mock.Mock(topic_id="id", partitions={0: "state"})
    with mock.patch.object(BrokerContext, "image", mock.Mock(topic=lambda name: here), create=True):
        assert context.partition("t", 0, "id") == "state"
        with pytest.raises(StaleRouteError, match="or not yet"):
            context.partition("t", 3, "id")
        with pytest.raises(NotFoundError):
            context.partition("t", 3)
