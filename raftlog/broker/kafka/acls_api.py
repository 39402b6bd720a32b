"""DescribeAcls, CreateAcls and DeleteAcls (KIP-140, KIP-290): Kafka's rules are raftlog's, under other numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from raftlog.broker.kafka.admin_calls import LARGE_ENTRIES, AdminRequest, Result, each, require_few, special_number
from raftlog.broker.kafka.call import Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.errors import InvalidRequestError, RaftlogError, UnknownOutcomeError
from raftlog.metadata_quorum.controller.security import decide_acls
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import CLUSTER_RESOURCE, Acl, AclOperation, AclResource, acl_order, full_principal
from raftlog.runtime import in_slices
from raftlog.schema import from_plain
from raftlog.serving.workers import in_worker
from raftlog.wire import paths
from raftlog.wire.admin import AclFilter, AclsRequest
from raftlog.wire.kafka.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from raftlog.wire.kafka.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from raftlog.wire.kafka.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from raftlog.wire.kafka.reader import MAX_ELEMENTS

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
"""Numbers of pattern types; 1 means any also of the others."""
DENY, ALLOW = 2, 3
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of Kafka's one resource of the kind cluster."""
RESOURCES: Final[Mapping[int, AclResource]] = {2: "topic", 3: "group", 4: "cluster", 5: "transactional_id"}
OPERATIONS: Final[Mapping[int, AclOperation]] = {
    2: "all",
    3: "read",
    4: "write",
    5: "create",
    6: "delete",
    7: "alter",
    8: "describe",
    9: "cluster_action",
    10: "describe_configs",
    11: "alter_configs",
    12: "idempotent_write",
}
_RESOURCE_NUMBERS: Final = {**{name: number for number, name in RESOURCES.items()}, "user": 7}
_OPERATION_NUMBERS: Final = {name: number for number, name in OPERATIONS.items()}
_PATTERNS: Final[Mapping[int, str]] = {LITERAL: "literal", PREFIXED: "prefixed"}
_PERMISSIONS: Final[Mapping[int, str]] = {DENY: "deny", ALLOW: "allow"}


class Wanted(NamedTuple):
    """A filter of rules; None matches every value."""

    exact: AclFilter
    """All of the filter but the resource's name, if `is_match` or the kind is any."""
    name: str | None
    is_match: bool
    """Whether rules count that apply to a resource of that name, by a prefix or by `*`."""

    def fits(self, acl: Acl) -> bool:
        """Return whether the filter matches a rule."""
        return self.exact.fits(acl) and (self.name is None or self._names(acl, self.name))

    def _names(self, acl: Acl, name: str) -> bool:
        if acl.resource_type == "cluster" and name == CLUSTER_NAME:
            name = CLUSTER_RESOURCE
        if acl.resource_name == name:
            return True
        if not self.is_match:
            return False
        if acl.pattern == "literal":
            return acl.resource_name == "*"
        return name.startswith(acl.resource_name)

    @property
    def as_command(self) -> AclFilter | None:
        """The filter as the controller takes it; None: the controller has no such filter."""
        if self.name is None:
            return self.exact
        if self.is_match or self.exact.resource_type is None:
            return None
        of_cluster = self.exact.resource_type == "cluster" and self.name == CLUSTER_NAME
        return _with_name(self.exact, CLUSTER_RESOURCE if of_cluster else self.name)


def _with_name(found: AclFilter, name: str) -> AclFilter:
    return from_plain(AclFilter, {**{field: getattr(found, field) for field in found.__slots__}, "resource_name": name})


def wanted_of(request: DescribeAclsRequest | DeleteAclsFilter) -> Wanted:
    """Return a filter.

    Raises:
        InvalidRequestError: a number is unknown.
    """
    pattern = request.pattern_type_filter
    if pattern not in (ANY, MATCH, LITERAL, PREFIXED):
        raise InvalidRequestError(f"pattern_type_filter: expected 1 to 4, received {pattern}")
    exact = from_plain(
        AclFilter,
        {
            "principal": request.principal_filter,
            "host": request.host_filter,
            "operation": _named(OPERATIONS, request.operation, "operation"),
            "resource_type": _named(RESOURCES, request.resource_type_filter, "resource_type_filter"),
            "permission": _named(_PERMISSIONS, request.permission_type, "permission_type"),
            "pattern": _PATTERNS.get(pattern),
        },
    )
    return Wanted(exact, request.resource_name_filter, pattern == MATCH)


