"""The security of one node, made from its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raftlog.config import NodeConfig
from raftlog.errors import AuthenticationError, ConfigError
from raftlog.model import Acl, Address, UserCredential
from raftlog.runtime import Clock
from raftlog.security.access import Access
from raftlog.security.authenticators import Authenticators, PlainCredentials
from raftlog.security.guard import Guard
from raftlog.security.logins import LoginKeys, Logins
from raftlog.security.node_audit import NodeAudit
from raftlog.security.node_proof import SCHEME, NodeProofs
from raftlog.security.routes import INTERNAL, PUBLIC, RouteTable
from raftlog.security.session_tokens import SessionTokens
from raftlog.serving.reloads import Reloads

if TYPE_CHECKING:
    from raftlog.security.token_verifier import TokenIssuer


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSecurity:
    """What the controller and the broker of one process share."""

    tokens: TokenIssuer | None = None
    """Verifies bearer tokens; None: they are refused."""
    audit: NodeAudit | None = None
    """The audit log; None: there is none."""

    @classmethod
    def of(cls, config: NodeConfig, clock: Clock) -> SharedSecurity:
        """Make it from a node's settings.

        Raises:
            ConfigError: a library is missing, or a file cannot be used.
        """
        audit = NodeAudit(config, clock) if config.security.has_audit else None
        return cls(tokens=_token_issuer(config, clock), audit=audit)

    async def start(self) -> None:
        """Load the keys of tokens.

        Raises:
            ConfigError, InvalidRequestError: their file cannot be used.
        """
        if self.audit is not None:
            self.audit.start()
        if self.tokens is not None:
            await self.tokens.start()

    async def close(self) -> None:
        """Write the rest of the audit log."""
        if self.tokens is not None:
            await self.tokens.close()
        if self.audit is not None:
            await self.audit.close()

    def add_to(self, reloads: Reloads) -> None:
        """Read and open files again at SIGHUP."""
        if self.audit is not None:
            reloads.add(self.audit.reopen)
        if self.tokens is not None:
            reloads.add(self.tokens.reload)


NOTHING_SHARED = SharedSecurity()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSecurity:
    """What listeners and handlers of one node use. Without an authorizer, `public` and `internal` are None."""

    access: Access
    public: Guard | None
    internal: Guard | None
    proofs: NodeProofs | None
    clock: Clock
    logins: Logins | None
    """Logins by password, also without an authorizer; None: there is no cluster key."""

    def is_node(self, authorization: str | None) -> bool:
        """Return whether a request's `Authorization` is the proof of a node, also without an authorizer."""
        scheme, _, text = (authorization or "").partition(" ")
        if self.proofs is None or scheme.lower() != SCHEME.lower():
            return False
        try:
            self.proofs.verify(text.strip(), self.clock.wall_us() / 1e6)
        except AuthenticationError:
            return False
        return True


def proof_headers(proofs: NodeProofs | None, clock: Clock) -> Callable[[Address], Mapping[str, str]] | None:
    """Return the function that proves this node's requests to other nodes; None without a cluster key."""
    return None if proofs is None else lambda address: proofs.headers(address, clock.wall_us() / 1e6)


def node_security(
    config: NodeConfig,
    clock: Clock,
    *,
    users: Callable[[], Mapping[str, UserCredential]] = dict,
    rules: Callable[[], Iterable[Acl]] = tuple,
    proofs: NodeProofs | None,
    shared: SharedSecurity = NOTHING_SHARED,
) -> NodeSecurity:
    """Return the security of a node.

    Args:
        users: returns the users of the newest image; raises `RetriableError` while there is none.
        rules: returns the rules of the newest image; the same object until they change.
        proofs: from `node_proofs`.
        shared: tokens and the audit log.
    """
    settings = config.security
    audit = None if shared.audit is None else shared.audit.trail
    access = Access(settings.authorizer, rules, super_users=settings.super_users, audit=audit)
    sessions = None if proofs is None else SessionTokens(proofs.derived("session-tokens"))
    logins = None
    if proofs is not None and sessions is not None:
        logins = Logins(
            users,
            clock,
            keys=LoginKeys(proofs.derived("login-nonces"), proofs.derived("unknown-users")),
            tokens=sessions,
            allow_plain=settings.allow_plain_passwords,
            audit=audit,
        )
    if settings.authorizer == "off":
        return NodeSecurity(access=access, public=None, internal=None, proofs=proofs, clock=clock, logins=logins)
    chain = Authenticators(
        users,
        clock,
        proofs=proofs,
        tokens=shared.tokens,
        sessions=sessions,
        allow_plain=PlainCredentials(
            passwords=settings.allow_plain_passwords,
            tokens=settings.tokens is not None and settings.tokens.allow_plain,
        ),
        audit=audit,
    )
    public, internal = (
        Guard(RouteTable(routes), chain, access, cluster_id=config.cluster_id, listener=name)
        for name, routes in (("public", PUBLIC), ("internal", INTERNAL))
    )
    return NodeSecurity(access=access, public=public, internal=internal, proofs=proofs, clock=clock, logins=logins)


def _token_issuer(config: NodeConfig, clock: Clock) -> TokenIssuer | None:
    settings = config.security.tokens
    if settings is None or config.security.authorizer == "off":
        return None
    try:
        from raftlog.security.token_verifier import TokenIssuer  # noqa: PLC0415  (needs raftlog[security])
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"security.tokens: the module {error.name} is not installed; install it with: "
            "pip install 'raftlog[security]'"
        ) from None
    return TokenIssuer(settings, clock)


def node_proofs(config: NodeConfig) -> NodeProofs | None:
    """Return the proofs of a node; None: it has no cluster key.

    Raises:
        ConfigError: the key cannot be read, or is too short.
    """
    path = config.security.cluster_key_file
    if not path:
        return None
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"security.cluster_key_file: cannot read {path}: {error.strerror}") from error
    kind = "Broker" if config.is_broker else "Controller"
    addresses = [config.listeners.internal, config.listeners.public, config.advertised.internal]
    addresses += [config.advertised.public]
    addresses += [voter.internal for voter in config.quorum.voters if voter.node_id == config.node_id]
    return NodeProofs(
        key, config.cluster_id, f"{kind}:{config.node_id}", {address.authority for address in addresses if address}
    )
