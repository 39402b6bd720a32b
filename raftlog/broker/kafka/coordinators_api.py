"""FindCoordinator: the broker that coordinates a group or a transactional id. The first request creates its topic."""

from __future__ import annotations

from typing import Final

from raftlog.broker.administration import ADMIN_TIMEOUT_MS
from raftlog.broker.kafka.call import Handlers, KafkaCall
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError, RetriableError
from raftlog.model import AclResource, BrokerRegistration
from raftlog.runtime import in_slices
from raftlog.wire.coordinators import CoordinatorKind
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_KINDS: Final[dict[int, CoordinatorKind]] = {0: "group", 1: "transaction"}
_BATCHED = 4
"""The first version with several keys (KIP-699)."""
_MAX_KEYS = 1_000


async def handle_find_coordinator(call: KafkaCall, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Return the coordinator of each key."""
    if len(request.coordinator_keys) > _MAX_KEYS:
        raise InvalidRequestError(f"expected at most {_MAX_KEYS} keys, received {len(request.coordinator_keys)}")
    if call.api_version >= _BATCHED:
        found = [await _coordinator(call, request.key_type, key) async for key in in_slices(request.coordinator_keys)]
        return FindCoordinatorResponse(coordinators=found)
    one = await _coordinator(call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


async def _coordinator(call: KafkaCall, key_type: int, key: str) -> Coordinator:
    kind = _KINDS.get(key_type)
    if kind is None:
        return _failed(key, KafkaError.INVALID_REQUEST, f"key_type: expected 0 or 1, received {key_type}")
    resource: AclResource = "group" if kind == "group" else "transactional_id"
    try:
        call.context.access.require(call.sender, "describe", resource, key)
        broker = await _broker(call, kind, key)
    except RetriableError as error:
        return _failed(key, KafkaError.COORDINATOR_NOT_AVAILABLE, error.message)
    except RaftlogError as error:
        return _failed(key, error_number(error, resource), error.message)
    return Coordinator(
        key=key, node_id=broker.broker_id, host=broker.public.host, port=broker.public.port, error_message=None
    )


async def _broker(call: KafkaCall, kind: CoordinatorKind, key: str) -> BrokerRegistration:
    info = await call.context.internal_topics.coordinator(kind, key, timeout_ms=ADMIN_TIMEOUT_MS)
    broker = call.context.image.brokers.get(info.broker_id)
    if broker is None:
        raise RetriableError(
            f"broker {info.broker_id} is no longer registered", code=ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
    return broker


def _failed(key: str, number: int, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=number, error_message=text)


HANDLERS: Final[Handlers] = {10: handle_find_coordinator}
