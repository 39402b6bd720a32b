"""confluent-kafka: librdkafka's threads do the work, Python hands over and polls."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, ClassVar

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.drivers.shape import Driver, main, random_values

_QUEUE_MESSAGES = 1_000_000
_FETCH_MESSAGES = 10_000


class Confluent(Driver):
    name = f"confluent-kafka {confluent_kafka.__version__}"
    settings: ClassVar[dict[str, object]] = {
        "acks": "all",
        "linger.ms": 5,
        "batch.size": 4 << 20,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": _QUEUE_MESSAGES,
        "queue.buffering.max.kbytes": 1 << 20,
        "message.max.bytes": 8 << 20,
    }

    async def open(self) -> None:
        self._failed = 0
        self._producer: Any = None
        self._consumer: Any = None
        self._common = {"bootstrap.servers": self.job.bootstrap.replace("http://", "")}
        if (ca_file := self.job.options.get("ca_file")) is not None:
            self._common |= {"security.protocol": "SSL", "ssl.ca.location": ca_file, "broker.address.family": "v4"}
        self._admin = AdminClient(self._common)

    async def create(self) -> None:
        config = {"flush.messages": "1"} if self.job.durable else {}
        topic = NewTopic(self.job.topic, num_partitions=self.job.partitions, replication_factor=3, config=config)
        for future in self._admin.create_topics([topic]).values():
            future.result(timeout=30)

    async def drop(self) -> None:
        for future in self._admin.delete_topics([self.job.topic]).values():
            future.result(timeout=30)

    def _connect(self, **more: object) -> Any:
        if self._producer is None:
            base = {**self._common, **self.settings, **more}
            self._producer = confluent_kafka.Producer({**base, **self.job.options.get("producer", {})})
        return self._producer

    async def produce(self, chunks: Iterator[Sequence[bytes]]) -> int:
        # Only errors are reported: a client that waits for all records needs no call for each record.
        producer, topic, queued = self._connect(**{"delivery.report.only.error": True}), self.job.topic, 0
        for chunk in chunks:
            while len(producer) + len(chunk) > _QUEUE_MESSAGES:
                producer.poll(0.005)
            if self.job.options.get("each"):
                for value in chunk:
                    producer.produce(topic, value)
                queued += len(chunk)
            else:
                queued += producer.produce_batch(
                    topic, [{"value": value} for value in chunk], on_delivery=self._on_delivery
                )
            producer.poll(0)
        if left := producer.flush(60):
            raise RuntimeError(f"{left} records were not acknowledged within 60 s")
        if self._failed:
            raise RuntimeError(f"{self._failed} records were refused")
        return queued

    def _on_delivery(self, error: object, _: object) -> None:
        self._failed += error is not None

    async def send_one(self, value: bytes) -> None:
        raise NotImplementedError("see latencies")

    async def latencies(self, rate: int, count: int) -> tuple[list[float], list[float]]:
        # A broker serves one request of a connection at a time: the records behind it had better wait here, as one
        # batch.
        producer, topic = self._connect(**{"linger.ms": 0, "max.in.flight": 1}), self.job.topic
        values = random_values(self.job.record_bytes, 1_000)
        took: list[float] = []
        late: list[float] = []
        start = time.perf_counter()
        for number in range(count):
            due = start + number / rate
            while (wait := due - time.perf_counter()) > 0:
                producer.poll(wait)
            called = time.perf_counter()
            late.append(called - due)

            def on_delivery(error: object, _: object, called: float = called) -> None:
                self._failed += error is not None
                took.append(time.perf_counter() - called)

            producer.produce(topic, values[number % len(values)], on_delivery=on_delivery)
        if producer.flush(60) or self._failed:
            raise RuntimeError(f"{self._failed} records were refused, {len(producer)} not acknowledged within 60 s")
        return took, late

    async def receive(self) -> AsyncGenerator[int, None]:
        self._consumer = confluent_kafka.Consumer(
            {
                **self._common,
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.message.max.bytes": 4 << 20,
                "queued.min.messages": 1_000_000,
            }
        )
        first = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign(
            [confluent_kafka.TopicPartition(self.job.topic, n, first) for n in range(self.job.partitions)]
        )
        while True:
            messages = self._consumer.consume(_FETCH_MESSAGES, timeout=1.0)
            yield len([message.value() for message in messages if message.error() is None])

    async def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


if __name__ == "__main__":
    main(Confluent)
