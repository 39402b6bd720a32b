"""A broker's metrics, in Prometheus' text format 0.0.4."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from raftlog.errors import DamagedDataError
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.serving.loop_watch import LoopWatch

CONTENT_TYPE = "text/plain; version=0.0.4"


@dataclass(slots=True)
class Throttling:
    """What quotas have done since this broker started."""

    requests: Counter[str] = field(default_factory=Counter)
    """Requests and connections that were delayed, by limit."""
    seconds: dict[str, float] = field(default_factory=dict)
    """For how long they were, in all."""
    refused: int = 0
    """Requests and connections that were refused."""
    buckets: Callable[[], int] = int
    """Returns the users and client ids, or groups of them, whose use is counted."""

    def count(self, limit: str, seconds: float) -> None:
        """Count a delay."""
        self.requests[limit] += 1
        self.seconds[limit] = self.seconds.get(limit, 0.0) + seconds

    def count_refusal(self) -> None:
        """Count a refusal."""
        self.refused += 1


@dataclass(slots=True)
class Metrics:
    """Counters since this broker started."""

    records_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By route and status."""
    throttling: Throttling = field(default_factory=Throttling)


def exposition(metrics: Metrics, replicas: ReplicaManager, watch: LoopWatch, *, refusals: int = 0) -> str:
    """Return every metric as text.

    Args:
        refusals: the operations that access rules refused.
    """
    cores = [replica.core for replica in replicas.replicas if replica.core is not None]
    behind = sum(len(core.state.isr) < len(core.state.replicas) for core in cores)
    lines = [
        *_metric("raftlog_records_in_total", "counter", "Records appended here as leader.", [("", metrics.records_in)]),
        *_metric("raftlog_bytes_in_total", "counter", "Batch bytes appended here as leader.", [("", metrics.bytes_in)]),
        *_metric("raftlog_bytes_out_total", "counter", "Batch bytes sent to consumers.", [("", metrics.bytes_out)]),
        *_metric("raftlog_partitions", "gauge", "Replicas on this broker.", [("", len(list(replicas.replicas)))]),
        *_metric("raftlog_partitions_led", "gauge", "Partitions that this broker leads.", [("", len(cores))]),
        *_metric("raftlog_under_replicated_partitions", "gauge", "Led, with a replica out of sync.", [("", behind)]),
        *_metric(
            "raftlog_offline_replicas",
            "gauge",
            "Replicas whose log cannot be used, by reason.",
            ((f'{{reason="{reason}"}}', count) for reason, count in sorted(_offline(replicas).items())),
        ),
        *_metric(
            "raftlog_refusing_replicas",
            "gauge",
            "Replicas whose last append failed on disk, by reason.",
            ((f'{{reason="{reason}"}}', count) for reason, count in sorted(_refusing(replicas).items())),
        ),
        *_metric("raftlog_quarantined_logs", "gauge", "Damaged logs put aside.", [("", replicas.quarantined)]),
        *_metric(
            "raftlog_corrupt_replicas",
            "gauge",
            "Replicas with a damaged log that is not repaired or replaced yet.",
            [("", len(replicas.damage))],
        ),
        *_metric(
            "raftlog_repairing_replicas", "gauge", "Replicas that are being repaired.", [("", len(replicas.repairs))]
        ),
        *_metric(
            "raftlog_repaired_batches_total",
            "counter",
            "Damaged batches that were repaired from another replica.",
            [("", replicas.repairs.repaired_batches)],
        ),
        *_metric(
            "raftlog_lost_batches",
            "gauge",
            "Damaged batches here of which no replica is known to have an intact copy.",
            [("", replicas.repairs.lost_batches)],
        ),
        *_metric(
            "raftlog_scrubbed_bytes_total",
            "counter",
            "Bytes that the scrubber has read; a batch counts for 4 KiB at least.",
            [("", replicas.scrubber.checked_bytes)],
        ),
        *_metric(
            "raftlog_scrub_damage_found_total",
            "counter",
            "Damaged places that the scrubber has found.",
            [("", replicas.scrubber.found)],
        ),
        *_metric(
            "raftlog_scrub_longest_unchecked_seconds",
            "gauge",
            "The age of the oldest check of a replica.",
            [("", replicas.scrubber.longest_unchecked_ms / 1000)],
        ),
        *_metric("raftlog_asyncio_tasks", "gauge", "Tasks of the event loop.", [("", len(asyncio.all_tasks()))]),
        *_metric(
            "raftlog_event_loop_lag_seconds",
            "gauge",
            "The longest that one turn of the event loop took within the last minute.",
            [("", watch.lag_s)],
        ),
        *_metric(
            "raftlog_event_loop_stalls_total",
            "counter",
            "Turns of the event loop that took more than 50 ms.",
            [("", watch.stalls)],
        ),
        *_metric("raftlog_isr_shrinks_total", "counter", "ISR shrinks proposed.", [("", replicas.isr.shrinks)]),
        *_metric("raftlog_isr_expands_total", "counter", "ISR expansions proposed.", [("", replicas.isr.expands)]),
        *_metric(
            "raftlog_access_refusals_total",
            "counter",
            "Operations that access rules, or missing credentials, refused, or would with log-only.",
            [("", refusals)],
        ),
        *_throttling(metrics.throttling),
        *_metric(
            "raftlog_requests_total",
            "counter",
            "HTTP requests, by route and status.",
            ((f'{{route="{route}",status="{status}"}}', count) for (route, status), count in metrics.requests.items()),
        ),
    ]
    return "\n".join(lines) + "\n"


def _throttling(throttling: Throttling) -> Iterable[str]:
    def by_limit(counts: Mapping[str, float]) -> Iterable[tuple[str, float]]:
        return ((f'{{limit="{limit}"}}', count) for limit, count in sorted(counts.items()))

    yield from _metric(
        "raftlog_throttled_total",
        "counter",
        "Requests and connections that a quota delayed, by limit.",
        by_limit(throttling.requests),
    )
    yield from _metric(
        "raftlog_throttle_seconds_total",
        "counter",
        "For how long quotas delayed requests and connections, by limit.",
        by_limit(throttling.seconds),
    )
    yield from _metric(
        "raftlog_quota_refusals_total",
        "counter",
        "Requests and connections that were refused because of a quota.",
        [("", throttling.refused)],
    )
    yield from _metric(
        "raftlog_quota_buckets",
        "gauge",
        "Users and client ids, or groups of them, whose use is counted for quotas.",
        [("", throttling.buckets())],
    )


def _offline(replicas: ReplicaManager) -> Counter[str]:
    return Counter("damaged" if isinstance(e, DamagedDataError) else e.code.value for e in replicas.offline.values())


def _refusing(replicas: ReplicaManager) -> Counter[str]:
    return Counter(replica.log.refusal.code.value for replica in replicas.replicas if replica.log.refusal)


def _metric(name: str, kind: str, text: str, samples: Iterable[tuple[str, float]]) -> Iterable[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield f"{name}{labels} {value}"
