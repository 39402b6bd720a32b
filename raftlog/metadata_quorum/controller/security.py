"""Decisions about users, ACLs and quotas."""

from __future__ import annotations

import re

from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import ChangeQuota, DeleteAcl, DeleteUser, PutAcl, PutUser, Record
from raftlog.wire.admin import AclFilter, AclsRequest, DeleteUserRequest, PutUserRequest, QuotaRequest

MAX_ACLS = 10_000
MAX_NAME = 255
"""Characters. Longer than any name of a topic or host."""
QUOTA_LIMITS = ("producer_byte_rate", "consumer_byte_rate", "request_rate")
_NAME = re.compile(r"[\w.@-]{1,128}")


def decide_user(image: MetadataImage, request: PutUserRequest) -> Decision[None]:
    """Create a user, or replace the credential of one."""
    credential = request.credential
    if not _NAME.fullmatch(credential.user):
        raise InvalidRequestError(
            f"user: expected 1 to 128 letters, digits and the characters . _ @ -, received {credential.user!r:.200}"
        )
    unchanged = image.users.get(credential.user) == credential
    return Decision(() if unchanged else (PutUser(credential=credential),), None)


def decide_user_deletion(image: MetadataImage, request: DeleteUserRequest) -> Decision[None]:
    """Delete a user.

    Raises:
        NotFoundError: the user does not exist.
    """
    if request.user not in image.users:
        raise NotFoundError(f"there is no user {request.user!r}", code=ErrorCode.RESOURCE_NOT_FOUND)
    return Decision((DeleteUser(user=request.user),), None)


def decide_acls(image: MetadataImage, request: AclsRequest) -> Decision[None]:
    """Add ACLs; those that exist change nothing."""
    new = [acl for acl in dict.fromkeys(request.acls) if acl not in image.acls]
    for acl in new:
        if not acl.principal or not acl.resource_name or not acl.host:
            raise InvalidRequestError(f"an ACL needs a principal, a resource_name and a host (or *), received {acl}")
        _require_short(principal=acl.principal, resource_name=acl.resource_name, host=acl.host)
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
    for name, value in request.limits.items():
        if name not in QUOTA_LIMITS:
            raise InvalidRequestError(f"{name}: unknown limit; expected one of {', '.join(QUOTA_LIMITS)}")
        if value is not None and value <= 0:
            raise InvalidRequestError(f"{name}: expected more than 0, received {value}")
    current = image.quotas.get((request.user, request.client_id))
    present = current.limits if current else {}
    changed = {name: value for name, value in request.limits.items() if present.get(name) != value}
    records: tuple[Record, ...] = ()
    if changed:
        records = (ChangeQuota(user=request.user, client_id=request.client_id, limits=changed),)
    return Decision(records, None)


def _require_short(**names: str) -> None:
    for field, name in names.items():
        if len(name) > MAX_NAME:
            raise InvalidRequestError(
                f"{field}: expected at most {MAX_NAME} characters, received {len(name):,}: {name[:50]!r}..."
            )
