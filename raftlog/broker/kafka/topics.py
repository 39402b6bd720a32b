"""What handlers of several areas need to know of topics and brokers: ids on the wire, live brokers, hints, rights."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from raftlog.broker.kafka.call import KafkaCall
from raftlog.errors import ErrorCode, StaleRouteError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import AclOperation, AclResource, BrokerRegistration, TopicId
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.writer import ZERO_UUID

_OPERATIONS: Final[dict[AclOperation, int]] = {
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster_action": 9,
    "describe_configs": 10,
    "alter_configs": 11,
    "idempotent_write": 12,
}
"""Kafka's numbers, which are bits of authorized operations (KIP-430)."""
_OF: Final[dict[AclResource, tuple[AclOperation, ...]]] = {
    "topic": ("read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs"),
    "group": ("read", "delete", "describe"),
    "cluster": (
        "create",
        "alter",
        "describe",
        "cluster_action",
        "describe_configs",
        "alter_configs",
        "idempotent_write",
    ),
    "transactional_id": ("write", "describe"),
    "user": (),
}
_MOVED: Final = (
    KafkaError.NOT_LEADER_OR_FOLLOWER,
    KafkaError.FENCED_LEADER_EPOCH,
)


class Slices:
    """Yields to the event loop after each slice of a request's entries, whatever its topics and partitions are."""

    def __init__(self, each: int = 128) -> None:
        self._each = each
        self._count = 0

    async def entry(self) -> None:
        """Count an entry, which takes some 10 µs."""
        self._count += 1
        if self._count % self._each == 0:
            await asyncio.sleep(0)


class Leader(NamedTuple):
    """A hint in an error: the leader of a partition (KIP-951)."""

    leader_id: int
    leader_epoch: int


def uuid_of(topic_id: TopicId) -> bytes:
    """Return a topic's id as it is on the wire."""
    return bytes.fromhex(topic_id)


def topic_id_of(uuid: bytes) -> TopicId:
    """Return a topic's id from the wire; empty for the zero id."""
    return "" if uuid == ZERO_UUID else uuid.hex()


def name_of(image: MetadataImage, topic_id: TopicId) -> str:
    """Return the name of a topic.

    Raises:
        StaleRouteError: UNKNOWN_TOPIC_ID.
    """
    topic = image.topics.get(topic_id)
    if topic is None:
        raise StaleRouteError(
            f"this broker's metadata has no topic with the id {topic_id}, not yet or no longer",
            code=ErrorCode.UNKNOWN_TOPIC_ID,
        )
    return topic.topic


def live_brokers(image: MetadataImage) -> list[BrokerRegistration]:
    """Return the brokers that clients may use, by id."""
    return [broker for _, broker in sorted(image.brokers.items()) if not broker.fenced]


def leader_hint(call: KafkaCall, topic: str, partition: int, number: int) -> Leader | None:
    """Return a partition's leader, if the error says that a client has the wrong one, and this broker knows better."""
    if number not in _MOVED:
        return None
    found = call.context.listener.require_image().topic(topic)
    state = None if found is None else found.partitions.get(partition)
    return None if state is None or state.leader < 0 else Leader(state.leader, state.leader_epoch)


def endpoints_of(call: KafkaCall, leaders: Iterable[Leader | None]) -> list[BrokerRegistration]:
    """Return the brokers of hints, each once."""
    brokers = call.context.listener.require_image().brokers
    ids = sorted({one.leader_id for one in leaders if one is not None})
    return [brokers[broker_id] for broker_id in ids if broker_id in brokers]


def authorized_operations(call: KafkaCall, resource: AclResource, name: str) -> int:
    """Return the bits of what the sender may do (KIP-430). Nothing is logged as refused."""
    allows = call.context.access.allows
    return sum(1 << _OPERATIONS[one] for one in _OF[resource] if allows(call.sender, one, resource, name))
