"""The table of Kafka's APIs. A module of messages is loaded at the first use of its API."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from raftlog.errors import ErrorCode
from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.messages.table import TABLE


class Api(NamedTuple):
    """One API of the table."""

    key: int
    name: str
    """Kafka's name, such as "OffsetCommit"."""
    module: str
    """Its module in `messages/`."""
    first: int
    last: int
    """The first and the last version that can be decoded and encoded."""
    last_stable: int
    """The last version that Kafka offers to clients: a later one may still change."""
    flexible: int | None
    """The first flexible version (KIP-482)."""

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version >= self.flexible

    def request_header_version(self, version: int) -> int:
        """Return the version of the header of requests: 1, or 2 with tagged fields."""
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """Return the version of the header of responses: 0, or 1 with tagged fields.

        ApiVersions has 0 always: a client reads the response before it knows what the broker speaks (KIP-511).
        """
        return 1 if self.is_flexible(version) and self.key != API_VERSIONS else 0


APIS: Final[Mapping[int, Api]] = {row[0]: Api(*row) for row in TABLE}
"""Every API by its key."""
API_VERSIONS: Final = 18
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
CONTROLLED_SHUTDOWN: Final = 7
"""Version 0 of this one alone has requests with header 0. It is between brokers, and not in the table."""


def find(key: int) -> Api:
    """Return an API.

    Raises:
        KafkaProtocolError: UNSUPPORTED_VERSION: the key is not in the table.
    """
    if (api := APIS.get(key)) is None:
        raise KafkaProtocolError(
            f"expected the key of an API in the table, received {key}", code=ErrorCode.UNSUPPORTED_VERSION
        )
    return api


@cache
def request_codec(key: int) -> Codec[Any]:
    """Return the codec of an API's requests; loads the API's module.

    Raises:
        KafkaProtocolError: UNSUPPORTED_VERSION: the key is not in the table.
    """
    return _codec(find(key), "REQUEST")


@cache
def response_codec(key: int) -> Codec[Any]:
    """Return the codec of an API's responses; loads the API's module.

    Raises:
        KafkaProtocolError: UNSUPPORTED_VERSION: the key is not in the table.
    """
    return _codec(find(key), "RESPONSE")


def _codec(api: Api, constant: str) -> Codec[Any]:
    module = import_module(f"raftlog.wire.kafka.messages.{api.module}")
    codec: Codec[Any] = getattr(module, constant)
    return codec
