"""Administration of users, access rules and quotas without async."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from raftlog import client
from raftlog.blocking.facade import Facade
from raftlog.client.options import known_options
from raftlog.client.security import Security
from raftlog.model import Acl, AclOperation, AclResource, Quota
from raftlog.wire.admin import UserInfo


class SecurityAdmin(Facade[client.Admin]):
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
        super().__init__(
            lambda: client.Admin(bootstrap, timeout_ms=timeout_ms, dial=dial, security=security, client_id=client_id)
        )

    def put_user(self, user: str, password: str) -> None:
        """Create a user, or replace the user's password.

        The cluster stores only what verifies the password (SCRAM-SHA-256 and SCRAM-SHA-512), never the password itself.

        Args:
            user: the user's name.
            password: the new password.
        """
        self._run(self._client.put_user, user, password)

    def delete_user(self, user: str) -> None:
        """Delete a user.

        Args:
            user: the user's name.

        Raises:
            NotFoundError: no user has that name.
        """
        self._run(self._client.delete_user, user)

    def users(self, *, local: bool = False) -> list[UserInfo]:
        """Return every user, sorted by name.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return self._run(self._client.users, local=local)

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Create access rules.

        Args:
            acls: the rules; a rule that exists already stays as it is.
        """
        self._run(self._client.create_acls, acls)

    def acls(
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
        return self._run(
            self._client.acls,
            local=local,
            principal=principal,
            operation=operation,
            resource_type=resource_type,
            resource_name=resource_name,
            pattern=pattern,
            permission=permission,
            host=host,
        )

    def delete_acls(
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
        return self._run(
            self._client.delete_acls,
            principal=principal,
            operation=operation,
            resource_type=resource_type,
            resource_name=resource_name,
            pattern=pattern,
            permission=permission,
            host=host,
        )

    def authorizer(self) -> str:
        """Return what a broker does with access rules: `acl` enforces them, `log-only` logs them, `off` ignores them.

        Every node has a setting of its own, `security.authorizer`.
        """
        return self._run(self._client.authorizer)

    def alter_quota(self, limits: Mapping[str, float | None], *, user: str = "", client_id: str = "") -> None:
        """Change some limits of a user, of a client id, or of both together.

        Args:
            limits: new values by the limit's name; None removes a limit. `producer_byte_rate`, `consumer_byte_rate`:
                bytes per second; `request_rate`: requests per second; `request_percentage`: percent of the event
                loop's time. Each broker applies them by itself.
            user: the user's name; `*` means users without a quota of their own. `ANONYMOUS`: clients without
                credentials.
            client_id: the client id; `*` means client ids without a quota of their own.
        """
        self._run(self._client.alter_quota, limits, user=user, client_id=client_id)

    def quotas_enforced_for(self) -> str:
        """Return which clients a broker limits: `users`, `anonymous` or `none`.

        With `security.authorizer = "off"` every client is the user ANONYMOUS, so quotas for other users have no effect.
        Brokers of earlier versions do not enforce quotas.
        """
        return self._run(self._client.quotas_enforced_for)

    def quotas(self, *, local: bool = False) -> list[Quota]:
        """Return every quota.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return self._run(self._client.quotas, local=local)
