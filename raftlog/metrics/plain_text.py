"""Texts of peers, files and the system in one line, without control characters. Pure."""

from __future__ import annotations

import re

MAX_TEXT = 400
"""Characters of a text that a peer, a file or the system has given, in a report."""
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}\udc80-\udcff]")
"""C0 and C1 except tab and line feed, characters that change the text direction, and bytes that are not UTF-8."""


def escaped(text: str) -> str:
    """Return `text` with each control character as a backslash, an x (or u) and its number."""
    return CONTROL.sub(lambda found: _name(found[0]), text)


def clipped(text: object, most: int = MAX_TEXT) -> str:
    """Return a text of a peer in one line, without control characters and of at most `most` characters."""
    line = escaped(" ".join(str(text)[: 4 * most].split()))
    return line if len(line) <= most else line[: most - 3] + "..."


def _name(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00  # A byte that was no UTF-8, as `surrogateescape` keeps it.
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
