"""Kafka's names of topic settings, their types, and the settings of raftlog that they stand for. No IO.

- Most names stand for one setting; a size or time of Kafka's "no limit" (2^63-1) is -1 here.
- Some of Kafka's settings have one value here, which is accepted. Another value is refused: it would have no effect.
- `raftlog.` begins the names of settings that Kafka does not have.

Source: Kafka 4.1, `TopicConfig` and `LogConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import IntEnum
from typing import Final, NamedTuple

from raftlog.config import TopicConfig, validate_topic_configs
from raftlog.errors import ConfigError
from raftlog.metadata_quorum.records import ConfigValue

LONG_MAX: Final = 2**63 - 1
NOWHERE: Final = "nothing here corresponds to it: leave it out"


class ConfigType(IntEnum):
    """Kafka's number of a setting's type in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Setting(NamedTuple):
    """One of Kafka's settings of topics that has a counterpart."""

    name: str
    """Kafka's name."""
    ours: str
    """The field of `TopicConfig`."""
    kind: ConfigType
    meaning: str
    broker_name: str
    """Kafka's name of the default on brokers."""
    unlimited: bool = False
    """Whether Kafka writes "no limit" as 2^63-1."""


class Fixed(NamedTuple):
    """One of Kafka's settings that has the same value for every topic here."""

    name: str
    value: str
    kind: ConfigType
    instead: str
    """What to do in place of setting another value."""


_B, _L, _I, _D, _S = ConfigType.BOOLEAN, ConfigType.LONG, ConfigType.INT, ConfigType.DOUBLE, ConfigType.STRING
SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        "cleanup.policy",
        "cleanup_policy",
        ConfigType.LIST,
        "What becomes of old records: delete, compact, or both.",
        "log.cleanup.policy",
    ),
    Setting(
        "delete.retention.ms",
        "delete_retention_ms",
        _L,
        "How long tombstones stay after compaction, in ms.",
        "log.cleaner.delete.retention.ms",
    ),
    Setting(
        "file.delete.delay.ms",
        "file_delete_delay_ms",
        _L,
        "How long a dropped segment stays on disk, in ms.",
        "log.segment.delete.delay.ms",
    ),
    Setting(
        "flush.messages",
        "flush",
        _L,
        "1: a batch counts as replicated after fsync; 9223372036854775807: the operating system writes it later.",
        "log.flush.interval.messages",
    ),
    Setting(
        "max.compaction.lag.ms",
        "max_compaction_lag_ms",
        _L,
        "Records are compacted once they are this old, in ms.",
        "log.cleaner.max.compaction.lag.ms",
        unlimited=True,
    ),
    Setting(
        "max.message.bytes",
        "max_message_bytes",
        _I,
        "The largest record batch, in bytes, as stored and as unpacked.",
        "message.max.bytes",
    ),
    Setting(
        "message.timestamp.after.max.ms",
        "message_timestamp_after_max_ms",
        _L,
        "How far a record's time may lie after the leader's clock, in ms.",
        "log.message.timestamp.after.max.ms",
        unlimited=True,
    ),
    Setting(
        "message.timestamp.before.max.ms",
        "message_timestamp_before_max_ms",
        _L,
        "How far a record's time may lie before the leader's clock, in ms.",
        "log.message.timestamp.before.max.ms",
        unlimited=True,
    ),
    Setting(
        "min.cleanable.dirty.ratio",
        "min_cleanable_dirty_ratio",
        _D,
        "A log is compacted when more than this part of it was not compacted before.",
        "log.cleaner.min.cleanable.ratio",
    ),
    Setting(
        "min.compaction.lag.ms",
        "min_compaction_lag_ms",
        _L,
        "Records are not compacted before they are this old, in ms.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    Setting(
        "min.insync.replicas",
        "min_insync_replicas",
        _I,
        "acks=all needs this many in-sync replicas.",
        "min.insync.replicas",
    ),
    Setting("retention.bytes", "retention_bytes", _L, "The size of a partition; -1: no limit.", "log.retention.bytes"),
    Setting("retention.ms", "retention_ms", _L, "How long records are kept, in ms; -1: no limit.", "log.retention.ms"),
    Setting("segment.bytes", "segment_bytes", _I, "The size of a segment, in bytes.", "log.segment.bytes"),
    Setting("segment.ms", "segment_ms", _L, "The age at which a segment is closed, in ms.", "log.roll.ms"),
    Setting(
        "unclean.leader.election.enable",
        "unclean_leader_election_enable",
        _B,
        "Whether a replica that lacks acknowledged records may lead.",
        "unclean.leader.election.enable",
    ),
    Setting(
        "raftlog.retention.by",
        "retention_by",
        _S,
        "What retention.ms counts from: event_time (the records' times) or append_time.",
        "raftlog.log.retention.by",
    ),
)
_FULL: Final = str(LONG_MAX)
FIXED: Final[tuple[Fixed, ...]] = (
    Fixed("compression.type", "producer", _S, "set compression.type of the producers; batches are stored as sent"),
    Fixed("flush.ms", _FULL, _L, "set flush.messages to 1 to sync each batch before it counts as replicated"),
    Fixed("index.interval.bytes", "4096", _I, NOWHERE),
    Fixed("message.timestamp.type", "CreateTime", _S, "records keep the time that the producer gave them"),
    Fixed("preallocate", "false", _B, NOWHERE),
    Fixed("segment.index.bytes", "10485760", _I, NOWHERE),
    Fixed("segment.jitter.ms", "0", _L, NOWHERE),
    Fixed("remote.storage.enable", "false", _B, "all records are kept on the brokers' own disks"),
    Fixed("local.retention.ms", "-2", _L, "all records are local: set retention.ms"),
    Fixed("local.retention.bytes", "-2", _L, "all records are local: set retention.bytes"),
    Fixed(
        "leader.replication.throttled.replicas",
        "",
        ConfigType.LIST,
        "set follower.replication.throttled.rate of the brokers; it limits every replica that is added",
    ),
    Fixed(
        "follower.replication.throttled.replicas",
        "",
        ConfigType.LIST,
        "set follower.replication.throttled.rate of the brokers; it limits every replica that is added",
    ),
)
BY_NAME: Final[Mapping[str, Setting]] = {setting.name: setting for setting in SETTINGS}
BY_BROKER_NAME: Final[Mapping[str, Setting]] = {setting.broker_name: setting for setting in SETTINGS}
FIXED_BY_NAME: Final[Mapping[str, Fixed]] = {fixed.name: fixed for fixed in FIXED}
DEFAULTS: Final[Mapping[str, ConfigValue]] = asdict(TopicConfig())
_FLUSH: Final = {"batch": "1", "os": _FULL}


