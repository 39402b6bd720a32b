"""Kafka's fetches: a worker thread verifies the payloads that it converts, and damage is found all the same."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kafka_frame import Frame, broker_for_kafka, number
from test_kafka_data import until_led, until_ready, url

from raftlog import Admin, Producer
from raftlog.broker.kafka.fetch import KafkaPosition, KafkaRead
from raftlog.security.identity import UNKNOWN_SENDER

pytestmark = pytest.mark.cluster
LARGE = 200_000


@pytest_asyncio.fixture
async def frame(tmp_path: Path, free_ports: Callable[[int], list[int]]) -> AsyncIterator[Frame]:
    """Yield a broker with three large batches of one record in topic `t`."""
    async with broker_for_kafka(tmp_path, free_ports(3)) as frame:
        await until_ready(frame)
        async with Admin(url(frame)) as admin:
            await admin.create_topic("t", partitions=1)
        await until_led(frame, "t")
        async with Producer(url(frame), compression=None) as producer:
            for letter in b"abc":
                await producer.send("t", bytes([letter]) * LARGE, partition=0)
        yield frame


async def fetch(frame: Frame, offset: int = 0) -> KafkaRead:
    position = KafkaPosition(topic="t", partition=0, offset=offset, max_bytes=10 << 20)
    (read,) = await frame.fetching.fetch(
        [position], max_wait_ms=0, min_bytes=1, max_bytes=10 << 20, isolation="read_uncommitted", sender=UNKNOWN_SENDER
    )
    return read


async def test_the_event_loop_reads_no_payload(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    loop_thread, read_here = threading.get_ident(), list[int]()
    pread = os.pread

    def noted(descriptor: int, length: int, position: int) -> bytes:
        if threading.get_ident() == loop_thread:
            read_here.append(length)
        return pread(descriptor, length, position)

    monkeypatch.setattr(os, "pread", noted)
    assert len((await fetch(frame)).batches) == 3
    assert read_here
    assert sum(read_here) < LARGE


async def test_a_damaged_payload_is_found_and_reported(frame: Frame):
    leader = frame.context.leader("t", 0)
    (segment,) = leader.log.folder.glob("*.log")
    damaged = bytearray(segment.read_bytes())
    at = damaged.index(b"bbbb")
    damaged[at] ^= 1
    segment.write_bytes(damaged)

    before = await fetch(frame)
    assert (number(before.result.error), len(before.batches)) == (0, 1), "what precedes the damage is served"
    assert leader.damage is not None
    behind = await fetch(frame, offset=1)
    assert not any(damaged[at : at + 9] in batch for batch in behind.batches)


async def test_a_kept_conversion_is_served_without_another_read_of_its_checksum(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
):
    assert len((await fetch(frame)).batches) == 3
    verified = list[Any]()
    monkeypatch.setattr("raftlog.broker.kafka.converted.verify_payload_crc", lambda *found: verified.append(found))
    assert len((await fetch(frame)).batches) == 3
    assert verified == []
    assert frame.fetching.converted.hits == 3
