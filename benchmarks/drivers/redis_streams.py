"""redis-py: XADD in pipelines, each of which ends with WAIT until both replicas have it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from importlib.metadata import version
from typing import Any, ClassVar

import redis
import redis.asyncio

from benchmarks.drivers.shape import Driver, main

_REPLICAS = 2
_WAIT_MS = 30_000
_READ_MESSAGES = 5_000
_CONNECTIONS = 16
"""For records sent one by one: WAIT blocks its own connection only."""


class RedisStreams(Driver):
    name = f"redis-py {version('redis')} with hiredis"
    settings: ClassVar[dict[str, object]] = {
        "pipeline": "XADD x 1,000 (256 KB of larger values), then WAIT 2",
        "transaction": False,
    }
    chunk_bytes = 256 << 10

    async def open(self) -> None:
        host, port = self.job.bootstrap.split(":")
        self._client: Any = redis.Redis(host=host, port=int(port))
        pool = redis.asyncio.BlockingConnectionPool(host=host, port=int(port), max_connections=_CONNECTIONS, timeout=30)
        self._async: Any = redis.asyncio.Redis(connection_pool=pool)

    async def create(self) -> None:
        """A stream is created with its first entry."""

    async def drop(self) -> None:
        self._client.unlink(self.job.topic)

    async def produce(self, chunks: Iterator[Sequence[bytes]]) -> int:
        acknowledged = 0
        for chunk in chunks:
            for first in range(0, len(chunk), 1_000):
                pipeline = self._client.pipeline(transaction=False)
                values = chunk[first : first + 1_000]
                for value in values:
                    pipeline.xadd(self.job.topic, {"v": value})
                pipeline.wait(_REPLICAS, _WAIT_MS)
                _require_replicated(pipeline.execute()[-1])
                acknowledged += len(values)
        return acknowledged

    async def send_one(self, value: bytes) -> None:
        pipeline = self._async.pipeline(transaction=False)
        pipeline.xadd(self.job.topic, {"v": value})
        pipeline.wait(_REPLICAS, _WAIT_MS)
        _require_replicated((await pipeline.execute())[-1])

    async def receive(self) -> AsyncGenerator[int, None]:
        after = "0-0"
        while True:
            entries = self._client.xrange(self.job.topic, f"({after}", "+", count=_READ_MESSAGES)
            after = entries[-1][0].decode() if entries else after
            yield len([fields[b"v"] for _, fields in entries])

    async def close(self) -> None:
        self._client.close()
        await self._async.aclose()


def _require_replicated(replicas: int) -> None:
    if replicas < _REPLICAS:
        raise RuntimeError(f"{replicas} of {_REPLICAS} replicas had the entries within {_WAIT_MS} ms")


if __name__ == "__main__":
    main(RedisStreams)
