"""The form in which passwords are compared (SASLprep, RFC 4013)."""

from __future__ import annotations

import stringprep
import unicodedata

from raftlog.errors import InvalidRequestError

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
    """Return a password in the form that is compared: equal for all ways to type it.

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
