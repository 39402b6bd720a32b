"""What Kafka's connection reads behind a request that waits: little, so that it holds no memory of other clients."""

from __future__ import annotations

import asyncio
import struct

import pytest
from kafka_listener import (
    PRODUCE,
    Serving,
    client,
    heartbeat,
    is_free,
    produce,
    request,
    serving,
    until,
)

from raftlog.broker.kafka.connection import KafkaConnection
from raftlog.broker.kafka.input import SMALL_BYTES
from raftlog.broker.kafka.server import AHEAD_BYTES
from raftlog.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MOST = AHEAD_BYTES + 2 * SMALL_BYTES
"""Bytes of one connection with a request that waits: what it reads ahead, one small frame, and that request."""


def large_produce(name: str, size: int, correlation: int = 0) -> bytes:
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(records=bytes(size))])
    message = ProduceRequest(transactional_id=name, acks=-1, topic_data=[data])
    return request(PRODUCE, 8, message, correlation=correlation)


def connection_of(served: Serving) -> KafkaConnection:
    (found,) = [one for one in served.listener._connections if isinstance(one, KafkaConnection)]
    return found


async def unread(served: Serving) -> None:
    """Wait until the only connection of Kafka reads nothing."""
    await until(
        lambda: any(isinstance(one, KafkaConnection) and one._is_paused for one in served.listener._connections)
    )


@pytest.mark.parametrize("before", [0, 3])
async def test_little_is_read_behind_a_request_that_waits(before: int):
    async with serving() as served, client(served) as kafka:
        await kafka.send(heartbeat("wait"))
        await served.handlers.event("begun wait").wait()
        small = [heartbeat("small", member="m" * 1_000, correlation=number) for number in range(1, before + 1)]
        frames = [large_produce("p", 500_000, number) for number in range(before + 1, before + 5)]
        sending = asyncio.create_task(kafka.send(*small, *frames))
        await unread(served)
        assert served.inflight.bytes <= MOST
        served.handlers.event("wait").set()
        assert [await kafka.correlation() for _ in range(before + 5)] == list(range(before + 5))
        await sending
    assert is_free(served)


async def test_little_is_read_while_a_request_waits_to_begin():
    """It is behind a produce request, which may wait for long as well."""
    async with serving() as served, client(served) as kafka:
        await kafka.send(produce("wait"), heartbeat("next", correlation=1), large_produce("p", 500_000, 2))
        await unread(served)
        assert served.inflight.bytes <= MOST
        served.handlers.event("wait").set()
        assert [await kafka.correlation() for _ in range(3)] == [0, 1, 2]


async def test_produce_requests_are_read_ahead_as_far_as_there_is_space():
    async with serving() as served, client(served) as kafka:
        frames = [large_produce("wait", 300_000, number) for number in range(6)]
        await kafka.send(*frames)
        await until(lambda: served.handlers.begun == ["wait"] * 6)
        assert served.inflight.bytes == sum(map(len, frames)) - 4 * 6
        served.handlers.event("wait").set()
        assert [await kafka.correlation() for _ in range(6)] == list(range(6))
    assert is_free(served)


async def test_small_frames_behind_a_large_request_have_no_deadline():
    """They came before it began, and were left in the buffer."""
    async with serving(max_requests=1) as served, client(served) as first, client(served) as kafka:
        await first.send(heartbeat("wait"))
        await served.handlers.event("begun wait").wait()
        await kafka.send(heartbeat("wait too", member="m" * 30_000))
        await until(lambda: served.inflight.bytes > 30_000)
        (late,) = [one for one in served.listener._connections if one.busy is None]
        assert isinstance(late, KafkaConnection)
        await kafka.send(heartbeat("next", correlation=1))
        await until(lambda: late._input.is_partial)
        served.handlers.event("wait").set()
        await served.handlers.event("begun wait too").wait()
        await until(lambda: not late._input.is_partial)
        assert late._deadline._at is None
        served.handlers.event("wait too").set()
        assert [await kafka.correlation() for _ in range(2)] == [0, 1]


async def test_a_frame_that_is_left_unread_has_a_deadline_once_it_is_read():
    async with serving(head_s=0.2, body_s=0.2) as served, client(served) as kafka:
        await kafka.send(heartbeat("wait"), struct.pack(">i", 900_000) + heartbeat()[4:] + bytes(300_000))
        await unread(served)
        assert connection_of(served)._deadline._at is None
        served.handlers.event("wait").set()
        assert await kafka.heartbeat() == (0, 0)
        async with asyncio.timeout(10):
            assert await kafka.closed()
    assert is_free(served)


async def test_a_client_that_disconnects_behind_unread_bytes_is_noticed():
    async with serving() as served:
        async with client(served) as kafka:
            await kafka.send(heartbeat("wait"), large_produce("p", 60_000))  # The rest fits into the socket.
            await unread(served)
        await until(lambda: served.handlers.cancelled == ["wait"])
        await until(lambda: is_free(served) and not served.connections.size)
    assert served.handlers.begun == ["wait"]