def _named(table: Mapping[int, str], number: int, field: str) -> str | None:
    if number == ANY:
        return None
    if (name := table.get(number)) is None:
        raise InvalidRequestError(f"{field}: expected 1 (any) or one of {_listed(table)}, received {number}")
    return name


def _listed(table: Mapping[int, str]) -> str:
    return ", ".join(f"{number} ({name})" for number, name in table.items())


# DescribeAcls.


async def describe_acls(call: KafkaCall, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """List the rules that match a filter."""
    try:
        wanted = wanted_of(request)
        image = await AdminRequest.begin(call).image()
    except RaftlogError as error:
        return DescribeAclsResponse(error_code=error_number(error), error_message=error.message)
    found = [acl async for acl in in_slices(image.acls, 512) if wanted.fits(acl)]
    call.is_large = len(found) > LARGE_ENTRIES
    resources = await in_worker(_by_resource, found) if call.is_large else _by_resource(found)
    return DescribeAclsResponse(error_message=None, resources=resources)


def _by_resource(acls: Iterable[Acl]) -> list[DescribeAclsResource]:
    grouped: defaultdict[tuple[int, str, int], list[AclDescription]] = defaultdict(list)
    for acl in sorted(acls, key=acl_order):
        grouped[_resource(acl)].append(
            AclDescription(
                principal=full_principal(acl.principal),
                host=acl.host,
                operation=_OPERATION_NUMBERS[acl.operation],
                permission_type=DENY if acl.permission == "deny" else ALLOW,
            )
        )
    return [
        DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=rules)
        for (kind, name, pattern), rules in grouped.items()
    ]


def _resource(acl: Acl) -> tuple[int, str, int]:
    of_cluster = acl.resource_type == "cluster" and acl.resource_name == CLUSTER_RESOURCE
    name = CLUSTER_NAME if of_cluster else acl.resource_name
    return _RESOURCE_NUMBERS[acl.resource_type], name, PREFIXED if acl.pattern == "prefixed" else LITERAL


# CreateAcls.


async def create_acls(call: KafkaCall, request: CreateAclsRequest) -> CreateAclsResponse:
    """Create rules. Each has its own answer; those that are allowed are created together, by one decision."""
    if (refusal := require_few(call, request.creations, "rules")) is not None:
        return CreateAclsResponse(results=[_created(refusal)] * len(request.creations))
    admin = AdminRequest.begin(call)
    image = await admin.image()
    results = [_checked(image, one) async for one in in_slices(request.creations, 128)]
    acls = tuple(dict.fromkeys(result for result in results if isinstance(result, Acl)))
    failed: RaftlogError | None = None
    if acls:
        try:
            await admin.send(paths.CREATE_ACLS, AclsRequest(acls=acls))
        except RaftlogError as error:
            failed = error
    return CreateAclsResponse(
        results=[_created(result if isinstance(result, RaftlogError) else failed) for result in results]
    )


def _checked(image: MetadataImage, creation: AclCreation) -> Result[Acl]:
    """Return a rule that the controller will accept, or the error."""
    try:
        acl = _rule(creation)
        same = next((one for one in _spellings(acl) if one in image.acls), acl)
        decide_acls(image, AclsRequest(acls=(same,)))
    except RaftlogError as error:
        return error
    return same


def _spellings(acl: Acl) -> tuple[Acl, Acl]:
    """Return a rule with both forms of its principal, which mean the same: `alice` and `User:alice`."""
    fields = {field: getattr(acl, field) for field in Acl.__slots__}
    return acl, Acl(**{**fields, "principal": acl.principal.removeprefix("User:")})


