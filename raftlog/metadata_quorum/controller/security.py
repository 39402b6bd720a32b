"""Decisions about users, ACLs and quotas."""

from __future__ import annotations

import re
from dataclasses import replace

from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import (
    LATER_OPERATIONS,
    MORE_ACL_OPERATIONS,
    SHA_512_CREDENTIALS,
    ChangeQuota,
    DeleteAcl,
    DeleteUser,
    PutAcl,
    PutUser,
    Record,
)
from raftlog.model import (
    CLUSTER_RESOURCE,
    MIN_SCRAM_ITERATIONS,
    QUOTA_LIMITS,
    Acl,
    AclOperation,
    AclResource,
    ScramVerifier,
    UserCredential,
)
from raftlog.security.hosts import canonical_host
from raftlog.wire.admin import AclFilter, AclsRequest, DeleteUserRequest, PutUserRequest, QuotaRequest
from raftlog.wire.client_ids import EXPECTED, is_client_id
from raftlog.wire.scram import KEY_BYTES, SHA_512

MAX_ACLS = 10_000
MAX_USERS = 10_000
MAX_QUOTAS = 10_000
"""Every node keeps all of them, and each change copies their table."""
MAX_NAME = 255
"""Characters. Longer than any name of a topic or host."""
OPERATIONS_ON: dict[AclResource, tuple[AclOperation, ...]] = {
    "topic": ("read", "write", "create", "delete", "alter", "describe", "alter_configs", "describe_configs"),
    "group": ("read", "delete", "describe"),
    "transactional_id": ("write", "describe"),
    "cluster": (
        "create",
        "alter",
        "describe",
        "alter_configs",
        "describe_configs",
        "idempotent_write",
        "cluster_action",
    ),
}
"""The operations that requests need, besides `all` (Kafka's AclEntry). Rules for others would have no effect."""
MAX_ITERATIONS = 1_000_000
"""Rounds of one password check; a node makes one check at a time."""
MIN_SALT_BYTES = 16
_NAME = re.compile(r"[\w.@-]{1,128}")
_PRINCIPAL = re.compile(r"(User:|Group:)?[^:\x00-\x1f\x7f]+")


def decide_user(image: MetadataImage, request: PutUserRequest) -> Decision[None]:
    """Create a user, or replace the credential of one.

    Raises:
        InvalidRequestError: the credential is weak or malformed; UNSUPPORTED_VERSION: it is of SCRAM-SHA-512 only, and
            some nodes may not be able to read it. That of both mechanisms is stored without SCRAM-SHA-512 then.
    """
    credential = request.credential
    if not _NAME.fullmatch(credential.user) or credential.user == "ANONYMOUS":
        raise InvalidRequestError(
            f"user: expected 1 to 128 letters, digits and the characters . _ @ -, received {credential.user!r:.200}"
        )
    if image.feature_level < SHA_512_CREDENTIALS and credential.sha512 is not None:
        if not credential.iterations:
            raise InvalidRequestError(
                f"mechanism: {SHA_512} needs feature level {SHA_512_CREDENTIALS}, the cluster has "
                f"{image.feature_level}; upgrade every node, then raise it with PATCH /v1/features",
                code=ErrorCode.UNSUPPORTED_VERSION,
            )
        credential = replace(credential, sha512=None)
    known, verifiers = image.users.get(credential.user), credential.verifiers
    if known is None and len(image.users) >= MAX_USERS:
        raise InvalidRequestError(f"expected at most {MAX_USERS:,} users in a cluster, which has {len(image.users):,}")
    if not verifiers:
        raise InvalidRequestError("credential: expected a verifier of at least one mechanism, received none")
    for mechanism, verifier in verifiers.items():
        _require_strong(verifier, KEY_BYTES[mechanism])
    kept = known.verifiers if request.mechanism and known is not None else {}
    credential = UserCredential.of(credential.user, kept | verifiers)
    return Decision(() if known == credential else (PutUser(credential=credential),), None)


def decide_user_deletion(image: MetadataImage, request: DeleteUserRequest) -> Decision[None]:
    """Delete a user, or one of its verifiers.

    Raises:
        NotFoundError: the user does not exist, or has no such verifier.
    """
    known = image.users.get(request.user)
    if known is None:
        raise NotFoundError(f"there is no user {request.user!r}", code=ErrorCode.RESOURCE_NOT_FOUND)
    if not request.mechanism:
        return Decision((DeleteUser(user=request.user),), None)
    if request.mechanism not in known.verifiers:
        what = f"user {request.user!r} has no credential of {request.mechanism!r:.40}"
        raise NotFoundError(what, code=ErrorCode.RESOURCE_NOT_FOUND)
    left = {name: verifier for name, verifier in known.verifiers.items() if name != request.mechanism}
    if not left:
        return Decision((DeleteUser(user=request.user),), None)
    return Decision((PutUser(credential=UserCredential.of(request.user, left)),), None)


