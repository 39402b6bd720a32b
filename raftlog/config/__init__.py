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
from raftlog.config.topic import TopicConfig, validate_topic_configs

__all__ = [
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
    "is_safe_url",
    "validate_broker_configs",
    "validate_topic_configs",
]
