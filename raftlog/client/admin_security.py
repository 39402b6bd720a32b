"""Administration of users, access rules and quotas, and what all administration rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from urllib.parse import urlencode

from raftlog import wire
from raftlog.client.connection import Connection
from raftlog.client.options import known_options
from raftlog.client.security import Security
from raftlog.errors import ConfigError
from raftlog.model import Acl, AclOperation, AclResource, Quota
from raftlog.wire import paths

if TYPE_CHECKING:
    from raftlog.wire.admin import AclFilter, UserInfo

T = TypeVar("T")


class SecurityAdmin:
    """The part of `Admin` for users, access rules and quotas."""

    @known_options
    def __init__(
        self,
        bootstrap: str | Sequence[str] = "http://127.0.0.1:9400",
        *,
        timeout_ms: int = 30_000,
        dial: Mapping[str, str] | None = None,
        security: Security | None = None,
        client_id: str = "",
    ) -> None:
        self._connection = Connection(
            bootstrap, timeout_ms=timeout_ms, dial=dial, security=security, client_id=client_id
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._connection.close()

    async def put_user(self, user: str, password: str) -> None:
        """Create a user, or replace the user's password.

        The cluster stores only what verifies the password (SCRAM-SHA-256 and SCRAM-SHA-512), never the password itself.

        Args:
            user: the user's name.
            password: the new password.
        """
        path = paths.fill(paths.USER, user=user)
        await self._connection.ask_any(
            wire.admin.UserInfo, "PUT", path, message=wire.admin.PasswordBody(password=password)
        )

    async def delete_user(self, user: str) -> None:
        """Delete a user.

        Args:
            user: the user's name.

        Raises:
            NotFoundError: no user has that name.
        """
        await self._connection.ask_any(dict[str, Any], "DELETE", paths.fill(paths.USER, user=user), repeatable=False)

    async def users(self, *, local: bool = False) -> list[UserInfo]:
        """Return every user, sorted by name.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return list((await self._read(wire.admin.UsersResponse, paths.USERS, local)).users)

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        """Create access rules.

        Args:
            acls: the rules; a rule that exists already stays as it is.
        """
        await self._connection.ask_any(
            wire.admin.AclsResponse, "POST", paths.ACLS, message=wire.admin.AclsRequest(acls=tuple(acls))
        )

    async def acls(
        self,
        *,
        local: bool = False,
        principal: str | None = None,
        operation: AclOperation | None = None,
        resource_type: AclResource | None = None,
        resource_name: str | None = None,
        pattern: Literal["literal", "prefixed"] | None = None,
        permission: Literal["allow", "deny"] | None = None,
        host: str | None = None,
    ) -> list[Acl]:
        """Return the access rules that have all the given values; without any, return every rule.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
            principal: the user's name, or `*`.
            operation: the operation that the rule allows or denies.
            resource_type: the kind of resource.
            resource_name: the resource's name, prefix, or `*`.
            pattern: whether `resource_name` is a whole name or a prefix.
            permission: whether the rule allows or denies.
            host: the client's host, or `*`.
        """
        wanted = wire.admin.AclFilter(
            principal=principal,
            operation=operation,
            resource_type=resource_type,
            resource_name=resource_name,
            pattern=pattern,
            permission=permission,
            host=host,
        )
        return list((await self._read(wire.admin.AclsResponse, _with_query(paths.ACLS, wanted), local)).acls)

    async def delete_acls(
        self,
        *,
        principal: str | None = None,
        operation: AclOperation | None = None,
        resource_type: AclResource | None = None,
        resource_name: str | None = None,
        pattern: Literal["literal", "prefixed"] | None = None,
        permission: Literal["allow", "deny"] | None = None,
        host: str | None = None,
    ) -> list[Acl]:
        """Delete the access rules that have all the given values (without any: every rule), and return them.

        Args:
            principal: the user's name, or `*`.
            operation: the operation that the rule allows or denies.
            resource_type: the kind of resource.
            resource_name: the resource's name, prefix, or `*`.
            pattern: whether `resource_name` is a whole name or a prefix.
            permission: whether the rule allows or denies.
            host: the client's host, or `*`.
        """
        wanted = wire.admin.AclFilter(
            principal=principal,
            operation=operation,
            resource_type=resource_type,
            resource_name=resource_name,
            pattern=pattern,
            permission=permission,
            host=host,
        )
        path = _with_query(paths.ACLS, wanted)
        return list((await self._connection.ask_any(wire.admin.AclsResponse, "DELETE", path, repeatable=False)).acls)

    async def authorizer(self) -> str:
        """Return what a broker does with access rules: `acl` enforces them, `log-only` logs them, `off` ignores them.

        Every node has a setting of its own, `security.authorizer`.
        """
        path = _with_query(paths.ACLS, wire.admin.AclFilter(principal="User:"))  # A principal without rules.
        return (await self._read(wire.admin.AclsResponse, path, local=True)).authorizer

    async def alter_quota(self, limits: Mapping[str, float | None], *, user: str = "", client_id: str = "") -> None:
        """Change some limits of a user, of a client id, or of both together.

        Args:
            limits: new values by the limit's name; None removes a limit. `producer_byte_rate`, `consumer_byte_rate`:
                bytes per second; `request_rate`: requests per second; `request_percentage`: percent of the event
                loop's time. Each broker applies them by itself.
            user: the user's name; `*` means users without a quota of their own. `ANONYMOUS`: clients without
                credentials.
            client_id: the client id; `*` means client ids without a quota of their own.

        Raises:
            ConfigError: a limit is not finite. In JSON it would be null, which removes the limit.
        """
        if odd := [name for name, value in limits.items() if value is not None and not math.isfinite(value)]:
            raise ConfigError(f"{odd[0]}: expected a finite number, or None to remove it, received {limits[odd[0]]}")
        request = wire.admin.QuotaRequest(user=user, client_id=client_id, limits=limits)
        await self._connection.ask_any(wire.admin.QuotasResponse, "PATCH", paths.QUOTAS, message=request)

    async def quotas_enforced_for(self) -> str:
        """Return which clients a broker limits: `users`, `anonymous` or `none`.

        With `security.authorizer = "off"` every client is the user ANONYMOUS, so quotas for other users have no effect.
        Brokers of earlier versions do not enforce quotas.
        """
        return (await self._read(wire.admin.QuotasResponse, paths.QUOTAS, local=True)).enforced_for

    async def quotas(self, *, local: bool = False) -> list[Quota]:
        """Return every quota.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return list((await self._read(wire.admin.QuotasResponse, paths.QUOTAS, local)).quotas)

    async def _read(self, cls: type[T], path: str, local: bool) -> T:
        if local:
            path += ("&" if "?" in path else "?") + "consistency=local"
        return await self._connection.ask_any(cls, "GET", path)


def _with_query(path: str, wanted: AclFilter) -> str:
    query = {name: value for name, value in asdict(wanted).items() if value is not None}
    return f"{path}?{urlencode(query)}" if query else path
