"""Topic settings, with defaults and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypeAlias, TypeVar

from raftlog.errors import ConfigError
from raftlog.model import INTERNAL_TOPICS, Flush
from raftlog.schema import from_plain

T = TypeVar("T")
MIN_SEGMENT_BYTES = 4096
MAX_MESSAGE_BYTES = 64 << 20
INTERNAL_TOPIC_SETTINGS = {
    "min_insync_replicas": 1,
    "segment_bytes": 1 << 20,
    "segment_ms": 60_000,
    "file_delete_delay_ms": 0,
    "min_cleanable_dirty_ratio": 0,
}
"""Settings of internal topics that an operator may change, with the minimum of each.

Values from the minimum on lose no acknowledged records, and do not create a segment for every few records.
"""
_DECIMAL = re.compile(r"-?\d+\.\d+")
_INTEGER = re.compile(r"-?[0-9]{1,19}")

CleanupPolicy: TypeAlias = Literal["delete", "compact", "compact,delete"]
RetentionBy: TypeAlias = Literal["event_time", "append_time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One topic's settings. A size or time of -1 means no limit."""

    min_insync_replicas: int = 2
    """acks=all needs this many in-sync replicas; the effective value never exceeds the replication factor."""
    max_message_bytes: int = 8 << 20
    """Largest record batch, header included, as stored and as unpacked."""
    segment_bytes: int = 256 << 20
    segment_ms: int = 7 * 86_400_000
    retention_ms: int = 7 * 86_400_000
    retention_by: RetentionBy = "event_time"
    """What `retention_ms` counts from: the records' own times, or when their segment was last written to."""
    retention_bytes: int = -1
    message_timestamp_before_max_ms: int = -1
    """How far a record's time may lie before the leader's clock when a client sends it."""
    message_timestamp_after_max_ms: int = 3_600_000
    """How far it may lie after the leader's clock."""
    file_delete_delay_ms: int = 60_000
    """How long a segment that was dropped stays on disk, renamed."""
    cleanup_policy: CleanupPolicy = "delete"
    """What becomes of old records: `compact` keeps the last one of each key, `delete` goes by retention."""
    min_cleanable_dirty_ratio: float = 0.5
    """A log is compacted when more than this part of it has not been compacted before."""
    min_compaction_lag_ms: int = 0
    """Records are not compacted before they are this old."""
    max_compaction_lag_ms: int = -1
    """Records are compacted once they are this old, whatever the ratio."""
    delete_retention_ms: int = 86_400_000
    """How long tombstones stay after compaction has removed what was before them."""
    flush: Flush = "batch"
    unclean_leader_election_enable: bool = False
    """Elect any live replica if no replica with every acknowledged record is alive. Records may be lost."""

    def __post_init__(self) -> None:
        _require(self.min_insync_replicas >= 1, "min_insync_replicas", "at least 1", self.min_insync_replicas)
        in_range = 1024 <= self.max_message_bytes <= MAX_MESSAGE_BYTES
        _require(in_range, "max_message_bytes", f"1024 to {MAX_MESSAGE_BYTES}", self.max_message_bytes)
        _require(
            MIN_SEGMENT_BYTES <= self.segment_bytes <= 2**31 - 1,
            "segment_bytes",
            f"{MIN_SEGMENT_BYTES} to {2**31 - 1}",
            self.segment_bytes,
        )
        _require(self.segment_ms >= 1, "segment_ms", "at least 1", self.segment_ms)
        _require(self.retention_ms >= -1, "retention_ms", "-1 or more", self.retention_ms)
        _require(self.retention_bytes >= -1, "retention_bytes", "-1 or more", self.retention_bytes)
        before, after = self.message_timestamp_before_max_ms, self.message_timestamp_after_max_ms
        _require(before >= -1, "message_timestamp_before_max_ms", "-1 or more", before)
        _require(after >= -1, "message_timestamp_after_max_ms", "-1 or more", after)
        _require(self.file_delete_delay_ms >= 0, "file_delete_delay_ms", "0 or more", self.file_delete_delay_ms)
        self._require_cleaning()

    @property
    def compacts(self) -> bool:
        """Whether only the last record of each key is kept."""
        return self.cleanup_policy != "delete"

    @property
    def deletes(self) -> bool:
        """Whether segments are dropped by their age and by the log's size."""
        return self.cleanup_policy != "compact"

    def _require_cleaning(self) -> None:
        ratio, least, most = self.min_cleanable_dirty_ratio, self.min_compaction_lag_ms, self.max_compaction_lag_ms
        _require(0 <= ratio <= 1, "min_cleanable_dirty_ratio", "0 to 1", ratio)
        _require(least >= 0, "min_compaction_lag_ms", "0 or more", least)
        _require(most == -1 or most >= 1, "max_compaction_lag_ms", "-1, or 1 or more", most)
        _require(self.delete_retention_ms >= 0, "delete_retention_ms", "0 or more", self.delete_retention_ms)

    def with_overrides(self, overrides: Mapping[str, Any]) -> TopicConfig:
        """Return these settings with a topic's own on top; `overrides` were validated when they were set."""
        known = {field.name for field in fields(self)}
        return replace(self, **{name: value for name, value in overrides.items() if name in known})


def defaults_of(topic: str, defaults: Mapping[str, T]) -> Mapping[str, T | int]:
    """Return the defaults that a topic takes: an internal one only of `INTERNAL_TOPIC_SETTINGS`, from the minimum on.

    Others, such as a small `max_message_bytes`, would refuse its coordinator's batches.
    """
    if topic not in INTERNAL_TOPICS:
        return defaults
    return {
        name: max(value, least) if isinstance(value, int | float) else value
        for name, least in INTERNAL_TOPIC_SETTINGS.items()
        if (value := defaults.get(name)) is not None
    }


def topic_config(topic: str, defaults: TopicConfig, overrides: Mapping[str, Any]) -> TopicConfig:
    """Return the settings of a topic: its own over a node's defaults."""
    if topic in INTERNAL_TOPICS:
        defaults = TopicConfig().with_overrides(defaults_of(topic, asdict(defaults)))
    return defaults.with_overrides(overrides)


def validate_topic_configs(overrides: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    """Return a topic's own settings, typed; numbers and booleans may be text (from a command line).

    Raises:
        ConfigError: a name is unknown or a value is not allowed; the message names both.
    """
    typed = {name: typed_if_text(value) for name, value in overrides.items()}
    for name in typed:
        if name not in TopicConfig.__slots__ and (ours := name.replace(".", "_")) in TopicConfig.__slots__:
            raise ConfigError(f"{name}: unknown setting; did you mean {ours}?")
    config = asdict(from_plain(TopicConfig, typed, error=ConfigError))
    return {name: config[name] for name in typed}


def typed_if_text(value: object) -> object:
    """Convert text (from a command line) to the number or boolean that it represents; other values stay."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return float(value)
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _require(holds: bool, name: str, expected: str, received: object) -> None:
    if not holds:
        raise ConfigError(f"{name}: expected {expected}, received {received!r}")