def shown(setting: Setting, value: ConfigValue) -> str:
    """Return a setting's value as Kafka writes it."""
    if setting.ours == "flush":
        return _FLUSH.get(str(value), _FULL)
    if setting.unlimited and value == -1:
        return _FULL
    return str(value).lower() if isinstance(value, bool) else str(value)


def parsed(setting: Setting, text: str) -> ConfigValue:
    """Return a value that Kafka's tools write.

    Raises:
        ConfigError: it is not one of the type, or not allowed; the message has Kafka's name.
    """
    try:
        value = (_PARSERS.get(setting.ours) or _PARSERS[setting.kind.name])(text.strip())
    except ValueError as reason:
        raise ConfigError(f"{setting.name}: expected {reason}, received {text!r:.80}") from None
    if setting.unlimited and value == LONG_MAX:
        value = -1
    try:
        return validate_topic_configs({setting.ours: value})[setting.ours]
    except ConfigError as error:
        raise ConfigError(error.message.replace(setting.ours, setting.name)) from None


def require_fixed(fixed: Fixed, text: str) -> None:
    """Raise if a value is another one than the only one that there is.

    Raises:
        ConfigError: INVALID_CONFIG; the message says what to do.
    """
    if text.strip().lower() != fixed.value.lower():
        expected = f"expected {fixed.value!r}, the only value here" if fixed.value else "expected no value"
        raise ConfigError(f"{fixed.name}: {expected}, received {text!r:.80}; {fixed.instead}")


def unknown(name: str) -> ConfigError:
    """Return the error of a name that is not in the tables."""
    dotted = name.replace("_", ".")
    meant = f"; did you mean {dotted}?" if dotted != name and dotted in BY_NAME else ""
    return ConfigError(f"{name!r:.200}: unknown setting of topics{meant}")


def _policy(text: str) -> ConfigValue:
    parts = {part.strip() for part in text.split(",")}
    if not parts or not parts <= {"delete", "compact"}:
        raise ValueError("delete, compact, or both")
    return ",".join(sorted(parts))


def _flush(text: str) -> ConfigValue:
    for flush, written in _FLUSH.items():
        if text == written:
            return flush
    raise ValueError(
        f"1 (each batch is synced before it counts as replicated) or {_FULL} (the operating system writes)"
    )


def _whole(text: str) -> ConfigValue:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or abs(int(text)) > LONG_MAX:
        raise ValueError("a whole number of 64 bits")
    return int(text)


def _truth(text: str) -> ConfigValue:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _ratio(text: str) -> ConfigValue:
    if len(text) > 40:
        raise ValueError("a number")
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


_PARSERS: Final[Mapping[str, Callable[[str], ConfigValue]]] = {
    "cleanup_policy": _policy,
    "flush": _flush,
    "LONG": _whole,
    "INT": _whole,
    "DOUBLE": _ratio,
    "BOOLEAN": _truth,
    "STRING": str,
}
