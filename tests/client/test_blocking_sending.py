"""Records queued without async: bounded, in the order of the calls, and each with an outcome."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from raftlog import blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError, TransactionAbortedError

pytestmark = pytest.mark.cluster
LINGER_MS = 700


@pytest.fixture
def url(shared_cluster: LocalCluster, topic_name: str) -> str:
    """Return where a cluster is that has the topic."""
    with blocking.Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(topic_name, partitions=1)
    return shared_cluster.bootstrap


@pytest.fixture
def small(url: str, topic_name: str) -> blocking.Producer:
    """Return a producer that has room for two large records, and takes its time to send them."""
    producer = blocking.Producer(url, buffer_bytes=10_000, linger_ms=LINGER_MS)
    producer.send(topic_name, b"first: the topic is known from now on")
    return producer


LARGE = b"x" * 4_000


def test_the_caller_waits_for_room_and_order_holds(small: blocking.Producer, topic_name: str):
    with small:
        begun = time.monotonic()
        sent = [small.send_nowait(topic_name, LARGE) for _ in range(2)]
        assert time.monotonic() - begun < LINGER_MS / 2000
        sent += [small.send_nowait(topic_name, value) for value in (LARGE, b"small", b"smaller")]
        assert time.monotonic() - begun > LINGER_MS / 2000
        assert sent[0].done()
    assert [each.result(timeout=0).offset for each in sent] == [1, 2, 3, 4, 5]


def test_many_records_through_a_small_buffer(url: str, topic_name: str):
    with blocking.Producer(url, buffer_bytes=20_000) as producer:
        most = 0
        sent = []
        for number in range(3_000):
            sent.append(producer.send_nowait(topic_name, b"%d" % number))
            most = max(most, producer._outbox._size)
        assert most <= 20_000
        producer.flush()
        assert all(each.done() for each in sent)
        sent += [producer.send_nowait(topic_name, b"") for _ in range(50)]
    assert [each.result(timeout=0).offset for each in sent] == list(range(3_050))


def test_each_threads_records_stay_in_order(url: str, topic_name: str):
    with blocking.Producer(url, buffer_bytes=20_000) as producer, ThreadPoolExecutor(4) as pool:

        def send(_: int) -> list[int]:
            sent = [producer.send_nowait(topic_name, b"x" * 50) for _ in range(500)]
            return [each.result(timeout=30).offset for each in sent]

        for offsets in pool.map(send, range(4)):
            assert all(one < other for one, other in pairwise(offsets))


def test_what_waits_behind_other_records_is_not_overtaken(small: blocking.Producer, topic_name: str):
    with small, ThreadPoolExecutor(1) as pool:
        many = pool.submit(small.send_many, topic_name, [LARGE, LARGE])  # They do not come through the queue.
        time.sleep(0.1)
        large = small.send_nowait(topic_name, LARGE)
        later = small.send(topic_name, b"small")
        assert [metadata.offset for metadata in many.result()] == [1, 2]
        assert (large.result(timeout=0).offset, later.offset) == (3, 4)


def test_no_room_in_time(url: str, topic_name: str):
    with blocking.Producer(url, buffer_bytes=5_000, linger_ms=1_000, max_block_ms=200) as producer:
        producer.send(topic_name, b"")
        kept = producer.send_nowait(topic_name, LARGE)
        with pytest.raises(OverloadedError, match="there was no space for it within") as refused:
            producer.send_nowait(topic_name, LARGE)
        assert refused.value.code is ErrorCode.BUFFER_EXHAUSTED
        with pytest.raises(InvalidRequestError, match="buffer_bytes is 5000"):
            producer.send_nowait(topic_name, b"x" * 6_000)
        with pytest.raises(TypeError):
            producer.send_nowait(topic_name, "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            producer.send_nowait(topic_name, b"", partition="0")  # type: ignore[arg-type]
    assert kept.result(timeout=0).offset == 1


def test_closing_tells_who_waits_for_room_and_sends_what_was_accepted(small: blocking.Producer, topic_name: str):
    accepted: list[Any] = []
    refused: list[RuntimeError] = []

    def send() -> None:
        try:
            for _ in range(20):
                accepted.append(small.send_nowait(topic_name, LARGE))  # noqa: PERF401  (it ends with an error)
        except RuntimeError as error:
            refused.append(error)

    sending = threading.Thread(target=send)
    sending.start()
    time.sleep(0.2)
    small.close()
    sending.join(10)
    assert [str(error) for error in refused] == ["the producer is closed; make another one"]
    assert [each.result(timeout=0).offset for each in accepted] == [1, 2]


def test_nothing_is_without_outcome_when_no_broker_answers(free_ports: Any):
    producer = blocking.Producer(f"http://127.0.0.1:{free_ports(1)[0]}", max_block_ms=500, delivery_timeout_ms=500)
    sent = [producer.send_nowait("topic", b"x") for _ in range(10)]
    producer.close()
    assert not wait(sent, timeout=0).not_done
    assert all(each.exception(timeout=0) is not None for each in sent)


def test_closing_without_a_flush_waits_for_no_broker(free_ports: Any):
    producer = blocking.Producer(f"http://127.0.0.1:{free_ports(1)[0]}")
    sent = [producer.send_nowait("topic", b"x") for _ in range(10)]
    producer.close(flush=False)
    assert not wait(sent, timeout=0).not_done
    assert all(each.exception(timeout=0) is not None for each in sent)


def test_ctrl_c_ends_a_close_that_waits(free_ports: Any):
    producer = blocking.Producer(f"http://127.0.0.1:{free_ports(1)[0]}")
    sent = [producer.send_nowait("topic", b"x") for _ in range(10)]
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        producer.close()
    timer.join()
    assert all(each.exception(timeout=0) is not None for each in sent)
    producer.close()


def test_a_transaction_has_all_that_was_accepted_within(url: str, topic_name: str):
    with blocking.Producer(url, transactional_id=topic_name, buffer_bytes=9_000, max_block_ms=5_000) as producer:
        with producer.transaction():
            for _ in range(20):
                producer.send_nowait(topic_name, LARGE)
        with pytest.raises(TransactionAbortedError), producer.transaction():  # noqa: PT012
            producer.send_nowait(topic_name, b"", partition=7)
            producer.send_nowait(topic_name, b"dropped, too")
        with pytest.raises(RuntimeError, match="transactional_id"):
            producer.send_nowait(topic_name, b"outside").result(timeout=10)
    with blocking.Consumer(url, topic_name, start="earliest", isolation="read_committed") as consumer:
        seen: list[Any] = []
        while records := consumer.fetch(max_wait_ms=1_000):
            seen += records
        assert [record.value for record in seen] == [LARGE] * 20


@pytest.mark.parametrize("when", ["begin", "end"])
def test_a_block_that_is_interrupted_at_its_begin_or_end_is_aborted(
    url: str, topic_name: str, when: str, monkeypatch: pytest.MonkeyPatch
):
    """The exception of a signal's handler, such as Ctrl-C, comes while queued records are passed on."""
    with blocking.Producer(url, transactional_id=topic_name) as producer:
        passed, is_stuck = producer._outbox.passed, threading.Event()

        async def interrupted() -> None:
            if is_stuck.is_set():
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.Event().wait()
            await passed()

        def run() -> None:
            with producer.transaction():
                producer.send_nowait(topic_name, b"dropped")
                is_stuck.set()

        monkeypatch.setattr(producer._outbox, "passed", interrupted)
        if when == "begin":
            is_stuck.set()
        with pytest.raises(KeyboardInterrupt):
            run()
        is_stuck.clear()
        with producer.transaction():
            producer.send_nowait(topic_name, b"kept")
    with blocking.Consumer(url, topic_name, start="earliest", isolation="read_committed") as consumer:
        assert [record.value for record in consumer.fetch(max_wait_ms=10_000)] == [b"kept"]


