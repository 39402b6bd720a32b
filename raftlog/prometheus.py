"""Client metrics for Prometheus: a collector for the registries of `prometheus_client` (`raftlog[prometheus]`).

    collector = raftlog.prometheus.ClientCollector()
    collector.add(producer, "orders")
    prometheus_client.start_http_server(8000)

A page is made from what `metrics()` returns. Clients do not count for it: without a scrape it costs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Literal, TypeAlias
from weakref import ref

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from raftlog import blocking
from raftlog.client.consumer import Consumer
from raftlog.client.metrics import ConsumerMetrics, Percentiles, ProducerMetrics
from raftlog.client.producer import Producer
from raftlog.errors import ConfigError

_log = logging.getLogger(__name__)
AnyClient: TypeAlias = Producer | Consumer | blocking.Producer | blocking.Consumer
Kind: TypeAlias = Literal["producer", "consumer"]
Metrics: TypeAlias = ProducerMetrics | ConsumerMetrics
Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily
_ATTEMPTS = 5
"""A client's own thread may change what is read; then it is read again."""
_QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}


@dataclass(frozen=True, slots=True)
class ClientMetric:
    """One metric of a kind of client.

    Args:
        field: the field of `ProducerMetrics` or `ConsumerMetrics`.
        name: its name in Prometheus.
        help: one sentence.
        is_counter: it only grows.
    """

    field: str
    name: str
    help: str
    is_counter: bool = True

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels beside `client`."""
        if self.field == "lag":
            return "topic", "partition"
        return ("quantile",) if self.field.endswith("_ms") else ()


def _counter(field: str, help_: str, name: str = "") -> ClientMetric:
    return ClientMetric(field, f"{name or field}_total", help_)


def _gauge(field: str, help_: str, name: str = "") -> ClientMetric:
    return ClientMetric(field, name or field, help_, is_counter=False)


PRODUCER = (
    _counter("records_sent", "Records that went to a broker at least once."),
    _counter("records_acknowledged", "Records that are in the log."),
    _counter("records_failed", "Records that are not in the log."),
    _counter("records_unknown", "Records that may be in the log: no attempt had a known outcome."),
    _counter("batches_sent", "Batches that went to a broker at least once."),
    _counter("bytes_sent", "Bytes of all attempts, as encoded and compressed."),
    _counter("retries", "Attempts after each batch's first one."),
    _counter("requests", "Requests that were sent to brokers."),
    _gauge("requests_in_flight", "Requests that have no answer yet."),
    _gauge(
        "batch_fill", "How full batches were when they went first, on average; 1 is batch_bytes.", "batch_fill_ratio"
    ),
    _gauge("queue_time_ms", "From send until a batch went first: the latest 1,000 batches.", "queue_time_seconds"),
    _gauge("request_latency_ms", "From a request until its answer: the latest 1,000.", "request_latency_seconds"),
    _gauge("buffered_bytes", "Bytes of records that have no outcome yet."),
    _counter("epoch_bumps", "How often a partition had to go on in a new producer epoch."),
    _counter("throttled", "Answers that asked for a pause because of a quota."),
    _gauge("throttle_ms", "For how long: the latest 1,000.", "throttle_seconds"),
)
CONSUMER = (
    _counter("records_read", "Records that were decoded for the application."),
    _counter("bytes_fetched", "Bytes of batches, as they are stored."),
    _counter("fetches", "Fetches that were sent to brokers."),
    _counter("fetches_failed", "Fetches that failed."),
    _gauge("fetch_latency_ms", "From a fetch until its answer: the latest 1,000.", "fetch_latency_seconds"),
    _gauge("buffered_bytes", "Bytes that were fetched ahead of the reader."),
    _gauge("lag", "Records of a partition that the application has not read yet.", "lag_records"),
    _counter("commits", "Commits that were tried."),
    _counter("commits_failed", "Commits that failed."),
    _counter("rebalances", "How often partitions were taken, given up or lost."),
    _counter("outages", "How often no broker has answered."),
    _gauge("outage_s", "For how long no broker has answered by now.", "outage_seconds"),
    _counter("throttled", "Answers that asked for a pause because of a quota."),
    _gauge("throttle_ms", "For how long: the latest 1,000.", "throttle_seconds"),
)
TABLE: dict[Kind, tuple[ClientMetric, ...]] = {"producer": PRODUCER, "consumer": CONSUMER}


class ClientCollector(Collector):
    """Shows the metrics of clients in a registry, each with its name in the label `client`.

    Clients may be added and removed from any thread. A client that nothing else refers to any more disappears.

    Args:
        registry: where the collector is registered; None: nowhere, the caller does it.
    """

    def __init__(self, registry: CollectorRegistry | None = REGISTRY) -> None:
        self._clients: dict[tuple[Kind, str], ref[AnyClient]] = {}
        self._lock = Lock()
        self._unreadable: set[tuple[Kind, str]] = set()
        if registry is not None:
            registry.register(self)

    def add(self, client: AnyClient, name: str) -> None:
        """Show a client.

        Args:
            client: a producer or a consumer, async or blocking.
            name: the value of the label `client`.

        Raises:
            ConfigError: another client of its kind has that name, or it is not a producer or a consumer.
        """
        key = _kind_of(client), name
        with self._lock:
            shown = self._clients.get(key)
            if shown is not None and shown() not in (None, client):
                raise ConfigError(
                    f"name: another {key[0]} is shown as {name!r:.80}; remove it first, or choose another"
                )
            self._clients[key] = ref(client)

    def remove(self, client: AnyClient) -> None:
        """Show a client no longer; nothing happens if it is not shown."""
        with self._lock:
            self._clients = {key: shown for key, shown in self._clients.items() if shown() not in (None, client)}

    def describe(self) -> list[Family]:
        """Return the families without samples, so that a registry can refuse a second collector."""
        return list(_families([]))

    def collect(self) -> Iterator[Family]:
        """Return every family; called by the registry, in any thread."""
        with self._lock:
            shown = [(key, client) for key, known in self._clients.items() if (client := known()) is not None]
        read = [(*key, metrics) for key, client in shown if (metrics := self._metrics(key, client)) is not None]
        return _families(read)

    def _metrics(self, key: tuple[Kind, str], client: AnyClient) -> Metrics | None:
        # A blocking client's own thread may be busy or gone, and a page must not wait for it.
        source = client._client if isinstance(client, blocking.Producer | blocking.Consumer) else client  # noqa: SLF001
        for attempt in range(_ATTEMPTS):
            try:
                return source.metrics()
            except RuntimeError as error:  # A mapping was changed while it was read.
                if attempt + 1 == _ATTEMPTS and key not in self._unreadable:
                    self._unreadable.add(key)
                    _log.warning("the metrics of %s %s cannot be read: %s", *key, error)
        return None


def _kind_of(client: object) -> Kind:
    if isinstance(client, Producer | blocking.Producer):
        return "producer"
    if isinstance(client, Consumer | blocking.Consumer):
        return "consumer"
    raise ConfigError(f"client: expected a producer or a consumer, received {type(client).__name__}")


def _families(read: list[tuple[Kind, str, Metrics]]) -> Iterator[Family]:
    for kind, table in TABLE.items():
        of_kind = [(name, metrics) for its_kind, name, metrics in read if its_kind == kind]
        for metric in table:
            yield _family(kind, metric, of_kind)


def _family(kind: Kind, metric: ClientMetric, read: list[tuple[str, Metrics]]) -> Family:
    cls = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
    family: Family = cls(f"raftlog_{kind}_{metric.name}", metric.help, labels=["client", *metric.labels])
    for name, metrics in read:
        value = getattr(metrics, metric.field)
        if isinstance(value, Percentiles):
            for percentile, quantile in _QUANTILES.items():
                family.add_metric([name, quantile], getattr(value, percentile) / 1_000)
        elif metric.field == "lag":
            for (topic, partition), lag in value.items():
                if lag is not None:
                    family.add_metric([name, topic, str(partition)], lag)
        else:
            family.add_metric([name], value)
    return family
