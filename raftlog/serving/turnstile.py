"""Whose request begins next, when more come at once than the event loop should begin in one turn.

Nobody's requests take all of the loop while others are served: an address whose requests have kept it for some time
waits for as long again before its next one begins.
"""

from __future__ import annotations

import asyncio
from collections import deque

PER_TURN = 4
"""Requests that begin in one turn of the loop: each computes for up to a millisecond before it first waits."""
SHARE = 0.25
"""Of the loop's time, for one address while others are served: several brokers may share a machine's cores."""
UNPACED = float("inf")
"""The share of peers that are trusted: they only take turns."""
BURST_S = 0.1
"""What an address may take at once, after a pause."""
MAX_DEBT_S = 1.0
"""No request waits longer than this for what others of its address have taken."""
ACTIVE_S = 1.0
"""An address is being served if it asked within so long."""
_MAX_DEBTS = 1_024
"""Addresses that are remembered, before those are forgotten that owe nothing."""


class Turnstile:
    """Lets a few requests begin in each turn of the loop; addresses take turns, whatever the number of their requests.

    Connections of raw batches do not pass it: they are not kept waiting by those that do.

    Args:
        share: of the loop's time that one address may take while others are served.
    """

    def __init__(self, per_turn: int = PER_TURN, *, share: float = SHARE) -> None:
        self._per_turn = per_turn
        self._share = share
        self._begun = 0
        """How many have begun in this turn."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By address; the one whose turn it is comes first."""
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        """Waits until an address may begin again, when nobody else wants to."""
        self._free_at: dict[str, float] = {}
        """By address: when what it has taken is paid for, by the loop's clock."""
        self._newest, self._newest_at = "", float("-inf")
        self._second_at = float("-inf")
        """When the newest address but one has asked."""

    async def enter(self, address: str) -> None:
        """Begin a request: at once, or in one of the next turns."""
        if self.enter_now(address):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        self._schedule()
        await turn  # One that is cancelled stays in its queue, and is passed over.

    def enter_now(self, address: str) -> bool:
        """Begin a request if it need not wait."""
        self.saw(address)
        if self._waiting or self._begun >= self._per_turn or self._owes(address):
            return False
        self._begun += 1
        self._schedule()
        return True

    def saw(self, address: str) -> None:
        """Learn that `address` is being served, here or without passing the turnstile."""
        now = asyncio.get_running_loop().time()
        if address != self._newest:
            self._newest, self._second_at = address, self._newest_at
        self._newest_at = now

    def took(self, address: str, seconds: float) -> None:
        """Learn how long a request of `address` has kept the loop, or a thread."""
        now = asyncio.get_running_loop().time()
        if len(self._free_at) >= _MAX_DEBTS:
            self._free_at = {debtor: free_at for debtor, free_at in self._free_at.items() if free_at > now}
        free_at = max(self._free_at.get(address, 0.0), now - BURST_S / self._share) + seconds / self._share
        self._free_at[address] = min(free_at, now + MAX_DEBT_S)

    def _owes(self, address: str) -> float:
        """Return for how long requests of `address` wait, in seconds."""
        free_at = self._free_at.get(address)
        if free_at is None:
            return 0.0
        now = asyncio.get_running_loop().time()
        other_at = self._second_at if address == self._newest else self._newest_at
        return max(0.0, free_at - now) if now - other_at < ACTIVE_S else 0.0

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._scheduled = False
        self._begun = 0
        pause = float("inf")
        for address in list(self._waiting):
            if self._begun >= self._per_turn:
                break
            if owes := self._owes(address):
                pause = min(pause, owes)
                continue
            pause = 0.0
            self._begin_one(address)
        if self._begun or pause == 0.0:
            self._schedule()
        elif self._waiting:
            self._wake_in(pause)

    def _begin_one(self, address: str) -> None:
        """Let the oldest request of `address` begin; its others come behind those of all others."""
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
        self._timer = asyncio.get_running_loop().call_later(seconds, self._schedule)
