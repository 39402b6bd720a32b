"""DescribeClientQuotas and AlterClientQuotas (KIP-546): quotas of users and client ids.

Kafka's default entity (a name of null) is `*` here. Kafka's keys are raftlog's names of limits; `request_rate` is one
more. Each broker applies a quota by itself, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Final, NamedTuple

from raftlog.broker.kafka.admin_calls import AdminRequest, Result, each, repeated, require_few, special_number
from raftlog.broker.kafka.call import Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.errors import InvalidRequestError, RaftlogError
from raftlog.metadata_quorum.controller.security import decide_quota
from raftlog.model import QUOTA_LIMITS, Quota
from raftlog.runtime import in_slices
from raftlog.serving.workers import in_worker
from raftlog.wire import paths
from raftlog.wire.admin import QuotaRequest
from raftlog.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    OpData,
)
from raftlog.wire.kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from raftlog.wire.kafka.reader import MAX_ELEMENTS

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EVERY_OTHER: Final = "*"
"""The name of the quota of those without one of their own."""
_MOST_PARTS: Final = 4
"""More parts of an entity than there are kinds are refused, whatever they are."""
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""Kinds of matches."""
_INSTEAD: Final = {
    "controller_mutation_rate": "set request_rate in its place",
    "connection_creation_rate": (
        "set max.connection.creation.rate or raftlog.max.connection.creation.rate.per.address of the brokers"
    ),
}


class Entity(NamedTuple):
    """Whose quota it is, in raftlog's form: an empty text means that it does not depend on that."""

    user: str = ""
    client_id: str = ""


# DescribeClientQuotas.


