"""What the console's event streams get when sampling fails."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from raftlog.broker.console import sampler as module
from raftlog.broker.console.sampler import Sampler
from raftlog.metrics.overview import ClusterReading, Overview, overview
from raftlog.model import Address
from raftlog.runtime import SystemClock


class FailsOnce(Sampler):
    """A sampler whose first sample raises an error that nothing expects."""

    attempts = 0

    async def _sample(self) -> None:
        self.attempts += 1
        if self.attempts == 1:
            raise ZeroDivisionError
        self._newest = b"second"
        self._next.set()
        self._next = asyncio.Event()


class Counting(Sampler):
    """A sampler whose samples are numbers. `opens` is set at the end of the next one, after the lingering time."""

    number = 0
    opens: asyncio.Event | None = None

    async def _sample(self) -> None:
        if self.opens is not None and not self.opens.is_set():
            time.sleep(0.6)  # noqa: ASYNC251  (longer than LINGER_S)
            self.opens.set()
        self.number += 1
        self._newest = b"%d" % self.number
        self._next.set()
        self._next = asyncio.Event()


async def test_a_stream_goes_on_after_a_sample_that_failed():
    sampler = FailsOnce(cast("Any", SimpleNamespace()))
    events = sampler.events()
    async with asyncio.timeout(10):
        await anext(events)  # The history, which is empty.
        assert await anext(events) == b"second"
    await events.aclose()
    await sampler.close()


async def test_a_page_that_opens_right_before_sampling_ends_gets_samples(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "LINGER_S", 0.5)
    monkeypatch.setattr(module, "INTERVAL_S", 0.2)
    sampler = Counting(cast("Any", SimpleNamespace()))
    first = sampler.events()
    async with asyncio.timeout(10):
        await anext(first)
        await anext(first)
        await first.aclose()
        sampler.opens = asyncio.Event()
        await sampler.opens.wait()  # The lingering time passes during this sample.
        second = sampler.events()
        await anext(second)
        samples = [await anext(second) for _ in range(3)]
    await second.aclose()
    await sampler.close()
    assert len(set(samples)) == 3


async def test_the_overview_of_all_nodes_is_not_made_on_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    """It takes 10 ms of CPU for each broker: 100 ms of a cluster of ten."""
    threads = []

    def noting(reading: ClusterReading) -> Overview:
        threads.append(threading.get_ident())
        return overview(reading)

    monkeypatch.setattr(module, "overview", noting)
    context = SimpleNamespace(
        image=SimpleNamespace(brokers={}),
        config=SimpleNamespace(quorum=SimpleNamespace(voters=()), cluster_id="c", node_id=1),
        clock=SystemClock(),
        listener=SimpleNamespace(offset=1),
    )
    sampler = Sampler(cast("Any", context))
    await sampler._sample()
    assert threads
    assert threading.get_ident() not in threads
    assert b"event: cluster" in sampler._newest
    await sampler.close()


def test_controllers_are_read_first_and_brokers_beyond_the_limit_are_counted():
    voters = [SimpleNamespace(node_id=number, internal=Address("c", number)) for number in (101, 102, 103)]
    broker = SimpleNamespace(public=Address("b", 1), fenced=False)
    context = SimpleNamespace(
        image=SimpleNamespace(brokers=dict.fromkeys(range(1, 61), broker)),
        config=SimpleNamespace(quorum=SimpleNamespace(voters=voters)),
    )
    members, left_out = Sampler(cast("Any", context))._members()
    assert [(kind, number) for kind, number, _, _ in members] == [
        *(("controller", number) for number in (101, 102, 103)),
        *(("broker", number) for number in range(1, module.MAX_NODES - 2)),
    ]
    assert left_out == 63 - module.MAX_NODES
