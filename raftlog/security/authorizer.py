"""The access rules of one metadata image, compiled for decisions (Kafka's StandardAuthorizerData).

- A rule fits a resource by its whole name, by a prefix of it, or as `*`; it fits a host as itself or as `*`.
- It fits a principal as itself, as one of the principal's groups, or as `User:*`.
- Read, write, delete and alter imply describe; alter_configs implies describe_configs. Only allow rules imply.
- One rule that denies wins over all that allow. Without a rule the answer is no.
- Super users and the cluster's own nodes may do everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import get_args

from raftlog.model import EVERYONE, Acl, AclOperation, AclResource, full_principal
from raftlog.security.hosts import canonical_host
from raftlog.security.principal import Principal, is_node

MAX_CACHED = 1 << 15
"""Decisions that are kept; all are dropped when there are more."""
MAX_CACHED_NAME = 256
"""Characters of the names whose decisions are kept. No resource has a longer one, and clients send any."""
_BIT: dict[AclOperation, int] = {
    operation: 1 << number for number, operation in enumerate(name for name in get_args(AclOperation) if name != "all")
}
_ALL = (1 << len(_BIT)) - 1
_DESCRIBED_BY: tuple[AclOperation, ...] = ("read", "write", "delete", "alter")
_Masks = tuple[int, int]
"""The operations that rules allow and deny, as bits."""


@dataclass(slots=True)
class _Rules:
    """The rules of one principal for one kind of resource."""

    literal: dict[str, dict[str, _Masks]] = field(default_factory=dict)
    """By name and host."""
    prefixed: dict[str, dict[str, _Masks]] = field(default_factory=dict)
    """By prefix and host."""
    lengths: tuple[int, ...] = ()
    """The lengths of the prefixes."""

    def masks(self, name: str, host: str) -> _Masks:
        """Return the operations on a resource that rules allow and deny."""
        allowed = denied = 0
        for hosts in (
            self.literal.get(name),
            self.literal.get("*"),
            *(self.prefixed.get(name[:length]) for length in self.lengths if length <= len(name)),
        ):
            if hosts is not None:
                more_allowed, more_denied = _on_host(hosts, host)
                allowed |= more_allowed
                denied |= more_denied
        return allowed, denied


class Authorizer:
    """Decides by the rules of one image. Make a new one when the rules change.

    Args:
        acls: the rules.
        super_users: principals that may do everything, such as `User:admin`.
    """

    def __init__(
        self, acls: Iterable[Acl] = (), *, super_users: Collection[str] = (), max_cached: int = MAX_CACHED
    ) -> None:
        self._super_users = frozenset(map(full_principal, super_users))
        self._rules: dict[tuple[str, AclResource], _Rules] = {}
        self._max_cached = max_cached
        self._cache: dict[tuple[object, ...], bool] = {}
        for acl in acls:
            self._add(acl)
        for rules in self._rules.values():
            rules.lengths = tuple(sorted({len(prefix) for prefix in rules.prefixed}))

    def allowed(
        self, principal: Principal, operation: AclOperation, resource: AclResource, name: str, host: str
    ) -> bool:
        """Return whether a principal may do something to a resource from a host."""
        if len(name) > MAX_CACHED_NAME:
            return self._decide(principal, operation, resource, name, host)
        key = (principal.name, operation, resource, name, host, principal.groups)
        known = self._cache.get(key)
        return self._keep(key, self._decide(principal, operation, resource, name, host)) if known is None else known

    def allowed_somewhere(
        self, principal: Principal, operation: AclOperation, resource: AclResource, host: str
    ) -> bool:
        """Return whether a principal may do something to any resource of a kind (Kafka's authorizeByResourceType)."""
        key = (principal.name, operation, resource, None, host, principal.groups)
        known = self._cache.get(key)
        return self._keep(key, self._decide_somewhere(principal, operation, resource, host)) if known is None else known

    def is_super(self, principal: Principal) -> bool:
        """Return whether no rule is needed: a super user, a member of such a group, or a node of the cluster."""
        return (
            principal.name in self._super_users
            or is_node(principal)
            or not self._super_users.isdisjoint(principal.groups)
        )

    def _add(self, acl: Acl) -> None:
        rules = self._rules.setdefault((full_principal(acl.principal), acl.resource_type), _Rules())
        hosts = (rules.literal if acl.pattern == "literal" else rules.prefixed).setdefault(acl.resource_name, {})
        host = canonical_host(acl.host) or acl.host  # Rules that were stored before spellings were checked.
        allowed, denied = hosts.get(host, (0, 0))
        if acl.permission == "allow":
            allowed |= _implied(acl.operation)
        else:
            denied |= _ALL if acl.operation == "all" else _BIT[acl.operation]
        hosts[host] = allowed, denied

    def _keep(self, key: tuple[object, ...], decision: bool) -> bool:
        if len(self._cache) >= self._max_cached:
            self._cache.clear()
        self._cache[key] = decision
        return decision

    def _rules_for(self, principal: Principal, resource: AclResource) -> list[_Rules]:
        names = (principal.name, *principal.groups, EVERYONE)
        return [rules for name in names if (rules := self._rules.get((name, resource))) is not None]

    def _decide(
        self, principal: Principal, operation: AclOperation, resource: AclResource, name: str, host: str
    ) -> bool:
        if self.is_super(principal):
            return True
        allowed = denied = 0
        for rules in self._rules_for(principal, resource):
            more_allowed, more_denied = rules.masks(name, host)
            allowed |= more_allowed
            denied |= more_denied
        wanted = _ALL if operation == "all" else _BIT[operation]
        return not denied & wanted and allowed & wanted == wanted

    def _decide_somewhere(
        self, principal: Principal, operation: AclOperation, resource: AclResource, host: str
    ) -> bool:
        """Look for an allowed name or prefix whose resources are not all denied."""
        if self.is_super(principal):
            return True
        found, wanted = self._rules_for(principal, resource), _BIT[operation]
        denied_names = {name for rules in found for name, at in rules.literal.items() if _on_host(at, host)[1] & wanted}
        denied_prefixes = {p for rules in found for p, at in rules.prefixed.items() if _on_host(at, host)[1] & wanted}
        if "*" in denied_names:
            return False
        lengths = sorted({len(prefix) for prefix in denied_prefixes})

        def open_to(name: str) -> bool:
            return not any(name[:length] in denied_prefixes for length in lengths if length <= len(name))

        for rules in found:
            for name, hosts in rules.literal.items():
                usable = name == "*" or (name not in denied_names and open_to(name))
                if usable and _on_host(hosts, host)[0] & wanted:
                    return True
            for prefix, hosts in rules.prefixed.items():
                if _on_host(hosts, host)[0] & wanted and open_to(prefix):
                    return True
        return False


def _implied(operation: AclOperation) -> int:
    """Return the operations that a rule allows."""
    if operation == "all":
        return _ALL
    implied = _BIT[operation]
    if operation in _DESCRIBED_BY:
        implied |= _BIT["describe"]
    if operation == "alter_configs":
        implied |= _BIT["describe_configs"]
    return implied


def _on_host(hosts: dict[str, _Masks], host: str) -> _Masks:
    allowed, denied = hosts.get("*", (0, 0))
    if host in hosts and host != "*":
        more_allowed, more_denied = hosts[host]
        return allowed | more_allowed, denied | more_denied
    return allowed, denied
