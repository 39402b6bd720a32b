"""Escapes control characters of records on a terminal, where they could move the cursor or hide text.

Output to a pipe is not changed, since programs read it.
"""

from __future__ import annotations

import sys

from raftlog.metrics.plain_text import CONTROL, clipped, escaped

__all__ = ["bytes_on_terminal", "clipped", "escaped", "on_terminal"]


def on_terminal(text: str) -> str:
    """Return `text` as it may be printed on standard output: escaped, if that is a terminal."""
    return escaped(text) if sys.stdout.isatty() else text


def bytes_on_terminal(content: bytes, *, json: bool) -> bytes:
    """Return what may be written to a terminal in place of `content`; JSON stays JSON."""
    text = content.decode("utf-8", "surrogateescape")
    shown = CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) if json else escaped(text)
    return shown.encode()
