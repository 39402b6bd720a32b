"""Operations on users, access rules and quotas."""

from __future__ import annotations

from raftlog.broker.openapi.operation import Operation, json_of
from raftlog.broker.openapi.parameters import ACL_FILTER, AUDIT, CONSISTENCY, LIMIT, PAGE
from raftlog.errors import ErrorCode as E
from raftlog.wire import paths
from raftlog.wire.admin import (
    AclsRequest,
    AclsResponse,
    PasswordBody,
    QuotaRequest,
    QuotasResponse,
    UserInfo,
    UsersResponse,
)
from raftlog.wire.answers import DeletedUser
from raftlog.wire.audit import AuditResponse
from raftlog.wire.logins import LoginAnswer, LoginChallenge, LoginRequest

_QUORUM = (E.QUORUM_NOT_AVAILABLE, E.REQUEST_TIMED_OUT)

SECURITY_OPERATIONS = (
    Operation(
        method="POST",
        path=paths.LOGIN,
        id="logIn",
        tag="Security",
        summary="Take one of the two messages of a login by SCRAM",
        details="The last answer has a session token. See [log in](http.md#log-in).",
        body=json_of(LoginRequest),
        answers={200: json_of(LoginChallenge | LoginAnswer)},
        errors=(E.AUTHENTICATION_FAILED, E.INVALID_CONFIG),
    ),
    Operation(
        method="GET",
        path=paths.USERS,
        id="listUsers",
        tag="Security",
        summary="List the users",
        query=(CONSISTENCY, *PAGE),
        answers={200: json_of(UsersResponse)},
        errors=_QUORUM,
    ),
    Operation(
        method="PUT",
        path=paths.USER,
        id="putUser",
        tag="Security",
        summary="Create a user, or change the password",
        details="Only what verifies the password (SCRAM-SHA-256 and SCRAM-SHA-512, RFC 5802) is stored.",
        body=json_of(PasswordBody),
        answers={200: json_of(UserInfo)},
        errors=_QUORUM,
    ),
    Operation(
        method="DELETE",
        path=paths.USER,
        id="deleteUser",
        tag="Security",
        summary="Delete a user",
        answers={200: json_of(DeletedUser)},
        errors=(*_QUORUM, E.RESOURCE_NOT_FOUND),
    ),
    Operation(
        method="GET",
        path=paths.ACLS,
        id="listAcls",
        tag="Security",
        summary="List the access rules that match",
        details="See [access rules](access-rules.md).",
        query=(*ACL_FILTER, CONSISTENCY, LIMIT),
        answers={200: json_of(AclsResponse)},
        errors=_QUORUM,
    ),
    Operation(
        method="POST",
        path=paths.ACLS,
        id="createAcls",
        tag="Security",
        summary="Add access rules",
        body=json_of(AclsRequest),
        answers={201: json_of(AclsResponse)},
        errors=_QUORUM,
    ),
    Operation(
        method="DELETE",
        path=paths.ACLS,
        id="deleteAcls",
        tag="Security",
        summary="Delete the access rules that match; return them",
        query=ACL_FILTER,
        answers={200: json_of(AclsResponse)},
        errors=_QUORUM,
    ),
    Operation(
        method="GET",
        path=paths.QUOTAS,
        id="listQuotas",
        tag="Security",
        summary="List the quotas",
        details="See [quotas](../how-to/limit-clients.md).",
        query=(CONSISTENCY,),
        answers={200: json_of(QuotasResponse)},
        errors=_QUORUM,
    ),
    Operation(
        method="PATCH",
        path=paths.QUOTAS,
        id="alterQuota",
        tag="Security",
        summary="Change limits of a user, of a client id, or of both together",
        details="A limit of null is removed. The answer has all quotas.",
        body=json_of(QuotaRequest),
        answers={200: json_of(QuotasResponse)},
        errors=_QUORUM,
    ),
    Operation(
        method="GET",
        path=paths.AUDIT,
        id="readAudit",
        tag="Security",
        summary="Return lines of a broker's audit log that match, newest first",
        details="See [the audit log](../how-to/keep-an-audit-log.md#read-it-at-a-broker). A page ends after `limit` "
        "lines, after 16 MiB of the files, or after a million characters; `next` is the `before` of the next one, also "
        "where a page has no lines.",
        query=AUDIT,
        answers={200: json_of(AuditResponse)},
        errors=(E.NOT_FOUND, E.KAFKA_STORAGE_ERROR),
        redirects="the broker in the path",
    ),
)
