"""The share of an event loop's time that each client address has used, on all listeners of the loop."""

from __future__ import annotations

from collections.abc import Callable

from raftlog.serving.spare_clock import SpareClock

SHARE = 0.15
"""The share of the loop's spare time of one address while others are served; see `SpareClock`."""
UNPACED = float("inf")
"""The share of trusted peers: they only take turns."""
BURST_S = 0.05
"""The computing time that an address may use at once after a pause."""
MAX_DEBT_S = 1.0
"""The longest wait of a request because of computing time that its address has used."""
_MAX_DEBTS = 1_024
"""The most addresses with recorded computing time, before those are dropped that need not wait."""


class LoopShares:
    """Records the computing time of each address; after it has used its share, it must wait.

    A share is one of the time that the loop has to spare. So an address may use less of a loop that is busy with
    records, and on a machine that other processes keep busy.

    Args:
        share: the share of one address.
        now: the clock in seconds; None: a `SpareClock` of the thread that creates this object.
    """

    def __init__(self, share: float = SHARE, *, now: Callable[[], float] | None = None) -> None:
        self._share = share
        self._now = SpareClock().time if now is None else now
        self._free_at: dict[str, float] = {}
        """By address: when its used computing time is within its share again."""

    def charge(self, address: str, seconds: float) -> None:
        """Charge `address` for the computing time of a request, on the loop or in a thread."""
        now = self._now()
        if len(self._free_at) >= _MAX_DEBTS:
            self._free_at = {debtor: free_at for debtor, free_at in self._free_at.items() if free_at > now}
        earliest = now - BURST_S / self._share
        free_at = max(self._free_at.get(address, earliest), earliest) + seconds / self._share
        self._free_at[address] = min(free_at, now + MAX_DEBT_S)

    def wait_s(self, address: str) -> float:
        """Return how long `address` must wait while others are served, in seconds."""
        free_at = self._free_at.get(address)
        return 0.0 if free_at is None else max(0.0, free_at - self._now())
