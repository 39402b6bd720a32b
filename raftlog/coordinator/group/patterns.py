r"""Regular expressions that clients send and brokers match, in time that is linear in the name (Thompson, 1968).

Python's `re` backtracks: a short pattern can keep it busy for years, and with it the broker. So this knows less:
characters, `.`, classes (`[a-z]`, `[^_]`, `\d`, `\w`), groups, `|`, and `*`, `+`, `?`, `{m}`, `{m,}`, `{m,n}`. It
matches whole names; `^` at its start and `$` at its end change nothing.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from raftlog.errors import ErrorCode, InvalidRequestError

MAX_PATTERN = 1_000
MAX_STATES = 2_000
MAX_COUNT = 1_000
MAX_DEPTH = 40
"""Of groups in groups."""
_ALL = frozenset(string.printable)
_CLASSES = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset(string.whitespace),
}
_CLASSES |= {name.upper(): _ALL - chars for name, chars in list(_CLASSES.items())}
_SPECIAL = frozenset("*+?{}[]()|")


@dataclass(slots=True)
class _State:
    """Reads one of `chars` and goes to the one next state, or (None) goes to all of them without reading."""

    chars: frozenset[str] | None
    following: tuple[int, ...] = ()


_Build: TypeAlias = Callable[[int], int]
"""From the state after a fragment to the state before it."""


class Pattern:
    """A compiled pattern.

    Raises:
        InvalidRequestError: INVALID_REGULAR_EXPRESSION, with the place and the reason.
    """

    def __init__(self, text: str) -> None:
        self._states: list[_State] = []
        parser = _Parser(text, self)
        end = self.add(None)
        self._end, self._start = end, parser.parse()(end)

    def add(self, chars: frozenset[str] | None, *following: int) -> int:
        if len(self._states) >= MAX_STATES:
            raise _invalid("it is too large: counted repetitions multiply")
        self._states.append(_State(chars, following))
        return len(self._states) - 1

    def add_empty(self, after: int) -> int:
        """Add what reads nothing."""
        return self.add(None, after)

    def direct(self, state: int, *following: int) -> None:
        self._states[state].following = following

    def matches(self, name: str) -> bool:
        """Tell whether the whole name fits."""
        at = self._closure((self._start,))
        for char in name:
            reading = (self._states[state] for state in at)
            at = self._closure(s.following[0] for s in reading if s.chars is not None and char in s.chars)
            if not at:
                return False
        return self._end in at

    def _closure(self, states: Iterable[int]) -> set[int]:
        seen, todo = set[int](), list(states)
        while todo:
            state = todo.pop()
            if state not in seen:
                seen.add(state)
                if self._states[state].chars is None:
                    todo += self._states[state].following
        return seen


class _Parser:
    def __init__(self, text: str, pattern: Pattern) -> None:
        if len(text) > MAX_PATTERN:
            raise _invalid(f"it has {len(text)} characters, at most {MAX_PATTERN} are allowed")
        body = text.removeprefix("^")
        self._text = body[:-1] if body.endswith("$") and not body.endswith("\\$") else body
        self._whole = text
        self._at = 0
        self._depth = 0
        self._pattern = pattern

    def parse(self) -> _Build:
        build = self._either()
        if self._at < len(self._text):
            raise self._wrong(f"unexpected {self._text[self._at]!r}")
        return build

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise self._wrong("it ends too early")
        self._at += 1
        return char

    def _either(self) -> _Build:
        options = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            options.append(self._sequence())
        if len(options) == 1:
            return options[0]
        return lambda after: self._pattern.add(None, *(option(after) for option in options))

    def _sequence(self) -> _Build:
        parts: list[_Build] = []
        while self._peek() and self._peek() not in "|)":
            parts.append(self._repeated(self._atom()))
        if not parts:
            return self._pattern.add_empty
        return lambda after: _chained(parts, after)

    def _repeated(self, atom: _Build) -> _Build:
        if not self._peek() or self._peek() not in "*+?{":
            return atom
        mark = self._take()
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(mark) or self._counts()
        if self._peek() and self._peek() in "*+?{":
            raise self._wrong("a repetition is repeated")
        return self._times(atom, least, most)

    def _counts(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        inside = self._text[self._at : end] if end >= 0 else ""
        first, comma, last = inside.partition(",")
        if not first.isdecimal() or (last and not last.isdecimal()) or len(inside) > 9:
            raise self._wrong("expected {m}, {m,} or {m,n}")
        self._at = end + 1
        most = (int(last) if last else None) if comma else int(first)
        if max(int(first), most or 0) > MAX_COUNT:
            raise self._wrong(f"{{{inside}}}: more than {MAX_COUNT}")
        if most is not None and most < int(first):
            raise self._wrong(f"{{{inside}}}: the second number is smaller")
        return int(first), most

    def _times(self, atom: _Build, least: int, most: int | None) -> _Build:
        pattern = self._pattern

        def build(after: int) -> int:
            if most is None:
                loop = pattern.add(None)
                pattern.direct(loop, atom(loop), after)
                state = loop
            else:
                state = after
                for _ in range(most - least):
                    state = pattern.add(None, atom(state), after)
            for _ in range(least):
                state = atom(state)
            return state

        return build

    def _atom(self) -> _Build:
        char = self._take()
        if char == "(":
            if self._text.startswith("?:", self._at):
                self._at += 2
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise self._wrong(f"more than {MAX_DEPTH} groups in each other")
            inside = self._either()
            self._depth -= 1
            if self._peek() != ")":
                raise self._wrong("a group is not closed")
            self._at += 1
            return inside
        if char in _SPECIAL - {"["}:
            raise self._wrong(f"unexpected {char!r}", back=1)
        chars = self._class() if char == "[" else self._escape() if char == "\\" else frozenset(char)
        read = _ALL if char == "." else chars
        return lambda after: self._pattern.add(read, after)

    def _escape(self) -> frozenset[str]:
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char.isalnum():
            raise self._wrong(f"\\{char} is not known here", back=2)
        return frozenset(char)

    def _class(self) -> frozenset[str]:
        negated = self._peek() == "^"
        self._at += negated
        chars: set[str] = set()
        first = True
        while first or self._peek() != "]":
            first = False
            low = self._take()
            if low == "\\":
                chars |= self._escape()
            elif self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                chars.update(map(chr, range(ord(low), ord(self._take()) + 1)))
            else:
                chars.add(low)
        self._at += 1
        return _ALL - chars if negated else frozenset(chars)

    def _wrong(self, why: str, back: int = 0) -> InvalidRequestError:
        return _invalid(f"{why}, at character {self._at - back} of {self._whole[:100]!r}")


def _chained(parts: list[_Build], after: int) -> int:
    for part in reversed(parts):
        after = part(after)
    return after


def _invalid(why: str) -> InvalidRequestError:
    return InvalidRequestError(f"pattern: {why}", code=ErrorCode.INVALID_REGULAR_EXPRESSION)


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    """Return the pattern of a text, compiled once."""
    return Pattern(text)
