"""Settings of authentication and authorization."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from raftlog.config.tokens import TokensConfig
from raftlog.errors import ConfigError

AuthorizerMode: TypeAlias = Literal["off", "log-only", "acl"]
_PRINCIPAL = re.compile(r"(User|Group):[^:\x00-\x1f\x7f*]+")

_AUDIT_LIMITS = (("audit_max_bytes", 1 << 16, 1 << 40), ("audit_files", 1, 1_000), ("audit_interval_s", 1, 86_400))


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Authentication and authorization of the requests that this node serves."""

    authorizer: AuthorizerMode = "off"
    """`acl` enforces the access rules, `log-only` logs what they would refuse, `off` serves every request."""
    super_users: tuple[str, ...] = ()
    """Principals that need no rule, as in `User:admin`."""
    cluster_key_file: str = ""
    """A file with at least 32 bytes that all nodes of the cluster share: it proves that a request is a node's.

    "": nodes prove it by certificates with their names."""
    allow_plain_passwords: bool = False
    """Whether passwords are accepted without TLS from other machines."""
    tokens: TokensConfig | None = None
    """Bearer tokens; None: they are refused."""
    audit_file: str = ""
    """The file of the audit log; "": there is none."""
    audit_max_bytes: int = 100 << 20
    """The file is renamed before it grows beyond this."""
    audit_files: int = 10
    """How many files are kept, the current one included."""
    audit_to_log: bool = False
    """Whether lines of the audit log also go to the node's log."""
    audit_interval_s: int = 60
    """How often reads, writes and repeated refusals are summed up."""

    def __post_init__(self) -> None:
        if "User:ANONYMOUS" in self.super_users:
            raise ConfigError("security.super_users: User:ANONYMOUS would let every sender do everything")
        for name in self.super_users:
            if not _PRINCIPAL.fullmatch(name):
                raise ConfigError(f"security.super_users: expected User:NAME or Group:NAME, received {name!r:.80}")
        for name, least, most in _AUDIT_LIMITS:
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"security.{name}: expected {least} to {most}, received {getattr(self, name)}")
        if self.authorizer == "acl" and not self.super_users:
            raise ConfigError(
                'security.super_users: missing; with authorizer = "acl", somebody must be allowed to create rules, '
                "for example super_users = ['User:admin']"
            )

    @property
    def has_audit(self) -> bool:
        """Return whether this node writes an audit log: senders are known only while there is an authorizer."""
        return self.authorizer != "off" and bool(self.audit_file or self.audit_to_log)
