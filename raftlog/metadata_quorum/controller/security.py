"""Users, rules of access and quotas: what the metadata log keeps of them."""

from __future__ import annotations

import re

from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import ChangeQuota, DeleteAcl, DeleteUser, PutAcl, PutUser, Record
from raftlog.wire.admin import AclFilter, AclsRequest, DeleteUserRequest, PutUserRequest, QuotaRequest

MAX_ACLS = 10_000
MAX_NAME = 255
"""Characters: longer than any topic's or host's name, short enough for every log entry."""
QUOTA_LIMITS = ("producer_byte_rate", "consumer_byte_rate", "request_rate")
_NAME = re.compile(r"[\w.@-]{1,128}")


def decide_user(image: MetadataImage, request: PutUserRequest) -> Decision[None]:
    """Create a user, or replace the credential of one."""
    credential = request.credential
    if not _NAME.fullmatch(credential.user):
        raise InvalidRequestError(
            f"a user's name has 1 to 128 letters, digits and the characters . _ @ -, received {credential.user!r:.200}"
        )
    unchanged = image.users.get(credential.user) == credential
    return Decision(() if unchanged else (PutUser(credential=credential),), None)


def decide_user_deletion(image: MetadataImage, request: DeleteUserRequest) -> Decision[None]:
    """Forget a user.

    Raises:
        NotFoundError: there is none of that name.
    """
    if request.user not in image.users:
        raise NotFoundError(f"there is no user {request.user!r}", code=ErrorCode.RESOURCE_NOT_FOUND)
    return Decision((DeleteUser(user=request.user),), None)


def decide_acls(image: MetadataImage, request: AclsRequest) -> Decision[None]:
    """Put rules in force; those that are already change nothing."""
    new = [acl for acl in dict.fromkeys(request.acls) if acl not in image.acls]
    for acl in new:
        if not acl.principal or not acl.resource_name or not acl.host:
            raise InvalidRequestError(f"a rule names a principal, a resource and a host (or *), received {acl}")
        _require_short(principal=acl.principal, resource_name=acl.resource_name, host=acl.host)
    if len(image.acls) + len(new) > MAX_ACLS:
        raise InvalidRequestError(f"a cluster has at most {MAX_ACLS} rules; it has {len(image.acls)} now")
    return Decision(tuple(PutAcl(acl=acl) for acl in new), None)


def decide_acl_deletion(image: MetadataImage, request: AclFilter) -> Decision[AclsRequest]:
    """End every rule that fits; the response says which those were."""
    ended = tuple(acl for acl in image.acls if request.fits(acl))
    return Decision(tuple(DeleteAcl(acl=acl) for acl in ended), AclsRequest(acls=ended))


def decide_quota(image: MetadataImage, request: QuotaRequest) -> Decision[None]:
    """Change some limits of one entity."""
    if not request.user and not request.client_id:
        raise InvalidRequestError("a quota is for a user, a client_id or both (* for those without their own)")
    _require_short(user=request.user, client_id=request.client_id)
    for name, value in request.limits.items():
        if name not in QUOTA_LIMITS:
            raise InvalidRequestError(f"{name}: unknown limit; there are {', '.join(QUOTA_LIMITS)}")
        if value is not None and value <= 0:
            raise InvalidRequestError(f"{name}: expected more than 0, received {value}")
    known = image.quotas.get((request.user, request.client_id))
    present = known.limits if known else {}
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
