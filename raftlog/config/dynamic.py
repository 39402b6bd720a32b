"""Dynamic settings of brokers: defaults for topics, and the broker's own."""

from __future__ import annotations

from collections.abc import Mapping

from raftlog.config.topic import typed_if_text, validate_topic_configs
from raftlog.errors import ConfigError

REASSIGNMENT_THROTTLE = "reassignment_throttle_bytes_per_second"
"""The most bytes per second at which a broker fetches replicas that a reassignment adds; -1 or unset: no limit."""

MAX_CONNECTION_RATE = "max_connection_rate"
"""The most connections per second that a broker's public listener accepts; -1 or unset: no limit."""
MAX_CONNECTION_RATE_PER_ADDRESS = "max_connection_rate_per_address"
"""The same from one IP address."""
OWN_SETTINGS = (REASSIGNMENT_THROTTLE, MAX_CONNECTION_RATE, MAX_CONNECTION_RATE_PER_ADDRESS)


def validate_broker_configs(overrides: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    """Return a broker's dynamic settings, typed.

    Raises:
        ConfigError: a name is unknown or a value is not allowed; the message names both.
    """
    own = {name: typed_if_text(value) for name, value in overrides.items() if name in OWN_SETTINGS}
    for name, value in own.items():
        if type(value) is not int or (value < 1 and value != -1):
            raise ConfigError(f"{name}: expected a number of at least 1, or -1 for no limit, received {value!r}")
    others = {name: value for name, value in overrides.items() if name not in own}
    return {**validate_topic_configs(others), **{name: int(str(value)) for name, value in own.items()}}