def _rule(creation: AclCreation) -> Acl:
    resource = RESOURCES.get(creation.resource_type)
    operation = OPERATIONS.get(creation.operation)
    pattern, permission = _PATTERNS.get(creation.resource_pattern_type), _PERMISSIONS.get(creation.permission_type)
    for field, table, found, number in (
        ("resource_type", RESOURCES, resource, creation.resource_type),
        ("operation", OPERATIONS, operation, creation.operation),
        ("resource_pattern_type", _PATTERNS, pattern, creation.resource_pattern_type),
        ("permission_type", _PERMISSIONS, permission, creation.permission_type),
    ):
        if found is None:
            raise InvalidRequestError(f"{field}: expected one of {_listed(table)}, received {number}")
    name = creation.resource_name
    if resource == "cluster":
        if name not in (CLUSTER_NAME, "*"):
            raise InvalidRequestError(f"resource_name: the cluster's name is {CLUSTER_NAME}, received {name!r:.80}")
        name = CLUSTER_RESOURCE if name == CLUSTER_NAME else name
    if ":" not in creation.principal:
        raise InvalidRequestError(f"principal: expected User:NAME or Group:NAME, received {creation.principal!r:.80}")
    return from_plain(
        Acl,
        {
            "principal": creation.principal,
            "operation": operation,
            "resource_type": resource,
            "resource_name": name,
            "pattern": pattern,
            "permission": permission,
            "host": creation.host,
        },
    )


def _created(error: RaftlogError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult(error_message=None)
    return AclCreationResult(error_code=special_number(error) or error_number(error), error_message=error.message)


def _failed_creation(_: KafkaCall, request: CreateAclsRequest, number: int) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=number, error_message=None) for _ in request.creations]
    )


# DeleteAcls.


async def delete_acls(call: KafkaCall, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Delete the rules that match each filter; the answer lists them."""
    if (refusal := require_few(call, request.filters, "filters", 500)) is not None:
        return DeleteAclsResponse(filter_results=[_deleted(refusal)] * len(request.filters))
    admin = AdminRequest.begin(call)
    results = await each(request.filters, partial(_delete, admin))
    deleted = sum(len(one) for one in results if isinstance(one, list))
    call.is_large = call.is_large or deleted > LARGE_ENTRIES
    return await in_worker(_deletions, results) if call.is_large else _deletions(results)


def _deletions(results: Sequence[Result[list[Acl]]]) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_deleted(one) for one in results])


async def _delete(admin: AdminRequest, request: DeleteAclsFilter) -> list[Acl]:
    wanted = wanted_of(request)
    if (command := wanted.as_command) is not None:
        return await _delete_by(admin, command)
    image = await admin.image()
    matching = [acl async for acl in in_slices(image.acls, 512) if wanted.fits(acl)]
    results = await each(matching, partial(_delete_exactly, admin))
    deleted = [acl for one in results if not isinstance(one, RaftlogError) for acl in one]
    failed = next((one for one in results if isinstance(one, RaftlogError)), None)
    if failed is not None:
        raise (
            failed
            if not deleted
            else UnknownOutcomeError(
                f"{len(deleted):,} of {len(matching):,} rules were deleted; then: {failed.message}", code=failed.code
            )
        )
    return deleted


async def _delete_exactly(admin: AdminRequest, acl: Acl) -> list[Acl]:
    return await _delete_by(admin, from_plain(AclFilter, {field: getattr(acl, field) for field in Acl.__slots__}))


async def _delete_by(admin: AdminRequest, command: AclFilter) -> list[Acl]:
    answer = await admin.send(paths.DELETE_ACLS, command)
    return list((await in_worker(from_plain, AclsRequest, answer.result, ignore_unknown=True)).acls)


def _deleted(result: Result[list[Acl]]) -> DeleteAclsFilterResult:
    if isinstance(result, RaftlogError):
        number = special_number(result) or error_number(result)
        return DeleteAclsFilterResult(error_code=number, error_message=result.message)
    return DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(acl) for acl in result])


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    kind, name, pattern = _resource(acl)
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern,
        principal=full_principal(acl.principal),
        host=acl.host,
        operation=_OPERATION_NUMBERS[acl.operation],
        permission_type=DENY if acl.permission == "deny" else ALLOW,
    )


def _failed_deletion(_: KafkaCall, request: DeleteAclsRequest, number: int) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=number, error_message=None) for _ in request.filters]
    )


HANDLERS: Final[Handlers] = {
    29: describe_acls,
    30: Served(handle=create_acls, failed=_failed_creation, most_elements=MAX_ELEMENTS),
    31: Served(handle=delete_acls, failed=_failed_deletion, most_elements=MAX_ELEMENTS),
}
