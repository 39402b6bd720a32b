"""Decisions of one node: the mode of its authorizer, the rules of its newest image, and errors for refusals."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from raftlog.config import AuthorizerMode
from raftlog.errors import AuthenticationError, AuthorizationError, RaftlogError
from raftlog.model import CLUSTER_RESOURCE, Acl, AclOperation, AclResource
from raftlog.security.audit import AuditTrail
from raftlog.security.authorizer import Authorizer
from raftlog.security.identity import Sender
from raftlog.security.principal import ANONYMOUS, Principal, is_node

_log = logging.getLogger(__name__)
_MAX_LOGGED = 10_000
_SHOWN_NAME = 300
"""Characters of a name in the log, and in what is remembered of it: clients send any."""


class Access:
    """What senders may do on this node.

    Args:
        mode: `acl` refuses, `log-only` logs what it would refuse, `off` allows everything.
        rules: returns the access rules of the newest image: the same object until they change.
        audit: notes refusals, and counts reads and writes of topics; None: there is no audit log.
    """

    def __init__(
        self,
        mode: AuthorizerMode = "off",
        rules: Callable[[], Iterable[Acl]] = tuple,
        *,
        super_users: Iterable[str] = (),
        audit: AuditTrail | None = None,
    ) -> None:
        self.mode = mode
        self.is_off = mode == "off"
        self._rules = rules
        self.audit = audit
        self._super_users = tuple(super_users)
        self._compiled: Iterable[Acl] = ()
        self._authorizer = Authorizer(super_users=self._super_users)
        self._logged: set[tuple[str, ...]] = set()
        self.refused = 0
        """The requests and entries that were refused, or would be."""

    def may(self, sender: Sender, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Return whether a sender may do something; with `log-only`, log a refusal and return True."""
        if self.is_off:
            return True
        if self._current().allowed(sender.principal, operation, resource, name, sender.host):
            if self.audit is not None and resource == "topic" and operation in ("read", "write"):
                self.audit.used(sender.principal.name, operation, name)
            return True
        return self._refuses(sender, operation, resource, name)

    def sees(self, sender: Sender, resource: AclResource, name: str) -> bool:
        """Return whether a listing shows a resource to a sender: what it may not describe is left out, unlogged."""
        return self.allows(sender, "describe", resource, name)

    def allows(self, sender: Sender, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Return whether the rules that are enforced allow something: for a list of a sender's rights, unlogged."""
        return self.mode != "acl" or self._current().allowed(sender.principal, operation, resource, name, sender.host)

    def would_allow(self, sender: Sender, operation: AclOperation, resource: AclResource, name: str) -> bool:
        """Return whether a request would be served; nothing is logged or counted."""
        return self.mode != "acl" or self._current().allowed(sender.principal, operation, resource, name, sender.host)

    def sees_all(self, sender: Sender) -> bool:
        """Return whether listings need no check of each entry."""
        return self.mode != "acl" or self._current().is_super(sender.principal)

    def require(
        self, sender: Sender, operation: AclOperation, resource: AclResource, name: str = CLUSTER_RESOURCE
    ) -> None:
        """Raise if a sender may not do something. The error does not depend on whether the resource exists.

        Raises:
            AuthenticationError: the sender has no credentials.
            AuthorizationError: no rule allows it, or one denies it.
        """
        if not self.may(sender, operation, resource, name):
            raise refusal(sender, operation, resource, name)

    def may_somewhere(self, sender: Sender, operation: AclOperation, resource: AclResource) -> bool:
        """Return whether a sender may do something to any resource of a kind; nothing is logged."""
        return self.is_off or self._current().allowed_somewhere(sender.principal, operation, resource, sender.host)

    def require_one_of(self, sender: Sender, *wanted: tuple[AclOperation, AclResource, str]) -> None:
        """Raise if a sender may do none of several things; the error names the first.

        Raises:
            AuthenticationError, AuthorizationError: see `require`.
        """
        if self.is_off:
            return
        rules, principal = self._current(), sender.principal
        if not any(rules.allowed(principal, *one, sender.host) for one in wanted):
            self.require(sender, *wanted[0])

    def require_producer(self, sender: Sender) -> None:
        """Raise if a sender may not be an idempotent producer: write to any topic, or idempotent_write (KIP-679)."""
        if self.is_off:
            return
        rules, principal = self._current(), sender.principal
        if rules.allowed(principal, "idempotent_write", "cluster", CLUSTER_RESOURCE, sender.host):
            return
        if not rules.allowed_somewhere(principal, "write", "topic", sender.host):
            self.require(sender, "idempotent_write", "cluster")

    def require_node(self, sender: Sender) -> None:
        """Raise if a sender is not a node of the cluster, and has no right to act as one (cluster_action).

        Raises:
            AuthenticationError: it has no credentials.
            AuthorizationError: it is a user without the right.
        """
        if self.is_off or is_node(sender.principal):
            return
        rules = self._current()
        if rules.allowed(sender.principal, "cluster_action", "cluster", CLUSTER_RESOURCE, sender.host):
            return
        kind = AuthenticationError if sender.principal == ANONYMOUS else AuthorizationError
        error = kind(
            "internal listeners serve nodes of the cluster: security.cluster_key_file must be the same on all nodes, "
            "or each node's certificate must name it, as in spiffe://CLUSTER_ID/broker/1; "
            f"the request is from {sender.principal.name}, which has no right to cluster_action"
        )
        if self._is_enforced(sender, ("cluster_action", "cluster", ""), error.message):
            raise error

    def require_broker(self, sender: Sender, broker_id: int) -> None:
        """Raise if a sender is not the broker that its request names. No right replaces that.

        Raises:
            AuthorizationError: it is another node, or a user.
        """
        name = sender.principal.name
        if self.is_off or name == f"Broker:{broker_id}":
            return
        message = f"the request names broker {broker_id}, and is from {name}"
        if self._is_enforced(sender, ("", "broker", str(broker_id)), message):
            raise AuthorizationError(message)

    def require_own_proof(self, sender: Sender, certificate: Principal | None) -> None:
        """Raise if a node's proof names another node than its certificate: all nodes share the key of proofs.

        Args:
            certificate: the principal of the connection's certificate; None: it has none.

        Raises:
            AuthorizationError: the two contradict each other.
        """
        if certificate is None or self.is_off or not (is_node(certificate) and is_node(sender.principal)):
            return
        # A controller and a broker in one process have one id, and may have one certificate.
        if certificate.name.partition(":")[2] == sender.principal.name.partition(":")[2]:
            return
        message = f"the proof is of {sender.principal.name}, and the certificate of {certificate.name}"
        if self._is_enforced(replace(sender, principal=certificate), ("", "broker", ""), message):
            raise AuthorizationError(message)

    def require_login(self, sender: Sender) -> None:
        """Raise if a sender has no credentials.

        Raises:
            AuthenticationError: it has none.
        """
        if self.is_off or sender.principal != ANONYMOUS:
            return
        error = AuthenticationError("the request needs credentials, and has none")
        if self._is_enforced(sender, ("", "", ""), error.message):
            raise error

    def excuses(self, error: RaftlogError) -> bool:
        """Return whether a request with wrong credentials is served as one without: in `log-only`, which logs it."""
        self.refused += 1
        if self.mode == "acl":
            return False
        self._log(("credentials", error.message[:100]), error.message)
        return True

    def _current(self) -> Authorizer:
        rules = self._rules()
        if rules is not self._compiled:
            self._compiled, self._authorizer = rules, Authorizer(rules, super_users=self._super_users)
        return self._authorizer

    def _refuses(self, sender: Sender, operation: AclOperation, resource: AclResource, name: str) -> bool:
        message = f"{sender.principal.name} may not {operation} {resource} {name!r:.300}"
        return not self._is_enforced(sender, (operation, resource, name), message)

    def _is_enforced(self, sender: Sender, wanted: tuple[str, str, str], message: str) -> bool:
        """Count a refusal; log it once if it is not enforced.

        Args:
            wanted: the operation, the kind of resource, and its name.
        """
        self.refused += 1
        is_enforced = self.mode == "acl"
        if self.audit is not None:
            operation, resource, name = wanted
            self.audit.denied(sender, message, operation=operation, resource=resource, name=name, enforced=is_enforced)
        if not is_enforced:
            self._log((sender.principal.name, *(part[:_SHOWN_NAME] for part in wanted)), message)
        return is_enforced

    def _log(self, key: tuple[str, ...], message: str) -> None:
        """Log a refusal that is not enforced, once for each key."""
        if key not in self._logged:
            if len(self._logged) >= _MAX_LOGGED:
                self._logged.clear()
            self._logged.add(key)
            _log.warning("served, and refused once security.authorizer is acl: %s", message)


class TopicReads:
    """The reads of one request. A long poll reads again and again: each topic is noted once, unless its rules change.

    Args:
        access: the node's decisions.
        sender: of the request.
    """

    def __init__(self, access: Access, sender: Sender) -> None:
        self._access = access
        self._sender = sender
        self._known: dict[str, bool] = {}

    def require(self, topic: str) -> None:
        """Raise if the sender may not read a topic now.

        Raises:
            AuthenticationError, AuthorizationError: see `Access.require`.
        """
        known = self._known.get(topic)
        if known is not None and known == self._access.allows(self._sender, "read", "topic", topic):
            if known:
                return
            raise refusal(self._sender, "read", "topic", topic)
        self._known[topic] = False
        self._access.require(self._sender, "read", "topic", topic)
        self._known[topic] = True


def refusal(sender: Sender, operation: AclOperation, resource: AclResource, name: str) -> RaftlogError:
    """Return the error of a refused operation."""
    if sender.principal == ANONYMOUS:
        return AuthenticationError(
            f"to {operation} {_named(resource, name)} needs credentials, and the request has none"
        )
    return AuthorizationError(
        f"{sender.principal.name} may not {operation} {_named(resource, name)}; an administrator can allow it with "
        "raftlog acls create"
    )


def _named(resource: AclResource, name: str) -> str:
    return "the cluster" if resource == "cluster" else f"{resource.replace('_', ' ')} {name!r:.300}"
