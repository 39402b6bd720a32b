"""Iteration of a blocking consumer while another call of it waits: it goes on, and does not spin."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Self

import pytest

from raftlog import blocking
from raftlog.blocking.stepping import SteppedConsumer, Steps
from raftlog.model import TopicPartition
from raftlog.record import Record

COUNT = 5
MANY = 50


class Waiting(SteppedConsumer):
    """A consumer without a cluster, whose coordinator and leaders answer once `answered` is set."""

    answered: asyncio.Event
    begun: threading.Event
    prepared: int

    async def __aenter__(self) -> Self:
        self.answered, self.begun, self.prepared = asyncio.Event(), threading.Event(), 0
        self._reader.positions[TopicPartition("t", 0)] = COUNT
        self._reader.keep_ready([Record("t", 0, at, 0, None, b"x", ()) for at in range(COUNT)])
        return self

    async def prepare(self, steps: Steps) -> Any:
        self.prepared += 1
        assert self.prepared < MANY, "it spins"
        return await super().prepare(steps)

    def commit_nowait(self, offsets: Any = None) -> Any:
        return asyncio.ensure_future(self.answered.wait())

    async def end_offsets(self) -> Any:
        self.begun.set()
        await self.answered.wait()
        return {}


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Iterator[blocking.Consumer]:
    monkeypatch.setattr("raftlog.blocking.consumer.SteppedConsumer", Waiting)
    with blocking.Consumer("http://127.0.0.1:1", "t") as consumer:
        try:
            yield consumer
        finally:
            answer(consumer)


def answer(consumer: blocking.Consumer) -> None:
    consumer._loop.call_soon_threadsafe(consumer._client.answered.set)  # type: ignore[attr-defined]


@pytest.fixture
def asking(consumer: blocking.Consumer) -> Iterator[Future[Any]]:
    """Return the outcome of another thread's call, which waits for a leader."""
    done: Future[Any] = Future()
    thread = threading.Thread(target=lambda: done.set_result(consumer.end_offsets()))
    thread.start()
    assert consumer._client.begun.wait(10)  # type: ignore[attr-defined]
    yield done
    answer(consumer)
    thread.join()


def test_the_loop_goes_on_while_a_commit_waits_for_its_answer(consumer: blocking.Consumer):
    records = iter(consumer)
    assert next(records).offset == 0
    committing = consumer.commit_nowait()
    assert [next(records).offset for _ in range(3)] == [1, 2, 3]
    assert not committing.done()
    assert consumer._client.prepared <= 2, "at most once while the commit is queued"  # type: ignore[attr-defined]


def test_the_loop_goes_on_while_another_threads_call_waits(consumer: blocking.Consumer, asking: Future[Any]):
    records = iter(consumer)
    assert [next(records).offset for _ in range(3)] == [0, 1, 2]
    assert not asking.done()
    assert consumer.position("t", 0) == 3


def test_a_record_that_does_not_reach_the_loop_is_read_again(
    consumer: blocking.Consumer, asking: Future[Any], monkeypatch: pytest.MonkeyPatch
):
    wait_for = consumer._wait_for

    def interrupted(work: Any) -> Any:
        wait_for(work)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(consumer, "_wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(iter(consumer))
    assert consumer.position("t", 0) == 0
    assert not asking.done()
