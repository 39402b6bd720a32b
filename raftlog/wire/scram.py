"""SCRAM (RFC 5802, RFC 7677) with SHA-256 or SHA-512: the messages of a login, and the keys of a password. No IO.

1. The client sends its name and a nonce: `n,,n=alice,r=...`.
2. The server answers the whole nonce, the salt and the number of rounds: `r=...,s=...,i=...`.
3. The client proves that it knows the password: `c=biws,r=...,p=...`.
4. The server proves that it knows what verifies the password: `v=...`.

Channel binding is not used. Errors name an attribute, and never quote a message.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from raftlog.wire.saslprep import prepared

SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"
MECHANISM: Final = SHA_256
"""The mechanism of raftlog's own clients."""
KEY_BYTES: Final[Mapping[str, int]] = {SHA_256: 32, SHA_512: 64}
"""The mechanisms, with the bytes of each one's keys, and of its proofs."""
_HASHES: Final = {SHA_256: "sha256", SHA_512: "sha512"}
MAX_MESSAGE = 2_048
"""Characters of a message."""
MIN_NONCE, MAX_NONCE = 8, 256
"""Characters of a client's nonce, and of a whole one."""
MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 10_000_000
"""Rounds of PBKDF2 that a client accepts: fewer make the proof easy to attack, more stop the client."""
MAX_SALT = 1_024
_NONCE = re.compile(r"[!-+\--~]+")
_HEADER = re.compile(r"(n|y|p=[A-Za-z0-9.-]+),([^,]*),")


class ScramError(ValueError):
    """A message that does not fit: malformed, out of range, or of another exchange."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The first message of a client."""

    user: str
    nonce: str
    header: str = "n,,"
    """The GS2 header: whether the client supports channel binding (`y`), or not (`n`)."""
    more: str = ""
    """Attributes that are not known, each with its comma."""

    @property
    def bare(self) -> str:
        """The message without the header."""
        name = self.user.replace("=", "=3D").replace(",", "=2C")
        return f"n={name},r={self.nonce}{self.more}"

    @property
    def text(self) -> str:
        """The message."""
        return self.header + self.bare


class ServerFirst(NamedTuple):
    """The first message of a server."""

    nonce: str
    salt: bytes
    iterations: int
    more: str = ""
    """Attributes that are not known, each with its comma."""

    @property
    def text(self) -> str:
        """The message."""
        return f"r={self.nonce},s={_base64(self.salt)},i={self.iterations}{self.more}"


class ClientFinal(NamedTuple):
    """The last message of a client."""

    nonce: str
    proof: bytes
    without_proof: str
    """The message up to the proof."""


def parse_client_first(text: str) -> ClientFirst:
    """Return the first message of a client.

    Raises:
        ScramError: it is malformed, or needs channel binding or another extension.
    """
    _require_short(text)
    header = _HEADER.match(text)
    if header is None:
        raise ScramError("expected a message that begins with n,, or y,,")
    if header[1].startswith("p="):
        raise ScramError("channel binding (p=) is not supported: begin the message with n,,")
    if header[2]:
        raise ScramError("a=: acting for another user is not supported: begin the message with n,,")
    values = _attributes(text[header.end() :], "nr")
    user = _unescaped(values[0])
    return ClientFirst(user, _nonce(values[1]), header[0], values[2])


def parse_server_first(text: str, client_nonce: str) -> ServerFirst:
    """Return the first message of a server, as a client reads it.

    Raises:
        ScramError: it is malformed, has another nonce, or a number of rounds that weakens or stops the client.
    """
    _require_short(text)
    nonce, salt, rounds, more = _attributes(text, "rsi")
    if not _nonce(nonce).startswith(client_nonce) or len(nonce) < len(client_nonce) + MIN_NONCE:
        raise ScramError("r=: expected the client's nonce with at least 8 more characters")
    if not re.fullmatch(r"[1-9][0-9]{0,9}", rounds) or not MIN_ITERATIONS <= int(rounds) <= MAX_ITERATIONS:
        raise ScramError(f"i=: expected {MIN_ITERATIONS:,} to {MAX_ITERATIONS:,} rounds, received {rounds:.12}")
    return ServerFirst(nonce, _bytes(salt, "s=", 1, MAX_SALT), int(rounds), more)


def parse_client_final(text: str, first: ClientFirst, mechanism: str = MECHANISM) -> ClientFinal:
    """Return the last message of a client.

    Args:
        first: the client's first message.

    Raises:
        ScramError: it is malformed, or does not follow `first`.
    """
    _require_short(text)
    without_proof, _, proof = text.rpartition(",p=")
    binding, nonce, _ = _attributes(without_proof, "cr")
    if binding != _base64(first.header.encode()):
        raise ScramError("c=: expected the header of the first message in Base64")
    if not _nonce(nonce).startswith(first.nonce):
        raise ScramError("r=: expected the nonce of the server's message")
    return ClientFinal(nonce, _bytes(proof, "p=", KEY_BYTES[mechanism], KEY_BYTES[mechanism]), without_proof)


