"""Validation of client options: unknown names (with a suggestion), options without effect, bounds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import ParamSpec

from raftlog.errors import ConfigError
from raftlog.wire.client_ids import EXPECTED, is_client_id

P = ParamSpec("P")
CLIENT_ID_VARIABLE = "RAFTLOG_CLIENT_ID"
KAFKAS = {
    "bootstrap_servers": "bootstrap",
    "compression_type": "compression",
    "isolation_level": "isolation",
    "batch_size": "batch_bytes",
    "buffer_memory": "buffer_bytes",
    "max_in_flight_requests_per_connection": "max_in_flight",
    "partition_assignment_strategy": "assignor",
    "max_partition_fetch_bytes": "partition_max_bytes",
    "max_poll_records": "pass it to each call: fetch(max_records=...)",
    "retries": "records are sent again until delivery_timeout_ms is over",
    "enable_idempotence": "producers are always idempotent",
    "heartbeat_interval_ms": "the cluster sets the heartbeat interval",
    "key_serializer": "pass bytes, such as json.dumps(key).encode()",
    "value_serializer": "pass bytes, such as json.dumps(value).encode()",
    "key_deserializer": "records have bytes, to decode with json.loads(record.key) and the like",
    "value_deserializer": "records have bytes, to decode with json.loads(record.value) and the like",
}
"""Options of Kafka's clients: our option's name, or what to do instead."""


def known_options(init: Callable[P, None]) -> Callable[P, None]:
    """Make a constructor raise `ConfigError` for an unknown keyword instead of a TypeError."""
    known = [name for name in init.__annotations__ if name != "return"]

    @wraps(init)
    def checked(*arguments: P.args, **options: P.kwargs) -> None:
        for name in options:
            if name not in known:
                raise ConfigError(f"unknown option {name!r}: {_hint(name, known)}")
        init(*arguments, **options)

    return checked


def _hint(name: str, known: Sequence[str]) -> str:
    plain = name.replace(".", "_")
    if plain in KAFKAS and (KAFKAS[plain] in known or not KAFKAS[plain].isidentifier()):
        meant = KAFKAS[plain]
        return f"did you mean {meant}?" if meant.isidentifier() else meant
    nearest = get_close_matches(plain, known, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(sorted(known))}"


def client_id_of(option: object) -> str:
    """Return a validated client id: the option, or the variable `RAFTLOG_CLIENT_ID`; "": none.

    Raises:
        ConfigError: it is not a client id.
    """
    if not isinstance(option, str):
        raise ConfigError(f"client_id: expected a str, received {type(option).__name__}")
    client_id = option or os.environ.get(CLIENT_ID_VARIABLE, "")
    if client_id and not is_client_id(client_id):
        where = "client_id" if option else CLIENT_ID_VARIABLE
        raise ConfigError(f"{where}: expected {EXPECTED}, received {client_id!r:.200}")
    return client_id


def require_effect(given: Mapping[str, object], defaults: Mapping[str, object], why: Mapping[str, str]) -> None:
    """Raise if an option was set that would have no effect.

    Args:
        given: the values of all options.
        defaults: the options' defaults.
        why: the options without effect here, each with what to do instead.

    Raises:
        ConfigError: one of these options differs from its default.
    """
    for name, instead in why.items():
        if given[name] != defaults[name]:
            raise ConfigError(f"{name}: {instead}; received {given[name]!r}")


def defaults_of(init: Callable[..., None]) -> dict[str, object]:
    """Return the defaults of a constructor's options."""
    return {name: option.default for name, option in signature(init).parameters.items()}


def require_at_least(least: int, **options: object) -> None:
    """Check that options are whole numbers, none below `least`.

    Raises:
        ConfigError: an option is not.
    """
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{name}: expected a whole number, at least {least}, received {value!r}")
