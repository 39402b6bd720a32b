"""Creating, altering and deleting topics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from raftlog.config import INTERNAL_TOPIC_SETTINGS, TopicConfig, validate_topic_configs
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError, StaleRouteError
from raftlog.metadata_quorum.controller.assignments import MAX_PARTITIONS, assigned_partitions
from raftlog.metadata_quorum.controller.decision import Decision, change
from raftlog.metadata_quorum.controller.elections import is_active, min_isr, with_new_leader
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
from raftlog.model import INTERNAL_TOPICS, NO_LEADER, BrokerId, PartitionState, TopicId
from raftlog.wire.admin import AlterTopicRequest
from raftlog.wire.metadata import CreateTopicRequest, DeleteTopicRequest, PartitionInfo, TopicInfo

MAX_NAME_LENGTH = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """Values for a topic whose request has none."""

    partitions: int
    replication_factor: int
    settings: TopicConfig = field(default_factory=TopicConfig)


def decide_creation(
    image: MetadataImage, request: CreateTopicRequest, *, topic_id: TopicId, defaults: TopicDefaults
) -> Decision[TopicId | TopicInfo]:
    """Create a topic with all its partitions; the response is its id, or the planned topic for `validate_only`.

    Raises:
        InvalidRequestError: the name, a number or a setting is not allowed, or the topic exists.
    """
    _require_name(request.topic)
    # Settings that durability depends on are written to the log: defaults could differ between nodes.
    durability = {name: getattr(defaults.settings, name) for name in ("min_insync_replicas", "flush")}
    if defaults.settings.unclean_leader_election_enable:
        durability["unclean_leader_election_enable"] = True
    configs = durability | validate_topic_configs(request.configs)
    if (existing := image.topic(request.topic)) is not None:
        return _existing_topic(request, existing)
    if request.assignments is None:
        created, factor = _chosen_partitions(image, request, topic_id, defaults)
    else:
        created, factor = _assigned_topic(image, request, topic_id)
    _require_min_isr(request.configs, factor)
    if request.validate_only:
        return Decision((), _describe_plan(request.topic, configs, created))
    return Decision((CreateTopic(topic=request.topic, topic_id=topic_id, configs=configs), *created), topic_id)


def _chosen_partitions(
    image: MetadataImage, request: CreateTopicRequest, topic_id: TopicId, defaults: TopicDefaults
) -> tuple[list[ChangePartition], int]:
    """Return the partitions of a new topic on brokers that are chosen here, and the replication factor."""
    partitions = defaults.partitions if request.partitions is None else request.partitions
    factor = request.replication_factor
    if factor is None:
        factor = max(1, min(defaults.replication_factor, len(image.brokers)))
    _require_counts(partitions, factor, len(image.brokers))
    return _new_partitions(image, topic_id, range(partitions), factor), factor


def _assigned_topic(
    image: MetadataImage, request: CreateTopicRequest, topic_id: TopicId
) -> tuple[list[ChangePartition], int]:
    """Return the partitions of a new topic on the brokers that the request assigns, and the replication factor."""
    if request.partitions is not None or request.replication_factor is not None:
        raise InvalidRequestError(
            "assignments: they say how many partitions and replicas there are; leave out partitions and "
            "replication_factor"
        )
    assignments = request.assignments or ()
    factor = len(assignments[0]) if assignments else 0
    return assigned_partitions(image, topic_id, range(len(assignments)), assignments, factor), factor


def _new_partitions(
    image: MetadataImage, topic_id: TopicId, numbers: range, replication_factor: int
) -> list[ChangePartition]:
    """Return new partitions. A broker that is down gets replicas if there are too few others: it may be restarting.

    Raises:
        InvalidRequestError: INVALID_REPLICATION_FACTOR: no broker is live.
    """
    known = sorted((broker.broker_id, broker.rack) for broker in image.brokers.values())
    active = {broker for broker, _ in known if is_active(image, broker)}
    if not active:
        raise InvalidRequestError(
            f"none of the {len(known)} brokers is live: start one", code=ErrorCode.INVALID_REPLICATION_FACTOR
        )
    load = Counter(state.leader for _, _, state in image.partitions())
    placed = place(
        [each for each in known if each[0] in active],
        partitions=len(numbers),
        replication_factor=replication_factor,
        load=load,
        down=[each for each in known if each[0] not in active],
    )
    created = []
    for number, replicas in zip(numbers, placed, strict=True):
        isr = tuple(broker for broker in replicas if broker in active)
        state = PartitionState(replicas=replicas, isr=isr, leader=replicas[0], leader_epoch=0, partition_epoch=0)
        created.append(change(topic_id, number, state))
    return created


def _describe_plan(topic: str, configs: Mapping[str, ConfigValue], created: Iterable[ChangePartition]) -> TopicInfo:
    partitions = tuple(
        PartitionInfo(
            partition=new.partition,
            leader=new.state.leader,
            leader_epoch=0,
            replicas=new.state.replicas,
            isr=new.state.isr,
        )
        for new in created
    )
    return TopicInfo(topic=topic, topic_id="", partitions=partitions, configs=configs)


def _existing_topic(request: CreateTopicRequest, existing: TopicImage) -> Decision[TopicId | TopicInfo]:
    if request.if_not_exists:
        return Decision((), existing.topic_id)
    raise InvalidRequestError(
        f"topic {request.topic!r} exists already, with {len(existing.partitions)} partitions",
        code=ErrorCode.TOPIC_ALREADY_EXISTS,
    )


def decide_alteration(image: MetadataImage, request: AlterTopicRequest) -> Decision[TopicId]:
    """Change a topic's settings, and add partitions; the response is its id.

    Raises:
        NotFoundError: the topic does not exist.
        InvalidRequestError: INVALID_CONFIG, INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR.
    """
    topic = image.topic(request.topic)
    if topic is None:
        raise NotFoundError(f"there is no topic {request.topic!r}")
    _require_allowed(request)
    configs = _changed_configs(topic, request)
    _require_internal_minimum(request, configs)
    _require_min_isr(
        configs, max(len(set(state.replicas) - set(state.removing)) for state in topic.partitions.values())
    )
    records: list[Record] = []
    if configs:
        records.append(ChangeTopicConfigs(topic_id=topic.topic_id, configs=configs))
    records += _apply_election_settings(image, topic, configs)
    if request.partitions is not None:
        records += _added_partitions(image, topic, request.partitions, request.assignments)
    elif request.assignments is not None:
        raise InvalidRequestError("assignments: partitions is missing: how many the topic has afterwards")
    return Decision(tuple(records), topic.topic_id)


def _require_allowed(request: AlterTopicRequest) -> None:
    """Raise if a change of an internal topic could lose coordinator state, or move keys to other partitions.

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


