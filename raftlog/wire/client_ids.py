"""Client ids: the name that an application gives its clients, for quotas and for descriptions of groups."""

from __future__ import annotations

import re

MAX_LENGTH = 128
EXPECTED = f"1 to {MAX_LENGTH} characters of ASCII letters, digits and . _ : @ / + - and spaces between them"
CLIENT_ID_PATTERN = "[A-Za-z0-9._:@/+-]+( +[A-Za-z0-9._:@/+-]+)*"
"""A regular expression of client ids, which does not limit their length."""
_CLIENT_ID = re.compile(rf"(?=.{{1,{MAX_LENGTH}}}\Z){CLIENT_ID_PATTERN}")


def is_client_id(text: str) -> bool:
    """Return whether a text can be a client id."""
    return _CLIENT_ID.fullmatch(text) is not None
