"""Regular expressions from clients, matched by RE2 in time linear in the name (docs/adr/0018).

Python's `re` backtracks: a short pattern could block the broker without end. RE2 has no look-around and no back
references, refuses nested counted repetitions, and bounds the memory of each pattern.
Patterns match whole names; `^` at their start and `$` at their end change nothing.
"""

from __future__ import annotations

from functools import lru_cache

import re2

from raftlog.errors import ErrorCode, InvalidRequestError

MAX_PATTERN = 1_000
MAX_MEMORY_BYTES = 256 << 10
"""The memory of one compiled pattern, its automata included."""
MAX_COMPILED = 256
"""Patterns that stay compiled."""


class Pattern:
    """A compiled pattern.

    Raises:
        InvalidRequestError: INVALID_REGULAR_EXPRESSION, with the reason.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN:
            raise _invalid(f"expected at most {MAX_PATTERN} characters, received {len(text)}")
        options = re2.Options()
        options.max_mem, options.log_errors, options.never_capture = MAX_MEMORY_BYTES, False, True
        try:
            self._regexp = re2.compile(text, options)
        except re2.error as error:
            raise _invalid(f"{_reason(error)}, in {text[:100]!r}") from None
        except UnicodeEncodeError:
            raise _invalid(f"UTF-8 cannot encode {text[:100]!r}") from None

    def matches(self, name: str) -> bool:
        """Return whether the whole name matches."""
        return self._regexp.fullmatch(name) is not None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _invalid(why: str) -> InvalidRequestError:
    return InvalidRequestError(f"pattern: {why}", code=ErrorCode.INVALID_REGULAR_EXPRESSION)


@lru_cache(maxsize=MAX_COMPILED)
def compiled(text: str) -> Pattern:
    """Return the pattern of a text, compiled once."""
    return Pattern(text)
