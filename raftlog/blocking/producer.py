"""The producer without async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ParamSpec, TypeAlias, TypeVar

from raftlog.blocking.facade import Facade
from raftlog.blocking.outbox import Outbox, QueueingProducer
from raftlog.client.core.membership import GroupMetadata
from raftlog.client.deliveries import RecordMetadata
from raftlog.client.metrics import ProducerMetrics
from raftlog.client.options import require_at_least
from raftlog.client.record_input import HeadersLike, new_record
from raftlog.client.times import Time
from raftlog.model import Offset

P = ParamSpec("P")
T = TypeVar("T")
SendOffsets: TypeAlias = Callable[[Mapping[tuple[str, int], Offset], GroupMetadata | str], None]


class Producer(Facade[QueueingProducer]):
    """Writes records; takes the arguments of `raftlog.Producer`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._limit_ms: int | None = None
        super().__init__(QueueingProducer, *arguments, **options)
        self._outbox = Outbox(self._client, self._begin, self._closed_error)

    def send(self, topic: str, value: bytes | None = None, **record: Any) -> RecordMetadata:
        """Send one record and wait until it is acknowledged; see `raftlog.Producer.send`."""
        return self._run(self._in_turn, partial(self._client.send, topic, value, **record))

    def send_nowait(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: HeadersLike = None,
        partition: int | None = None,
        timestamp: Time | None = None,
    ) -> Future[RecordMetadata]:
        """Queue one record; return a future of its metadata, to wait for or to drop. Waits while the buffer is full.

        What one thread sends goes to the log in the order of its calls; `flush` and `close` wait for it. Callbacks of
        the future run in the thread that does the work: they must neither wait nor call this producer.

        Raises:
            OverloadedError: BUFFER_EXHAUSTED, there was no room within max_block_ms; nothing was queued.
            InvalidRequestError: MESSAGE_TOO_LARGE; nothing was queued.
            TypeError: a key or value is not bytes, or the partition no int.
            RuntimeError: the producer is closed, or a callback has called it.
        """
        record, size = new_record(value, key, headers, timestamp)
        if partition is not None and type(partition) is not int:
            raise TypeError(f"partition: expected an int or None, received {type(partition).__name__}")
        self._require_can_wait()
        return self._outbox.put(topic, partition, record, size)

    def send_many(
        self, topic: str, values: Sequence[bytes | None], *, key: bytes | None = None
    ) -> Sequence[RecordMetadata]:
        """Send several values and wait until all are acknowledged."""
        return self._run(self._in_turn, self._client.send_many, topic, values, key=key)

    def metrics(self) -> ProducerMetrics:
        """Return what this producer has done so far."""
        return self._ask(self._client.metrics)

    def flush(self, *, timeout_ms: int | None = None) -> None:
        """Wait until every queued record has an outcome; see `raftlog.Producer.flush`."""
        self._run(self._in_turn, self._client.flush, timeout_ms=timeout_ms)

    def close(self, *, timeout_ms: int | None = None) -> None:
        """Send what is queued, and end; see `raftlog.Producer.close`. Closing again does nothing.

        Raises:
            RuntimeError: a callback has called it.
        """
        if timeout_ms is not None:
            require_at_least(0, timeout_ms=timeout_ms)
        self._limit_ms = timeout_ms
        super().close()

    def init_transactions(self) -> None:
        """Take the transactional id over now; see `raftlog.Producer.init_transactions`."""
        self._run(self._in_turn, self._client.init_transactions)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Run the block as one transaction; see `raftlog.Producer.transaction`."""
        work = self._client.transaction()
        self._run(self._in_turn, work.__aenter__)
        try:
            yield Transaction(lambda offsets, group: self._run(self._in_turn, work.send_offsets, offsets, group))
        except BaseException as error:
            self._run(self._in_turn, work.__aexit__, type(error), error, error.__traceback__)
            raise
        self._run(self._in_turn, work.__aexit__, None, None, None)

    @property
    def _exit_limit_s(self) -> float:
        return self._client.close_timeout_ms / 1000

    def _closed_error(self) -> Exception:
        return RuntimeError("the producer is closed; make another one")

    async def _in_turn(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> T:
        """Do something after what was queued before."""
        await self._outbox.passed()
        return await work(*arguments, **options)

    async def _end(self, reason: tuple[Any, ...]) -> None:
        is_hurried = reason[0] is not None and not issubclass(reason[0], Exception)
        limit_ms = self._client.close_timeout_ms if is_hurried else self._limit_ms
        try:
            self._outbox.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
                    await self._outbox.passed()
        finally:
            await self._client.close(timeout_ms=limit_ms)


class Transaction:
    """A transaction that is under way."""

    def __init__(self, send_offsets: SendOffsets) -> None:
        self._send_offsets = send_offsets

    def send_offsets(self, offsets: Mapping[tuple[str, int], Offset], group: GroupMetadata | str) -> None:
        """Have a group's offsets count if the transaction does; see `raftlog.client.transactions.Transaction`."""
        self._send_offsets(offsets, group)
