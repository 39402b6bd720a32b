"""What the Kafka connections of one listener share."""

from __future__ import annotations

import logging
from collections.abc import Callable

from raftlog.broker.kafka.dispatch import KafkaDispatch
from raftlog.broker.kafka.input import SMALL_BYTES
from raftlog.broker.quotas import QuotaGate
from raftlog.serving.connections import LOG_INTERVAL_S
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.request_metrics import RequestMetrics
from raftlog.serving.turnstile import Turnstile
from raftlog.transport.buffers import ReceiveBuffers
from raftlog.wire.kafka.api_keys import APIS
from raftlog.wire.kafka.framing import LENGTH_BYTES, MAX_FRAME_BYTES

_log = logging.getLogger(__name__)
IDLE_S = 600.0
"""The longest pause between requests: Kafka's `connections.max.idle.ms`. Its clients close theirs a minute before."""
MAX_PIPELINED = 32
"""The most requests of a connection that were read and are not answered."""
AHEAD_BYTES = 8 << 10
"""So many bytes are read behind a request that is not Produce, because it may wait for long; and one more small frame.

10,000 connections take less in all than `broker.max_inflight_bytes`.
"""
UNAUTHENTICATED_FRAME_BYTES = SMALL_BYTES - LENGTH_BYTES
"""The largest frame of a connection without credentials, where requests need some: it fits into the small buffer.

So unauthenticated clients take nothing of `broker.max_inflight_bytes`. The longest token takes half of it.
"""
_RECORDS = frozenset((0, 1))
"""The APIs that move records: Produce and Fetch."""
_FAILED = 500
_REFUSED = 400
_ANSWERED = 200


class KafkaServer:
    """The parts, limits and counts of all Kafka connections.

    Args:
        limits: those of HTTP requests; `max_body_bytes` is the largest frame.
        inflight: shared with HTTP requests.
        turnstile: shared with HTTP requests. Those that move records do not wait there, and cost nothing.
        quotas: limits senders.
        metrics: counts each answer, and times each request from its last byte to its answer.
        now: seconds, for the log.
    """

    def __init__(
        self,
        dispatch: KafkaDispatch,
        *,
        limits: RequestLimits,
        inflight: InflightLimits,
        turnstile: Turnstile,
        now: Callable[[], float],
        quotas: QuotaGate,
        metrics: RequestMetrics | None = None,
    ) -> None:
        self.dispatch = dispatch
        self.limits = limits
        self.inflight = inflight
        self.turnstile = turnstile
        self.quotas = quotas
        self.idle_s = IDLE_S
        self.buffers = ReceiveBuffers()
        self.max_frame_bytes = min(limits.max_body_bytes, MAX_FRAME_BYTES)
        self._metrics = metrics or RequestMetrics()
        self._now = now
        self._closed = 0
        self._logged_at = float("-inf")

    def moves_records(self, api_key: int) -> bool:
        """Return whether requests of an API neither wait at the turnstile nor count there."""
        return api_key in _RECORDS

    def count(self, api_key: int, error: int, seconds: float) -> None:
        """Count a request that was answered, or whose connection was closed because of it."""
        route = route_of(api_key)
        self._metrics.count(route, _ANSWERED if not error else _FAILED if error < 0 else _REFUSED)
        self._metrics.time(route, seconds)

    def complain(self, address: str, why: object) -> None:
        """Log why a connection is closed, once in `LOG_INTERVAL_S`: any client can cause it."""
        self._closed += 1
        now = self._now()
        if now - self._logged_at >= LOG_INTERVAL_S:
            _log.warning(
                "Kafka's protocol: %d connections closed, the last one of %s: %.300s", self._closed, address, why
            )
            self._logged_at, self._closed = now, 0


def route_of(api_key: int) -> str:
    """Return the name under which requests of an API are counted."""
    api = APIS.get(api_key)
    return "kafka unknown" if api is None else f"kafka {api.name}"
