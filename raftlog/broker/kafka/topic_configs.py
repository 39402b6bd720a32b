"""The settings of a topic in Kafka's form: described with their sources, and changed. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from raftlog.broker.kafka.config_names import (
    BY_NAME,
    DEFAULTS,
    FIXED,
    FIXED_BY_NAME,
    SETTINGS,
    ConfigType,
    Setting,
    parsed,
    require_fixed,
    shown,
    unknown,
)
from raftlog.errors import ConfigError, InvalidRequestError
from raftlog.metadata_quorum.records import ConfigValue

Configs = Mapping[str, ConfigValue]
DURABLE: Final = ("min_insync_replicas", "flush")
"""Settings that each topic has of its own: the controller writes the default into a new topic."""
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
"""Operations of IncrementalAlterConfigs (KIP-339)."""


class Source(IntEnum):
    """Kafka's number of where a value comes from."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5


class Level(NamedTuple):
    """One of the places where a setting may have a value."""

    source: Source
    values: Configs


class Synonym(NamedTuple):
    """One value that a setting has, or would have without the others before it."""

    name: str
    value: str
    source: Source


class Described(NamedTuple):
    """One setting as a topic has it."""

    name: str
    value: str
    kind: ConfigType
    source: Source
    read_only: bool
    meaning: str
    synonyms: tuple[Synonym, ...]
    """The value's own first, then those that it hides."""


def described(levels: Sequence[Level]) -> Iterator[Described]:
    """Return every setting of a topic.

    Args:
        levels: from the topic's own settings to those of all brokers' files. The defaults come after them.
    """
    every = (*levels, Level(Source.DEFAULT, DEFAULTS))
    for setting in SETTINGS:
        synonyms = tuple(_synonyms(setting, every))
        value, source = synonyms[0].value, synonyms[0].source
        yield Described(setting.name, value, setting.kind, source, False, setting.meaning, synonyms)
    for fixed in FIXED:
        only = Synonym(fixed.name, fixed.value, Source.DEFAULT)
        meaning = f"Always {fixed.value or 'empty'} here; {fixed.instead}."
        yield Described(fixed.name, fixed.value, fixed.kind, Source.DEFAULT, True, meaning, (only,))


def _synonyms(setting: Setting, levels: Sequence[Level]) -> Iterator[Synonym]:
    for level in levels:
        if (value := level.values.get(setting.ours)) is not None:
            name = setting.name if level.source is Source.TOPIC else setting.broker_name
            yield Synonym(name, shown(setting, value), level.source)


def new_topic_configs(given: Iterable[tuple[str, str | None]]) -> dict[str, ConfigValue]:
    """Return the settings of a new topic.

    Raises:
        ConfigError: a name is unknown, or a value is not allowed.
    """
    configs: dict[str, ConfigValue] = {}
    for name, text in given:
        if name in configs:
            raise ConfigError(f"{name!r:.200}: given more than once")
        setting = _setting(name)
        if text is None:
            raise ConfigError(f"{name!r:.200}: expected a value, received null")
        if setting is None:
            require_fixed(FIXED_BY_NAME[name], text)
        else:
            configs[setting.ours] = parsed(setting, text)
    return configs


def replaced(own: Configs, given: Iterable[tuple[str, str | None]]) -> dict[str, ConfigValue | None]:
    """Return the changes by which a topic's own settings become the given ones (AlterConfigs).

    Raises:
        ConfigError: a name is unknown, or a value is not allowed.
    """
    wanted = new_topic_configs((name, text) for name, text in given if text is not None)
    return {**dict.fromkeys(own), **wanted}


def altered(effective: Configs, given: Iterable[tuple[str, int, str | None]]) -> dict[str, ConfigValue | None]:
    """Return the changes of IncrementalAlterConfigs; None resets a setting.

    Args:
        effective: the topic's settings, with those that it has from elsewhere.
        given: name, operation and value.

    Raises:
        ConfigError: a name is unknown, or a value is not allowed.
        InvalidRequestError: an operation is unknown, or does not fit the setting.
    """
    changes: dict[str, ConfigValue | None] = {}
    seen: set[str] = set()
    for name, operation, text in given:
        if name in seen:
            raise InvalidRequestError(f"{name!r:.200}: given more than once")
        seen.add(name)
        setting = _setting(name)
        if operation not in (SET, DELETE, APPEND, SUBTRACT):
            raise InvalidRequestError(f"{name}: expected an operation from 0 to 3, received {operation}")
        if operation == DELETE:
            changes |= {setting.ours: None} if setting is not None else {}
        elif text is None:
            raise InvalidRequestError(f"{name}: expected a value, received null")
        elif setting is None:
            _change_fixed(name, operation, text)
        else:
            changes[setting.ours] = _changed(setting, operation, text, effective)
    return changes


def with_own_durability(
    changes: Mapping[str, ConfigValue | None], defaults: Configs, replicas: int
) -> dict[str, ConfigValue | None]:
    """Return changes in which no setting of `DURABLE` is removed: each gets the default in its place.

    Args:
        replicas: the topic's replication factor, which min_insync_replicas does not exceed.
    """
    made = dict(changes)
    for name in DURABLE:
        if name in made and made[name] is None:
            value = defaults[name]
            made[name] = min(value, replicas) if isinstance(value, int) else value
    return made


def _setting(name: str) -> Setting | None:
    """Return a setting; None: it has one value only.

    Raises:
        ConfigError: the name is unknown.
    """
    if (setting := BY_NAME.get(name)) is None and name not in FIXED_BY_NAME:
        raise unknown(name)
    return setting


def _change_fixed(name: str, operation: int, text: str) -> None:
    if operation == SUBTRACT and FIXED_BY_NAME[name].kind is ConfigType.LIST:
        return  # There is nothing to take away.
    require_fixed(FIXED_BY_NAME[name], text)


def _changed(setting: Setting, operation: int, text: str, effective: Configs) -> ConfigValue:
    if operation == SET:
        return parsed(setting, text)
    if setting.kind is not ConfigType.LIST:
        raise InvalidRequestError(f"{setting.name}: only lists have the operations append and subtract")
    present = {part for part in str(effective[setting.ours]).split(",") if part}
    given = {part.strip() for part in text.split(",")}
    return parsed(setting, ",".join(sorted(present | given if operation == APPEND else present - given)))