def test_a_block_that_is_interrupted_while_its_end_is_submitted_is_aborted(
    url: str, topic_name: str, monkeypatch: pytest.MonkeyPatch
):
    """Ctrl-C comes when the loop's thread has the end already, and the caller nothing yet that it could cancel."""
    submit, passes = asyncio.run_coroutine_threadsafe, list[str]()

    def interrupted(work: Any, loop: Any) -> Any:
        submit(work, loop)
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", submit)
        raise KeyboardInterrupt

    with blocking.Producer(url, transactional_id=topic_name) as producer:
        passed, may_pass = producer._outbox.passed, threading.Event()

        async def slowly() -> None:
            passes.append("")
            while len(passes) > 1 and not may_pass.is_set():
                await asyncio.sleep(0.001)
            await passed()

        def run() -> None:
            with producer.transaction():
                producer.send_nowait(topic_name, b"dropped")
                monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)

        monkeypatch.setattr(producer._outbox, "passed", slowly)
        with pytest.raises(KeyboardInterrupt):
            run()
        may_pass.set()
        with producer.transaction():
            producer.send_nowait(topic_name, b"kept")
    with blocking.Consumer(url, topic_name, start="earliest", isolation="read_committed") as consumer:
        assert [record.value for record in consumer.fetch(max_wait_ms=10_000)] == [b"kept"]


def test_a_time_of_1970_arrives_as_it_was_given(url: str, topic_name: str):
    at = datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)
    with blocking.Producer(url) as producer:
        assert producer.send(topic_name, b"x", timestamp=at).timestamp == 1_000_005
