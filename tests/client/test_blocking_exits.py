"""`sys.exit()` in a callback of a blocking client: the client goes on, and so do the others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any, Self

import pytest

from raftlog import blocking
from raftlog.blocking import exits
from raftlog.blocking.stepping import SteppedConsumer
from raftlog.errors import RaftlogError

NOWHERE = "http://127.0.0.1:1"

SOME_HAVE_ENDED = """
from raftlog import blocking
from raftlog.blocking import exits

class Told(blocking.Producer):
    async def _end(self, reason):
        await super()._end(reason)
        print("closed", flush=True)

ended = [blocking.Producer("http://127.0.0.1:1") for _ in range(5)]
told = Told("http://127.0.0.1:1")
for one in ended:
    one._loop.call_soon_threadsafe(exits.stop, one._loop)
    one._thread.join()
"""


def leave(_: object) -> None:
    sys.exit(3)


def test_a_producer_goes_on_after_an_exit_in_a_records_callback(caplog: pytest.LogCaptureFixture):
    with blocking.Producer(NOWHERE, max_block_ms=200) as producer:
        first = producer.send_nowait("t", b"first")
        first.add_done_callback(leave)
        second = producer.send_nowait("t", b"second")
        for outcome in (first, second, producer.send_nowait("t", b"third")):
            assert isinstance(outcome.exception(timeout=10), RaftlogError)
    assert not producer._thread.is_alive()
    assert "SystemExit" in caplog.text


class Committing(SteppedConsumer):
    """A consumer without a cluster, whose commit in the background is answered once `answered` is set."""

    async def __aenter__(self) -> Self:
        self.answered = asyncio.Event()
        return self

    def commit_nowait(self, offsets: Any = None) -> Any:
        return asyncio.ensure_future(self.answered.wait())


def test_a_consumer_goes_on_after_an_exit_in_a_commits_callback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("raftlog.blocking.consumer.SteppedConsumer", Committing)
    with blocking.Consumer(NOWHERE, "t") as consumer:
        committing = consumer.commit_nowait()
        committing.add_done_callback(leave)
        consumer._loop.call_soon_threadsafe(consumer._client.answered.set)  # type: ignore[attr-defined]
        committing.result(timeout=10)
        assert consumer.assignment == []
    assert not consumer._thread.is_alive()
    assert "SystemExit" in caplog.text


@pytest.mark.parametrize("is_before", [True, False], ids=["last turn", "after it"])
def test_an_exit_beside_the_end_of_a_close_does_not_keep_its_caller(is_before: bool, caplog: pytest.LogCaptureFixture):
    producer = blocking.Producer(NOWHERE)
    loop, end = producer._loop, producer._end

    async def end_then(reason: Any) -> None:
        await end(reason)
        if is_before:
            ended = loop.create_future()
            loop.call_soon(lambda: (ended.set_result(None), loop.call_soon(leave, None)))
            await ended
        else:
            loop.call_soon(leave, None)

    producer._end = end_then  # type: ignore[method-assign]
    closing = threading.Thread(target=producer.close, daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
    assert "SystemExit" in caplog.text


def test_at_exit_a_client_whose_loop_has_ended_keeps_no_other_from_closing():
    done = subprocess.run(
        [sys.executable, "-c", SOME_HAVE_ENDED], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "closed\n", done.stderr
    assert "this producer was not closed" in done.stderr


def test_a_client_whose_loop_has_ended_is_not_closed_at_exit(caplog: pytest.LogCaptureFixture):
    producer = blocking.Producer(NOWHERE)
    producer._loop.call_soon_threadsafe(exits.stop, producer._loop)
    producer._thread.join(10)
    assert producer._begin_exit() is None
    assert "its thread has ended" in caplog.text
