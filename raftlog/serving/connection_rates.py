"""Limits how many connections of a listener begin in a second, in all and from one address (KIP-612).

A connection above a rate waits: nothing is read from it, and its TLS handshake does not begin. One that would wait for
longer than `MAX_WAIT_S` is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from raftlog.errors import OverloadedError
from raftlog.serving.rates import Bucket

MAX_WAIT_S = 2.0
_MAX_ADDRESSES = 10_000
_OTHERS = ""
"""Stands for the addresses that share a bucket, because too many connect."""


class ConnectionRates:
    """The rates of one listener; without `limit` there is none.

    Args:
        on_delay: called with the seconds for which a connection waits.
        on_refused: called when one is refused.
    """

    def __init__(
        self,
        *,
        on_delay: Callable[[float], None] = lambda _: None,
        on_refused: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_delay = on_delay
        self._on_refused = on_refused
        self._now = now
        self._total: Bucket | None = None
        self._rate_per_address: float | None = None
        self._by_address: dict[str, Bucket] = {}
        self._swept_at = float("-inf")

    def limit(self, *, total: float | None, per_address: float | None) -> None:
        """Use these rates from now on; None: no limit."""
        now = self._now()
        if total is None:
            self._total = None
        elif self._total is None:
            self._total = Bucket(total, now)
        else:
            self._total.change(total, now)
        self._rate_per_address = per_address
        if per_address is None:
            self._by_address.clear()
        else:
            for bucket in self._by_address.values():
                bucket.change(per_address, now)

    def enter(self, address: str) -> float:
        """Count a new connection; return for how many seconds it waits.

        Raises:
            OverloadedError: for too long; it was not counted.
        """
        if self._total is None and self._rate_per_address is None:
            return 0.0
        now = self._now()
        buckets = [bucket for bucket in (self._total, self._bucket_of(address, now)) if bucket is not None]
        wait_s = max(bucket.wait_s(now) for bucket in buckets)
        if wait_s > MAX_WAIT_S:
            self._on_refused()
            raise OverloadedError(
                f"connections begin too often, {address} must wait {wait_s:.1f} s: keep connections open, or raise "
                "max_connection_rate or max_connection_rate_per_address"
            )
        for bucket in buckets:
            bucket.charge(1.0, now)
        if wait_s:
            self._on_delay(wait_s)
        return wait_s

    def _bucket_of(self, address: str, now: float) -> Bucket | None:
        if self._rate_per_address is None:
            return None
        if address not in self._by_address and len(self._by_address) >= _MAX_ADDRESSES:
            if now - self._swept_at >= 1.0:
                self._swept_at = now
                self._by_address = {one: kept for one, kept in self._by_address.items() if not kept.is_idle(now)}
            if len(self._by_address) >= _MAX_ADDRESSES:
                address = _OTHERS
        found = self._by_address.get(address)
        if found is None:
            found = self._by_address[address] = Bucket(self._rate_per_address, now)
        return found
