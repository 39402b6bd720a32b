"""Reading without async: a record counts as returned once it was handed out, and no record before."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from raftlog import blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import InvalidRequestError

pytestmark = pytest.mark.cluster
COUNT = 1_200


@pytest.fixture
def url(shared_cluster: LocalCluster, topic_name: str) -> str:
    """Return where a cluster is that has records 0 to COUNT - 1 in the topic's partition 0."""
    url = shared_cluster.bootstrap
    with blocking.Admin(url) as admin, blocking.Producer(url) as producer:
        admin.create_topic(topic_name, partitions=1)
        producer.send_many(topic_name, [b"%d" % number for number in range(COUNT)])
    return url


@pytest.fixture
def member(url: str, topic_name: str) -> Callable[..., blocking.Consumer]:
    """Return a function that makes members of a group of this test's own."""

    def make(**options: Any) -> blocking.Consumer:
        return blocking.Consumer(url, topic_name, group_id=topic_name, auto_offset_reset="earliest", **options)

    return make


def committed(url: str, group: str) -> int | None:
    with blocking.Admin(url) as admin:
        return admin.group_offsets(group).get((group, 0))  # type: ignore[call-overload]


@contextmanager
def ctrl_c(after_s: float) -> Iterator[None]:
    """Press it during the block, in a program that is not deaf to it: jobs in a shell's background are."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_a_loop_that_is_left_commits_what_it_was_handed(url: str, topic_name: str, member: Callable[..., Any]):
    with member() as consumer:
        for record in consumer:
            if record.offset == 6:
                break
        assert consumer.position(topic_name, 0) == 7
    assert committed(url, topic_name) == 7

    with member() as consumer:
        assert next(iter(consumer)).offset == 7
        assert consumer.fetch(max_records=1)[0].offset == 8
        assert next(iter(consumer)).offset == 9


def test_an_error_commits_nothing(url: str, topic_name: str, member: Callable[..., Any]):
    with pytest.raises(ZeroDivisionError), member() as consumer:  # noqa: PT012
        for record in consumer:
            1 / (record.offset - 3)
    assert committed(url, topic_name) is None

    with member() as consumer:
        assert next(iter(consumer)).offset == 0


def test_commits_within_the_loop_are_of_what_was_handed_out(url: str, topic_name: str, member: Callable[..., Any]):
    with member(enable_auto_commit=False) as consumer:
        for record in consumer:
            if record.offset % 100 == 50:
                consumer.commit()
                assert consumer.committed()[topic_name, 0].offset == record.offset + 1
            if record.offset == COUNT - 1:
                break
        consumer.seek(topic_name, 0, 5)
        assert [next(iter(consumer)).offset for _ in range(3)] == [5, 6, 7]


def test_a_slow_loop_commits_and_counts_as_alive(url: str, topic_name: str, member: Callable[..., Any]):
    with member(auto_commit_interval_ms=200, max_poll_interval_ms=1_500) as consumer:
        records = iter(consumer)
        for number in range(12):  # All of one batch.
            assert next(records).offset == number
            time.sleep(0.25)
        assert 5 <= (committed(url, topic_name) or 0) <= 12


@pytest.mark.parametrize("group", [{}, {"group_id": "seeks"}])
def test_a_seek_within_the_loop_takes_effect_at_once(url: str, topic_name: str, group: dict[str, str]):
    with blocking.Consumer(url, topic_name, **(group or {"start": "earliest"})) as consumer:
        if group:
            consumer.fetch(max_wait_ms=200)
            consumer.seek_to("earliest")
        seen = []
        for record in consumer:
            seen.append(record.offset)
            if seen == [0, 1]:
                consumer.seek(topic_name, 0, 700)
            if len(seen) == 3:
                break
        assert seen == [0, 1, 700]
        assert consumer.position(topic_name, 0) == 701


def test_ctrl_c_ends_the_wait_and_loses_nothing(url: str, topic_name: str, member: Callable[..., Any]):
    consumer = member()
    records = iter(consumer)
    assert [next(records).offset for _ in range(COUNT)] == list(range(COUNT))
    with pytest.raises(KeyboardInterrupt), ctrl_c(0.3):
        next(records)
    with pytest.raises(KeyboardInterrupt), ctrl_c(0.3):
        consumer.fetch(max_wait_ms=60_000)
    with blocking.Producer(url) as producer:
        producer.send(topic_name, b"last")
    assert next(iter(consumer)).value == b"last"
    consumer.close()
    assert committed(url, topic_name) == COUNT + 1


@pytest.mark.parametrize("method", ["fetch", "fetch_arrow"])
def test_what_was_read_but_never_reached_the_caller_is_read_again(
    url: str, topic_name: str, method: str, monkeypatch: pytest.MonkeyPatch
):
    with blocking.Consumer(url, topic_name, start="earliest") as consumer:
        wait_for = consumer._wait_for

        def interrupted(work: Any) -> Any:
            wait_for(work)
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(consumer, "_wait_for", interrupted)
        with pytest.raises(KeyboardInterrupt):
            getattr(consumer, method)(max_wait_ms=10_000)
        assert consumer.position(topic_name, 0) == 0
        assert consumer.fetch(max_wait_ms=10_000)[0].offset == 0


def test_two_threads_do_not_take_each_others_records(url: str, topic_name: str):
    with blocking.Consumer(url, topic_name, start="latest") as consumer:
        waiting = threading.Thread(target=lambda: consumer.fetch(max_wait_ms=1_500))
        waiting.start()
        time.sleep(0.3)
        with pytest.raises(InvalidRequestError, match="another task is reading"):
            next(iter(consumer))
        waiting.join()


def test_few_records_cross_threads(url: str, topic_name: str, monkeypatch: pytest.MonkeyPatch):
    crossings = []
    submit = asyncio.run_coroutine_threadsafe
    with blocking.Consumer(url, topic_name, start="earliest") as consumer:
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", lambda *a: crossings.append(1) or submit(*a))
        records = iter(consumer)
        assert [next(records).offset for _ in range(COUNT)] == list(range(COUNT))
    assert len(crossings) < COUNT // 10
