"""raftlog's own client: records in bulk or one by one, read as objects or as Arrow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, ClassVar

import raftlog
from benchmarks.drivers.shape import Driver, main
from raftlog.errors import OverloadedError
from raftlog.version import VERSION

_SENDERS = 48
"""Chunks in flight: three batches' worth."""
_READY_TIMEOUT_S = 30
_LINGER_MS = {"latency": 0}


class RaftlogClient(Driver):
    name = f"raftlog {VERSION}"
    settings: ClassVar[dict[str, object]] = {"acks": "all", "batch_bytes": 4 << 20, "buffer_bytes": 32 << 20}

    async def open(self) -> None:
        self._producers = [self._new_producer() for _ in range(self.job.options.get("clients", 1))]
        self._producer = self._producers[0]

    def _new_producer(self) -> raftlog.Producer:
        settings: dict[str, Any] = {**self.settings, **self.job.options.get("producer", {})}
        return raftlog.Producer(self.job.bootstrap, linger_ms=_LINGER_MS.get(self.job.work, 5), **settings)

    async def create(self) -> None:
        if self.job.options.get("exists"):
            return
        configs = {"flush": "batch" if self.job.durable else "os", **self.job.options.get("configs", {})}
        async with raftlog.Admin(self.job.bootstrap) as admin:
            await admin.create_topic(
                self.job.topic, partitions=self.job.partitions, replication_factor=3, configs=configs
            )
        async with asyncio.timeout(_READY_TIMEOUT_S):
            await self._producer.send(self.job.topic, b"first")

    async def drop(self) -> None:
        if self.job.options.get("exists"):
            return
        await self._producer.flush()
        async with raftlog.Admin(self.job.bootstrap) as admin:
            await admin.delete_topic(self.job.topic)

    async def produce(self, chunks: Iterator[Sequence[bytes]]) -> int:
        return await (self._send_each(chunks) if self.job.options.get("each") else self._send_many(chunks))

    async def _send_many(self, chunks: Iterator[Sequence[bytes]]) -> int:
        acknowledged = 0

        async def send(producer: raftlog.Producer) -> None:
            nonlocal acknowledged
            for chunk in chunks:
                deliveries = await producer.send_many(self.job.topic, chunk)
                acknowledged += len(deliveries)

        senders = max(1, _SENDERS // len(self._producers))
        async with asyncio.TaskGroup() as group:
            for producer in self._producers * senders:
                group.create_task(send(producer))
        return acknowledged

    async def _send_each(self, chunks: Iterator[Sequence[bytes]]) -> int:
        """Send record by record, drop the deliveries, and look for failures once all records have an outcome."""
        producer, send, topic, queued = self._producer, self._producer.send_nowait, self.job.topic, 0
        marks: deque[raftlog.Delivery] = deque()
        for chunk in chunks:
            for value in chunk:
                while True:
                    try:
                        delivery = send(topic, value)
                        break
                    except OverloadedError:
                        while marks and marks[0].done():
                            marks.popleft()
                        await (marks[len(marks) // 2] if marks else asyncio.sleep(0))
            queued += len(chunk)
            marks.append(delivery)
            await asyncio.sleep(0)  # The client's own tasks must run, too.
        await producer.flush()
        if failed := producer.metrics().records_failed:
            raise RuntimeError(f"{failed} records were refused")
        return queued

    async def send_one(self, value: bytes) -> None:
        await self._producer.send(self.job.topic, value)

    async def receive(self) -> AsyncGenerator[int, None]:
        async with raftlog.Consumer(self.job.bootstrap, self.job.topic, start="earliest") as consumer:
            while True:
                if self.job.options.get("arrow"):
                    yield (await consumer.fetch_arrow(max_wait_ms=1_000)).num_rows
                else:
                    yield len([record.value for record in await consumer.fetch(max_wait_ms=1_000)])

    async def close(self) -> None:
        for producer in self._producers:
            await producer.close()


if __name__ == "__main__":
    main(RaftlogClient)
