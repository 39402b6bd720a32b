"""Figures of `raftlog perf`: percentiles, rates, and what a load is made of."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from raftlog.cli.perf_loads import Latency, Load, Throughput, random_values
from raftlog.cli.perf_report import measured, percentiles
from raftlog.errors import InvalidRequestError, UnknownOutcomeError


def test_percentiles_are_those_of_the_nearest_rank():
    figures = percentiles([number / 1000 for number in range(100, 0, -1)])
    assert figures == {"p50_ms": 50, "p95_ms": 95, "p99_ms": 99, "p999_ms": 100, "max_ms": 100}
    assert set(percentiles([0.007]).values()) == {7.0}
    assert set(percentiles([]).values()) == {None}


def test_rates_are_of_the_time_from_begin_to_the_last_record():
    load = Load()
    load.began, load.ended, load.records = 10.0, 12.0, 3_000
    figures = measured(load, value_bytes=4_000_000)
    assert (figures["seconds"], figures["records_per_s"], figures["mb_per_s"]) == (2.0, 1_500, 2.0)
    load.forget()
    assert measured(load, value_bytes=0)["records_per_s"] == 0


def test_values_have_their_size_and_differ():
    values = random_values(10, 1_000)
    assert {len(value) for value in values} == {10}
    assert len(set(values)) > 990
    assert sum(map(len, random_values(1 << 20, 1_000))) == 8 << 20
    assert random_values(0, 3) == [b"", b"", b""]


class FakeProducer:
    """Acknowledges after a turn of the loop; from some call on it fails."""

    def __init__(self, *, fails_at: int = 10**9, stalls_s: float = 0) -> None:
        self.sent: list[bytes] = []
        self._fails_at = fails_at
        self._stalls_s = stalls_s
        self._calls = 0

    async def send_many(self, topic: str, values: list[bytes]) -> None:
        self._calls += 1
        await asyncio.sleep(0)
        if self._calls >= self._fails_at:
            raise UnknownOutcomeError("no answer")
        self.sent += values

    def send_nowait(self, topic: str, value: bytes) -> asyncio.Future[str]:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._calls += 1
        if self._calls >= self._fails_at:
            future.set_exception(InvalidRequestError("too large"))
        else:
            asyncio.get_running_loop().call_later(self._stalls_s if self._calls == 1 else 0, future.set_result, "ok")
            self.sent.append(value)
        return future


async def test_all_values_are_sent_in_chunks():
    producer: Any = FakeProducer()
    load = Throughput(producer, "t", [b"a", b"b", b"c"], chunk=4, calls=2)
    await load.run(10)
    assert (load.records, len(producer.sent), len(load.latencies), load.unknown) == (10, 10, 3, 0)
    assert set(producer.sent) == {b"a", b"b", b"c"}


async def test_a_failed_call_ends_the_run_and_its_records_are_unknown():
    producer: Any = FakeProducer(fails_at=3)
    load = Throughput(producer, "t", [b"a"], chunk=10, calls=1)
    await load.run(1_000)
    assert (load.records, load.unknown) == (20, 10)
    assert isinstance(load.error, UnknownOutcomeError)


async def test_a_failed_record_ends_a_run_for_latency():
    producer: Any = FakeProducer(fails_at=3)
    load = Latency(producer, "t", [b"a"], rate=None)
    await load.run(1_000)
    assert (load.records, load.failed, load.unknown) == (2, 1, 0)
    assert isinstance(load.error, InvalidRequestError)


async def test_one_record_waits_for_the_one_before_without_a_rate():
    producer: Any = FakeProducer(stalls_s=0.05)
    load = Latency(producer, "t", [b"a"], rate=None)
    await load.run(5)
    assert load.latencies[0] >= 0.05
    assert max(load.latencies[1:]) < 0.05


async def test_with_a_rate_a_stall_of_the_sender_counts():
    producer: Any = FakeProducer()
    send = producer.send_nowait

    def send_slowly(topic: str, value: bytes) -> asyncio.Future[str]:
        if not producer.sent:
            time.sleep(0.1)  # The whole process stands still.
        return send(topic, value)

    producer.send_nowait = send_slowly
    load = Latency(producer, "t", [b"a"], rate=1_000)
    await load.run(50)
    assert load.records == 50
    assert sum(latency >= 0.04 for latency in load.latencies) >= 50  # All of them were due within the stall.


async def test_a_run_stops_when_it_is_told_to():
    producer: Any = FakeProducer()
    load = Latency(producer, "t", [b"a"], rate=10)
    asyncio.get_running_loop().call_later(0.05, load.stopping.set)
    async with asyncio.timeout(5):
        await load.run(10**6)
    assert load.records in (1, 2)


@pytest.mark.parametrize("calls", [1, 3])
async def test_throughput_stops_when_it_is_told_to(calls: int):
    producer: Any = FakeProducer()
    load = Throughput(producer, "t", [b"a"], chunk=1, calls=calls)
    asyncio.get_running_loop().call_later(0.01, load.stopping.set)
    async with asyncio.timeout(5):
        await load.run(10**9)
    assert load.records == len(producer.sent) > 0
    assert load.unknown == 0
