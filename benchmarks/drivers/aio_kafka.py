"""aiokafka: Kafka's protocol in Python, records packed by its compiled codec."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, ClassVar

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from benchmarks.drivers.shape import Driver, main

_LINGER_MS = {"latency": 0}


class AioKafka(Driver):
    name = f"aiokafka {aiokafka.__version__}"
    settings: ClassVar[dict[str, object]] = {
        "acks": "all",
        "linger_ms": 5,
        "max_batch_size": 256 << 10,
        "max_request_size": 8 << 20,
    }

    async def open(self) -> None:
        self._common: dict[str, Any] = {"bootstrap_servers": self.job.bootstrap}
        if (ca_file := self.job.options.get("ca_file")) is not None:
            context = ssl.create_default_context(cafile=ca_file)
            self._common |= {"security_protocol": "SSL", "ssl_context": context}
        self._admin = AIOKafkaAdminClient(**self._common)
        await self._admin.start()
        settings = {**self.settings, "linger_ms": _LINGER_MS.get(self.job.work, self.settings["linger_ms"])}
        self._producer = aiokafka.AIOKafkaProducer(**self._common, **settings)
        await self._producer.start()

    async def create(self) -> None:
        config = {"flush.messages": "1"} if self.job.durable else {}
        await self._admin.create_topics([NewTopic(self.job.topic, self.job.partitions, 3, topic_configs=config)])

    async def drop(self) -> None:
        await self._admin.delete_topics([self.job.topic])

    async def produce(self, chunks: Iterator[Sequence[bytes]]) -> int:
        """Send each record by `send`, which waits while the partition's batches are full."""
        acknowledged = 0
        deliveries: list[asyncio.Future[Any]] = []
        for chunk in chunks:
            deliveries += [await self._producer.send(self.job.topic, value) for value in chunk]
            if len(deliveries) > 50_000:
                await asyncio.gather(*deliveries)
                acknowledged += len(deliveries)
                deliveries = []
        await asyncio.gather(*deliveries)
        return acknowledged + len(deliveries)

    async def send_one(self, value: bytes) -> None:
        await self._producer.send_and_wait(self.job.topic, value)

    async def receive(self) -> AsyncGenerator[int, None]:
        consumer = aiokafka.AIOKafkaConsumer(
            self.job.topic,
            **self._common,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=4 << 20,
        )
        await consumer.start()
        try:
            while True:
                fetched = await consumer.getmany(timeout_ms=1_000, max_records=10_000)
                yield len([record.value for records in fetched.values() for record in records])
        finally:
            await consumer.stop()

    async def close(self) -> None:
        await self._producer.stop()
        await self._admin.close()


if __name__ == "__main__":
    main(AioKafka)
