"""ApiVersions: which APIs this broker serves, and in which versions (KIP-35, KIP-511)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from raftlog.broker.kafka.call import Handlers, KafkaCall, Served
from raftlog.wire.kafka.api_keys import API_VERSIONS, APIS
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

PRODUCE: Final = 0
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_MAX_SOFTWARE = 100
_TRANSACTIONS: Final = "transaction.version"
_TV2: Final = 2
"""The feature's level at which Java's producers add partitions by their batches (KIP-890, TV2)."""


def as_served(handlers: Handlers) -> dict[int, Served]:
    """Return the handlers with the versions that each serves.

    Raises:
        RuntimeError: a handler names an API or a version that is not in the table.
    """
    return {key: _with_versions(key, handler) for key, handler in sorted(handlers.items())}


def _with_versions(key: int, handler: object) -> Served:
    api = APIS.get(key)
    served = handler if isinstance(handler, Served) else Served(handle=handler)  # type: ignore[arg-type]
    if api is None:
        raise RuntimeError(f"no Kafka API has the key {key}")
    first = api.first if served.first is None else served.first
    last = api.last_stable if served.last is None else served.last
    if not api.first <= first <= last <= api.last:
        raise RuntimeError(f"{api.name}: a handler serves {first} to {last}, the table has {api.first} to {api.last}")
    return replace(served, first=first, last=last)


def offered(served: Mapping[int, Served]) -> list[ApiVersion]:
    """Return the table that clients get.

    It offers Produce from version 0, which librdkafka looks for (KAFKA-18659). A request of a version before 3 closes
    the connection: no client that reads this table sends one.
    """
    return [
        ApiVersion(api_key=key, min_version=0 if key == PRODUCE else one.first or 0, max_version=one.last or 0)
        for key, one in served.items()
    ]


def unsupported(apis: Sequence[ApiVersion]) -> ApiVersionsResponse:
    """Return the response to an ApiVersions request of an unknown version; its encoding is version 0."""
    return ApiVersionsResponse(error_code=KafkaError.UNSUPPORTED_VERSION, api_keys=list(apis))


def handler_of(apis: Sequence[ApiVersion]) -> Served:
    """Return the handler that answers with a table."""

    async def handle(call: KafkaCall, request: ApiVersionsRequest) -> ApiVersionsResponse:
        if call.api_version >= 3:
            name, version = request.client_software_name, request.client_software_version
            if not (_is_plain(name) and _is_plain(version)):
                return ApiVersionsResponse(error_code=KafkaError.INVALID_REQUEST)
            call.connection.software = f"{name} {version}"
            return ApiVersionsResponse(
                api_keys=list(apis),
                supported_features=[SupportedFeatureKey(name=_TRANSACTIONS, max_version=_TV2)],
                finalized_features=[
                    FinalizedFeatureKey(name=_TRANSACTIONS, max_version_level=_TV2, min_version_level=_TV2)
                ],
                finalized_features_epoch=0,
            )
        return ApiVersionsResponse(api_keys=list(apis))

    api = APIS[API_VERSIONS]
    return Served(handle=handle, first=api.first, last=api.last_stable)


@lru_cache
def _is_plain(text: str) -> bool:
    return len(text) <= _MAX_SOFTWARE and _SOFTWARE.fullmatch(text) is not None
