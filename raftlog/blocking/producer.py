"""The producer without async."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeAlias

from raftlog import client
from raftlog.blocking.facade import Facade
from raftlog.client.deliveries import RecordMetadata
from raftlog.client.metrics import ProducerMetrics
from raftlog.client.transactions import GroupMetadata
from raftlog.model import Offset

SendOffsets: TypeAlias = Callable[[Mapping[tuple[str, int], Offset], GroupMetadata | str], None]


class Producer(Facade[client.Producer]):
    """Writes records; takes the arguments of `raftlog.Producer`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(client.Producer, *arguments, **options)

    def send(self, topic: str, value: bytes | None = None, **record: Any) -> RecordMetadata:
        """Send one record and wait until it is acknowledged; see `raftlog.Producer.send`."""
        return self._run(self._client.send, topic, value, **record)

    def send_nowait(self, topic: str, value: bytes | None = None, **record: Any) -> Future[RecordMetadata]:
        """Queue one record; return a future of its metadata. Waits while the buffer is full."""
        return self._begin(self._client.send, topic, value, **record)

    def send_many(
        self, topic: str, values: Sequence[bytes | None], *, key: bytes | None = None
    ) -> Sequence[RecordMetadata]:
        """Send several values and wait until all are acknowledged."""
        return self._run(self._client.send_many, topic, values, key=key)

    def metrics(self) -> ProducerMetrics:
        """Return what this producer has done so far."""
        return self._ask(self._client.metrics)

    def flush(self) -> None:
        """Wait until every queued record has an outcome."""
        self._run(self._client.flush)

    def _closed_error(self) -> Exception:
        return RuntimeError("the producer is closed; make another one")

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Run the block as one transaction; see `raftlog.Producer.transaction`."""
        work = self._client.transaction()
        self._run(work.__aenter__)
        try:
            yield Transaction(lambda offsets, group: self._run(work.send_offsets, offsets, group))
        except BaseException as error:
            self._run(work.__aexit__, type(error), error, error.__traceback__)
            raise
        self._run(work.__aexit__, None, None, None)


class Transaction:
    """A transaction that is under way."""

    def __init__(self, send_offsets: SendOffsets) -> None:
        self._send_offsets = send_offsets

    def send_offsets(self, offsets: Mapping[tuple[str, int], Offset], group: GroupMetadata | str) -> None:
        """Have a group's offsets count if the transaction does; see `raftlog.client.transactions.Transaction`."""
        self._send_offsets(offsets, group)
