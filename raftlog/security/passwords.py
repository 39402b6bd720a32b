"""SCRAM-SHA-256 credentials of passwords, and the check of a password against one."""

from __future__ import annotations

import hashlib
import hmac

from raftlog.model import MIN_SCRAM_ITERATIONS, UserCredential
from raftlog.wire.scram import salted_password, server_key_of, stored_key_of


def scram_credential(
    user: str, password: str, salt: bytes, *, iterations: int = MIN_SCRAM_ITERATIONS
) -> UserCredential:
    """Return the SCRAM credential of a password (RFC 5802, section 3); it reveals neither password nor client key.

    Raises:
        InvalidRequestError: the password has characters that are not allowed.
    """
    salted = salted_password(password, salt, iterations)
    return UserCredential(
        user=user,
        iterations=iterations,
        salt=salt.hex(),
        stored_key=stored_key_of(salted).hex(),
        server_key=server_key_of(salted).hex(),
    )


def is_password_of(credential: UserCredential, password: str) -> bool:
    """Return whether a password belongs to a credential. It takes the credential's rounds of PBKDF2."""
    try:
        salt, stored = bytes.fromhex(credential.salt), bytes.fromhex(credential.stored_key)
    except ValueError:
        return False  # A credential of an earlier version, which did not check it.
    if not salt or credential.iterations < 1 or len(stored) != hashlib.sha256().digest_size:
        return False
    return hmac.compare_digest(stored_key_of(salted_password(password, salt, credential.iterations)), stored)
