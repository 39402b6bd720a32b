"""Bearer tokens: the header, the signature and the claims of a JSON web token (RFC 7519, RFC 8725), and its principal.

- The settings say which algorithms count. A key is used with the algorithms of its own kind only, so a token cannot
  choose how it is checked. A key inside a token is never used.
- A token needs an expiry, the issuer and the audience of the settings, and a user's name that rules can name.
- Groups are always `Group:`; no claim makes a node.
"""

from __future__ import annotations

import base64
import math
import re
from dataclasses import dataclass
from typing import Any, get_args

import orjson
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError

from raftlog.config import TokenAlgorithm, TokensConfig
from raftlog.errors import AuthenticationError
from raftlog.security.identity import MAX_GROUPS, ON_BEHALF_OF, Sender, forwarded
from raftlog.security.principal import ANONYMOUS, Principal
from raftlog.security.public_keys import MAX_KEY_ID, PublicKey

CHALLENGE = 'Bearer realm="raftlog", error="invalid_token"'
MAX_HEADER = 2_048
"""Characters of a token's header."""
MAX_FORWARDED = 6_000
"""Bytes of a principal in a request that a broker forwards for it; a header field has 8,190 at most."""
_MAX_NAME = 128
_FORM = re.compile(r"([\w-]+)\.([\w-]+)\.([\w-]+)", re.ASCII)
_NAME = re.compile(rf"[^:]{{1,{_MAX_NAME}}}")
_TYPES = ("", "jwt", "at+jwt", "application/jwt", "application/at+jwt")
"""Kinds of tokens that may be sent with a request. An issuer signs others with the same key, such as logout tokens."""


class _Registry(jws.JWSRegistry):
    """Knows one algorithm, and does not warn about its name: the settings have it (EdDSA, see docs/adr/0031)."""

    max_header_length = MAX_HEADER

    def get_alg(self, name: str) -> Any:
        if self.allowed != [name]:
            raise UnsupportedAlgorithmError(f"expected {self.allowed}, received {name!r}")
        return self.algorithms[name]


_REGISTRIES = {name: _Registry(algorithms=[name], strict_check_header=False) for name in get_args(TokenAlgorithm)}
"""For each algorithm, one that knows no other."""


@dataclass(frozen=True, slots=True)
class TokenHeader:
    """What a token says about its signature; nothing of it is proven."""

    algorithm: str
    key_id: str
    """"": it names no key."""


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """The principal of a token, and its end."""

    principal: Principal
    expires_s: float
    """Seconds since 1970 after which the token no longer counts."""


def refused(reason: str) -> AuthenticationError:
    """Return the error of a token that is refused."""
    return AuthenticationError(f"the token is refused: {reason}", challenge=CHALLENGE)


def read_header(token: str, settings: TokensConfig) -> TokenHeader:
    """Return a token's header.

    Raises:
        AuthenticationError: it is malformed, or its algorithm does not count.
    """
    form = _FORM.fullmatch(token)
    if form is None:
        raise refused("expected a JSON web token: three parts in Base64url, separated by dots")
    if len(form[1]) > MAX_HEADER:
        raise refused(f"expected a header of at most {MAX_HEADER} characters, received {len(form[1])}")
    try:
        header = orjson.loads(_decoded(form[1]))
    except ValueError:
        raise refused("its header is not JSON") from None
    # Texts only: a nested value could exhaust the stack of a decoder, and a key inside a token proves nothing.
    if not isinstance(header, dict) or not all(map(_is_flat, header.values())) or {"crit", "b64"} & header.keys():
        raise refused("its header has fields that are not supported here (crit, b64, jwk)")
    algorithm, key_id, kind = (header.get(name, "") for name in ("alg", "kid", "typ"))
    if not all(isinstance(text, str) and len(text) <= MAX_KEY_ID for text in (algorithm, key_id, kind)):
        raise refused("alg, kid, typ: expected texts")
    if algorithm not in settings.algorithms:
        raise refused(f"alg: expected one of {', '.join(settings.algorithms)}, received {algorithm!r:.40}")
    if kind.lower() not in _TYPES:
        raise refused(f"typ: expected JWT or at+jwt, received {kind!r:.40}")
    return TokenHeader(algorithm, key_id)


def verify(token: str, header: TokenHeader, key: PublicKey, settings: TokensConfig, now_s: float) -> VerifiedToken:
    """Return the principal of a token.

    Args:
        header: of this token, from `read_header`.
        now_s: seconds since 1970.

    Raises:
        AuthenticationError: the signature does not fit, or a claim is missing or wrong.
    """
    try:
        checked = jws.deserialize_compact(token, key.key, registry=_REGISTRIES[header.algorithm])
    except (JoseError, ValueError, TypeError):
        raise refused("its signature does not fit the issuer's key") from None
    try:
        claims = orjson.loads(checked.payload or b"")
    except ValueError:
        claims = None
    if not isinstance(claims, dict):
        raise refused("its claims are not a JSON object")
    return VerifiedToken(_principal(claims, settings), _expiry(claims, settings, now_s))


def _expiry(claims: dict[str, Any], settings: TokensConfig, now_s: float) -> float:
    """Check issuer, audience and times; return when the token ends."""
    if claims.get("iss") != settings.issuer:
        raise refused(f"iss: expected {settings.issuer}, received {claims.get('iss')!r:.200}")
    audience = claims.get("aud")
    if settings.audience not in (audience if isinstance(audience, list) else [audience]):
        raise refused(f"aud: expected {settings.audience}, received {audience!r:.200}")
    ends_s = _time(claims, "exp") + settings.leeway_s
    if now_s >= ends_s:
        raise refused(f"it expired {now_s - ends_s + settings.leeway_s:.0f} s ago; send a new one")
    if "nbf" in claims and now_s < (begins_s := _time(claims, "nbf")) - settings.leeway_s:
        raise refused(f"it counts in {begins_s - now_s:.0f} s only (nbf): compare the clocks of issuer and node")
    return ends_s


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise refused(f"{name}: expected seconds since 1970, received {value!r:.40}")
    return float(value)


def _principal(claims: dict[str, Any], settings: TokensConfig) -> Principal:
    name = claims.get(settings.principal_claim)
    if not _is_name(name) or name == "*" or f"User:{name}" == ANONYMOUS.name:
        raise refused(
            f"{settings.principal_claim}: expected a user's name of at most {_MAX_NAME} printable characters without "
            f"a colon, received {name!r:.80}"
        )
    given = claims.get(settings.groups_claim, []) if settings.groups_claim else []
    groups = given if isinstance(given, list) else [given]
    if len(groups) > MAX_GROUPS or not all(isinstance(group, str) for group in groups):
        raise refused(f"{settings.groups_claim}: expected at most {MAX_GROUPS} names of groups, received {len(groups)}")
    # No rule can name the other groups, so that they neither allow nor deny anything.
    named = sorted({f"Group:{group}" for group in groups if _is_name(group) and group != "*"})
    principal = Principal(f"User:{name}", tuple(named))
    if (size := len(forwarded(Sender(principal))[ON_BEHALF_OF])) > MAX_FORWARDED:
        raise refused(
            f"{settings.groups_claim}: expected names of at most {MAX_FORWARDED} bytes in all, percent-encoded, "
            f"received {size}"
        )
    return principal


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and _NAME.fullmatch(value) is not None


def _is_flat(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return value is None or isinstance(value, str | int | float)


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
