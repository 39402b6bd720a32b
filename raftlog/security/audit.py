"""What an audit log says: denials, administrative changes, logins, and sums of reads and writes. No input or output.

- Changes are always written. Requests that changed nothing, and equal denials and logins of one interval, are written
  once, and then as a number.
- One sender gets `MAX_LINES` different lines in an interval, all together `MAX_KEPT`. The rest is a number. So a flood
  fills neither disk nor memory, and hides no change.
- Lines hold names, never records, passwords or tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from raftlog.security.identity import Sender

MAX_LINES = 50
"""Different lines of one principal and address in one interval."""
MAX_KEPT = 5_000
"""Different lines of all senders in one interval, changes apart."""
MAX_SENDERS = 5_000
"""Senders whose further lines are counted one by one; those of all others are counted together."""
MAX_USES = 5_000
"""Sums of reads and writes by topic in one interval. Further ones are counted by principal."""
MAX_USES_OF_ONE = 1_000
"""Of these, sums of one principal."""
MAX_CREDENTIALS = 10_000
"""Credentials whose login was written. The oldest is forgotten first."""
_MAX_ITEMS = 100
_MAX_VALUES = 2_000
"""Values of one line: it is made in 5 ms."""
_MAX_TEXT = 300
_SECRET = ("credential", "password", "salt", "salted_password")
"""Fields of commands that are left out."""
Outcome: TypeAlias = Literal["allowed", "denied", "would_deny", "failed", "unknown"]
Line: TypeAlias = dict[str, object]
_Source: TypeAlias = tuple[str, str]
_Use: TypeAlias = tuple[str, str, str]
"""A principal, an operation and a topic."""


@dataclass(slots=True)
class _Kept:
    """The lines of one sender in one interval."""

    repeats: dict[tuple[object, ...], tuple[Line, int]] = field(default_factory=dict)
    """Lines that were written, and how often they were repeated."""
    more: Counter[str] = field(default_factory=Counter)
    """Lines that were not written, by event."""


@dataclass(slots=True)
class _Uses:
    """Allowed reads and writes of topics in one interval."""

    sums: Counter[_Use] = field(default_factory=Counter)
    topics: Counter[str] = field(default_factory=Counter)
    """By principal, how many of the sums are its."""
    more: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By principal and operation, requests that are in no sum; of senders beyond `MAX_SENDERS` without a principal."""

    def add(self, use: _Use) -> None:
        """Count a request. A principal that uses thousands of topics leaves room for those of others."""
        principal, operation, _ = use
        if use in self.sums:
            self.sums[use] += 1
        elif len(self.sums) < MAX_USES and self.topics[principal] < MAX_USES_OF_ONE:
            self.sums[use] = 1
            self.topics[principal] += 1
        else:
            key = (principal, operation)
            self.more[key if key in self.more or len(self.more) < MAX_SENDERS else ("", operation)] += 1


