"""Token buckets, as times: a bucket keeps the moment at which everything that was charged to it is paid.

- A charge moves that moment by `amount / rate`. So each charge has a position in time of its own: senders that share a
  bucket take turns in the order of their charges, whatever their number.
- After a pause, a bucket has a credit of `BURST_S` seconds of its rate, and never more: short delays of a sender do not
  lower the rate that it reaches.
"""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

BURST_S = 0.5
"""The credit after a pause, in seconds of the rate: within 5 % over 10 s."""
MAX_DEBT_S = 86_400.0
"""The longest debt. Only rates far below one request a day reach it."""
_LEAST, _MOST = 1e-9, 1e15
"""Rates beyond these are taken as these, so that times stay numbers."""


class Position(NamedTuple):
    """The moment at which one charge is paid."""

    bucket: Bucket
    at: float
    generation: int
    moved_s: float = 0.0
    """By how much the charge moved that moment; less than its amount takes at the longest debt."""

    def wait_s(self, now: float) -> float:
        """Return the seconds until the charge is paid."""
        return self.bucket.wait_for(self, now)


class Bucket:
    """One rate.

    Args:
        rate: units per second; above 0.
        now: the current time in seconds, of a clock that never goes back.
    """

    __slots__ = ("_carried_at", "_generation", "_paid_at", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = bounded(rate)
        self._paid_at = now - BURST_S
        self._generation = 0
        """Grows with each change of the rate."""
        self._carried_at = self._paid_at
        """When everything is paid that was charged before the last change of the rate."""

    @property
    def rate(self) -> float:
        """Units per second; infinite once the limit was removed."""
        return self._rate

    def wait_s(self, now: float) -> float:
        """Return the seconds until everything is paid."""
        return max(0.0, self._paid_at - now)

    def charge(self, amount: float, now: float) -> Position:
        """Charge some units; return the position of the charge."""
        begins_at = max(self._paid_at, now - BURST_S)
        self._paid_at = max(begins_at, min(begins_at + amount / self._rate, now + MAX_DEBT_S))
        return Position(self, self._paid_at, self._generation, self._paid_at - begins_at)

    def position(self) -> Position:
        """Return the position of the last charge."""
        return Position(self, self._paid_at, self._generation)

    def refund(self, charged: Position, share: float = 1.0) -> Position:
        """Take back a share of a charge, unless the rate has changed since; return the position of the rest."""
        taken_s = share * charged.moved_s
        if charged.generation == self._generation:
            self._paid_at -= taken_s
        return charged._replace(at=charged.at - taken_s, moved_s=charged.moved_s - taken_s)

    def wait_for(self, position: Position, now: float) -> float:
        """Return the seconds until a charge is paid; see `due`."""
        return 0.0 if self._rate == float("inf") else max(0.0, self.due(position) - now)

    def due(self, position: Position) -> float:
        """Return when a charge is paid; after a change of the rate, when all are that were made before it."""
        return position.at if position.generation == self._generation else self._carried_at

    def is_idle(self, now: float) -> bool:
        """Return whether the bucket is like a new one: dropping it changes nothing."""
        return self._paid_at <= now - BURST_S

    def change(self, rate: float, now: float) -> None:
        """Use another rate from now on; the debt stays the same in units."""
        rate = bounded(rate)
        if rate != self._rate:
            owed = self._paid_at - now
            self._paid_at = now + min(MAX_DEBT_S, owed * self._rate / rate if owed > 0 else owed)
            self._rate = rate
            self._carried_at = self._paid_at
            self._generation += 1

    def lift(self) -> None:
        """Remove the limit: every sender that waits may continue."""
        self._rate, self._paid_at, self._carried_at = float("inf"), float("-inf"), float("-inf")
        self._generation += 1


def bounded(rate: float) -> float:
    """Return a rate as buckets take it."""
    return min(max(rate, _LEAST), _MOST) if isfinite(rate) else _MOST
