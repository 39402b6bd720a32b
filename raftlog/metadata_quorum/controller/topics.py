"""Creating, altering and deleting topics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from raftlog.config import TopicConfig, validate_topic_configs
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision, change
from raftlog.metadata_quorum.controller.elections import elected, is_active, min_isr
from raftlog.metadata_quorum.controller.placement import place
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.records import (
    ChangePartition,
    ChangeTopicConfigs,
    ConfigValue,
    CreateTopic,
    DeleteTopic,
    Record,
)
from raftlog.model import INTERNAL_TOPICS, NO_LEADER, TopicId
from raftlog.wire.admin import AlterTopicRequest
from raftlog.wire.metadata import CreateTopicRequest, DeleteTopicRequest, PartitionInfo, TopicInfo

MAX_PARTITIONS = 10_000
"""Of one topic."""
MAX_NAME_LENGTH = 249
INTERNAL_TOPIC_SETTINGS = {
    "min_insync_replicas": 1,
    "segment_bytes": 1 << 20,
    "segment_ms": 60_000,
    "file_delete_delay_ms": 0,
    "min_cleanable_dirty_ratio": 0,
}
"""Settings of internal topics that an operator may change, and the least value of each.

None of them loses an acknowledged record, or makes a file of every few records.
"""
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What a topic gets when its request does not say."""

    partitions: int
    replication_factor: int
    settings: TopicConfig = field(default_factory=TopicConfig)


def decide_creation(
    image: MetadataImage, request: CreateTopicRequest, *, topic_id: TopicId, defaults: TopicDefaults
) -> Decision[TopicId | TopicInfo]:
    """Create a topic with all its partitions; the response is its id, or (`validate_only`) what it would be.

    Raises:
        InvalidRequestError: the name, a number or a setting does not fit, or the topic exists.
    """
    _require_name(request.topic)
    # What durability rests on is written down: brokers and controllers must not have different defaults for it.
    promised = {name: getattr(defaults.settings, name) for name in ("min_insync_replicas", "flush")}
    if defaults.settings.unclean_leader_election_enable:
        promised["unclean_leader_election_enable"] = True
    configs = promised | validate_topic_configs(request.configs)
    if (existing := image.topic(request.topic)) is not None:
        return _existing(request, existing)
    alive = sum(is_active(image, broker) for broker in image.brokers)
    partitions = defaults.partitions if request.partitions is None else request.partitions
    factor = request.replication_factor
    if factor is None:
        factor = max(1, min(defaults.replication_factor, alive))
    _require_counts(partitions, factor, alive)
    _require_min_isr(request.configs, factor)
    created = _new_partitions(image, topic_id, range(partitions), factor)
    if request.validate_only:
        return Decision((), _planned(request.topic, configs, created))
    return Decision((CreateTopic(topic=request.topic, topic_id=topic_id, configs=configs), *created), topic_id)


def _new_partitions(
    image: MetadataImage, topic_id: TopicId, numbers: range, replication_factor: int
) -> list[ChangePartition]:
    brokers = sorted((b.broker_id, b.rack) for b in image.brokers.values() if is_active(image, b.broker_id))
    load = Counter(state.leader for _, _, state in image.partitions())
    placed = place(brokers, partitions=len(numbers), replication_factor=replication_factor, load=load)
    return [
        ChangePartition(
            topic_id=topic_id,
            partition=number,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
        )
        for number, replicas in zip(numbers, placed, strict=True)
    ]


def _planned(topic: str, configs: Mapping[str, ConfigValue], created: Iterable[ChangePartition]) -> TopicInfo:
    partitions = tuple(
        PartitionInfo(partition=new.partition, leader=new.leader, leader_epoch=0, replicas=new.replicas, isr=new.isr)
        for new in created
    )
    return TopicInfo(topic=topic, topic_id="", partitions=partitions, configs=configs)


def _existing(request: CreateTopicRequest, existing: TopicImage) -> Decision[TopicId | TopicInfo]:
    if request.if_not_exists:
        return Decision((), existing.topic_id)
    raise InvalidRequestError(
        f"topic {request.topic!r} exists already, with {len(existing.partitions)} partitions",
        code=ErrorCode.TOPIC_ALREADY_EXISTS,
    )


def decide_alteration(image: MetadataImage, request: AlterTopicRequest) -> Decision[TopicId]:
    """Change a topic's settings, and add partitions; the response is its id.

    Raises:
        NotFoundError: there is none of that name.
        InvalidRequestError: INVALID_CONFIG, INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR.
    """
    topic = image.topic(request.topic)
    if topic is None:
        raise NotFoundError(f"there is no topic {request.topic!r}")
    _require_allowed(request)
    configs = _changed_configs(topic, request)
    _require_sensible(request, configs)
    _require_min_isr(
        configs, max(len(set(state.replicas) - set(state.removing)) for state in topic.partitions.values())
    )
    records: list[Record] = []
    if configs:
        records.append(ChangeTopicConfigs(topic_id=topic.topic_id, configs=configs))
    records += _with_other_rules(image, topic, configs)
    if request.partitions is not None:
        records += _added_partitions(image, topic, request.partitions)
    return Decision(tuple(records), topic.topic_id)


