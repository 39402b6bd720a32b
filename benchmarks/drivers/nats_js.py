"""nats-py: JetStream's asynchronous publish, with a window of messages that are not acknowledged yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from importlib.metadata import version
from typing import Any, ClassVar

import nats
from nats.js.api import AckPolicy, ConsumerConfig, StorageType

from benchmarks.drivers.shape import Driver, main

_MAX_PENDING = 4_000
_FETCH_MESSAGES = 1_000


class NatsJetStream(Driver):
    name = f"nats-py {version('nats-py')}"
    settings: ClassVar[dict[str, object]] = {
        "replicas": 3,
        "storage": "file",
        "publish": "publish_async",
        "publish_async_max_pending": _MAX_PENDING,
    }

    async def open(self) -> None:
        self._connection = await nats.connect(self.job.bootstrap.split(","))
        self._js: Any = self._connection.jetstream(timeout=30, publish_async_max_pending=_MAX_PENDING)

    async def create(self) -> None:
        async with asyncio.timeout(30):
            while True:
                try:
                    await self._js.add_stream(
                        name=self.job.topic, subjects=[self.job.topic], num_replicas=3, storage=StorageType.FILE
                    )
                    return
                except nats.js.errors.ServiceUnavailableError:  # The cluster has not elected its leader yet.
                    await asyncio.sleep(0.2)

    async def drop(self) -> None:
        await self._js.delete_stream(self.job.topic)

    async def produce(self, chunks: Iterator[Sequence[bytes]]) -> int:
        acknowledged = 0
        deliveries: list[asyncio.Future[Any]] = []
        for chunk in chunks:
            deliveries += [await self._js.publish_async(self.job.topic, value, wait_stall=30) for value in chunk]
            if len(deliveries) > 10 * _MAX_PENDING:
                await asyncio.gather(*deliveries)
                acknowledged += len(deliveries)
                deliveries = []
        await asyncio.gather(*deliveries)
        return acknowledged + len(deliveries)

    async def send_one(self, value: bytes) -> None:
        await self._js.publish(self.job.topic, value)

    async def receive(self) -> AsyncGenerator[int, None]:
        config = ConsumerConfig(ack_policy=AckPolicy.NONE, num_replicas=1, mem_storage=True)
        subscription = await self._js.pull_subscribe(self.job.topic, stream=self.job.topic, config=config)
        while True:
            try:
                messages = await subscription.fetch(_FETCH_MESSAGES, timeout=1)
            except TimeoutError:
                messages = []
            yield len([message.data for message in messages])

    async def close(self) -> None:
        await self._connection.close()


if __name__ == "__main__":
    main(NatsJetStream)
