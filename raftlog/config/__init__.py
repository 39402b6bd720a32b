"""Settings: typed, frozen, validated on construction, with Kafka's names in snake case and the unit last."""

from raftlog.config.node import (
    AdvertisedConfig,
    BrokerConfig,
    ControllerConfig,
    ListenersConfig,
    NodeConfig,
    QuorumConfig,
    VoterConfig,
)
from raftlog.config.replication import ReplicationConfig
from raftlog.config.topic import TopicConfig, validate_topic_configs

__all__ = [
    "AdvertisedConfig",
    "BrokerConfig",
    "ControllerConfig",
    "ListenersConfig",
    "NodeConfig",
    "QuorumConfig",
    "ReplicationConfig",
    "TopicConfig",
    "VoterConfig",
    "validate_topic_configs",
]
