"""rstream: RabbitMQ's stream protocol, batches of messages and their confirmations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any, ClassVar

import rstream

from benchmarks.drivers.shape import Driver, main

_MAX_UNCONFIRMED = 50_000
_BATCH_MESSAGES = 500
_TIMEOUT_S = 60


class RabbitStream(Driver):
    name = f"rstream {version('rstream')}"
    settings: ClassVar[dict[str, object]] = {
        "send": f"send_batch({_BATCH_MESSAGES}) with publisher confirms",
        "unconfirmed": _MAX_UNCONFIRMED,
    }

    async def open(self) -> None:
        self._confirmed = self._failed = 0
        self._news = asyncio.Event()
        host, port = self.job.bootstrap.split(",")[0].split(":")
        self._address = {"host": host, "port": int(port), "username": "guest", "password": "guest"}
        self._producer = rstream.Producer(**self._address)
        await self._producer.start()

    async def create(self) -> None:
        await self._producer.create_stream(self.job.topic)

    async def drop(self) -> None:
        await self._producer.delete_stream(self.job.topic)

    async def produce(self, chunks: Iterator[Sequence[bytes]]) -> int:
        self._confirmed, sent = 0, 0
        for chunk in chunks:
            for first in range(0, len(chunk), _BATCH_MESSAGES):
                batch = list(chunk[first : first + _BATCH_MESSAGES])
                await self._producer.send_batch(self.job.topic, batch, on_publish_confirm=self._on_confirm)
                sent += len(batch)
                await self._until_unconfirmed(sent, _MAX_UNCONFIRMED)
        await self._until_unconfirmed(sent, 0)
        return sent

    async def _on_confirm(self, confirmation: Any) -> None:
        self._confirmed += 1
        self._failed += not confirmation.is_confirmed
        self._news.set()

    async def _until_unconfirmed(self, sent: int, at_most: int) -> None:
        async with asyncio.timeout(_TIMEOUT_S):
            while sent - self._confirmed > at_most:
                self._news.clear()
                await self._news.wait()
        if self._failed:
            raise RuntimeError(f"{self._failed} messages were refused")

    async def send_one(self, value: bytes) -> None:
        await self._producer.send_wait(self.job.topic, value)

    async def receive(self) -> AsyncGenerator[int, None]:
        consumer = rstream.Consumer(**self._address)
        received: list[bytes] = []
        news = asyncio.Event()

        def on_message(value: bytes, _: object) -> None:
            received.append(value)
            news.set()

        await consumer.start()
        first = rstream.ConsumerOffsetSpecification(rstream.OffsetType.FIRST, None)
        await consumer.subscribe(self.job.topic, on_message, offset_specification=first, initial_credit=10)
        running = asyncio.create_task(consumer.run())
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await news.wait()
                news.clear()
                yield len(received)
                received.clear()
        finally:
            await consumer.close()
            running.cancel()

    async def close(self) -> None:
        await self._producer.close()


if __name__ == "__main__":
    main(RabbitStream)
