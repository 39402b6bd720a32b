"""Settings in force: each with its value, where the value comes from, and the default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from raftlog.wire.metadata import ConfigValue

SettingSource: TypeAlias = Literal["topic", "broker", "all brokers", "file", "default"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInForce:
    """One setting."""

    name: str
    """The setting's name; of a broker, with its section in `node.toml`."""
    value: ConfigValue | tuple[str, ...] | None
    """The value in force."""
    source: SettingSource
    """Where the value comes from: the topic, the dynamic settings of this broker or of all, `node.toml`, nowhere."""
    default: ConfigValue | tuple[str, ...] | None
    """The value without any of these."""
    is_dynamic: bool
    """Whether a request changes it; otherwise `node.toml` and a restart do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsResponse:
    """Answer of `GET paths.TOPIC_SETTINGS` and `GET paths.BROKER_SETTINGS`, sorted by name."""

    settings: tuple[SettingInForce, ...]
    """Every setting."""
