"""The consumer without async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from raftlog import client
from raftlog.blocking.facade import Facade
from raftlog.client.metrics import ConsumerMetrics
from raftlog.client.offsets import OffsetAndMetadata
from raftlog.client.starts import Start
from raftlog.client.transactions import GroupMetadata
from raftlog.model import Offset, TopicPartition
from raftlog.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
T = TypeVar("T")
ITERATION_WAIT_MS = 60_000


class Consumer(Facade[client.Consumer]):
    """Reads topics; takes the arguments of `raftlog.Consumer`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._readings: set[asyncio.Task[Any]] = set()
        """Calls that wait for records."""
        super().__init__(client.Consumer, *arguments, **options)

    def __iter__(self) -> Iterator[Record]:
        while True:
            yield from self.fetch(max_wait_ms=ITERATION_WAIT_MS)

    def fetch(self, *, max_records: int | None = None, max_wait_ms: int = 500) -> list[Record]:
        """Return the next records; see `raftlog.Consumer.fetch`."""
        return self._read(self._client.fetch, max_records=max_records, max_wait_ms=max_wait_ms)

    def fetch_arrow(self, *, max_wait_ms: int = 500) -> pa.Table:
        """Return everything that is ready as one table; see `raftlog.Consumer.fetch_arrow`."""
        return self._read(self._client.fetch_arrow, max_wait_ms=max_wait_ms)

    def position(self, topic: str, partition: int) -> Offset:
        """Return the offset of the next record that will be returned."""
        return self._ask(self._client.position, topic, partition)

    @property
    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read."""
        return self._ask(lambda: self._client.assignment)

    def lag(self, topic: str, partition: int) -> int | None:
        """Return how many offsets there are still to read, as far as is known."""
        return self._ask(self._client.lag, topic, partition)

    def commit(self, offsets: Mapping[tuple[str, int], Offset | OffsetAndMetadata] | None = None) -> None:
        """Commit what was returned so far, or these offsets; see `raftlog.Consumer.commit`."""
        self._run(self._client.commit, offsets)

    def commit_nowait(
        self, offsets: Mapping[tuple[str, int], Offset | OffsetAndMetadata] | None = None
    ) -> Future[None]:
        """Commit in the background; return a future, to wait for or to drop."""
        return self._begin(self._commit_soon, offsets)

    def metrics(self) -> ConsumerMetrics:
        """Return what this consumer has done so far."""
        return self._ask(self._client.metrics)

    async def _commit_soon(self, offsets: Mapping[tuple[str, int], Offset | OffsetAndMetadata] | None) -> None:
        await self._client.commit_nowait(offsets)

    @property
    def group_metadata(self) -> GroupMetadata:
        """Return who in the group this member is: for `Transaction.send_offsets`."""
        return self._ask(lambda: self._client.group_metadata)

    def committed(self, *partitions: tuple[str, int]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets; see `raftlog.Consumer.committed`."""
        return self._run(self._client.committed, *partitions)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of some partitions (none named: of all), until `resume`."""
        self._ask(self._client.pause, *partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Go on with paused partitions (none named: all)."""
        self._ask(self._client.resume, *partitions)

    def seek(self, topic: str, partition: int, offset: Offset) -> None:
        """Go on at `offset`."""
        self._run(self._client.seek, topic, partition, offset)

    def seek_to(self, start: Start, *partitions: tuple[str, int]) -> None:
        """Go on at an end of the log, or at a time; see `raftlog.Consumer.seek_to`."""
        self._run(self._client.seek_to, start, *partitions)

    def seek_to_committed(self) -> None:
        """Go on from what the group has committed: what was returned since is returned again."""
        self._run(self._client.seek_to_committed)

    def beginning_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the log start offset of each partition that is read."""
        return self._run(self._client.beginning_offsets)

    def end_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the high watermark of each partition that is read."""
        return self._run(self._client.end_offsets)

    def _read(self, read: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> T:
        """Run what waits for records."""

        async def reading() -> T:
            task = asyncio.current_task()
            assert task is not None
            self._readings.add(task)
            try:
                return await read(*arguments, **options)
            finally:
                self._readings.discard(task)

        return self._run(reading)

    async def _shut(self, reason: tuple[Any, ...]) -> None:
        for task in self._readings:  # First: they would go on with what is being closed.
            task.cancel()
        await asyncio.gather(*self._readings, return_exceptions=True)
        await super()._shut(reason)