class AuditTrail:
    """Decides what is written. Call it from one thread only.

    Args:
        node: this node, such as `broker-1`.
        write: takes one line, and never blocks.
        wall_us: returns microseconds since 1970.
    """

    def __init__(self, node: str, write: Callable[[Line], None], wall_us: Callable[[], int]) -> None:
        self._node = node
        self._write = write
        self._wall_us = wall_us
        self._kept: dict[_Source, _Kept] = {}
        self._others = _Kept()
        self._lines = 0
        """The lines in `_kept`."""
        self._uses = _Uses()
        self._credentials: dict[tuple[object, ...], None] = {}
        self._begun = self._time()

    def denied(
        self, sender: Sender, reason: str, *, operation: str = "", resource: str = "", name: str = "", enforced: bool
    ) -> None:
        """Note a request, or one entry of it, that the rules refuse.

        Args:
            enforced: it was refused; otherwise it was served, and logged.
        """
        outcome: Outcome = "denied" if enforced else "would_deny"
        line = self._of_sender("denial", sender) | _resource(operation, resource, name)
        self._sum_up(line | {"outcome": outcome, "reason": reason[:_MAX_TEXT]})

    def changed(
        self,
        sender: Sender,
        *,
        outcome: Outcome,
        name: Mapping[str, str],
        command: object = None,
        reason: str = "",
        request_id: str = "",
        often: bool = False,
        has_effect: bool = True,
    ) -> None:
        """Note an administrative change.

        Args:
            name: the variables of the path: what was changed.
            command: its fields are shown, see `detail_of`.
            often: an application may send such offsets all the time, so those of the same topics are summed up.
            has_effect: it changed something, or may have. All others are summed up: no right is needed to send them,
                and the fields of the first one are shown.
        """
        names = {key: value[:_MAX_TEXT] for key, value in name.items()}
        line = self._of_sender("change", sender) | {"resource": names}
        line |= {"request_id": request_id[:128]} if request_id else {}
        line |= {"outcome": outcome} | ({"reason": reason[:_MAX_TEXT]} if reason else {})
        key = (sender.route, outcome, *names.values())
        if not has_effect:
            self._sum_up(line, key, lambda: _detail(command))
        elif often:
            line |= _detail(command)
            # A reset of one topic must not vanish behind those of another.
            self._sum_up(line, (*key, _topics(command)))
        else:
            self._put(line | _detail(command))

    def logged_in(self, principal: str, address: str, method: str, key: bytes = b"") -> None:
        """Note credentials that are seen for the first time.

        Args:
            key: equal for equal credentials; a keyed hash.
        """
        seen = (principal, address, method, key)
        if seen in self._credentials:
            return
        if len(self._credentials) >= MAX_CREDENTIALS:
            del self._credentials[next(iter(self._credentials))]
        self._credentials[seen] = None
        line: Line = {"event": "login", "principal": principal, "address": address, "method": method}
        self._sum_up(line | {"outcome": "allowed"})

    def login_failed(self, address: str, method: str, reason: str) -> None:
        """Note credentials that were refused."""
        line: Line = {"event": "login", "principal": "", "address": address, "method": method}
        self._sum_up(line | {"outcome": "denied", "reason": reason[:_MAX_TEXT]})

    def used(self, principal: str, operation: str, name: str) -> None:
        """Count an allowed read or write of a topic."""
        self._uses.add((principal, operation, name[:_MAX_TEXT]))

    def end_interval(self) -> None:
        """Write the sums, and begin the next interval."""
        for _ in self.next_interval():
            pass

    def next_interval(self) -> Iterator[None]:
        """Begin the next interval now. Each step of what is returned writes one sum of the last one: there are many."""
        kept, uses, begun = [*self._kept.items(), (("", ""), self._others)], self._uses, self._begun
        self._kept, self._others, self._uses = {}, _Kept(), _Uses()
        self._lines, self._begun = 0, self._time()
        return map(self._put, _sums(kept, uses, begun))

    def _sum_up(self, line: Line, key: tuple[object, ...] = (), more: Callable[[], Line] = dict) -> None:
        """Write a line, if it is new in this interval and its sender has not written too many.

        Args:
            key: equal for equal lines; empty: all of the line.
            more: returns what is written with the line the first time.
        """
        source = (str(line["principal"]), str(line["address"]))
        kept = self._kept.get(source)
        if kept is None:
            if len(self._kept) >= MAX_SENDERS:
                self._others.more[str(line["event"])] += 1
                return
            kept = self._kept[source] = _Kept()
        key = key or tuple(line.values())
        if (known := kept.repeats.get(key)) is not None:
            kept.repeats[key] = line, known[1] + 1
        elif len(kept.repeats) < MAX_LINES and self._lines < MAX_KEPT:
            kept.repeats[key] = line, 0
            self._lines += 1
            self._put(line | more())
        else:
            kept.more[str(line["event"])] += 1

    def _of_sender(self, event: str, sender: Sender) -> Line:
        line: Line = {"event": event, "principal": sender.principal.name, "address": sender.host}
        return line | {"listener": sender.listener, "route": sender.route}

    def _put(self, line: Line) -> None:
        self._write({"time": self._time(), "node": self._node, **line})

    def _time(self) -> str:
        return datetime.fromtimestamp(self._wall_us() / 1e6, UTC).isoformat(timespec="milliseconds")


def _sums(kept: Iterable[tuple[_Source, _Kept]], uses: _Uses, begun: str) -> Iterator[Line]:
    """Yield the lines at the end of an interval."""
    for (principal, address), one in kept:
        for line, count in one.repeats.values():
            if count:
                yield line | {"since": begun, "repeated": count}
        for event, count in one.more.items():
            yield {"event": event, "principal": principal, "address": address, "since": begun, "more": count}
    for (principal, operation, name), count in uses.sums.items():
        used = {"event": "use", "principal": principal, **_resource(operation, "topic", name), "outcome": "allowed"}
        yield used | {"since": begun, "requests": count}
    for (principal, operation), count in uses.more.items():
        used = {"event": "use", "principal": principal, "operation": operation, "resource": "topic"}
        yield used | {"outcome": "allowed", "since": begun, "more": count}


def _resource(operation: str, resource: str, name: str) -> Line:
    return {"operation": operation, "resource": resource, "name": name[:_MAX_TEXT]}


def _detail(command: object) -> Line:
    detail = detail_of(command)
    return {"detail": detail} if detail else {}


def _topics(command: object) -> int:
    """Return a number that is equal for offsets of the same topics."""
    entries = getattr(command, "offsets", ()) or getattr(command, "topics", ())
    names = ("topic", "name", "topic_id")
    return hash(frozenset(tuple(getattr(one, name, "") for name in names) for one in entries))


def detail_of(command: object) -> Line:
    """Return the fields of a command that an audit log shows: of mappings the names only, and never a credential."""
    return _fields_of(command, _Room(_MAX_VALUES)) if is_dataclass(command) else {}


@dataclass(slots=True)
class _Room:
    """How many more values a line may show: a list of 100 entries may have 100 lists of 100."""

    left: int


def _fields_of(command: Any, room: _Room) -> Line:
    given = {each.name: getattr(command, each.name) for each in fields(command) if each.name not in _SECRET}
    return {name: _shown(value, room) for name, value in given.items() if value not in ("", None, (), {})}


def _shown(value: Any, room: _Room) -> object:
    room.left -= 1
    if is_dataclass(value) and not isinstance(value, type):
        return _fields_of(value, room)
    if isinstance(value, Mapping):
        return [str(key)[:_MAX_TEXT] for key in list(value)[:_MAX_ITEMS]]
    if isinstance(value, list | tuple):
        shown = list[object]()
        for item in value[:_MAX_ITEMS]:
            if room.left <= 0:
                break
            shown.append(_shown(item, room))
        return [*shown, f"and {len(value) - len(shown)} more"] if len(value) > len(shown) else shown
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:_MAX_TEXT]
