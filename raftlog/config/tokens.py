"""The section `[security.tokens]` of a node's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from raftlog.errors import ConfigError

TokenAlgorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"
]
"""Signatures by a private key. With HMAC, a node could make tokens itself; `none` has no signature.

EdDSA is the former name of Ed25519, which most issuers still use."""
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_MAX_LEEWAY_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensConfig:
    """Bearer tokens: JSON web tokens of one issuer (OpenID Connect)."""

    issuer: str
    """The issuer's URL: the claim `iss` of its tokens. Without `jwks_file` and `jwks_url` its keys are found by it."""
    audience: str
    """The name under which the issuer knows this cluster: tokens without it in the claim `aud` are refused."""
    jwks_file: str = ""
    """A file with the issuer's public keys (JWKS), read again when it changes."""
    jwks_url: str = ""
    """The URL of the issuer's public keys; "": found at `<issuer>/.well-known/openid-configuration`."""
    ca_file: str = ""
    """PEM file of the CAs that the issuer's certificate is checked against; "": those of the system."""
    algorithms: tuple[TokenAlgorithm, ...] = ("RS256", "PS256", "ES256", "Ed25519", "EdDSA")
    """Signature algorithms that are accepted."""
    leeway_s: int = 10
    """How far the clocks of issuer and node may differ."""
    principal_claim: str = "sub"
    """The claim with the user's name. Choose one that users cannot change."""
    groups_claim: str = ""
    """The claim with the names of the user's groups; "": tokens have no groups."""
    refresh_s: int = 300
    """How often the keys are fetched: so long a revoked key still counts."""
    max_age_s: int = 86_400
    """Keys that could not be fetched again for this long no longer count."""
    allow_plain: bool = False
    """Whether tokens are accepted without TLS from other machines."""

    def __post_init__(self) -> None:
        if not self.audience:
            raise ConfigError(
                "security.tokens.audience: missing; without it a token for any other service would be accepted"
            )
        if self.jwks_file and self.jwks_url:
            raise ConfigError("security.tokens.jwks_file, jwks_url: expected one of them, received both")
        _require_url("issuer", self.issuer, by_network=not (self.jwks_file or self.jwks_url))
        if self.jwks_url:
            _require_url("jwks_url", self.jwks_url, by_network=True)
        if not self.algorithms:
            raise ConfigError("security.tokens.algorithms: expected at least one, received none")
        if not self.principal_claim:
            raise ConfigError("security.tokens.principal_claim: expected a claim's name, such as sub")
        for name, least, most in (
            ("leeway_s", 0, _MAX_LEEWAY_S),
            ("refresh_s", 1, 86_400),
            ("max_age_s", self.refresh_s, 30 * 86_400),
        ):
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"security.tokens.{name}: expected {least} to {most}, received {getattr(self, name)}")


def is_safe_url(url: str) -> bool:
    """Return whether what is read from a URL is what its server sent: `https`, or a server on this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc or not url.isascii() or not url.isprintable() or " " in url:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in _LOCAL_HOSTS)


def _require_url(name: str, url: str, *, by_network: bool) -> None:
    if not url:
        raise ConfigError(f"security.tokens.{name}: missing; for example https://login.example.org")
    if by_network and not is_safe_url(url):
        raise ConfigError(
            f"security.tokens.{name}: expected https://HOST/PATH (http:// on this machine only), received {url!r:.200}"
        )
