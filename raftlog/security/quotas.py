"""The quotas of one metadata image, resolved for senders (KIP-13, KIP-124), and the buckets that they share.

The most specific quota that has a limit decides it, as in Kafka:

1. the user with the client id, the user with `*`, the user alone,
2. `*` with the client id, `*` with `*`, `*` alone,
3. the client id alone, `*` as client id alone.

Each limit is resolved by itself. Senders that one quota names share a bucket; a quota of `*` gives each user, or each
client id, a bucket of its own. Client ids are the sender's choice, so these buckets are few for each address: the other
ids of the address share one. The number of all buckets is bounded, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import inf
from typing import Literal, TypeAlias

from raftlog.model import QUOTA_LIMITS, Quota
from raftlog.serving.rates import Bucket, Position

Kind: TypeAlias = Literal["produce", "fetch", "request"]
"""What a request does: it sends records, it reads records, or anything else."""
Limit: TypeAlias = Literal["produce", "fetch", "time", "request"]
"""What is limited: bytes sent, bytes read, seconds of computing, and the number of requests."""
Buckets: TypeAlias = dict[Limit, Bucket]
MAX_BUCKETS = 10_000
IDS_PER_ADDRESS = 64
"""The most client ids of one address that have a bucket by a quota of `*`."""
MAX_HOLD_S = 2.0
"""The longest time for which a request is held because of what others of its bucket owe; then it is refused."""
TICKET_S = 2.0
"""How long a connection that has waited as long as it had to need not wait for what others owe."""
_NO_ID = "\0"
"""Stands for an empty client id in the keys of buckets, where an empty text means any."""
_Key: TypeAlias = tuple[str, str, str, str]
"""A limit, a user, a client id and an address; an empty text means any.

The client id `*` means the ids of an address that share a bucket; with the address empty, those of all addresses."""


class SenderLimits:
    """The buckets of one user and client id, by the kind of a request.

    Args:
        produce, fetch: in bytes; None: no limit.
        seconds: in seconds of computing.
        requests: in requests.
    """

    __slots__ = ("by_kind",)

    def __init__(
        self, produce: Bucket | None, fetch: Bucket | None, seconds: Bucket | None, requests: Bucket | None
    ) -> None:
        given: tuple[tuple[Limit, Bucket | None], ...] = (("time", seconds), ("request", requests))
        every: Buckets = {limit: bucket for limit, bucket in given if bucket is not None}
        self.by_kind: dict[Kind, Buckets] = {
            "produce": every if produce is None else {"produce": produce, **every},
            "fetch": every if fetch is None else {"fetch": fetch, **every},
            "request": every,
        }


class Turn:
    """One request's charges, and afterwards the debt of its connection.

    A turn that was refused has no charges. It is its connection's place in the queue: when all that was owed at that
    time is paid, the connection may begin. Otherwise those that always owe would keep out all others.

    Args:
        buckets: what requests of its kind are charged to.
        now: the current time in seconds, as for buckets.
        may_begin: the request need not wait for what other connections owe.
    """

    __slots__ = ("_begins_at", "_charged", "buckets")

    def __init__(self, buckets: Buckets, now: float, *, may_begin: bool = False) -> None:
        self.buckets = buckets
        self._begins_at: tuple[Position, ...] = ()
        if not may_begin:
            self._begins_at = tuple([bucket.position() for bucket in buckets.values() if bucket.wait_s(now)])
        self._charged: dict[Limit, tuple[float, Position]] = {}
        """The last charge of each limit, which is paid last."""

    def charge(self, limit: Limit, amount: float, now: float) -> None:
        """Charge units of a limit, if the request has it."""
        bucket = self.buckets.get(limit)
        if bucket is not None and amount > 0:
            self._charged[limit] = amount, bucket.charge(amount, now)

    def refund(self, limit: Limit, amount: float) -> None:
        """Take back a part of a charge: of a body that was announced and did not arrive."""
        charged = self._charged.pop(limit, None)
        if charged is None:
            return
        total, position = charged
        position = position.bucket.refund(position, min(1.0, amount / total))
        if amount < total:
            self._charged[limit] = total - amount, position

    def hold_s(self, now: float) -> float:
        """Return the seconds until the request may begin."""
        return max([position.wait_s(now) for position in self._begins_at]) if self._begins_at else 0.0

    def owed_s(self, now: float) -> float:
        """Return the seconds until all charges are paid."""
        return max([position.wait_s(now) for _, position in self._charged.values()]) if self._charged else 0.0

    def limit_owed(self, now: float) -> Limit:
        """Return the limit whose charge is paid last."""
        return max(self._charged, key=lambda limit: self._charged[limit][1].wait_s(now))

    def admits(self, buckets: Buckets, now: float) -> bool:
        """Return whether the connection has just waited for its own debt, or its place in the queue."""
        return self.buckets == buckets and 0 <= now - self._at() <= TICKET_S

    def comes_before(self, buckets: Buckets, now: float) -> bool:
        """Return whether a refused turn still is the connection's place in the queue."""
        return self.buckets == buckets and not self._charged and now - self._at() <= TICKET_S

    def _at(self) -> float:
        """Return when everything is paid that was charged, or, of a refused turn, that others owed."""
        positions = [position for _, position in self._charged.values()] or self._begins_at
        return max([position.bucket.due(position) for position in positions], default=-inf)

    def cancel(self) -> None:
        """Take back the charges of a request that was never begun."""
        for _, position in self._charged.values():
            position.bucket.refund(position)
        self._charged = {}


