"""A broker's answers when another client changes the topic before the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from raftlog.broker.admin_limits import AdminLimits
from raftlog.broker.http import errors
from raftlog.broker.routes.topics import TopicRoutes
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import ChangePartition, CreateTopic, DeleteTopic
from raftlog.metadata_quorum.replay import replay
from raftlog.model import PartitionState
from raftlog.security.access import Access
from raftlog.wire.admin import AdminResponse


def created(image: MetadataImage, topic_id: str) -> MetadataImage:
    state = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
    partition = ChangePartition(topic_id=topic_id, partition=0, state=state)
    return replay(image, image.offset + 1, [CreateTopic(topic="t", topic_id=topic_id, configs={}), partition])


def deleted(image: MetadataImage, topic_id: str) -> MetadataImage:
    return replay(image, image.offset + 1, [DeleteTopic(topic_id=topic_id)])


class Controllers:
    """Answers that topic `own` was changed."""

    async def administer(self, path: str, command: object, *, timeout_ms: int) -> AdminResponse:
        return AdminResponse(metadata_offset=1, result="own")


class Listener:
    """The image is set by the test."""

    def __init__(self) -> None:
        self.waits_ms: list[int] = []

    async def require_applied(self, offset: int, *, timeout_ms: int) -> None:
        self.waits_ms.append(timeout_ms)


@pytest.fixture
async def broker() -> AsyncIterator[tuple[SimpleNamespace, TestClient[Any, Any]]]:
    context = SimpleNamespace(
        channel=Controllers(),
        listener=Listener(),
        config=SimpleNamespace(node_id=1),
        image=None,
        admin_limits=AdminLimits(),
        access=Access(),
    )
    app = web.Application(middlewares=[errors])
    TopicRoutes(context).add_to(app)  # type: ignore[arg-type]
    async with TestClient(TestServer(app)) as client:
        yield context, client


CHANGES = [("POST", "/v1/topics", {"topic": "t"}), ("PATCH", "/v1/topics/t", {"partitions": 1})]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_a_change_is_answered_with_its_topic(broker: Any, method: str, path: str, body: Any):
    context, client = broker
    context.image = created(replace(MetadataImage(), offset=0), "own")

    answer = await client.request(method, path, json=body)

    assert (await answer.json())["topic_id"] == "own"


@pytest.mark.parametrize(
    ("asked_ms", "least", "most"), [(None, 14_000, 15_000), ("60000", 59_000, 60_000), ("9999999", 119_000, 120_000)]
)
async def test_a_change_waits_for_this_broker_as_long_as_its_caller_does(
    broker: Any, asked_ms: str | None, least: int, most: int
):
    """To open thousands of partitions may take a busy machine longer than a caller without a deadline waits."""
    context, client = broker
    context.image = created(replace(MetadataImage(), offset=0), "own")
    headers = {} if asked_ms is None else {"Raftlog-Deadline-Ms": asked_ms}

    await client.post("/v1/topics", json={"topic": "t"}, headers=headers)

    (waited_ms,) = context.listener.waits_ms
    assert least < waited_ms <= most


@pytest.mark.parametrize("successor", [False, True])
@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_of_a_topic_deleted_since_nobody_is_told_that_nothing_was_done(
    broker: Any, method: str, path: str, body: Any, successor: bool
):
    context, client = broker
    image = deleted(created(replace(MetadataImage(), offset=0), "own"), "own")
    context.image = created(image, "another") if successor else image

    answer = await client.request(method, path, json=body)

    assert answer.status == 504
    assert (await answer.json())["error"]["code"] == "REQUEST_TIMED_OUT"