def _require_allowed(request: AlterTopicRequest) -> None:
    """Refuse changes of an internal topic that would lose what coordinators keep there, or move it elsewhere.

    Raises:
        InvalidRequestError: INVALID_TOPIC_EXCEPTION.
    """
    if request.topic not in INTERNAL_TOPICS:
        return
    refused = sorted(request.configs.keys() - INTERNAL_TOPIC_SETTINGS.keys())
    if request.partitions is not None:
        refused.append("partitions")
    if refused:
        raise InvalidRequestError(
            f"{request.topic} is an internal topic: {', '.join(refused)} cannot be changed; "
            f"only {', '.join(sorted(INTERNAL_TOPIC_SETTINGS))} can",
            code=ErrorCode.INVALID_TOPIC_EXCEPTION,
        )


def _require_sensible(request: AlterTopicRequest, configs: Mapping[str, ConfigValue | None]) -> None:
    """Raise if a setting of an internal topic is below the least value that such a topic may have.

    Raises:
        InvalidRequestError: INVALID_CONFIG.
    """
    if request.topic not in INTERNAL_TOPICS:
        return
    for name in request.configs:
        value, least = configs.get(name), INTERNAL_TOPIC_SETTINGS[name]
        if isinstance(value, int | float) and value < least:
            raise InvalidRequestError(
                f"{name}: expected at least {least} for the internal topic {request.topic}, received {value}",
                code=ErrorCode.INVALID_CONFIG,
            )


def _changed_configs(topic: TopicImage, request: AlterTopicRequest) -> dict[str, ConfigValue | None]:
    removed = [name for name, value in request.configs.items() if value is None]
    if kept := {"min_insync_replicas", "flush"} & {*removed}:
        raise InvalidRequestError(
            f"{min(kept)}: every topic has its own, which cannot be removed; set another value",
            code=ErrorCode.INVALID_CONFIG,
        )
    given = validate_topic_configs({name: value for name, value in request.configs.items() if value is not None})
    if unknown := [name for name in removed if name not in TopicConfig.__slots__]:
        raise InvalidRequestError(f"{unknown[0]}: there is no such setting", code=ErrorCode.INVALID_CONFIG)
    changed = {name: value for name, value in given.items() if topic.configs.get(name) != value}
    return {**changed, **{name: None for name in removed if name in topic.configs}}


def _with_other_rules(
    image: MetadataImage, topic: TopicImage, configs: Mapping[str, ConfigValue | None]
) -> Iterable[ChangePartition]:
    """Return the partitions that move on because of what their elections go by from now on."""
    kept = {name: value for name, value in {**topic.configs, **configs}.items() if value is not None}
    altered = replace(topic, configs=kept)
    for number, before in topic.partitions.items():
        state = before
        if "min_insync_replicas" in configs:
            # The next epoch: no leader may propose an ISR before it knows the new min ISR.
            enough = len(state.isr) >= min_isr(altered, state)
            state = replace(state, elr=() if enough else state.elr, partition_epoch=before.partition_epoch + 1)
        if state.leader == NO_LEADER and configs.get("unclean_leader_election_enable"):
            state = elected(altered, state, lambda broker: is_active(image, broker))
        if state is not before:
            yield change(topic.topic_id, number, replace(state, partition_epoch=before.partition_epoch + 1))


def _require_min_isr(configs: Mapping[str, ConfigValue | None], factor: int) -> None:
    """Refuse a min_insync_replicas that no partition can reach; the default counts as the replication factor at most.

    Raises:
        InvalidRequestError: INVALID_CONFIG.
    """
    asked = configs.get("min_insync_replicas")
    if asked is not None and int(asked) > factor:
        raise InvalidRequestError(
            f"min_insync_replicas: expected at most the replication factor {factor}, received {asked}",
            code=ErrorCode.INVALID_CONFIG,
        )


def _added_partitions(image: MetadataImage, topic: TopicImage, partitions: int) -> list[ChangePartition]:
    present = len(topic.partitions)
    alive = sum(is_active(image, broker) for broker in image.brokers)
    first = topic.partitions[0]
    factor = len(set(first.replicas) - set(first.removing))  # While it moves, those that it leaves are among them.
    _require_counts(partitions, factor, alive)
    if partitions < present:
        raise InvalidRequestError(
            f"partitions: {topic.topic!r} has {present}, which cannot become fewer, received {partitions}",
            code=ErrorCode.INVALID_PARTITIONS,
        )
    return _new_partitions(image, topic.topic_id, range(present, partitions), factor)


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
