"""When a tick examines which groups, so that it examines those only whose time may have come."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import TypeAlias

CheckKey: TypeAlias = tuple[str, str | None]
"""A group and a member: its session in a group of the consumer protocol. A group and None: a classic group."""
Check: TypeAlias = tuple[int, int, CheckKey]
"""The time, the number and the key."""


class Checks:
    """The time of the next check of each key, which is never later than its deadline. Soft state.

    Most deadlines move to later times: a check that comes too early finds the new deadline, and moves there. So only
    what moves a deadline to an earlier time has to call `by` or `soon`. Checks are in the order of their times, and of
    their numbers at the same time: a key that is put back comes after all others that are due.
    """

    def __init__(self) -> None:
        self._entries: dict[CheckKey, Check] = {}
        self._heap: list[Check] = []
        self._number = 0
        self.ticked_ms = 0
        """The time of the newest tick."""

    def __len__(self) -> int:
        return len(self._entries)

    def when(self, key: CheckKey) -> int | None:
        """Return when a key is to be checked; None: it has no check."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def by(self, key: CheckKey, at_ms: int) -> None:
        """Check a key at a time at the latest."""
        known = self._entries.get(key)
        if known is not None and known[0] <= at_ms:
            return
        self._number += 1
        entry = self._entries[key] = (at_ms, self._number, key)
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + 100:  # Mostly entries that others have replaced.
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def soon(self, key: CheckKey) -> None:
        """Check a key at the next tick."""
        self.by(key, self.ticked_ms)

    def begin(self, deadlines: Mapping[CheckKey, int], now_ms: int) -> None:
        """Replace all checks."""
        self.ticked_ms, self._number = now_ms, len(deadlines)
        self._entries = {key: (at_ms, number, key) for number, (key, at_ms) in enumerate(deadlines.items())}
        self._heap = list(self._entries.values())
        heapify(self._heap)

    def take(self, now_ms: int) -> Check | None:
        """Remove the first check that is due, and return it."""
        while self._heap and self._heap[0][0] <= now_ms:
            entry = heappop(self._heap)
            if self._entries.get(entry[2]) is entry:
                del self._entries[entry[2]]
                return entry
        return None

    def restore(self, check: Check) -> None:
        """Undo `take`: the check is the first one again."""
        self._entries[check[2]] = check
        heappush(self._heap, check)

    def is_due(self, now_ms: int) -> bool:
        """Return whether a key may be due."""
        return bool(self._heap) and self._heap[0][0] <= now_ms
