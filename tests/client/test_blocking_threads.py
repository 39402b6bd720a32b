"""The blocking classes and threads: closing beneath a caller, calls after the end, callbacks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from raftlog import blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import InvalidRequestError

pytestmark = pytest.mark.cluster


@pytest.fixture
def url(shared_cluster: LocalCluster, topic_name: str) -> str:
    """Return where a cluster is that has the topic."""
    with blocking.Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(topic_name, partitions=1)
    return shared_cluster.bootstrap


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert not {thread for thread in threading.enumerate() if thread.name.startswith("raftlog")} - before


def start(work: Callable[[], Any]) -> Future[Any]:
    """Run something in another thread."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future


def test_every_call_after_the_end_says_so(url: str, topic_name: str):
    admin, producer = blocking.Admin(url), blocking.Producer(url)
    consumer = blocking.Consumer(url, topic_name)
    records = iter(consumer)
    for each in (admin, producer, consumer):
        each.close()
        each.close()

    with pytest.raises(InvalidRequestError, match="this admin is closed"):
        admin.list_topics()
    for call in (lambda: producer.send(topic_name, b""), lambda: producer.send_nowait(topic_name), producer.flush):
        with pytest.raises(RuntimeError, match="the producer is closed"):
            call()
    for call in (consumer.fetch, lambda: next(records), lambda: consumer.assignment, consumer.commit_nowait):
        with pytest.raises(InvalidRequestError, match="this consumer is closed"):
            call()


@pytest.mark.parametrize("group", [{}, {"group_id": "closed-beneath"}])
@pytest.mark.parametrize("read", [lambda consumer: consumer.fetch(max_wait_ms=60_000), lambda c: next(iter(c))])
def test_who_waits_for_records_is_told_of_the_end(
    url: str, topic_name: str, group: dict[str, Any], read: Callable[[blocking.Consumer], object]
):
    consumer = blocking.Consumer(url, topic_name, **group)
    reading = start(lambda: read(consumer))
    time.sleep(0.3)
    assert not reading.done()

    closings = [start(consumer.close) for _ in range(3)]

    with pytest.raises(InvalidRequestError, match="this consumer is closed"):
        reading.result(timeout=10)
    for closing in closings:
        closing.result(timeout=10)


def test_the_producers_end_waits_for_what_others_send(url: str, topic_name: str):
    producer = blocking.Producer(url, linger_ms=60_000)
    sending = start(lambda: producer.send(topic_name, b"late"))
    time.sleep(0.3)
    producer.close()
    assert sending.result(timeout=10).offset == 0


def test_a_callback_in_the_clients_own_thread_is_refused_rather_than_waited_for(url: str, topic_name: str):
    heard: Future[Exception] = Future()

    def call_it(_: Future[Any]) -> None:
        try:
            producer.send(topic_name, b"again")
        except RuntimeError as error:
            heard.set_result(error)

    with blocking.Producer(url) as producer:
        producer.send_nowait(topic_name, b"0").add_done_callback(call_it)
        assert "make the call in another thread" in str(heard.result(timeout=10))

    def choose(*_: object) -> int:
        partitioned.metrics()
        return 0

    with (
        blocking.Producer(url, partitioner=choose) as partitioned,
        pytest.raises(InvalidRequestError, match="would wait for itself"),
    ):
        partitioned.send(topic_name, b"1")


def test_a_later_thread_may_have_the_number_of_the_one_that_ended(url: str, monkeypatch: pytest.MonkeyPatch):
    """Systems reuse them: a second close then reported a callback's close."""
    admin = blocking.Admin(url)
    admin.close()
    monkeypatch.setattr(admin._thread, "_ident", threading.get_ident())

    admin.close()
    with pytest.raises(InvalidRequestError, match="this admin is closed"):
        admin.list_topics()
