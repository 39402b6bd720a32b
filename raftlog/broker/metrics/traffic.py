"""What producers send to a broker, and what consumers read from it, in all and by topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from raftlog.broker.metrics.throttling import Throttling
from raftlog.metrics import BYTES, RECORDS, Histogram, Page
from raftlog.metrics.page import OTHER
from raftlog.partition.consumer_fetch import Served
from raftlog.partition.metrics import PartitionMetrics

MOST_TOPICS = 200
"""Topics with series of their own: a series costs memory in every Prometheus."""


@dataclass(slots=True)
class TopicTraffic:
    """Counts of one topic."""

    records_in: int = 0
    bytes_in: int = 0
    records_out: int = 0
    bytes_out: int = 0

    def add(self, other: TopicTraffic) -> None:
        """Add the counts of another topic."""
        self.records_in += other.records_in
        self.bytes_in += other.bytes_in
        self.records_out += other.records_out
        self.bytes_out += other.bytes_out


class BrokerMetrics:
    """Counters since this broker started."""

    def __init__(self) -> None:
        self.partition = PartitionMetrics()
        self.throttling = Throttling()
        self._deleted = TopicTraffic()
        """The counts of topics that no longer exist, for the totals."""
        self._topics: dict[str, TopicTraffic] = {}
        self._batch_bytes = Histogram(BYTES)
        self._batch_records = Histogram(RECORDS)

    def appended(self, topic: str, *, records: int, size: int) -> None:
        """Count a batch of a producer."""
        of_topic = self._topics.get(topic) or self._begin(topic)
        of_topic.records_in += records
        of_topic.bytes_in += size
        self._batch_bytes.observe(size)
        self._batch_records.observe(records)

    def sent(self, topic: str, *, records: int, size: int) -> None:
        """Count batches for a consumer."""
        of_topic = self._topics.get(topic) or self._begin(topic)
        of_topic.records_out += records
        of_topic.bytes_out += size

    def served(self, results: Iterable[Served]) -> None:
        """Count the answer to a consumer's fetch."""
        for one in results:
            if one.data:
                self.sent(one.result.topic, records=one.records, size=len(one.data))

    def _begin(self, topic: str) -> TopicTraffic:
        name = topic if len(self._topics) < MOST_TOPICS else OTHER
        return self._topics.setdefault(name, TopicTraffic())

    def forget_deleted(self, existing: Mapping[str, str]) -> None:
        """Drop the counts of topics that no longer exist, so that new ones get series of their own."""
        for topic in [topic for topic in self._topics if topic not in existing and topic != OTHER]:
            self._deleted.add(self._topics.pop(topic))

    @property
    def total(self) -> TopicTraffic:
        """The counts of all topics, deleted ones included."""
        total = TopicTraffic()
        for traffic in (self._deleted, *self._topics.values()):
            total.add(traffic)
        return total

    def show(self, page: Page) -> None:
        """Add the samples to a page."""
        total, phases = self.total, self.partition.produce
        self.throttling.show(page)
        page.add("raftlog_records_in_total", total.records_in)
        page.add("raftlog_records_out_total", total.records_out)
        page.add("raftlog_bytes_in_total", total.bytes_in)
        page.add("raftlog_bytes_out_total", total.bytes_out)
        for topic, traffic in self._topics.items():
            page.add("raftlog_topic_records_in_total", traffic.records_in, topic=topic)
            page.add("raftlog_topic_records_out_total", traffic.records_out, topic=topic)
            page.add("raftlog_topic_bytes_in_total", traffic.bytes_in, topic=topic)
            page.add("raftlog_topic_bytes_out_total", traffic.bytes_out, topic=topic)
        page.add_histogram("raftlog_batch_bytes", self._batch_bytes)
        page.add_histogram("raftlog_batch_records", self._batch_records)
        for phase in ("queue", "append", "sync", "replication", "answer"):
            page.add_histogram("raftlog_produce_phase_seconds", getattr(phases, phase), phase=phase)
