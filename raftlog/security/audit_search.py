"""Which lines of an audit log a reader wants, and how they are shown. No input or output.

Lines are read as foreign input: a file may have been damaged, or edited. Every field is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import orjson

from raftlog.wire.audit import AuditEntry

UNREADABLE = "unreadable"
MAX_LINE = 4_096
"""Characters of a line that are shown."""
_MAX_TEXT = 300
_MAX_DEPTH = 8
_ANY = "all"
LATEST_MS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """The lines that a reader wants."""

    principal: str = ""
    """A text in the sender's name, whatever its case."""
    resource: str = ""
    """A text in the name of a resource, also of those in the fields of a change."""
    outcome: str = _ANY
    event: str = _ANY
    since_ms: int = 0
    """Lines of this time or later."""
    until_ms: int = LATEST_MS
    """Lines before this time."""

    @property
    def is_all(self) -> bool:
        """Whether every line fits, damaged ones among them."""
        return self == AuditFilter()

    def fits(self, line: Mapping[str, object], at_ms: int) -> bool:
        """Return whether a line fits.

        Args:
            at_ms: its time; -1: unknown.
        """
        if self.outcome not in (_ANY, line.get("outcome")) or self.event not in (_ANY, line.get("event")):
            return False
        if not self.since_ms <= max(at_ms, 0) < self.until_ms:
            return False
        if self.principal and self.principal.casefold() not in _text(line.get("principal")).casefold():
            return False
        wanted = self.resource.casefold()
        named = (line.get(name) for name in ("name", "resource", "detail"))
        return not wanted or any(wanted in text.casefold() for part in named for text in _texts(part))


@dataclass(slots=True)
class Found:
    """What one piece of a file has."""

    entries: list[AuditEntry] = field(default_factory=list)
    """The lines that fit, newest first."""
    begin: int = 0
    """Where the lines begin that were not looked at: those before this byte of the file."""
    reached: str = ""
    """The time of the oldest line that was looked at."""
    is_full: bool = False
    """Whether the page has no space for more."""
    is_over: bool = False
    """Whether all further lines are older than the reader wants."""


def search(piece: bytes, start: int, wanted: AuditFilter, *, lines: int, room: int) -> Found:
    """Look at the whole lines of a piece, from its end.

    Args:
        piece: bytes of a file. What follows the last line feed is the begin of a line that was not finished, or of one
            that is longer than a piece; it is left out.
        start: where in the file the piece begins. Unless this is 0, the first line may be cut, and is left.
        lines: return at most so many.
        room: return no more after so many characters of lines.
    """
    first, found, newest_ms = 0 if start == 0 else piece.find(b"\n") + 1, Found(begin=start), -1
    end = piece.rfind(b"\n") + 1
    if start and end and first == end == len(piece):  # Nothing else than the end of one very long line.
        note = f"a line of more than {len(piece):,} bytes, which is not shown"
        found.entries += [_unreadable(note)] if wanted.is_all else []
        return found
    at = start + end
    found.begin = start + first if first else start
    for raw in _backwards(piece, first, end):
        at -= len(raw) + 1
        if not raw:
            continue
        line = _parsed(raw)
        at_ms = -1 if line is None else time_ms(line)
        if line is not None and at_ms >= 0:
            newest_ms = max(newest_ms, at_ms)
            found.reached = _text(line.get("time"))
        if wanted.is_all if line is None else wanted.fits(line, at_ms):
            found.entries.append(_entry(raw, line))
            room -= min(len(raw), MAX_LINE)
            if len(found.entries) >= lines or room <= 0:
                found.begin, found.is_full = at, True
                return found
    found.is_over = 0 <= newest_ms < wanted.since_ms
    return found


def time_of_first_line(piece: bytes) -> tuple[int, int]:
    """Return the time in ms of the first whole line with one, after the first line feed, and where it begins; or -1."""
    begin = piece.find(b"\n") + 1
    while begin and (end := piece.find(b"\n", begin)) >= 0:
        line = _parsed(piece[begin:end])
        if line is not None and (at_ms := time_ms(line)) >= 0:
            return at_ms, begin
        begin = end + 1
    return -1, -1


def time_ms(line: Mapping[str, object]) -> int:
    """Return a line's time in ms since 1970; -1 if it has none."""
    try:
        return int(datetime.fromisoformat(str(line.get("time"))).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return -1


def _backwards(piece: bytes, first: int, end: int) -> Iterator[bytes]:
    while end > first:
        begin = piece.rfind(b"\n", first, end - 1) + 1 or first
        yield piece[begin : end - 1]
        end = begin


def _parsed(raw: bytes) -> Mapping[str, object] | None:
    try:
        line = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return line if isinstance(line, dict) else None


def _entry(raw: bytes, line: Mapping[str, object] | None) -> AuditEntry:
    shown = raw[: 4 * MAX_LINE].decode("utf-8", "replace")[:MAX_LINE]
    if line is None:
        return _unreadable(shown)
    event, route = line.get("event"), _text(line.get("route"))
    names = dict.fromkeys(text for part in (line.get("resource"), line.get("name")) for text in _texts(part))
    if event == "change":
        operation, names = route, names or dict.fromkeys(_texts(line.get("detail")))
    else:
        operation = _text(line.get("method" if event == "login" else "operation")) or route
    return AuditEntry(
        time=_text(line.get("time")),
        node=_text(line.get("node")),
        event=_text(line.get("event")),
        principal=_text(line.get("principal")),
        address=_text(line.get("address")),
        operation=operation,
        resource=" ".join(filter(None, names))[:_MAX_TEXT],
        outcome=_text(line.get("outcome")),
        reason=_text(line.get("reason")),
        line=shown,
    )


def _unreadable(line: str) -> AuditEntry:
    empty = dict.fromkeys(("time", "node", "principal", "address", "operation", "resource", "outcome", "reason"), "")
    return AuditEntry(event=UNREADABLE, line=line, **empty)


def _text(value: object) -> str:
    return str(value)[:_MAX_TEXT] if isinstance(value, str | int | float) else ""


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    """Yield the texts in a value of JSON; not those of very deep ones."""
    if isinstance(value, str):
        yield value
    elif depth < _MAX_DEPTH and isinstance(value, dict):
        for each in value.values():
            yield from _texts(each, depth + 1)
    elif depth < _MAX_DEPTH and isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, depth + 1)
