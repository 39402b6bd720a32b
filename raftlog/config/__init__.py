"""Settings: typed, frozen, validated on construction, with Kafka's names in snake case and the unit last."""

from raftlog.config.dynamic import (
    MAX_CONNECTION_RATE,
    MAX_CONNECTION_RATE_PER_ADDRESS,
    OWN_SETTINGS,
    REASSIGNMENT_THROTTLE,
    validate_broker_configs,
)
from raftlog.config.group import GroupConfig
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
from raftlog.config.security import AuthorizerMode, SecurityConfig
from raftlog.config.tls import TlsConfig
from raftlog.config.tokens import TokenAlgorithm, TokensConfig, is_safe_url
from raftlog.config.topic import INTERNAL_TOPIC_SETTINGS, TopicConfig, defaults_of, topic_config, validate_topic_configs

__all__ = [
    "INTERNAL_TOPIC_SETTINGS",
    "MAX_CONNECTION_RATE",
    "MAX_CONNECTION_RATE_PER_ADDRESS",
    "OWN_SETTINGS",
    "REASSIGNMENT_THROTTLE",
    "AdvertisedConfig",
    "AuthorizerMode",
    "BrokerConfig",
    "ControllerConfig",
    "GroupConfig",
    "ListenersConfig",
    "NodeConfig",
    "QuorumConfig",
    "ReplicationConfig",
    "SecurityConfig",
    "TlsConfig",
    "TokenAlgorithm",
    "TokensConfig",
    "TopicConfig",
    "VoterConfig",
    "defaults_of",
    "is_safe_url",
    "topic_config",
    "validate_broker_configs",
    "validate_topic_configs",
]
