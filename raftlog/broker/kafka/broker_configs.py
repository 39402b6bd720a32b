"""The settings of a broker in Kafka's form: those of its file, and those that can be changed while it runs. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final, NamedTuple

from raftlog.broker.kafka.config_names import (
    BY_BROKER_NAME,
    LONG_MAX,
    ConfigType,
    parsed,
)
from raftlog.broker.kafka.topic_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    Described,
    Level,
    Source,
    Synonym,
    described,
)
from raftlog.config import NodeConfig, validate_broker_configs
from raftlog.config.dynamic import MAX_CONNECTION_RATE, MAX_CONNECTION_RATE_PER_ADDRESS, REASSIGNMENT_THROTTLE
from raftlog.errors import ConfigError, InvalidRequestError
from raftlog.metadata_quorum.records import ConfigValue

PER_TOPIC: Final = ("min_insync_replicas", "flush", "unclean_leader_election_enable")
"""Settings whose default is in the file only: each topic gets its own value when it is created."""


class Rate(NamedTuple):
    """A limit of a broker that can be changed while it runs; -1 and 2^63-1 mean none."""

    name: str
    ours: str
    meaning: str


RATES: Final = (
    Rate(
        "follower.replication.throttled.rate",
        REASSIGNMENT_THROTTLE,
        "The most bytes per second at which the broker fetches replicas that a reassignment adds.",
    ),
    Rate(
        "max.connection.creation.rate",
        MAX_CONNECTION_RATE,
        "The most connections per second that the public listener accepts.",
    ),
    Rate(
        "raftlog.max.connection.creation.rate.per.address",
        MAX_CONNECTION_RATE_PER_ADDRESS,
        "The same from one IP address.",
    ),
)
RATE_OF: Final[Mapping[str, Rate]] = {rate.name: rate for rate in RATES}


_ABSENT: Final[Mapping[str, str]] = {
    "leader.replication.throttled.rate": "set follower.replication.throttled.rate, which limits added replicas",
    "replica.alter.log.dirs.io.max.bytes.per.second": "replicas do not move between the folders of a broker",
}
"""Settings without a counterpart whose removal changes nothing: kafka-reassign-partitions removes them at its end."""


class _Static(NamedTuple):
    name: str
    kind: ConfigType
    value: Callable[[NodeConfig], object]
    where: str
    """Where the setting is in `node.toml`; empty: it cannot be set."""


_I, _L, _S, _B = ConfigType.INT, ConfigType.LONG, ConfigType.STRING, ConfigType.BOOLEAN
_STATIC: Final = (
    _Static("advertised.listeners", _S, lambda config: config.public.url, "advertised.public"),
    _Static(
        "auto.create.topics.enable",
        _B,
        lambda config: config.broker.auto_create_topics_enable,
        "broker.auto_create_topics_enable",
    ),
    _Static("broker.id", _I, lambda config: config.node_id, "node_id"),
    _Static("broker.rack", _S, lambda config: config.rack, "rack"),
    _Static(
        "default.replication.factor",
        _I,
        lambda config: config.broker.default_replication_factor,
        "broker.default_replication_factor",
    ),
    _Static("delete.topic.enable", _B, lambda _: True, ""),
    _Static("fetch.max.bytes", _I, lambda config: config.broker.fetch_max_bytes, "broker.fetch_max_bytes"),
    _Static("listeners", _S, lambda config: config.listeners.public, "listeners.public"),
    _Static(
        "log.cleaner.dedupe.buffer.size",
        _L,
        lambda config: config.broker.log_cleaner_dedupe_buffer_bytes,
        "broker.log_cleaner_dedupe_buffer_bytes",
    ),
    _Static("log.cleaner.enable", _B, lambda config: config.broker.log_cleaner_enable, "broker.log_cleaner_enable"),
    _Static("log.dirs", _S, lambda config: ",".join(config.log_dirs or (config.data_dir,)), "log_dirs"),
    _Static(
        "log.retention.check.interval.ms",
        _L,
        lambda config: config.broker.retention_check_interval_ms,
        "broker.retention_check_interval_ms",
    ),
    _Static("max.connections", _I, lambda config: config.broker.max_connections, "broker.max_connections"),
    _Static(
        "max.connections.per.ip",
        _I,
        lambda config: config.broker.max_connections_per_address,
        "broker.max_connections_per_address",
    ),
    _Static("node.id", _I, lambda config: config.node_id, "node_id"),
    _Static("num.partitions", _I, lambda config: config.broker.num_partitions, "broker.num_partitions"),
    _Static(
        "offsets.topic.num.partitions",
        _I,
        lambda config: config.broker.offsets_topic_num_partitions,
        "broker.offsets_topic_num_partitions",
    ),
    _Static(
        "offsets.topic.replication.factor",
        _I,
        lambda config: config.broker.offsets_topic_replication_factor,
        "broker.offsets_topic_replication_factor",
    ),
    _Static("process.roles", ConfigType.LIST, lambda config: ",".join(config.roles), "roles"),
    _Static(
        "producer.id.expiration.ms",
        _I,
        lambda config: config.broker.producer_id_expiration_ms,
        "broker.producer_id_expiration_ms",
    ),
    _Static(
        "replica.fetch.max.bytes",
        _I,
        lambda config: config.replication.replica_fetch_max_bytes,
        "replication.replica_fetch_max_bytes",
    ),
    _Static(
        "replica.lag.time.max.ms",
        _L,
        lambda config: config.replication.replica_lag_time_max_ms,
        "replication.replica_lag_time_max_ms",
    ),
    _Static("socket.request.max.bytes", _I, lambda config: config.broker.max_request_bytes, "broker.max_request_bytes"),
    _Static(
        "transaction.max.timeout.ms",
        _I,
        lambda config: config.broker.transaction_max_timeout_ms,
        "broker.transaction_max_timeout_ms",
    ),
    _Static(
        "transaction.state.log.num.partitions",
        _I,
        lambda config: config.broker.transaction_state_log_num_partitions,
        "broker.transaction_state_log_num_partitions",
    ),
    _Static(
        "transaction.state.log.replication.factor",
        _I,
        lambda config: config.broker.transaction_state_log_replication_factor,
        "broker.transaction_state_log_replication_factor",
    ),
    _Static(
        "transactional.id.expiration.ms",
        _I,
        lambda config: config.broker.transactional_id_expiration_ms,
        "broker.transactional_id_expiration_ms",
    ),
)
_STATIC_BY_NAME: Final = {one.name: one for one in _STATIC}


def broker_described(config: NodeConfig, levels: Sequence[Level]) -> Iterator[Described]:
    """Return every setting of a broker.

    Args:
        levels: its own dynamic settings, those of all brokers, and those of its file.
    """
    names = {setting.name: setting for setting in BY_BROKER_NAME.values()}
    for one in described(levels):
        if (setting := names.get(one.name)) is not None:
            yield one._replace(name=setting.broker_name, read_only=setting.ours in PER_TOPIC)
    for rate in RATES:
        yield _described_rate(rate, levels)
    for static in _STATIC:
        value = static.value(config)
        text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
        source = Source.STATIC if static.where else Source.DEFAULT
        meaning = f"Set {static.where} in node.toml, and restart the broker." if static.where else "It cannot be set."
        yield Described(static.name, text, static.kind, source, True, meaning, (Synonym(static.name, text, source),))


def all_brokers_described(dynamic: Mapping[str, ConfigValue]) -> Iterator[Described]:
    """Return the dynamic settings of all brokers: the resource with an empty name."""
    for one in broker_described_dynamic((Level(Source.ALL_BROKERS, dynamic),)):
        if one.source is Source.ALL_BROKERS:
            yield one


def broker_described_dynamic(levels: Sequence[Level]) -> Iterator[Described]:
    """Return the settings of a broker that can be changed while it runs."""
    names = {setting.name: setting for setting in BY_BROKER_NAME.values() if setting.ours not in PER_TOPIC}
    for one in described(levels):
        if (setting := names.get(one.name)) is not None:
            yield one._replace(name=setting.broker_name)
    for rate in RATES:
        yield _described_rate(rate, levels)


def _described_rate(rate: Rate, levels: Sequence[Level]) -> Described:
    found = [
        Synonym(rate.name, str(LONG_MAX if level.values[rate.ours] == -1 else level.values[rate.ours]), level.source)
        for level in levels
        if rate.ours in level.values
    ]
    found.append(Synonym(rate.name, str(LONG_MAX), Source.DEFAULT))
    return Described(rate.name, found[0].value, _L, found[0].source, False, rate.meaning, tuple(found))


def broker_changes(
    present: Mapping[str, ConfigValue], given: Iterable[tuple[str, int, str | None]]
) -> dict[str, ConfigValue | None]:
    """Return the changes of a broker's dynamic settings.

    Args:
        present: its dynamic settings now, by raftlog's names.
        given: name, operation and value.

    Raises:
        ConfigError: a name is unknown, is in the file only, or a value is not allowed.
        InvalidRequestError: an operation is unknown, or does not fit the setting.
    """
    changes: dict[str, ConfigValue | None] = {}
    seen: set[str] = set()
    for name, operation, text in given:
        if name in seen:
            raise InvalidRequestError(f"{name!r:.200}: given more than once")
        seen.add(name)
        if operation == DELETE and name in _ABSENT:
            continue
        ours = _changeable(name)
        if operation in (APPEND, SUBTRACT):
            raise InvalidRequestError(f"{name}: only set and delete are possible on brokers")
        if operation not in (SET, DELETE):
            raise InvalidRequestError(f"{name}: expected an operation from 0 to 3, received {operation}")
        if operation == DELETE:
            changes |= {ours: None} if ours in present else {}
        elif text is None:
            raise InvalidRequestError(f"{name}: expected a value, received null")
        else:
            changes[ours] = _value(name, ours, text)
    return changes


def _changeable(name: str) -> str:
    """Return raftlog's name of a setting that can be changed while a broker runs.

    Raises:
        ConfigError: there is no such one; the message says what to do.
    """
    if (rate := RATE_OF.get(name)) is not None:
        return rate.ours
    if (setting := BY_BROKER_NAME.get(name)) is not None and setting.ours not in PER_TOPIC:
        return setting.ours
    if setting is not None:
        raise ConfigError(f"{name}: each topic gets its own value when it is created: set {setting.name} of the topic")
    if (static := _STATIC_BY_NAME.get(name)) is not None:
        where = f"set {static.where} in node.toml, and restart the broker" if static.where else "it cannot be set"
        raise ConfigError(f"{name}: cannot be changed while a broker runs: {where}")
    if name in _ABSENT:
        raise ConfigError(f"{name}: nothing here corresponds to it: {_ABSENT[name]}")
    raise ConfigError(f"{name!r:.200}: unknown setting of brokers, or one without a counterpart here")


def _value(name: str, ours: str, text: str) -> ConfigValue:
    if (setting := BY_BROKER_NAME.get(name)) is not None:
        return parsed(setting._replace(name=name), text)
    value = -1 if text.strip() == str(LONG_MAX) else text.strip()
    try:
        return validate_broker_configs({ours: value})[ours]
    except ConfigError as error:
        raise ConfigError(error.message.replace(ours, name)) from None


def static_topic_defaults(config: NodeConfig) -> Mapping[str, ConfigValue]:
    """Return the defaults of topics on a broker, from its file."""
    return asdict(config.topic)
