"""Option names of the source and the sink, Kafka's names for them, and errors for unknown names.

A table or a view is both a source and a sink, so each accepts and ignores the other's options. Spark lower-cases names;
messages show them as documented. An unknown name is an error: a misspelled `startingOffsets` that is silently ignored
reads the wrong records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from raftlog.errors import ConfigError

T = TypeVar("T")
CREDENTIAL_OPTIONS = ("caFile", "certFile", "keyFile", "user", "passwordFile", "login", "tokenFile")
KNOWN_OPTIONS = (
    "bootstrap",
    "dial",
    *CREDENTIAL_OPTIONS,
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "isolation",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "groupId",
    "clientRack",
    "clientId",
    "traceparent",
    "minPartitions",
    "maxPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "timeoutMs",
    "fetchBytes",
    "pushDownPredicate",
)
SINK_OPTIONS = (
    "bootstrap",
    "dial",
    *CREDENTIAL_OPTIONS,
    "topic",
    "guarantee",
    "transactionalId",
    "batchId",
    "transactionTimeoutMs",
    "timeoutMs",
    "clientId",
    "traceparent",
    "compression",
    "batchBytes",
)
ALIASES = {
    "bootstrap.servers": "bootstrap",
    "isolation.level": "isolation",
    "group.id": "groupId",
    "client.rack": "clientRack",
    "client.id": "clientId",
    "fetch.max.bytes": "fetchBytes",
    "compression.type": "compression",
    "batch.size": "batchBytes",
    "transactional.id": "transactionalId",
    "transaction.timeout.ms": "transactionTimeoutMs",
    "delivery.timeout.ms": "timeoutMs",
}
"""Our option by Kafka's name. Spark's Kafka source and sink prefix the name with `kafka.`."""
_SECRETS = frozenset({"password", "token", "key", "secret", "username"})
"""Names that are not options, since Spark shows options in plans and stores those of tables."""
_SETTLED = {
    "acks": "a write is acknowledged when every in-sync replica has it, always",
    "enable.idempotence": "a batch that is sent again is stored once, always",
    "linger.ms": "all rows of a task are available, so batches never wait",
    "retries": "failed requests are sent again until timeoutMs is over",
    "buffer.memory": "a task holds only the rows that it sends and the next ones",
    "max.in.flight.requests.per.connection": "a partition's batches are sent in order, one after another",
    "auto.offset.reset": "say startingOffsets",
    "enable.auto.commit": "a stream's position is in Spark's checkpoint; groupId publishes it",
}
"""Settings of Kafka's clients without a counterpart, because their behaviour is fixed."""


class RawOptions:
    """The given options by lower-case name; unknown names were refused.

    Args:
        known: the names that are used.
        passed_over: the names that are accepted and ignored.
    """

    def __init__(self, raw: Mapping[str, str], known: tuple[str, ...], *, passed_over: tuple[str, ...] = ()) -> None:
        names = {name.lower(): name for name in (*passed_over, *known)}
        self._values: dict[str, str] = {}
        for written in sorted(raw):
            meant = ALIASES.get(written.lower(), written).lower()
            name = meant if meant in names else written.lower()
            if name not in names:
                raise ConfigError(_unknown(written.lower(), str(raw[written]), known, tuple(names.values())))
            if self._values.setdefault(name, str(raw[written])) != str(raw[written]):
                raise ConfigError(f"option {names[name]!r} is set twice, by {written!r} too: set it once")

    def has(self, name: str) -> bool:
        return name.lower() in self._values

    def take(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Return the parsed option, or `default` when it was not given."""
        return self.required(name, parse) if self.has(name) else default

    def required(self, name: str, parse: Callable[[str], T]) -> T:
        if not self.has(name):
            raise ConfigError(f"option {name!r} is required, for example .option({name!r}, 'http://127.0.0.1:9400')")
        text = self._values[name.lower()]
        try:
            return parse(text)
        except ValueError as reason:
            raise ConfigError(f"option {name!r}: {reason}; received {_quoted(name, text)}") from None


def _quoted(name: str, text: str) -> str:
    """Return an option's text for an error, unless it may hold a password."""
    is_secret = "@" in text and name in ("bootstrap", "dial")
    return "a URL with a user, which is not shown" if is_secret else repr(text[:200])


def _unknown(name: str, value: str, known: tuple[str, ...], taken: tuple[str, ...]) -> str:
    plain = name.removeprefix("kafka.")
    meant = ALIASES.get(plain)
    if meant == "bootstrap":
        received = _quoted("bootstrap", value)
        return f"option {name!r} is Kafka's: use .option('bootstrap', 'http://HOST:PORT'); received {received}"
    if meant in known:
        return f"option {name!r} is Kafka's: use .option({meant!r}, {value!r})"
    if plain in _SETTLED:
        return f"option {name!r} is Kafka's, and there is nothing to set here: {_SETTLED[plain]}; leave it out"
    listed = ", ".join(known)
    if plain in _SECRETS or plain.startswith(("ssl.", "sasl.", "security.")):
        return (
            f"option {name!r} is not known: use caFile, certFile, keyFile, user, passwordFile and tokenFile; "
            "Spark shows and stores options, so they name files"
        )
    if name.startswith("kafka."):
        return f"option {name!r} sets a Kafka client, which raftlog does not use; known options are {listed}"
    if name in ("path", "location"):
        instead = "name topics by .option('subscribe', ...) to read, .option('topic', ...) to write"
        return f"topics have no path, received {value!r}: {instead}"
    return f"unknown option {name!r}{_nearest(name, taken)}; known options are {listed}"


def _nearest(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 -- only where something is wrong

    lowered = {item.lower(): item for item in known}
    found = get_close_matches(name, lowered, n=1)
    return f" (did you mean {lowered[found[0]]}?)" if found else ""