def client_final(first: ClientFirst, answer: ServerFirst, salted: bytes, mechanism: str = MECHANISM) -> tuple[str, str]:
    """Return the last message of a client, and the one that a server which knows the user answers.

    Args:
        salted: from `salted_password`.
    """
    without_proof = f"c={_base64(first.header.encode())},r={answer.nonce}"
    signed = signed_text(first, answer, without_proof)
    key = hmac.digest(salted, b"Client Key", _HASHES[mechanism])
    signature = hmac.digest(_hashed(key, mechanism), signed, _HASHES[mechanism])
    expected = server_final(server_key_of(salted, mechanism), signed, mechanism)
    return f"{without_proof},p={_base64(_xor(key, signature))}", expected


def server_final(server_key: bytes, signed: bytes, mechanism: str = MECHANISM) -> str:
    """Return the last message of a server."""
    return f"v={_base64(hmac.digest(server_key, signed, _HASHES[mechanism]))}"


def signed_text(first: ClientFirst, answer: ServerFirst, without_proof: str) -> bytes:
    """Return the messages that both sides sign."""
    return f"{first.bare},{answer.text},{without_proof}".encode()


def is_proven(stored_key: bytes, signed: bytes, proof: bytes, mechanism: str = MECHANISM) -> bool:
    """Return whether a proof was made with the password of a stored key."""
    key = _xor(proof, hmac.digest(stored_key, signed, _HASHES[mechanism]))
    return hmac.compare_digest(_hashed(key, mechanism), stored_key)


def salted_password(password: str, salt: bytes, iterations: int, mechanism: str = MECHANISM) -> bytes:
    """Return the key of a password from which all others are made. It takes `iterations` rounds of PBKDF2.

    Raises:
        InvalidRequestError: the password has characters that are not allowed.
    """
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], prepared(password).encode(), salt, iterations)


def stored_key_of(salted: bytes, mechanism: str = MECHANISM) -> bytes:
    """Return the key that verifies a client's proof."""
    return _hashed(hmac.digest(salted, b"Client Key", _HASHES[mechanism]), mechanism)


def server_key_of(salted: bytes, mechanism: str = MECHANISM) -> bytes:
    """Return the key with which a server proves that it knows the user."""
    return hmac.digest(salted, b"Server Key", _HASHES[mechanism])


def _hashed(key: bytes, mechanism: str) -> bytes:
    return hashlib.new(_HASHES[mechanism], key).digest()


def _attributes(text: str, names: str) -> tuple[str, ...]:
    """Return the values of attributes that come in this order, and the rest, each attribute with its comma."""
    parts = text.split(",")
    if any(part.startswith("m=") for part in parts):
        raise ScramError("m=: this extension is not supported")
    for name, part in zip(names, parts, strict=False):
        if not part.startswith(f"{name}="):
            raise ScramError(f"expected the attributes {', '.join(f'{name}=' for name in names)} in this order")
    if len(parts) < len(names) or not all(re.match(r"[A-Za-z]=.", part) for part in parts[len(names) :]):
        raise ScramError(f"expected the attributes {', '.join(f'{name}=' for name in names)}, then name=value")
    return (*(part[2:] for part in parts[: len(names)]), "".join(f",{part}" for part in parts[len(names) :]))


def _unescaped(name: str) -> str:
    if not name or re.search("=(?!2C|3D)", name):
        raise ScramError("n=: expected a user's name, with =2C for a comma and =3D for an equals sign")
    return name.replace("=2C", ",").replace("=3D", "=")


def _nonce(text: str) -> str:
    if not _NONCE.fullmatch(text) or not MIN_NONCE <= len(text) <= MAX_NONCE:
        raise ScramError(f"r=: expected {MIN_NONCE} to {MAX_NONCE} printable characters without a comma")
    return text


def _bytes(text: str, name: str, least: int, most: int) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramError(f"{name}: expected Base64") from None
    if not least <= len(decoded) <= most or _base64(decoded) != text:
        raise ScramError(f"{name}: expected {least} to {most} bytes in Base64, received {len(decoded)}")
    return decoded


def _require_short(text: str) -> None:
    if len(text) > MAX_MESSAGE:
        raise ScramError(f"expected at most {MAX_MESSAGE} characters, received {len(text)}")
    if not text.isprintable():
        raise ScramError("expected printable characters only")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(len(one))
