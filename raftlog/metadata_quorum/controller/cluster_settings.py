"""Cluster-wide decisions: the first records of a log, the feature level, dynamic settings of brokers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from raftlog.config import OWN_SETTINGS, TopicConfig, validate_broker_configs
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import (
    ALL_BROKERS,
    FEATURE_LEVEL,
    ChangeBrokerConfigs,
    ConfigValue,
    IdentifyCluster,
    Record,
    SetFeatureLevel,
)
from raftlog.model import ControllerId
from raftlog.wire.admin import BrokerConfigsRequest, FeaturesBody


def first_records(image: MetadataImage, cluster_id: str) -> tuple[Record, ...]:
    """Return the records of a new log: the cluster's id and feature level, where they are missing."""
    identity = () if image.cluster_id else (IdentifyCluster(cluster_id=cluster_id),)
    level = () if image.feature_level else (SetFeatureLevel(level=FEATURE_LEVEL),)
    return (*identity, *level)


def decide_features(
    image: MetadataImage, request: FeaturesBody, voters: Mapping[ControllerId, int] = MappingProxyType({})
) -> Decision[None]:
    """Raise the feature level, once every node supports it. It never falls: older versions could not read the log.

    Args:
        voters: the highest level of each controller; 0: an older one, or one that has not responded yet. A controller
            that does not support the level of the log ends.

    Raises:
        InvalidRequestError: UNSUPPORTED_VERSION.
    """
    level = request.feature_level
    behind = sorted(broker.broker_id for broker in image.brokers.values() if broker.max_feature_level < level)
    older = sorted(voter for voter, highest in voters.items() if highest < level > image.feature_level)
    if not image.feature_level <= level <= FEATURE_LEVEL or behind or older:
        raise InvalidRequestError(
            f"feature_level: expected {image.feature_level} (now) to {FEATURE_LEVEL} (this controller's highest)"
            + (f", and brokers {behind} upgraded first" if behind else "")
            + (f", and controllers {older} upgraded, and running" if older else "")
            + f", received {level}",
            code=ErrorCode.UNSUPPORTED_VERSION,
        )
    return Decision((SetFeatureLevel(level=level),) if level != image.feature_level else (), None)


def decide_broker_configs(image: MetadataImage, request: BrokerConfigsRequest) -> Decision[None]:
    """Change dynamic settings of one broker or of all: broker settings, and defaults for topics.

    Raises:
        NotFoundError: RESOURCE_NOT_FOUND: the broker is not registered.
        InvalidRequestError: INVALID_CONFIG.
    """
    if request.broker_id != ALL_BROKERS and request.broker_id not in image.brokers:
        raise NotFoundError(f"broker {request.broker_id} is not registered", code=ErrorCode.RESOURCE_NOT_FOUND)
    given = validate_broker_configs({name: value for name, value in request.configs.items() if value is not None})
    present = image.broker_configs.get(request.broker_id, {})
    absent = {name for name, value in request.configs.items() if value is None and name not in present}
    if unknown := absent - {*OWN_SETTINGS, *TopicConfig.__slots__}:
        raise InvalidRequestError(f"{min(unknown)}: unknown setting of brokers", code=ErrorCode.INVALID_CONFIG)
    if fixed := {"min_insync_replicas", "flush", "unclean_leader_election_enable"} & {*given, *absent}:
        raise InvalidRequestError(
            f"{min(fixed)}: cannot be set on brokers: each topic gets its own value when it is created",
            code=ErrorCode.INVALID_CONFIG,
        )
    changed: dict[str, ConfigValue | None] = {k: v for k, v in given.items() if present.get(k) != v}
    changed |= {name: None for name, value in request.configs.items() if value is None and name in present}
    if not changed:
        return Decision((), None)
    return Decision((ChangeBrokerConfigs(broker_id=request.broker_id, configs=changed),), None)
