"""Client metrics: counters, and the snapshots that applications read.

Clients count for each batch and each request, never for each record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from raftlog.errors import RaftlogError, UnknownOutcomeError
from raftlog.model import TopicPartition
from raftlog.transport.throttles import Throttles

RECENT = 1_000
"""Percentiles cover this many of the latest durations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Of the latest 1,000 durations, in milliseconds; zeros if there are none.

    Args:
        p50: half of the durations were at most so long.
        p95: 95 of 100 durations were at most so long.
        p99: 99 of 100 durations were at most so long.
        max: the longest duration.
    """

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0

    @classmethod
    def of(cls, durations_ms: Iterable[float]) -> Percentiles:
        """Return the percentiles of some durations.

        Args:
            durations_ms: the durations, in milliseconds.
        """
        ordered = sorted(durations_ms)
        if not ordered:
            return cls()
        at = [ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.95, 0.99)]
        return cls(p50=at[0], p95=at[1], p99=at[2], max=ordered[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics:
    """What a producer has done since it was made. A record counts once in `records_*`, however often it was sent."""

    records_sent: int
    """Records that went to a broker at least once."""
    records_acknowledged: int
    """Records that are in the log."""
    records_failed: int
    """Records that are not in the log."""
    records_unknown: int
    """Records that may be in the log: no attempt had a known outcome (`UnknownOutcomeError`)."""
    batches_sent: int
    """Batches that went to a broker at least once."""
    bytes_sent: int
    """Bytes of all attempts, as encoded and compressed."""
    retries: int
    """Attempts after each batch's first one."""
    requests: int
    """Requests that were sent to brokers."""
    requests_in_flight: int
    """Requests that have no answer yet."""
    batch_fill: float
    """How full batches were when they went first, on average: 1.0 is `batch_bytes`."""
    queue_time_ms: Percentiles
    """From `send` until a batch went first: waiting for room, company, metadata and its turn."""
    request_latency_ms: Percentiles
    """From a request until its answer."""
    buffered_bytes: int
    """Bytes of records that have no outcome yet; at most `buffer_bytes`."""
    epoch_bumps: int
    """How often a partition had to go on in a new producer epoch, since its sequence was lost."""
    throttled: int = 0
    """Answers that asked for a pause because of a quota."""
    throttle_ms: Percentiles = Percentiles()
    """For how long. The producer sends nothing to that broker meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMetrics:
    """What a consumer has done since it was made."""

    records_read: int
    """Records that were decoded for the application; a row of a table counts, too."""
    bytes_fetched: int
    """Bytes of batches, as they are stored."""
    fetches: int
    """Fetches that were sent to brokers."""
    fetches_failed: int
    """Fetches that failed. A leader that has moved counts, too: the next fetch goes to the new one."""
    fetch_latency_ms: Percentiles
    """From a fetch until its answer. A broker holds a fetch that finds nothing for up to `fetch_max_wait_ms`."""
    buffered_bytes: int
    """Bytes that were fetched ahead of the reader."""
    lag: Mapping[TopicPartition, int | None]
    """The lag of each partition that is read, see `Consumer.lag`."""
    commits: int
    """Commits that were tried; those that failed count, too."""
    commits_failed: int
    """Commits that failed."""
    rebalances: int
    """How often partitions were taken, given up or lost."""
    outages: int
    """How often no broker has answered: the consumer waits until one does."""
    outage_s: float
    """For how long none has answered by now; 0.0 if the last one that was asked did."""
    throttled: int = 0
    """Answers that asked for a pause because of a quota."""
    throttle_ms: Percentiles = Percentiles()
    """For how long. The consumer fetches nothing from that broker meanwhile."""


@dataclass(slots=True)
class ProducerCounters:
    """The counters of a producer."""

    batch_bytes: int
    records_sent: int = 0
    records_acknowledged: int = 0
    records_failed: int = 0
    records_unknown: int = 0
    batches_sent: int = 0
    bytes_sent: int = 0
    retries: int = 0
    requests: int = 0
    requests_in_flight: int = 0
    filled_bytes: int = 0
    queue_time_ms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    request_latency_ms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    def on_batch(self, *, records: int, size: int, encoded: int, attempts: int, queued_ms: int) -> None:
        """Count a sent batch; `size` is its part of `batch_bytes`."""
        self.bytes_sent += encoded
        if attempts > 1:
            self.retries += 1
            return
        self.batches_sent += 1
        self.records_sent += records
        self.filled_bytes += size
        self.queue_time_ms.append(queued_ms)

    def on_request(self) -> None:
        self.requests += 1
        self.requests_in_flight += 1

    def on_answer(self, latency_ms: float) -> None:
        """Count the end of a request, answered or failed."""
        self.requests_in_flight -= 1
        self.request_latency_ms.append(latency_ms)

    def on_failed(self, records: int, error: RaftlogError) -> None:
        if isinstance(error, UnknownOutcomeError):
            self.records_unknown += records
        else:
            self.records_failed += records

    def snapshot(self, throttles: Throttles, *, buffered_bytes: int, epoch_bumps: int) -> ProducerMetrics:
        """Return a snapshot of the counters."""
        return ProducerMetrics(
            records_sent=self.records_sent,
            records_acknowledged=self.records_acknowledged,
            records_failed=self.records_failed,
            records_unknown=self.records_unknown,
            batches_sent=self.batches_sent,
            bytes_sent=self.bytes_sent,
            retries=self.retries,
            requests=self.requests,
            requests_in_flight=self.requests_in_flight,
            batch_fill=self.filled_bytes / (self.batches_sent * self.batch_bytes) if self.batches_sent else 0.0,
            queue_time_ms=Percentiles.of(self.queue_time_ms),
            request_latency_ms=Percentiles.of(self.request_latency_ms),
            buffered_bytes=buffered_bytes,
            epoch_bumps=epoch_bumps,
            throttled=throttles.count,
            throttle_ms=Percentiles.of(throttles.latest_ms),
        )


@dataclass(slots=True)
class FetchCounters:
    """The fetch counters of a consumer."""

    records: int = 0
    bytes: int = 0
    fetches: int = 0
    failed: int = 0
    latency_ms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))


@dataclass(slots=True)
class GroupCounters:
    """The group counters of a consumer."""

    commits: int = 0
    commits_failed: int = 0
    rebalances: int = 0
