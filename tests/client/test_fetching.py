"""The consumer's background half, against leaders that a test plays."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

from raftlog.client.fetching import Fetcher
from raftlog.errors import StaleRouteError
from raftlog.model import Address, TopicPartition
from raftlog.wire.data import FetchRequest

LEADER = Address("127.0.0.1", 1)


class Leader:
    """Leads every partition; says which of them it was asked for, and then that it leads none."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.session = self

    async def call_frame(self, *_: object, message: FetchRequest, **__: object) -> Any:
        self.asked.append([part.partition for part in message.partitions])
        raise StaleRouteError("not any more")

    async def refresh(self, topics: list[str]) -> None: ...

    def forget_leader_of(self, topics: object) -> None: ...

    def while_leading(self, *_: object, **__: object) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def leader(self, topic: str, partition: int) -> Address:
        return LEADER

    def known(self, topic: str) -> SimpleNamespace:
        return SimpleNamespace(topic_id="f" * 32)


async def test_a_partition_that_is_taken_away_just_when_a_fetch_begins_stops_no_other():
    leader = Leader()
    fetcher = Fetcher(leader, max_wait_ms=1, min_bytes=1, max_bytes=1, partition_max_bytes=1)  # type: ignore[arg-type]
    fetcher.seek(TopicPartition("t", 0), 0)
    fetcher.seek(TopicPartition("t", 1), 0)

    await fetcher._start_fetches()
    fetcher.forget(TopicPartition("t", 0))
    async with asyncio.timeout(10):
        while [1] not in leader.asked:
            await fetcher.wait(100)
    await fetcher.close()
