"""Enforces quotas on the public listener: a request is answered at once, then its connection is muted (KIP-219).

A connection that has nothing to pay, and whose sender owes more on other connections, waits before its request is read.
If that would take longer than `MAX_HOLD_S`, the request is refused, and nothing was done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil

from raftlog.broker.http import THROTTLED
from raftlog.broker.metrics.throttling import Throttling
from raftlog.errors import OverloadedError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.security.identity import Sender
from raftlog.security.principal import is_node
from raftlog.security.quotas import MAX_HOLD_S, Buckets, Kind, QuotaTable, Turn
from raftlog.wire import media

MUTE_S = 1.0
"""The longest time for which a connection is muted before its debt is looked at again: quotas may have changed."""
ANSWER_S = 0.25
"""A fetch returns what its sender may read in this time, at most: a large answer would be followed by a long pause.

With the credit after a pause, a consumer is within 10 % of its rate over 10 s."""
LEAST_S = 0.001
"""Shorter pauses are none."""


class RefusedError(OverloadedError):
    """A request that would be held for too long.

    Args:
        turn: the connection's place in the queue: the turn before its next request.
    """

    def __init__(self, turn: Turn, message: str, **details: object) -> None:
        super().__init__(message, details=details)
        self.turn = turn


class QuotaGate:
    """The quotas of one broker.

    Args:
        image: returns the newest metadata image.
        own_id: this broker's id.
    """

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        own_id: int,
        throttling: Throttling,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now = now
        self._image = image
        self._own_id = own_id
        self._throttling = throttling
        self._quotas: object = None
        self._table = QuotaTable()

    @property
    def is_active(self) -> bool:
        """Whether there are quotas. Takes those of the newest image: call it before time is measured."""
        quotas = self._image().quotas
        if quotas is not self._quotas:
            self._quotas = quotas
            self._table.update(quotas.values(), self.now())
            self._throttling.buckets = lambda: len(self._table)
        return bool(quotas)

    def buckets_of(
        self, sender: Sender, client_id: str, address: str, kind: Kind, node: str | None = None
    ) -> Buckets | None:
        """Return what a request is charged to; None: it has no limit.

        Args:
            node: what `node_header` of another broker returned; such a request has no limit.
        """
        if not self.is_active or is_node(sender.principal) or (node is not None and self._is_broker(node)):
            return None
        user = sender.principal.name.removeprefix("User:")
        limits = self._table.limits_of(user, client_id, address, self.now())
        return None if limits is None else limits.by_kind[kind] or None

    def begin(self, buckets: Buckets, before: Turn | None, body_bytes: int) -> Turn:
        """Charge a request that arrives; the caller holds it for `hold_s` of the turn.

        Args:
            before: the turn of the connection's last request.

        Raises:
            RefusedError: the sender owes so much on other connections that the request would be held for too long.
        """
        now = self.now()
        turn = Turn(buckets, now, may_begin=before is not None and before.admits(buckets, now))
        if turn.hold_s(now) > MAX_HOLD_S:
            if before is not None and before.comes_before(buckets, now):
                turn = before
            hold_s = turn.hold_s(now)
            self._throttling.count_refusal()
            raise RefusedError(
                turn,
                f"the quota of this user or client id is used up for the next {hold_s:.1f} s; nothing was done: send "
                "the request again later",
                **{THROTTLED: ceil(1000 * hold_s)},
            )
        turn.charge("request", 1.0, now)
        turn.charge("produce", body_bytes, now)
        return turn

    def end(self, turn: Turn, answer_bytes: int, seconds: float) -> int:
        """Charge a request that was served; return for how many ms its connection is muted."""
        now = self.now()
        turn.charge("fetch", answer_bytes, now)
        turn.charge("time", seconds, now)
        owed_s = turn.owed_s(now)
        if owed_s <= LEAST_S:
            return 0
        self._throttling.count(turn.limit_owed(now), owed_s)
        return ceil(1000 * owed_s)

    def node_header(self) -> dict[str, str]:
        """Return the header by which other brokers recognize requests of this one."""
        own = self._image().brokers.get(self._own_id)
        return {} if own is None else {media.NODE: f"{own.broker_id}:{own.incarnation_id}"}

    def _is_broker(self, node: str) -> bool:
        """Return whether the text is another broker's `node_header`: only brokers know each other's incarnations."""
        broker_id, _, incarnation_id = node.partition(":")
        found = self._image().brokers.get(int(broker_id)) if broker_id.isdecimal() and len(broker_id) < 10 else None
        return found is not None and found.incarnation_id == incarnation_id


def answer_limit(buckets: Buckets | None) -> int | None:
    """Return the most bytes that a fetch returns, if that is limited."""
    bucket = None if buckets is None else buckets.get("fetch")
    return None if bucket is None else max(1, int(min(bucket.rate, 1 << 40) * ANSWER_S))