async def describe_quotas(call: KafkaCall, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """List the quotas that match every component."""
    try:
        _require_components(request.components)
        image = await AdminRequest.begin(call).image()
    except RaftlogError as error:
        return DescribeClientQuotasResponse(error_code=error_number(error), error_message=error.message, entries=None)
    quotas = [image.quotas[key] for key in sorted(image.quotas)]
    found = [_entry(one) async for one in in_slices(quotas, 256) if _fits(one, request)]
    call.is_large = len(found) > 500
    return DescribeClientQuotasResponse(error_message=None, entries=found)


def _require_components(components: Sequence[ComponentData]) -> None:
    for component in components:
        if component.entity_type not in (USER, CLIENT_ID, IP):
            raise InvalidRequestError(
                f"entity_type: expected {USER}, {CLIENT_ID} or {IP}, received {component.entity_type!r:.80}"
            )
        if component.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise InvalidRequestError(f"match_type: expected 0 to 2, received {component.match_type}")
        if component.match_type == EXACT and component.match is None:
            raise InvalidRequestError("match: expected a name with match_type 0, received null")
    if twice := repeated(component.entity_type for component in components):
        raise InvalidRequestError(f"components: {min(map(str, twice))} is there more than once")


def _fits(quota: Quota, request: DescribeClientQuotasRequest) -> bool:
    names = {USER: quota.user, CLIENT_ID: quota.client_id, IP: ""}
    for component in request.components:
        name = names.pop(component.entity_type)
        if not name:
            return False
        if component.match_type == EXACT and (name != component.match or name == EVERY_OTHER):
            return False
        if component.match_type == DEFAULT and name != EVERY_OTHER:
            return False
    return not request.strict or not any(names.values())


def _entry(quota: Quota) -> EntryData:
    named = ((USER, quota.user), (CLIENT_ID, quota.client_id))
    return EntryData(
        entity=[
            EntityData(entity_type=kind, entity_name=None if name == EVERY_OTHER else name)
            for kind, name in named
            if name
        ],
        values=[ValueData(key=key, value=float(value)) for key, value in sorted(quota.limits.items())],
    )


# AlterClientQuotas.


async def alter_quotas(call: KafkaCall, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Set and remove limits; each entity has its own answer."""
    entries = request.entries
    if (refusal := require_few(call, entries, "entities")) is not None:
        return await in_worker(_answers, entries, [refusal] * len(entries))
    admin = AdminRequest.begin(call)
    twice = repeated(_key(entry) for entry in entries)
    results = await each(entries, partial(_alter, admin, twice, request.validate_only))
    return await in_worker(_answers, entries, results) if call.has_many else _answers(entries, results)


def _answers(
    entries: Sequence[AlterClientQuotasRequestEntryData], results: Sequence[Result[None]]
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_answer(*one) for one in zip(entries, results, strict=True)])


def _key(entry: AlterClientQuotasRequestEntryData) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(((one.entity_type, one.entity_name) for one in entry.entity[:_MOST_PARTS]), key=str))


async def _alter(
    admin: AdminRequest, twice: set[object], validate_only: bool, entry: AlterClientQuotasRequestEntryData
) -> None:
    if _key(entry) in twice:
        raise InvalidRequestError("the entity is in the request more than once; nothing was done for it")
    entity = _entity_of(entry.entity)
    command = QuotaRequest(user=entity.user, client_id=entity.client_id, limits=_limits(entry.ops))
    if validate_only:
        decide_quota(await admin.image(), command)
    else:
        await admin.send(paths.ALTER_QUOTA, command)


def _entity_of(given: Sequence[AlterClientQuotasRequestEntityData]) -> Entity:
    names: dict[str, str] = {}
    for one in given:
        if one.entity_type == IP:
            raise InvalidRequestError(f"entity ip: no such quotas here; {_INSTEAD['connection_creation_rate']}")
        if one.entity_type not in (USER, CLIENT_ID):
            raise InvalidRequestError(f"entity_type: expected {USER} or {CLIENT_ID}, received {one.entity_type!r:.80}")
        if one.entity_type in names:
            raise InvalidRequestError(f"entity: {one.entity_type} is there more than once")
        if one.entity_name in ("", EVERY_OTHER):
            raise InvalidRequestError(
                f"entity_name: expected a name, or null for those without a quota, received {one.entity_name!r}"
            )
        names[one.entity_type] = EVERY_OTHER if one.entity_name is None else one.entity_name
    return Entity(names.get(USER, ""), names.get(CLIENT_ID, ""))


def _limits(ops: Sequence[OpData]) -> Mapping[str, float | None]:
    limits: dict[str, float | None] = {}
    for op in ops:
        if op.key in limits:
            raise InvalidRequestError(f"{op.key}: given more than once")
        if op.key not in QUOTA_LIMITS:
            known = ", ".join(QUOTA_LIMITS)
            raise InvalidRequestError(
                f"{op.key!r:.80}: expected one of {known}; {_INSTEAD.get(op.key, 'no other limit exists here')}"
            )
        if not op.remove and not isfinite(op.value):  # JSON would have null in its place: remove the limit.
            raise InvalidRequestError(f"{op.key}: expected a number above 0, received {op.value}")
        limits[op.key] = None if op.remove else op.value
    return limits


def _answer(entry: AlterClientQuotasRequestEntryData, result: Result[None]) -> AlterClientQuotasResponseEntryData:
    error = result if isinstance(result, RaftlogError) else None
    return AlterClientQuotasResponseEntryData(
        error_code=0 if error is None else special_number(error) or error_number(error),
        error_message=None if error is None else error.message,
        entity=[
            AlterClientQuotasResponseEntityData(entity_type=one.entity_type, entity_name=one.entity_name)
            for one in entry.entity
        ],
    )


def _failed(_: KafkaCall, request: AlterClientQuotasRequest, number: int) -> AlterClientQuotasResponse:
    refused = [_answer(entry, None) for entry in request.entries]
    for one in refused:
        one.error_code = number
    return AlterClientQuotasResponse(entries=refused)


HANDLERS: Final[Handlers] = {
    48: describe_quotas,
    49: Served(handle=alter_quotas, failed=_failed, most_elements=MAX_ELEMENTS),
}
