"""Fair queueing of requests by client address, called a turnstile: decides which request begins next.

- A few requests begin in each iteration of the event loop. Addresses take turns, whatever their number of requests.
- While others are served, an address gets at most its share of the loop's time: after its requests have computed for
  some time, its next one waits.
"""

from __future__ import annotations

import asyncio
from collections import deque

from raftlog.serving.loop_shares import LoopShares

PER_TURN = 4
"""Requests that begin in one iteration of the loop: each computes for up to a millisecond before it first awaits."""
ACTIVE_S = 1.0
"""An address is being served if it sent a request within this time."""


class Turnstile:
    """Queues requests by address; see the module's docstring. Requests of raw batches do not wait here.

    It belongs to the event loop that runs when it is created.

    Args:
        shares: the computing time of each address, recorded for all turnstiles of the loop; None: of its own.
        per_turn: the requests that begin in one iteration of the loop.
    """

    def __init__(self, shares: LoopShares | None = None, *, per_turn: int = PER_TURN) -> None:
        self._loop = asyncio.get_running_loop()
        self._shares = LoopShares() if shares is None else shares
        self._per_turn = per_turn
        self._begun = 0
        """The requests that have begun since `_next_turn` ran last: it runs once these are `per_turn`."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By address; the next address comes first."""
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        """Set while all waiting addresses have used up their share."""
        self._newest, self._newest_at = "", float("-inf")
        self._second_at = float("-inf")
        """The time of the last request of any address other than the newest."""

    async def enter(self, address: str) -> None:
        """Wait until a request of `address` may begin."""
        if self.try_enter(address):
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        self._schedule()
        await turn  # A cancelled one stays in its queue, and is skipped.

    def try_enter(self, address: str) -> bool:
        """Begin a request if it need not wait; return whether it began."""
        self.mark_active(address)
        if self._waiting or self._begun >= self._per_turn or self.wait_s(address):
            return False
        self._begun += 1
        if self._begun >= self._per_turn:
            self._schedule()  # Not for each request: an iteration of the loop costs a system call.
        return True

    def mark_active(self, address: str) -> None:
        """Record that `address` is being served, here or on a path without a turnstile."""
        now = self._loop.time()
        if address != self._newest:
            self._newest, self._second_at = address, self._newest_at
        self._newest_at = now

    def charge(self, address: str, seconds: float) -> None:
        """Charge `address` for the computing time of a request, on the loop or in a thread."""
        self._shares.charge(address, seconds)

    def wait_s(self, address: str) -> float:
        """Return how long the next request of `address` must wait, in seconds."""
        wait_s = self._shares.wait_s(address)
        if not wait_s:
            return 0.0
        other_at = self._second_at if address == self._newest else self._newest_at
        return wait_s if self._loop.time() - other_at < ACTIVE_S else 0.0

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._scheduled = False
        self._begun = 0
        pause = float("inf")
        for address in list(self._waiting):
            if self._begun >= self._per_turn:
                break
            if wait_s := self.wait_s(address):
                pause = min(pause, wait_s)
                continue
            pause = 0.0
            self._begin_one(address)
        if self._begun or pause == 0.0:
            self._schedule()
        elif self._waiting:
            self._wake_in(pause)

    def _begin_one(self, address: str) -> None:
        """Begin the oldest request of `address`, and move the address to the end of the queue."""
        queue = self._waiting.pop(address)
        turn = queue.popleft()
        if queue:
            self._waiting[address] = queue
        if not turn.done():
            turn.set_result(None)
            self._begun += 1

    def _wake_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._schedule)
