"""The settings in force on this broker, with where each value comes from. Settings of security and TLS are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

from raftlog.broker.context import BrokerContext
from raftlog.broker.kafka.config_sources import broker_levels, topic_levels
from raftlog.broker.kafka.topic_configs import Configs, Level, Source
from raftlog.config import (
    MAX_CONNECTION_RATE,
    MAX_CONNECTION_RATE_PER_ADDRESS,
    REASSIGNMENT_THROTTLE,
    NodeConfig,
    TopicConfig,
)
from raftlog.metadata_quorum.records import ConfigValue
from raftlog.wire.settings import SettingInForce, SettingSource

_SOURCES: Mapping[Source, SettingSource] = {
    Source.TOPIC: "topic",
    Source.BROKER: "broker",
    Source.ALL_BROKERS: "all brokers",
    Source.STATIC: "file",
    Source.DEFAULT: "default",
}
_PER_TOPIC = ("min_insync_replicas", "flush", "unclean_leader_election_enable")
"""Settings of which each new topic gets the value of the controllers' file as its own: brokers' have no effect."""
_RATES = (REASSIGNMENT_THROTTLE, MAX_CONNECTION_RATE, MAX_CONNECTION_RATE_PER_ADDRESS)
_UNLIMITED = -1
_SECTIONS = ("broker", "replication", "group", "listeners", "advertised", "controller")
_TOP = ("node_id", "roles", "rack", "data_dir", "log_dirs", "cluster_id")


def of_topic(context: BrokerContext, own: Configs) -> tuple[SettingInForce, ...]:
    """Return every setting of a topic, as this broker has it."""
    return tuple(_of_levels("", topic_levels(context, own), frozenset()))


def of_broker(context: BrokerContext) -> tuple[SettingInForce, ...]:
    """Return every setting of this broker but those of security and TLS."""
    levels = broker_levels(context)
    found = [*_of_levels("topic.", levels, frozenset(_PER_TOPIC)), *_rates(levels), *_of_file(context.config)]
    return tuple(sorted(found, key=lambda one: one.name))


def _of_levels(prefix: str, levels: Iterable[Level], fixed: frozenset[str]) -> Iterable[SettingInForce]:
    """Yield the settings of topics.

    Args:
        fixed: those that no request changes at this level.
    """
    listed = tuple(levels)
    for name, default in sorted(asdict(TopicConfig()).items()):
        value, source = _first(name, listed, default)
        is_dynamic = name not in fixed
        yield SettingInForce(
            name=f"{prefix}{name}", value=value, source=_SOURCES[source], default=default, is_dynamic=is_dynamic
        )


def _first(name: str, levels: Iterable[Level], default: ConfigValue) -> tuple[ConfigValue, Source]:
    """Return the value of the most specific level that has one."""
    for level in levels:
        if (value := level.values.get(name)) is not None:
            return value, level.source
    return default, Source.DEFAULT


def _rates(levels: Iterable[Level]) -> Iterable[SettingInForce]:
    listed = tuple(levels)
    for name in _RATES:
        value, source = _first(name, listed, _UNLIMITED)
        yield SettingInForce(name=name, value=value, source=_SOURCES[source], default=_UNLIMITED, is_dynamic=True)


def _of_file(config: NodeConfig) -> Iterable[SettingInForce]:
    for name in _TOP:
        yield _static(name, getattr(config, name), {one.name: one for one in fields(config)}[name])
    for section in _SECTIONS:
        part: Any = getattr(config, section)
        for one in fields(part):
            yield _static(f"{section}.{one.name}", getattr(part, one.name), one)


def _static(name: str, value: object, declared: Any) -> SettingInForce:
    default = None if declared.default is MISSING else declared.default
    is_default = declared.default is not MISSING and value == default
    return SettingInForce(
        name=name,
        value=_plain(value),
        source="default" if is_default else "file",
        default=_plain(default),
        is_dynamic=False,
    )


def _plain(value: object) -> Any:
    """Return a value as JSON has it."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    return tuple(map(str, value)) if type(value) is tuple else str(value)
