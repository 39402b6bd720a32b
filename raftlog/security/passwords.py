"""SCRAM verifiers of passwords, and the check of a password against one."""

from __future__ import annotations

import hmac

from raftlog.model import MIN_SCRAM_ITERATIONS, ScramVerifier, UserCredential
from raftlog.wire.scram import KEY_BYTES, SHA_256, SHA_512, salted_password, server_key_of, stored_key_of


def scram_credential(
    user: str,
    password: str,
    salt: bytes,
    sha512_salt: bytes = b"",
    *,
    iterations: int = MIN_SCRAM_ITERATIONS,
) -> UserCredential:
    """Return the SCRAM credential of a password (RFC 5802, section 3); it reveals neither password nor client key.

    Args:
        sha512_salt: the salt of SCRAM-SHA-512; empty: the credential is of SCRAM-SHA-256 only.

    Raises:
        InvalidRequestError: the password has characters that are not allowed.
    """
    verifiers = {SHA_256: verifier_of(SHA_256, salted_password(password, salt, iterations), salt, iterations)}
    if sha512_salt:
        salted = salted_password(password, sha512_salt, iterations, SHA_512)
        verifiers[SHA_512] = verifier_of(SHA_512, salted, sha512_salt, iterations)
    return UserCredential.of(user, verifiers)


def verifier_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramVerifier:
    """Return what is stored of a salted password."""
    return ScramVerifier(
        iterations=iterations,
        salt=salt.hex(),
        stored_key=stored_key_of(salted, mechanism).hex(),
        server_key=server_key_of(salted, mechanism).hex(),
    )


def is_password_of(credential: UserCredential, password: str) -> bool:
    """Return whether a password belongs to a credential, by its first verifier. It takes that one's rounds of PBKDF2.

    The verifiers of a user may be of several passwords: Kafka's tools change one at a time.
    """
    for mechanism, verifier in credential.verifiers.items():
        try:
            salt, stored = bytes.fromhex(verifier.salt), bytes.fromhex(verifier.stored_key)
        except ValueError:
            return False  # A credential of an earlier version, which did not check it.
        if not salt or verifier.iterations < 1 or len(stored) != KEY_BYTES[mechanism]:
            return False
        salted = salted_password(password, salt, verifier.iterations, mechanism)
        return hmac.compare_digest(stored_key_of(salted, mechanism), stored)
    return False
