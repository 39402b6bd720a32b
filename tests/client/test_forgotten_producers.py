"""Producers that are dropped with records in them: the log reports it, for no caller can get an error."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from raftlog import Producer
from raftlog.errors import ConfigError

DOWN = "http://127.0.0.1:1"
NEVER_CLOSED = "a producer was never closed"


async def forget(*, close: bool) -> None:
    producer = Producer(DOWN, linger_ms=60_000)
    producer.send_nowait("t", b"x" * 100)
    await asyncio.sleep(0)
    if close:
        await producer.close(timeout_ms=0)
    else:
        await producer._connection.close()  # Else aiohttp warns, too.


@pytest.mark.parametrize("close", [True, False])
def test_a_producer_that_is_forgotten_says_what_it_had_to_send(caplog: pytest.LogCaptureFixture, close: bool):
    with caplog.at_level(logging.WARNING):
        asyncio.run(forget(close=close))
        gc.collect()
    assert (NEVER_CLOSED in caplog.text) is not close


def test_a_producer_that_was_never_made_has_nothing_to_say(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING), pytest.raises(ConfigError):
        Producer(DOWN, acks="some")  # type: ignore[arg-type]
    gc.collect()
    assert NEVER_CLOSED not in caplog.text
