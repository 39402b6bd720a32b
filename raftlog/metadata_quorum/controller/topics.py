"""Creating and deleting topics."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from raftlog.config import validate_topic_configs
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.controller.elections import is_active
from raftlog.metadata_quorum.controller.placement import place
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.records import ChangePartition, CreateTopic, DeleteTopic
from raftlog.model import TopicId
from raftlog.wire.metadata import CreateTopicRequest, DeleteTopicRequest

MAX_PARTITIONS = 1_000
"""Of one topic: one decision must fit into one command."""
MAX_NAME_LENGTH = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What a topic gets when its request does not say."""

    partitions: int
    replication_factor: int


def decide_creation(
    image: MetadataImage, request: CreateTopicRequest, *, topic_id: TopicId, defaults: TopicDefaults
) -> Decision[TopicId]:
    """Create a topic with all its partitions; the response is its id.

    Raises:
        InvalidRequestError: the name, a number or a setting does not fit, or the topic exists.
    """
    _require_name(request.topic)
    configs = validate_topic_configs(request.configs)
    if (existing := image.topic(request.topic)) is not None:
        return _existing(request, existing)
    brokers = [(b.broker_id, b.rack) for b in image.brokers.values() if is_active(image, b.broker_id)]
    partitions = defaults.partitions if request.partitions is None else request.partitions
    factor = request.replication_factor
    if factor is None:
        factor = max(1, min(defaults.replication_factor, len(brokers)))
    _require_counts(partitions, factor, len(brokers))
    load = Counter(state.leader for _, _, state in image.partitions())
    placed = place(sorted(brokers), partitions=partitions, replication_factor=factor, load=load)
    created = [
        ChangePartition(
            topic_id=topic_id,
            partition=number,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
        )
        for number, replicas in enumerate(placed)
    ]
    return Decision((CreateTopic(topic=request.topic, topic_id=topic_id, configs=configs), *created), topic_id)


def _existing(request: CreateTopicRequest, existing: TopicImage) -> Decision[TopicId]:
    if request.if_not_exists:
        return Decision((), existing.topic_id)
    raise InvalidRequestError(
        f"topic {request.topic!r} exists already, with {len(existing.partitions)} partitions",
        code=ErrorCode.TOPIC_ALREADY_EXISTS,
    )


def decide_deletion(image: MetadataImage, request: DeleteTopicRequest) -> Decision[None]:
    """Delete a topic.

    Raises:
        NotFoundError: there is none of that name.
    """
    topic = image.topic(request.topic)
    if topic is None:
        raise NotFoundError(f"there is no topic {request.topic!r}")
    return Decision((DeleteTopic(topic_id=topic.topic_id),), None)


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH or name in (".", ".."):
        raise InvalidRequestError(
            f"a topic's name has 1 to {MAX_NAME_LENGTH} of the characters a-z A-Z 0-9 . _ -, received {name[:300]!r}",
            code=ErrorCode.INVALID_TOPIC_EXCEPTION,
        )


def _require_counts(partitions: int, replication_factor: int, brokers: int) -> None:
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidRequestError(
            f"partitions: expected 1 to {MAX_PARTITIONS}, received {partitions}", code=ErrorCode.INVALID_PARTITIONS
        )
    if not 1 <= replication_factor <= brokers:
        raise InvalidRequestError(
            f"replication_factor: expected 1 to the {brokers} brokers that are alive, received {replication_factor}",
            code=ErrorCode.INVALID_REPLICATION_FACTOR,
        )
