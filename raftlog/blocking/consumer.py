"""The consumer without async."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from raftlog.blocking.facade import Facade
from raftlog.blocking.stepping import SteppedConsumer, Steps
from raftlog.client.core.membership import GroupMetadata
from raftlog.client.group_session import OnRebalance
from raftlog.client.metrics import ConsumerMetrics
from raftlog.client.offsets import OffsetAndMetadata
from raftlog.client.starts import Start
from raftlog.errors import InvalidRequestError
from raftlog.model import Offset, TopicPartition
from raftlog.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
T = TypeVar("T")


class Consumer(Facade[SteppedConsumer]):
    """Reads topics; takes the arguments of `raftlog.Consumer`.

    `on_assigned`, `on_revoked` and `on_lost` run in another thread, while the call for records (or `close`) waits for
    them. They may call this consumer (`commit`, `seek`, `position`), but neither read from it nor close it.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._readings: set[asyncio.Task[Any]] = set()
        """Calls that wait for records."""
        self._in_callbacks: set[int] = set()
        """Threads: what they call is awaited by what waits for them."""
        self._steps = Steps()
        for name in ("on_assigned", "on_revoked", "on_lost"):
            if options.get(name) is not None:
                options[name] = self._apart(options[name])
        super().__init__(SteppedConsumer, *arguments, **options)

    def __iter__(self) -> Iterator[Record]:
        reader, take = self._client.reader, self._steps.take
        while True:
            if (record := take(reader)) is not None:
                yield record
            else:
                self._require_no_callback("read from")
                self._steps.stop()
                self._wait_for(super()._begin(self._until_closing, self._client.prepare, self._steps))

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

    def _begin(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> Future[T]:
        self._steps.begin_other()
        try:
            begun = super()._begin(work, *arguments, **options)
        except BaseException:
            self._steps.end_other()
            raise
        begun.add_done_callback(lambda _: self._steps.end_other())
        return begun

    def _read(self, read: Callable[..., Coroutine[Any, Any, T]], **options: Any) -> T:
        """Wait for records; they count as returned only if they reach this thread."""
        self._require_can_wait()
        self._require_no_callback("read from")
        taken: list[T] = []

        async def take() -> None:
            taken.append(await read(**options))

        try:
            self._run(self._until_closing, take)
            return taken[0]
        except BaseException:
            with suppress(InvalidRequestError):  # It is closed.
                self._begin(self._client.take_back, taken)
            raise

    async def _until_closing(
        self, read: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs
    ) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._readings.add(task)
        try:
            return await read(*arguments, **options)
        finally:
            self._readings.discard(task)

    async def _end(self, reason: tuple[Any, ...]) -> None:
        self._steps.begin_other()
        try:
            for task in self._readings:  # First: they would go on with what is being closed.
                task.cancel()
            await asyncio.gather(*self._readings, return_exceptions=True)
        finally:
            await super()._end(reason)

    def _apart(self, callback: OnRebalance) -> OnRebalance:
        """Have a callback run in a thread that may call this consumer, while the loop's thread awaits it."""

        def call(partitions: list[TopicPartition]) -> Awaitable[None] | None:
            self._in_callbacks.add(threading.get_ident())
            try:
                return callback(partitions)
            finally:
                self._in_callbacks.discard(threading.get_ident())

        async def call_apart(partitions: list[TopicPartition]) -> None:
            calling = asyncio.ensure_future(asyncio.to_thread(call, partitions))
            try:
                await asyncio.wait([calling])
            except asyncio.CancelledError:
                await asyncio.wait([calling])  # No callback begins before the last one has ended.
                raise
            if inspect.isawaitable(result := calling.result()):
                await result

        return call_apart

    def _forked(self) -> None:
        super()._forked()
        self._steps.forked()

    def _is_open(self) -> bool:
        return super()._is_open() or (self._state == "closing" and threading.get_ident() in self._in_callbacks)

    def _close(self, *reason: Any) -> None:
        self._require_no_callback("close")
        super()._close(*reason)

    def _require_no_callback(self, what: str) -> None:
        if threading.get_ident() in self._in_callbacks:
            raise InvalidRequestError(
                f"a callback of this consumer cannot {what} it: do so once the callback has ended"
            )
