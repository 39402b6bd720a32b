"""Escapes control characters of records on a terminal, where they could move the cursor or hide text.

Records and JSON that go to a pipe are not changed, since programs read them.
"""

from __future__ import annotations

import os
from pathlib import Path

from raftlog.metrics.plain_text import CONTROL, clipped, escaped

__all__ = ["bytes_on_terminal", "clipped", "escaped", "in_one_line", "printable"]


def in_one_line(text: str) -> str:
    """Return `text` in one line: control characters escaped, and also tabs and line feeds."""
    return escaped(text).replace("\t", "\\x09").replace("\n", "\\x0a")


def printable(path: Path) -> str:
    """Return a path as JSON can have it: bytes of its name that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def bytes_on_terminal(content: bytes, *, json: bool) -> bytes:
    """Return what may be written to a terminal in place of `content`; JSON stays JSON."""
    text = content.decode("utf-8", "surrogateescape")
    shown = CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if json else escaped(text)
    return shown.encode()