def decide_acls(image: MetadataImage, request: AclsRequest) -> Decision[None]:
    """Add ACLs; those that exist change nothing."""
    new = [acl for acl in dict.fromkeys(request.acls) if acl not in image.acls]
    for acl in new:
        if not acl.principal or not acl.resource_name or not acl.host:
            raise InvalidRequestError(f"an ACL needs a principal, a resource_name and a host (or *), received {acl}")
        _require_short(principal=acl.principal, resource_name=acl.resource_name, host=acl.host)
        _require_effective(acl)
        if acl.operation in LATER_OPERATIONS and image.feature_level < MORE_ACL_OPERATIONS:
            raise InvalidRequestError(
                f"operation: {acl.operation} needs feature level {MORE_ACL_OPERATIONS}, the cluster has "
                f"{image.feature_level}; upgrade every node, then raise it with PATCH /v1/features",
                code=ErrorCode.UNSUPPORTED_VERSION,
            )
    if len(image.acls) + len(new) > MAX_ACLS:
        raise InvalidRequestError(
            f"expected at most {MAX_ACLS} ACLs in a cluster, which has {len(image.acls)}; received {len(new)} more"
        )
    return Decision(tuple(PutAcl(acl=acl) for acl in new), None)


def decide_acl_deletion(image: MetadataImage, request: AclFilter) -> Decision[AclsRequest]:
    """Delete every ACL that matches; the response lists them."""
    deleted = tuple(acl for acl in image.acls if request.fits(acl))
    return Decision(tuple(DeleteAcl(acl=acl) for acl in deleted), AclsRequest(acls=deleted))


def decide_quota(image: MetadataImage, request: QuotaRequest) -> Decision[None]:
    """Change limits of a user, a client id, or both together; None removes one."""
    if not request.user and not request.client_id:
        raise InvalidRequestError("user, client_id: expected at least one of them (* for those without a quota)")
    _require_short(user=request.user, client_id=request.client_id)
    if request.user.startswith("User:"):
        raise InvalidRequestError(f"user: expected a name without User:, received {request.user!r:.80}")
    if request.client_id not in ("", "*") and not is_client_id(request.client_id):
        raise InvalidRequestError(f"client_id: expected *, or {EXPECTED}, received {request.client_id!r:.80}")
    for name, value in request.limits.items():
        if name not in QUOTA_LIMITS:
            raise InvalidRequestError(f"{name}: unknown limit; expected one of {', '.join(QUOTA_LIMITS)}")
        if value is not None and not 0 < value < float("inf"):
            raise InvalidRequestError(f"{name}: expected more than 0, received {value}")
    current = image.quotas.get((request.user, request.client_id))
    present = current.limits if current else {}
    changed = {name: value for name, value in request.limits.items() if present.get(name) != value}
    if current is None and changed and len(image.quotas) >= MAX_QUOTAS:
        raise InvalidRequestError(
            f"expected at most {MAX_QUOTAS:,} quotas in a cluster, which has {len(image.quotas):,}: use * for users or "
            "client ids that have the same limits"
        )
    records: tuple[Record, ...] = ()
    if changed:
        records = (ChangeQuota(user=request.user, client_id=request.client_id, limits=changed),)
    return Decision(records, None)


def _require_strong(verifier: ScramVerifier, key_bytes: int) -> None:
    """Raise for a verifier that is cheap to attack, or that makes each login slow."""
    if not MIN_SCRAM_ITERATIONS <= verifier.iterations <= MAX_ITERATIONS:
        raise InvalidRequestError(
            f"iterations: expected {MIN_SCRAM_ITERATIONS:,} to {MAX_ITERATIONS:,}, received {verifier.iterations:,}"
        )
    for name, least in (("salt", MIN_SALT_BYTES), ("stored_key", key_bytes), ("server_key", key_bytes)):
        text = getattr(verifier, name)
        most = least if name != "salt" else MAX_NAME // 2
        if not re.fullmatch(rf"([0-9a-f]{{2}}){{{least},{most}}}", text):
            raise InvalidRequestError(f"{name}: expected {least} or more bytes as hex digits, received {text!r:.80}")


def _require_effective(acl: Acl) -> None:
    """Raise for a rule that no request could match."""
    known = OPERATIONS_ON.get(acl.resource_type, ())
    if acl.operation not in ("all", *known) or not known:
        expected = ", ".join(OPERATIONS_ON) if not known else f"all, {', '.join(known)}"
        field = "operation" if known else "resource_type"
        raise InvalidRequestError(f"{field}: expected one of {expected}, received {getattr(acl, field)}")
    if acl.resource_type == "cluster" and acl.resource_name not in (CLUSTER_RESOURCE, "*"):
        raise InvalidRequestError(
            f"resource_name: the cluster's name in rules is {CLUSTER_RESOURCE}, received {acl.resource_name!r:.80}"
        )
    if not _PRINCIPAL.fullmatch(acl.principal):
        raise InvalidRequestError(
            f"principal: expected a user's name, User:NAME, Group:NAME or *, received {acl.principal!r:.80}"
        )
    if (host := canonical_host(acl.host)) != acl.host:
        raise InvalidRequestError(f"host: expected {host or 'an IP address, or *'}, received {acl.host!r:.80}")


def _require_short(**names: str) -> None:
    for field, name in names.items():
        if len(name) > MAX_NAME:
            raise InvalidRequestError(
                f"{field}: expected at most {MAX_NAME} characters, received {len(name):,}: {name[:50]!r}..."
            )
