"""Administration of users, access rules and quotas, and what all administration rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlencode

from raftlog import wire
from raftlog.client.connection import Connection
from raftlog.client.options import known_options
from raftlog.model import Acl, Quota
from raftlog.wire import paths

if TYPE_CHECKING:
    from raftlog.wire.admin import UserInfo

T = TypeVar("T")


class SecurityAdmin:
    """The part of `Admin` that is about who may do what."""

    @known_options
    def __init__(
        self,
        bootstrap: str | Sequence[str] = "http://127.0.0.1:9400",
        *,
        timeout_ms: int = 30_000,
        dial: Mapping[str, str] | None = None,
    ) -> None:
        self._connection = Connection(bootstrap, timeout_ms=timeout_ms, dial=dial)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._connection.close()

    async def put_user(self, user: str, password: str) -> None:
        """Create a user, or give one another password. The cluster keeps only what verifies it (SCRAM-SHA-256)."""
        path = paths.fill(paths.USER, user=user)
        await self._connection.ask_any(
            wire.admin.UserInfo, "PUT", path, message=wire.admin.PasswordBody(password=password)
        )

    async def delete_user(self, user: str) -> None:
        """Forget a user.

        Raises:
            NotFoundError: there is none of that name.
        """
        await self._connection.ask_any(dict[str, Any], "DELETE", paths.fill(paths.USER, user=user), repeatable=False)

    async def users(self, *, local: bool = False) -> list[UserInfo]:
        """Return every user, sorted by name."""
        return list((await self._read(wire.admin.UsersResponse, paths.USERS, local)).users)

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        """Put access rules in force."""
        await self._connection.ask_any(
            wire.admin.AclsRequest, "POST", paths.ACLS, message=wire.admin.AclsRequest(acls=tuple(acls))
        )

    async def acls(self, *, local: bool = False, **wanted: str) -> list[Acl]:
        """Return the access rules whose fields have the values wanted, all of them without any."""
        return list((await self._read(wire.admin.AclsRequest, _with_query(paths.ACLS, wanted), local)).acls)

    async def delete_acls(self, **wanted: str) -> list[Acl]:
        """End the access rules whose fields have the values wanted; return them."""
        path = _with_query(paths.ACLS, wanted)
        return list((await self._connection.ask_any(wire.admin.AclsRequest, "DELETE", path, repeatable=False)).acls)

    async def alter_quota(self, limits: Mapping[str, float | None], *, user: str = "", client_id: str = "") -> None:
        """Change some limits of a user, a client id or both (`*`: of those without their own); None removes one."""
        request = wire.admin.QuotaRequest(user=user, client_id=client_id, limits=limits)
        await self._connection.ask_any(wire.admin.QuotasResponse, "PATCH", paths.QUOTAS, message=request)

    async def quotas(self, *, local: bool = False) -> list[Quota]:
        """Return every quota."""
        return list((await self._read(wire.admin.QuotasResponse, paths.QUOTAS, local)).quotas)

    async def _read(self, cls: type[T], path: str, local: bool) -> T:
        if local:
            path += ("&" if "?" in path else "?") + "consistency=local"
        return await self._connection.ask_any(cls, "GET", path)


def _with_query(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