class QuotaTable:
    """Finds the buckets of senders.

    Args:
        max_buckets: the most buckets of quotas for `*`.
        ids_per_address: the most client ids of one address that have their own bucket by such a quota.
    """

    def __init__(self, *, max_buckets: int = MAX_BUCKETS, ids_per_address: int = IDS_PER_ADDRESS) -> None:
        self._max_buckets = max_buckets
        self._ids_per_address = ids_per_address
        self._rates: dict[str, dict[tuple[str, str], float]] = {}
        """By limit, then by user and client id as in quotas."""
        self._buckets: dict[_Key, Bucket] = {}
        self._chosen: dict[_Key, str] = {}
        """The buckets that exist because of a quota for `*`, each with the address of its first sender."""
        self._ids: Counter[str] = Counter()
        """How many of those an address has."""
        self._found: dict[tuple[str, str, str], SenderLimits | None] = {}
        self._swept_at = -inf

    def __len__(self) -> int:
        return len(self._buckets)

    def update(self, quotas: Iterable[Quota], now: float) -> None:
        """Take the quotas of a new image. What senders owe stays owed."""
        self._rates = {}
        for quota in quotas:
            for limit, value in quota.limits.items():
                self._rates.setdefault(limit, {})[quota.user, quota.client_id] = value
        self._found.clear()
        for key in list(self._buckets):
            limit, user, client_id, _ = key
            rate = self._rate_at(limit, user, client_id)
            if rate is None:
                self._drop(key).lift()
            else:
                self._buckets[key].change(rate, now)

    def limits_of(self, user: str, client_id: str, address: str, now: float) -> SenderLimits | None:
        """Return the buckets of a sender; None: it has no limit."""
        sender = (user, client_id, address)
        try:
            return self._found[sender]
        except KeyError:
            pass
        buckets = [self._bucket(limit, *sender, now) if limit in self._rates else None for limit in QUOTA_LIMITS]
        found = SenderLimits(*buckets) if any(buckets) else None  # In the order of QUOTA_LIMITS.
        if len(self._found) >= self._max_buckets:
            self._found.clear()
        self._found[sender] = found
        return found

    def _bucket(self, limit: str, user: str, client_id: str, address: str, now: float) -> Bucket | None:
        for level in _levels(user, client_id):
            if (rate := self._rates[limit].get(level)) is not None:
                break
        else:
            return None
        key = (limit, user if level[0] else "", (client_id or _NO_ID) if level[1] else "", "")
        if (known := self._buckets.get(key)) is not None:
            return known
        if "*" in level:
            key = self._place(key, level, address, now)
        return self._buckets.setdefault(key, Bucket(_per_second(limit, rate), now))

    def _place(self, key: _Key, level: tuple[str, str], address: str, now: float) -> _Key:
        """Return the key of a bucket for a quota of `*`: its own, or a shared one where there are too many."""
        by_id = level[1] == "*"
        if self._is_full(by_id, address):
            self._sweep(now)
        if not self._is_full(by_id, address):
            self._chosen[key] = address if by_id else ""
            self._ids[address] += by_id
            return key
        limit, user, client_id, _ = key
        if by_id and len(self._chosen) < self._max_buckets:
            shared = (limit, user, "*", address)
            self._chosen[shared] = ""
            return shared
        return limit, "*" if user else "", "*" if client_id else "", ""

    def _is_full(self, by_id: bool, address: str) -> bool:
        return len(self._chosen) >= self._max_buckets or (by_id and self._ids[address] >= self._ids_per_address)

    def _sweep(self, now: float) -> None:
        """Drop buckets like new ones, at most once a second."""
        if now - self._swept_at < 1.0:
            return
        self._swept_at = now
        for key in [key for key in self._chosen if self._buckets[key].is_idle(now)]:
            self._drop(key)
        self._found.clear()  # They refer to dropped buckets.

    def _drop(self, key: _Key) -> Bucket:
        address = self._chosen.pop(key, "")
        if address:
            self._ids[address] -= 1
            if not self._ids[address]:
                del self._ids[address]
        return self._buckets.pop(key)

    def _rate_at(self, limit: str, user: str, client_id: str) -> float | None:
        """Return the rate of a bucket by its key; None: no quota has it any longer."""
        rates = self._rates.get(limit, {})
        users = (user, "*") if user else ("",)
        ids = ("" if client_id == _NO_ID else client_id, "*") if client_id else ("",)
        found = (rates.get((one, other)) for one in users for other in ids)
        return next((_per_second(limit, rate) for rate in found if rate is not None), None)


def _levels(user: str, client_id: str) -> tuple[tuple[str, str], ...]:
    """Return the users and client ids of quotas that apply, the most specific first."""
    return (
        (user, client_id),
        (user, "*"),
        (user, ""),
        ("*", client_id),
        ("*", "*"),
        ("*", ""),
        ("", client_id),
        ("", "*"),
    )


def _per_second(limit: str, rate: float) -> float:
    return rate / 100 if limit == "request_percentage" else rate