def _require_internal_minimum(request: AlterTopicRequest, configs: Mapping[str, ConfigValue | None]) -> None:
    """Raise if a setting of an internal topic is below its minimum.

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
            f"{min(kept)}: cannot be removed from a topic; set another value",
            code=ErrorCode.INVALID_CONFIG,
        )
    given = validate_topic_configs({name: value for name, value in request.configs.items() if value is not None})
    if unknown := [name for name in removed if name not in TopicConfig.__slots__]:
        raise InvalidRequestError(f"{unknown[0]}: unknown setting of topics", code=ErrorCode.INVALID_CONFIG)
    changed = {name: value for name, value in given.items() if topic.configs.get(name) != value}
    return {**changed, **{name: None for name in removed if name in topic.configs}}


def _apply_election_settings(
    image: MetadataImage, topic: TopicImage, configs: Mapping[str, ConfigValue | None]
) -> Iterable[ChangePartition]:
    """Return the partitions that change because of new settings for elections."""
    kept = {name: value for name, value in {**topic.configs, **configs}.items() if value is not None}
    altered = replace(topic, configs=kept)
    for number, before in topic.partitions.items():
        state = before
        if "min_insync_replicas" in configs:
            # The new partition epoch makes the leader learn the new min ISR before its next proposal.
            enough = len(state.isr) >= min_isr(altered, state)
            state = replace(state, elr=() if enough else state.elr, partition_epoch=before.partition_epoch + 1)
        if state.leader == NO_LEADER and configs.get("unclean_leader_election_enable"):
            state = with_new_leader(altered, state, lambda broker: is_active(image, broker))
        if state is not before:
            yield change(topic.topic_id, number, replace(state, partition_epoch=before.partition_epoch + 1))


def _require_min_isr(configs: Mapping[str, ConfigValue | None], factor: int) -> None:
    """Raise if min_insync_replicas is above the replication factor. A default above it is capped instead.

    Raises:
        InvalidRequestError: INVALID_CONFIG.
    """
    requested = configs.get("min_insync_replicas")
    if requested is not None and int(requested) > factor:
        raise InvalidRequestError(
            f"min_insync_replicas: expected at most the replication factor {factor}, received {requested}",
            code=ErrorCode.INVALID_CONFIG,
        )


def _added_partitions(
    image: MetadataImage,
    topic: TopicImage,
    partitions: int,
    assignments: tuple[tuple[BrokerId, ...], ...] | None,
) -> list[ChangePartition]:
    present = len(topic.partitions)
    if partitions == present and not assignments:
        return []  # Nothing to place.
    first = topic.partitions[0]
    factor = len(set(first.replicas) - set(first.removing))  # During a reassignment `replicas` has more.
    brokers = len(image.brokers)
    _require_counts(partitions, factor, max(brokers, factor) if assignments is not None else brokers)
    if partitions < present:
        raise InvalidRequestError(
            f"partitions: expected at least the {present} that {topic.topic!r} has, received {partitions}",
            code=ErrorCode.INVALID_PARTITIONS,
        )
    if assignments is not None:
        return assigned_partitions(image, topic.topic_id, range(present, partitions), assignments, factor)
    return _new_partitions(image, topic.topic_id, range(present, partitions), factor)


def decide_deletion(image: MetadataImage, request: DeleteTopicRequest) -> Decision[None]:
    """Delete a topic.

    Raises:
        NotFoundError: the topic does not exist.
        StaleRouteError: UNKNOWN_TOPIC_ID: it has another id.
    """
    topic = image.topic(request.topic)
    if topic is None:
        raise NotFoundError(f"there is no topic {request.topic!r}")
    if request.topic_id not in ("", topic.topic_id):
        raise StaleRouteError(
            f"topic {request.topic!r} was deleted and created again: its id is {topic.topic_id}, not "
            f"{request.topic_id}",
            code=ErrorCode.UNKNOWN_TOPIC_ID,
        )
    return Decision((DeleteTopic(topic_id=topic.topic_id),), None)


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH or name in (".", ".."):
        raise InvalidRequestError(
            f"topic: expected 1 to {MAX_NAME_LENGTH} of the characters a-z A-Z 0-9 . _ -, received {name[:300]!r}",
            code=ErrorCode.INVALID_TOPIC_EXCEPTION,
        )


def _require_counts(partitions: int, replication_factor: int, brokers: int) -> None:
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidRequestError(
            f"partitions: expected 1 to {MAX_PARTITIONS}, received {partitions}", code=ErrorCode.INVALID_PARTITIONS
        )
    if not 1 <= replication_factor <= brokers:
        raise InvalidRequestError(
            f"replication_factor: expected 1 to the number of brokers, {brokers}, received {replication_factor}",
            code=ErrorCode.INVALID_REPLICATION_FACTOR,
        )
