"""Topics that are created because a client asks for their metadata (ADR 0041)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from admin_support import unfenced
from kafka_frame import Frame, broker_for_kafka
from kafka_listener import Client, request

from raftlog.config import SecurityConfig
from raftlog.model import Acl, AclOperation
from raftlog.security.audit import AuditTrail
from raftlog.wire.kafka.error_codes import KafkaError as K
from raftlog.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.listener_support import connected

pytestmark = pytest.mark.cluster
METADATA = 3


@pytest_asyncio.fixture
async def frame(
    tmp_path: Path, free_ports: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Frame]:
    """Return a broker that creates topics when it is asked for them. Every sender may describe and create topics."""
    (tmp_path / "cluster.key").write_text("c" * 64)
    security = SecurityConfig(
        authorizer="acl", super_users=("User:admin",), cluster_key_file=str(tmp_path / "cluster.key")
    )
    settings: dict[str, Any] = {"auto_create_topics_enable": True, "num_partitions": 2}
    async with broker_for_kafka(tmp_path, free_ports(3), security=security, **settings) as frame:
        await unfenced(frame)
        with_rules(frame, monkeypatch, ("describe", "*"), ("create", "*"))
        yield frame


def with_rules(frame: Frame, monkeypatch: pytest.MonkeyPatch, *rules: tuple[AclOperation, str]) -> None:
    """Let the broker see rules for topics, as if its metadata had them."""
    kept = dict.fromkeys(
        Acl(principal="*", operation=operation, resource_type="topic", resource_name=name) for operation, name in rules
    )
    monkeypatch.setattr(frame.context.access, "_rules", lambda: kept)


async def topics(frame: Frame, *names: str, version: int = 12, creates: bool = True) -> dict[str, Any]:
    asked = [MetadataRequestTopic(name=name) for name in names]
    message = MetadataRequest(topics=asked, allow_auto_topic_creation=creates)
    async with asyncio.timeout(30), connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        await kafka.send(request(METADATA, version, message))
        answer = await kafka.answer(METADATA, version)
    return {topic.name: topic for topic in answer[1].topics}


async def test_a_topic_is_created_with_the_clusters_defaults(frame: Frame):
    found = await topics(frame, "a", "b", "a")
    assert {name: (one.error_code, len(one.partitions)) for name, one in found.items()} == {"a": (0, 2), "b": (0, 2)}
    again = await topics(frame, "a", version=1)
    assert len(again["a"].partitions) == 2
    assert frame.context.topic("a").topic_id == found["a"].topic_id.hex()


async def test_clients_that_ask_at_once_get_the_same_topic(frame: Frame):
    found = await asyncio.gather(*(topics(frame, "t") for _ in range(8)))
    ids = {one["t"].topic_id for one in found if not one["t"].error_code}
    assert len(ids) == 1
    assert {one["t"].error_code for one in found} <= {K.NONE, K.UNKNOWN_TOPIC_OR_PARTITION}


async def test_what_cannot_be_created_has_its_error(frame: Frame):
    found = await topics(frame, "no/slash", "__consumer_offsets", "good")
    assert {name: one.error_code for name, one in found.items()} == {
        "no/slash": K.INVALID_TOPIC_EXCEPTION,
        "__consumer_offsets": K.UNKNOWN_TOPIC_OR_PARTITION,
        "good": K.NONE,
    }


async def test_a_client_may_decline(frame: Frame):
    assert (await topics(frame, "t", creates=False))["t"].error_code == K.UNKNOWN_TOPIC_OR_PARTITION
    assert frame.context.image.topic("t") is None


async def test_only_who_may_create_topics_does(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    noted = list[dict[str, Any]]()
    monkeypatch.setattr(frame.context.access, "audit", AuditTrail("broker-1", noted.append, lambda: 0))
    rules = ("describe", "seen"), ("describe", "made"), ("create", "made"), ("create", "hidden")
    with_rules(frame, monkeypatch, *rules)
    found = await topics(frame, "seen", "made", "hidden")
    assert {name: one.error_code for name, one in found.items()} == {
        "seen": K.TOPIC_AUTHORIZATION_FAILED,
        "made": K.NONE,
        "hidden": K.TOPIC_AUTHORIZATION_FAILED,
    }
    assert frame.context.image.topic("hidden") is None
    changes = [one for one in noted if one["event"] == "change"]
    assert [(one["route"], one["outcome"]) for one in changes] == [("KAFKA Metadata", "failed")]
    assert [topic["name"] for topic in changes[0]["detail"]["topics"]] == ["seen", "made"]
