"""How unclosed blocking clients end: with the program, and in a child process."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from raftlog import blocking
from raftlog.blocking.facade import _ThreadPerCall
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

UNCLOSED = """
import sys
from raftlog import blocking
url, topic = sys.argv[1:]
producer = blocking.Producer(url, linger_ms=60_000, close_timeout_ms=20_000)
for number in range(1000):
    producer.send_nowait(topic, b"%d" % number)
"""

UNCLOSED_MEMBER = """
import sys
from raftlog import blocking
url, topic = sys.argv[1:]
consumer = blocking.Consumer(url, topic, group_id=topic, on_revoked=lambda taken: print("revoked", len(taken)))
while not consumer.assignment:
    consumer.fetch(max_wait_ms=100)
"""

USED_WHILE_THE_PROGRAM_ENDS = """
import concurrent.futures.thread as pools, sys, threading, time
from raftlog import blocking
url, topic = sys.argv[1:]
producer = blocking.Producer(url)

def use():
    while not pools._shutdown:
        time.sleep(0.001)
    producer.send(topic, b"0")

threading.Thread(target=use).start()
"""

FORKED = """
import os, sys
from raftlog import blocking
url, topic = sys.argv[1:]
producer = blocking.Producer(url, linger_ms=60_000)
consumer = blocking.Consumer(url, topic, start="earliest")
producer.send_nowait(topic, b"of the parent")
child = os.fork()
if child == 0:
    said = []
    for call in (lambda: producer.send_nowait(topic, b"of the child"), producer.flush, consumer.fetch,
                 lambda: next(iter(consumer))):
        try:
            call()
        except RuntimeError as error:
            said.append("before a fork" in str(error))
    producer.close()
    with consumer:
        pass
    sys.exit(0 if said == [True] * 4 else 3)
_, status = os.waitpid(child, 0)
producer.close()
consumer.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def url(shared_cluster: LocalCluster, topic_name: str) -> str:
    with blocking.Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(topic_name, partitions=1, replication_factor=3)
    return shared_cluster.bootstrap


def end_of(url: str, topic: str) -> int:
    with blocking.Consumer(url, topic, start="earliest") as consumer:
        return consumer.end_offsets()[topic, 0]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("producer", lambda url, _: blocking.Producer(url)),
        ("consumer", blocking.Consumer),
        ("admin", lambda url, _: blocking.Admin(url)),
    ],
)
def test_a_client_that_is_dropped_ends_its_thread_and_logs_a_warning(
    name: str, make: Callable[[str, str], object], url: str, topic_name: str, caplog: pytest.LogCaptureFixture
):
    """A program that made one for each request ran out of threads."""
    before = {*threading.enumerate()}
    dropped = [make(url, topic_name)]
    (thread,) = {*threading.enumerate()} - before
    dropped.clear()
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
    assert f"a blocking {name} was never closed" in caplog.text


def test_a_client_that_was_closed_is_not_said_to_be_dropped(caplog):
    blocking.Producer("http://127.0.0.1:9").close()
    gc.collect()
    assert "never closed" not in caplog.text


def test_a_call_that_is_cancelled_before_its_thread_begins_is_not_made(monkeypatch: pytest.MonkeyPatch):
    threads: list[threading.Thread] = []
    calls: list[int] = []

    def start(thread: threading.Thread) -> None:
        threads.append(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    call = _ThreadPerCall().submit(calls.append, 1)

    assert call.cancel()
    threads[0].run()

    assert calls == []


def test_a_program_that_ends_without_a_close_has_sent_what_it_queued(url: str, topic_name: str):
    done = run(UNCLOSED, url, topic_name)
    assert done.stderr == ""
    assert done.returncode == 0
    assert end_of(url, topic_name) == 1_000


def test_a_program_that_ends_still_looks_up_the_names_of_hosts(url: str, topic_name: str):
    done = run(UNCLOSED, url.replace("127.0.0.1", "localhost"), topic_name)
    assert done.stderr == ""
    assert end_of(url, topic_name) == 1_000


def test_a_thread_that_outlives_the_main_thread_still_looks_up_the_names_of_hosts(url: str, topic_name: str):
    done = run(USED_WHILE_THE_PROGRAM_ENDS, url.replace("127.0.0.1", "localhost"), topic_name)
    assert done.stderr == ""
    assert end_of(url, topic_name) == 1


def test_a_program_that_ends_still_calls_back(url: str, topic_name: str):
    done = run(UNCLOSED_MEMBER, url, topic_name)
    assert done.stderr == ""
    assert done.stdout == "revoked 1\n"


def test_a_child_process_is_told_at_once_and_sends_nothing_of_its_parent(url: str, topic_name: str):
    done = run(FORKED, url, topic_name)
    assert done.returncode == 0, done.stderr
    assert end_of(url, topic_name) == 1


def test_a_program_that_ends_while_no_broker_answers_says_what_was_not_sent(url: str, topic_name: str):
    program = UNCLOSED.replace(
        "close_timeout_ms=20_000)",
        "close_timeout_ms=200, dial={one[7:]: '127.0.0.1:1' for one in url.split(',')})",
    )
    done = run(program, url, "no-" + topic_name)
    assert done.returncode == 0
    assert "1000 are not in the log" in done.stderr


def test_a_program_that_ends_waits_as_long_as_its_producer_may_send(url: str, topic_name: str):
    program = "from raftlog.blocking import facade\nfacade.EXIT_S = 1.0\n" + UNCLOSED.replace(
        "close_timeout_ms=20_000)",
        "close_timeout_ms=2_000, dial={one[7:]: '127.0.0.1:1' for one in url.split(',')})",
    )
    done = run(program, url, topic_name)
    assert "1000 are not in the log" in done.stderr


def test_a_program_that_ends_before_its_producer_has_says_so(url: str, topic_name: str):
    program = "from raftlog.blocking import facade\nfacade.EXIT_S = -60.0\n" + UNCLOSED
    done = run(program, url, topic_name)
    assert "the program exits before this producer has" in done.stderr


def test_a_program_that_ends_says_what_failed_as_it_closed(url: str, topic_name: str):
    done = run(UNCLOSED, url, "no-" + topic_name)
    assert "1000 are not in the log" in done.stderr
