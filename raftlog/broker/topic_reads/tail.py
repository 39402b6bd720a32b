"""Follows a topic: long-polls each leader for new records, one response ahead at most."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from raftlog.broker.topic_reads.source import CHUNK_BYTES, Data, Loaded, Position, TopicSource
from raftlog.errors import RaftlogError
from raftlog.model import Offset

HEARTBEAT_S = 10.0
"""The interval of heartbeats while no records arrive; they also detect a lost connection."""
FOLLOW_WAIT_MS = 5_000
_REST_S = 0.1
_MOST_LOADED_BYTES = 4 * CHUNK_BYTES
"""Batches of one fetch are decoded up to this size, plus one: each may unpack to thousands of times its bytes."""
_Answer = tuple[list[Position], list[Loaded]]


class Tail:
    """New records of some partitions.

    Args:
        starts: the first offset of each partition.
        load: decodes fetched batches.
    """

    def __init__(
        self,
        source: TopicSource,
        starts: Mapping[int, Offset],
        load: Callable[[Position, Data], Awaitable[Loaded]],
    ) -> None:
        self._source = source
        self._at = dict(starts)
        self._load = load
        self._asking: dict[asyncio.Task[_Answer], None] = {}
        self._in_flight: set[int] = set()
        """Partitions with a fetch in flight."""

    async def updates(self) -> AsyncGenerator[tuple[Position, Loaded] | None, None]:
        """Yield new records with the position of their fetch; None every `HEARTBEAT_S` without records.

        Raises:
            RaftlogError: a partition can no longer be read, and a retry does not help.
        """
        loop = asyncio.get_running_loop()
        told_at = loop.time()
        try:
            while True:
                self._ask()
                all_polled = len(self._in_flight) == len(self._at)
                for task in await self._any_answer(HEARTBEAT_S if all_polled else _REST_S):
                    group, told = task.result()
                    self._in_flight -= {position.partition for position in group}
                    for position, loaded in zip(group, told, strict=False):
                        self._at[position.partition] = loaded.next_offset
                        if loaded.next_offset > position.offset:
                            yield position, loaded
                            if loaded.rows.num_rows:  # Nothing is sent for records that the reader does not want.
                                told_at = loop.time()
                if loop.time() - told_at >= HEARTBEAT_S:  # Leaders send empty responses more often.
                    yield None
                    told_at = loop.time()
        finally:
            for task in self._asking:
                task.cancel()
            await asyncio.gather(*self._asking, return_exceptions=True)

    def _ask(self) -> None:
        idle = [
            Position(partition, offset) for partition, offset in self._at.items() if partition not in self._in_flight
        ]
        for group in self._source.by_leader(idle):
            self._asking[asyncio.ensure_future(self._ask_leader(group))] = None
            self._in_flight |= {position.partition for position in group}

    async def _any_answer(self, within_s: float) -> set[asyncio.Task[_Answer]]:
        if not self._asking:
            await asyncio.sleep(within_s)
            return set()
        answered, _ = await asyncio.wait(self._asking, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        for task in answered:
            del self._asking[task]
        return answered

    async def _ask_leader(self, group: list[Position]) -> _Answer:
        """Long-poll partitions of one leader; return the records that arrived before a retriable error.

        Partitions behind too many decoded bytes, or behind an error, are asked for again, before the others.
        """
        told: list[Loaded] = []
        size = reached = 0
        try:
            answers = await self._source.fetch(group, max_wait_ms=FOLLOW_WAIT_MS)
            for position, data in zip(group, answers, strict=True):
                reached += 1
                if data[0].error is not None:
                    raise data[0].error.to_error()
                told.append(await self._load(position, data))
                size += told[-1].rows.nbytes
                if size > _MOST_LOADED_BYTES:
                    break
        except RaftlogError as error:
            if not self._source.may_pass(error):
                raise
            await asyncio.sleep(_REST_S)
        for position in group[:reached]:
            self._at[position.partition] = self._at.pop(position.partition)  # It is the last one now.
        return group, told
