"""A producer with many due batches sends them in several turns of the event loop, and no partition waits for ever."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from raftlog.client.core.pending_batch import ProducerIdentity
from raftlog.client.produce_requests import Routed
from raftlog.client.producer import Producer
from raftlog.client.sender import TURN_BATCHES, TURN_BYTES, Sender, _now_ms
from raftlog.model import Address
from raftlog.wire.data import ProduceResult
from raftlog.wire.metadata import PartitionInfo, TopicInfo

COUNT = 3 * TURN_BATCHES + 1
LEADERS = 3


class Sent(Counter[int]):
    """How many batches of each partition were sent, and acknowledged."""

    async def send(self, sender: Sender, routed: Sequence[Routed]) -> None:
        for partition, batch in routed:
            self[partition.partition] += 1
            result = ProduceResult(topic="t", partition=partition.partition, base_offset=5)
            sender._on_result(partition, batch, result)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    sent = Sent()
    monkeypatch.setattr(Sender, "_send", lambda sender, _, routed: sent.send(sender, routed))
    return sent


def producer_of(partitions: int, *, batch_bytes: int = 16_000) -> Producer:
    producer = Producer("http://127.0.0.1:1", linger_ms=0, batch_bytes=batch_bytes)
    connection = producer._connection
    connection._topics["t"] = TopicInfo(
        topic="t",
        topic_id="a" * 32,
        partitions=tuple(
            PartitionInfo(partition=at, leader=at % LEADERS, leader_epoch=1, replicas=(0, 1, 2), isr=(0, 1, 2))
            for at in range(partitions)
        ),
    )
    connection._brokers = {at: Address("127.0.0.1", 9400 + at) for at in range(LEADERS)}
    connection._refreshed_at["t"] = asyncio.get_running_loop().time()
    producer._accumulator.begin(ProducerIdentity(7))
    return producer


async def most_in_a_turn(sent: Sent, until: int) -> int:
    """Return how many batches one turn of the loop sent at most."""
    most = before = 0
    async with asyncio.timeout(10):
        while sent.total() < until:
            await asyncio.sleep(0)
            most, before = max(most, sent.total() - before), sent.total()
    return most


async def test_one_turn_sends_a_bounded_number_of_batches(sent: Sent):
    producer = producer_of(COUNT)
    for at in range(COUNT):
        producer.send_nowait("t", b"x", partition=at)
    assert await most_in_a_turn(sent, COUNT) <= TURN_BATCHES
    assert set(sent.values()) == {1}
    await producer.close(timeout_ms=0)


async def test_one_turn_sends_a_bounded_number_of_bytes(sent: Sent):
    producer = producer_of(8, batch_bytes=1 << 20)
    for at in range(8):
        producer.send_nowait("t", bytes(1_000_000), partition=at)
    assert await most_in_a_turn(sent, 8) <= TURN_BYTES // 1_000_000 + 1
    await producer.close(timeout_ms=0)


async def test_partitions_that_were_not_sent_come_first_in_the_next_turn(sent: Sent):
    producer = producer_of(COUNT)
    producer._sender.is_awake = True  # Its task does not run.
    for at in range(COUNT):
        producer.send_nowait("t", b"x", partition=at)
    assert producer._sender._send_due(_now_ms())
    order = [partition.partition for partition in producer._accumulator.partitions()]
    assert order == [*range(TURN_BATCHES, COUNT), *range(TURN_BATCHES)]
    await producer.close(timeout_ms=0)
