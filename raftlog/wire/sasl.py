"""Messages of SASL mechanisms beside SCRAM: PLAIN (RFC 4616) and OAUTHBEARER (RFC 7628). No input or output.

Errors name a field, and never quote a message: it holds a password or a token.
"""

from __future__ import annotations

import base64
from typing import Final, NamedTuple

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MAX_MESSAGE: Final = 16 << 10
"""Bytes of one message: tokens with many claims are long."""
_SEPARATOR: Final = "\x01"


class SaslError(ValueError):
    """A message that does not have the form of its mechanism."""


class Bearer(NamedTuple):
    """A client's message of OAUTHBEARER."""

    token: str
    name: str
    """The user that the client wants to be; empty: that of the token."""


def text_of(message: bytes) -> str:
    """Return a message as text.

    Raises:
        SaslError: it is too long, or not UTF-8.
    """
    if len(message) > MAX_MESSAGE:
        raise SaslError(f"expected a message of at most {MAX_MESSAGE} bytes, received {len(message)}")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise SaslError("expected a message in UTF-8") from None


def basic_of_plain(message: bytes) -> str:
    """Return the `Authorization` header that has the user and the password of a PLAIN message.

    Raises:
        SaslError: it is malformed, or names a user to act for.
    """
    parts = text_of(message).split("\0")
    if len(parts) != 3:
        raise SaslError("expected a user to act for, a user and a password, with a zero byte between them")
    acts_for, user, password = parts
    if not user or ":" in user:
        raise SaslError("expected a user's name without a colon")
    if acts_for not in ("", user):
        raise SaslError("acting for another user is not supported: leave out the authorization id")
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def bearer_of(message: bytes) -> Bearer:
    """Return the token of an OAUTHBEARER message. Extensions are ignored (KIP-342).

    Raises:
        SaslError: it is malformed, or needs channel binding.
    """
    header, separator, rest = text_of(message).partition(_SEPARATOR)
    binding, _, identity = header.partition(",")
    if not separator or binding not in ("n", "y") or not header.endswith(","):
        raise SaslError("expected a message that begins with n,, and the byte 1")
    named = identity.removesuffix(",")
    if named and not named.startswith("a="):
        raise SaslError("expected a= with the authorization id, or nothing, after the first comma")
    if not rest.endswith(_SEPARATOR * 2):
        raise SaslError("expected two bytes 1 at the end")
    given = [pair.partition("=") for pair in rest.removesuffix(_SEPARATOR * 2).split(_SEPARATOR)]
    tokens = [value for name, _, value in given if name == "auth"]
    scheme, _, token = tokens[0].partition(" ") if len(tokens) == 1 else ("", "", "")
    if scheme.lower() != "bearer" or not token.strip():
        raise SaslError("expected one auth=Bearer and a token")
    return Bearer(token.strip(), named.removeprefix("a=").replace("=2C", ",").replace("=3D", "="))
