"""Callbacks of blocking consumers may call the consumer: they run beside the thread that does its work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from raftlog import blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import InvalidRequestError
from raftlog.model import TopicPartition

pytestmark = pytest.mark.cluster
Partitions = list[TopicPartition]


@pytest.fixture
def url(shared_cluster: LocalCluster, topic_name: str) -> str:
    """Return where a cluster is that has ten records in each of the topic's two partitions."""
    url = shared_cluster.bootstrap
    with blocking.Admin(url) as admin, blocking.Producer(url) as producer:
        admin.create_topic(topic_name, partitions=2)
        for number in range(20):
            producer.send_nowait(topic_name, b"%d" % number, partition=number % 2)
    return url


@pytest.fixture
def member(url: str, topic_name: str) -> Callable[..., blocking.Consumer]:
    """Return a function that makes members of a group of this test's own, which commit nothing by themselves."""

    def make(**options: Any) -> blocking.Consumer:
        own = {"group_id": topic_name, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        return blocking.Consumer(url, topic_name, **own, **options)

    return make


def committed(url: str, group: str) -> int:
    with blocking.Admin(url) as admin:
        return sum(admin.group_offsets(group).values())


def read(consumer: blocking.Consumer, count: int) -> int:
    seen = 0
    while seen < count:
        seen += len(consumer.fetch(max_wait_ms=10_000))
    return seen


def test_partitions_that_are_given_up_can_be_committed(url: str, topic_name: str, member: Callable[..., Any]):
    revoked: list[Partitions] = []

    def commit(partitions: Partitions) -> None:
        assert set(partitions) <= set(consumer.assignment)
        consumer.commit()
        revoked.append(partitions)

    with member(on_revoked=commit) as consumer:
        read(consumer, 20)
        with member() as other:
            stop = threading.Event()
            joining: Future[None] = Future()

            def join() -> None:
                while not other.assignment and not stop.is_set():
                    other.fetch(max_wait_ms=100)
                joining.set_result(None)

            threading.Thread(target=join).start()
            while not joining.done():
                consumer.fetch(max_wait_ms=100)
            assert other.fetch(max_wait_ms=200) == []  # All that it was given is committed.
        assert len(revoked) == 1
    assert len(revoked) == 2
    assert committed(url, topic_name) == 20


def test_partitions_that_are_taken_can_be_sought_in(url: str, topic_name: str, member: Callable[..., Any]):
    def seek(partitions: Partitions) -> None:
        for partition in partitions:
            consumer.seek(*partition, 8)

    with member(on_assigned=seek) as consumer:
        records = iter(consumer)
        assert sorted(next(records).offset for _ in range(4)) == [8, 8, 9, 9]


def test_a_coroutine_does_as_well(topic_name: str, member: Callable[..., Any]):
    assigned: list[TopicPartition] = []

    async def note(partitions: Partitions) -> None:
        assigned.extend(partitions)

    with member(on_assigned=note) as consumer:
        read(consumer, 20)
    assert assigned == [(topic_name, 0), (topic_name, 1)]


def test_a_callback_neither_reads_nor_closes(topic_name: str, member: Callable[..., Any]):
    heard: list[str] = []

    def misbehave(_: Partitions) -> None:
        for call in (consumer.fetch, consumer.fetch_arrow, lambda: next(iter(consumer)), consumer.close):
            with pytest.raises(InvalidRequestError, match="once the callback has ended") as caught:
                call()
            heard.append(str(caught.value))

    with member(on_assigned=misbehave, on_revoked=misbehave) as consumer:
        read(consumer, 20)
        assert len(heard) == 4
    assert len(heard) == 8


def test_its_error_is_the_callers(member: Callable[..., Any]):
    def fail(_: Partitions) -> None:
        raise ZeroDivisionError

    consumer = member(on_assigned=fail)
    with consumer, pytest.raises(ZeroDivisionError):
        read(consumer, 1)


async def leave_in_the_loop(_: Partitions) -> None:
    sys.exit(3)


@pytest.mark.parametrize("leave", [lambda _: sys.exit(3), leave_in_the_loop], ids=["function", "coroutine"])
def test_its_exit_is_the_callers_and_the_consumer_goes_on(member: Callable[..., Any], leave: Callable[..., Any]):
    consumer = member(on_assigned=leave, on_revoked=leave)
    with pytest.raises(SystemExit):
        read(consumer, 1)
    assert read(consumer, 20) == 20
    with pytest.raises(SystemExit):
        consumer.close()
    assert not consumer._thread.is_alive()


def test_closing_waits_for_a_callback(url: str, topic_name: str, member: Callable[..., Any]):
    begun, go_on = threading.Event(), threading.Event()
    running, most = [0], [0]

    def commit(_: Partitions) -> None:
        running[0] += 1
        most[0] = max(most + running)
        begun.set()
        assert go_on.wait(10)
        consumer.commit({(topic_name, 0): 3})
        running[0] -= 1

    told: Future[Exception] = Future()

    def read_on() -> None:
        try:
            read(consumer, 20)
        except InvalidRequestError as error:
            told.set_result(error)

    consumer = member(on_assigned=commit, on_revoked=commit)
    threading.Thread(target=read_on).start()
    assert begun.wait(10)
    closing = threading.Thread(target=consumer.close)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive()
    go_on.set()
    closing.join(10)
    assert not closing.is_alive()
    assert "is closed" in str(told.result(timeout=10))
    assert most == [1]
    assert committed(url, topic_name) == 3
