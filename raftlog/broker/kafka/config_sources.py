"""Where the settings of a topic come from on this broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache

from raftlog.broker.context import BrokerContext
from raftlog.broker.kafka.config_names import DEFAULTS
from raftlog.broker.kafka.topic_configs import Configs, Level, Source
from raftlog.config import TopicConfig
from raftlog.metadata_quorum.records import ALL_BROKERS


def topic_levels(context: BrokerContext, own: Configs) -> tuple[Level, ...]:
    """Return the places where a topic's settings come from, the most specific one first."""
    return (Level(Source.TOPIC, own), *broker_levels(context))


def broker_levels(context: BrokerContext) -> tuple[Level, ...]:
    """Return the places where topics without a value of their own get it on this broker."""
    configs = context.image.broker_configs
    return (
        Level(Source.BROKER, configs.get(context.config.node_id, {})),
        Level(Source.ALL_BROKERS, configs.get(ALL_BROKERS, {})),
        Level(Source.STATIC, in_file(context.config.topic)),
    )


def effective(context: BrokerContext, own: Configs) -> Configs:
    """Return every setting of a topic, by raftlog's names."""
    values = dict(DEFAULTS)
    for level in reversed(topic_levels(context, own)):
        values |= level.values
    return values


@lru_cache(maxsize=4)
def in_file(config: TopicConfig) -> Mapping[str, str | int | float | bool]:
    """Return the defaults of topics that a broker's file sets to other values than raftlog."""
    return {name: value for name, value in asdict(config).items() if value != DEFAULTS[name]}
