"""Passwords: SASLprep, SCRAM-SHA-256 credentials (RFC 5802, 7677), and the check of a password against one."""

from __future__ import annotations

import hashlib
import hmac
import stringprep
import unicodedata

from raftlog.errors import InvalidRequestError
from raftlog.model import MIN_SCRAM_ITERATIONS, UserCredential

MAX_PASSWORD_CHARACTERS = 1_024
_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def prepared(password: str) -> str:
    """Return a password in the form that is compared (SASLprep, RFC 4013): equal for all ways to type it.

    Raises:
        InvalidRequestError: it is too long, or has a control character or another one that is not allowed.
    """
    if len(password) > MAX_PASSWORD_CHARACTERS:
        raise InvalidRequestError(
            f"password: expected at most {MAX_PASSWORD_CHARACTERS} characters, received {len(password):,}"
        )
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in password
        if not stringprep.in_table_b1(character)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    if any(is_prohibited(character) for character in normal for is_prohibited in _PROHIBITED):
        raise InvalidRequestError("password: expected no control characters and no private or unassigned ones")
    return normal


def scram_credential(
    user: str, password: str, salt: bytes, *, iterations: int = MIN_SCRAM_ITERATIONS
) -> UserCredential:
    """Return the SCRAM credential of a password (RFC 5802, section 3); it reveals neither password nor client key.

    Raises:
        InvalidRequestError: the password has characters that are not allowed.
    """
    salted = _salted(password, salt, iterations)
    return UserCredential(
        user=user,
        iterations=iterations,
        salt=salt.hex(),
        stored_key=_stored_key(salted).hex(),
        server_key=hmac.digest(salted, b"Server Key", "sha256").hex(),
    )


def is_password_of(credential: UserCredential, password: str) -> bool:
    """Return whether a password belongs to a credential. It takes the credential's rounds of PBKDF2."""
    try:
        salt, stored = bytes.fromhex(credential.salt), bytes.fromhex(credential.stored_key)
    except ValueError:
        return False  # A credential of an earlier version, which did not check it.
    if not salt or credential.iterations < 1 or len(stored) != hashlib.sha256().digest_size:
        return False
    return hmac.compare_digest(_stored_key(_salted(password, salt, credential.iterations)), stored)


def _salted(password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", prepared(password).encode(), salt, iterations)


def _stored_key(salted: bytes) -> bytes:
    return hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
