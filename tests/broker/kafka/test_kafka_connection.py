"""Kafka's connection, byte by byte: order, back pressure, errors, deadlines, and what a lost connection frees."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from kafka_listener import (
    API_VERSIONS,
    HEARTBEAT,
    LIST_OFFSETS,
    MAX_FRAME,
    PRODUCE,
    api_versions,
    client,
    heartbeat,
    is_free,
    produce,
    request,
    serving,
    until,
)

from raftlog.broker.kafka.dispatch import KafkaDispatch
from raftlog.broker.kafka.quotas import KafkaQuotas
from raftlog.broker.kafka.server import MAX_PIPELINED
from raftlog.broker.metrics.throttling import Throttling
from raftlog.broker.quotas import QuotaGate
from raftlog.errors import OverloadedError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import Quota
from raftlog.security.identity import Sender
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.heartbeat import HeartbeatRequest
from raftlog.wire.kafka.messages.list_offsets import ListOffsetsRequest
from raftlog.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

# Order.


async def test_a_request_is_answered_whatever_pieces_it_comes_in():
    frame = heartbeat("g", correlation=7, number=3)
    async with serving() as served, client(served) as kafka:
        for cut in range(1, len(frame)):
            await kafka.send(frame[:cut])
            await asyncio.sleep(0)
            await kafka.send(frame[cut:])
            assert await kafka.heartbeat() == (7, 3)
        assert next(iter(served.metrics.counts)) == ("kafka Heartbeat", 200)
    assert is_free(served)


async def test_http_and_kafka_share_the_port():
    async with serving() as served, client(served) as kafka, client(served) as http:
        await http.send(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        await kafka.send(heartbeat())
        assert (await http.reader.readline()).startswith(b"HTTP/1.1 200")
        assert await kafka.heartbeat() == (0, 0)


async def test_a_listener_without_kafka_answers_as_http():
    async with serving(kafka=False) as served, client(served) as kafka:
        await kafka.send(heartbeat(), b"\r\n\r\n")
        assert (await kafka.reader.readline()).startswith(b"HTTP/1.")
        assert await kafka.closed()


async def test_10_000_pipelined_requests_are_answered_in_order():
    async with serving() as served, client(served) as kafka:
        sending = asyncio.create_task(kafka.send(*(api_versions(number) for number in range(10_000))))
        assert [await kafka.correlation() for _ in range(10_000)] == list(range(10_000))
        await sending
    assert is_free(served)


async def test_a_request_begins_when_the_ones_before_it_are_answered():
    async with serving() as served, client(served) as kafka:
        await kafka.send(heartbeat("wait"), heartbeat("next", correlation=1), produce("p", correlation=2))
        await served.handlers.event("begun wait").wait()
        await asyncio.sleep(0.02)
        assert served.handlers.begun == ["wait"]
        served.handlers.event("wait").set()
        assert [await kafka.correlation() for _ in range(3)] == [0, 1, 2]
        assert served.handlers.begun == ["wait", "next", "p"]


async def test_produce_requests_overlap_and_are_answered_in_order():
    async with serving() as served, client(served) as kafka:
        await kafka.send(
            produce("wait a"), produce("wait b", correlation=1), produce("c", correlation=2), heartbeat(correlation=3)
        )
        await until(lambda: served.handlers.begun == ["wait a", "wait b", "c"])
        served.handlers.event("wait b").set()
        await until(lambda: "wait b" in served.handlers.ended)
        assert served.handlers.begun == ["wait a", "wait b", "c"], "the heartbeat waits for all of them"
        served.handlers.event("wait a").set()
        assert [await kafka.correlation() for _ in range(4)] == [0, 1, 2, 3]
        assert served.handlers.begun[-1] == "g"


async def test_a_produce_with_acks_0_has_no_answer():
    async with serving() as served, client(served) as kafka:
        await kafka.send(produce("a", acks=0), produce("b", acks=0, correlation=1), heartbeat(correlation=2))
        assert await kafka.heartbeat() == (2, 0)
        assert served.handlers.begun == ["a", "b", "g"]
    assert is_free(served)


# Back pressure.


async def test_a_client_that_pipelines_is_read_no_further_than_the_limit():
    async with serving() as served, client(served) as kafka:
        await kafka.send(heartbeat("wait"))
        await served.handlers.event("begun wait").wait()
        large = heartbeat(member="m" * 30_000, correlation=1)
        sending = asyncio.create_task(kafka.send(*[large] * 2_000))
        await asyncio.sleep(0.3)
        assert served.inflight.bytes < (MAX_PIPELINED + 2) * len(large)
        assert not sending.done()
        served.handlers.event("wait").set()
        for _ in range(2_001):
            await kafka.frame()
        await sending
    assert is_free(served)


async def test_a_client_that_never_reads_its_answers_is_closed():
    async with serving(write_s=0.3) as served, client(served) as kafka:
        kafka.writer.transport.pause_reading()  # type: ignore[attr-defined]

        async def flood() -> None:
            while True:
                await kafka.send(*(api_versions(number) for number in range(1_000)))

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(flood(), 20)
        await until(lambda: is_free(served) and not served.connections.size)


async def test_a_frame_waits_for_memory_and_others_are_served():
    async with serving(max_bytes=200_000) as served, client(served) as large, client(served) as small:
        served.inflight.hold(150_000)
        await large.send(heartbeat(member="m" * 30_000))
        sending = asyncio.create_task(large.send(produce("x" * 30_000)))
        await large.frame()
        await large.frame()
        await sending
        served.inflight.hold(49_000)
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(records=bytes(100_000))])
        await large.send(request(PRODUCE, 8, ProduceRequest(transactional_id="large", acks=-1, topic_data=[data])))
        await asyncio.sleep(0.1)
        assert len(served.handlers.begun) == 2
        served.inflight.release(49_000 + 150_000)
        await large.frame()
        await small.send(heartbeat())
        assert await small.heartbeat() == (0, 0)
    assert is_free(served)


async def test_complete_requests_begin_however_full_the_memory_is(monkeypatch: pytest.MonkeyPatch):
    """Only they make space: a broker whose memory they filled answered no client until theirs disconnected."""
    async with serving(max_bytes=200_000) as served, client(served) as kafka, client(served) as other:
        hold, refused = served.inflight.hold, asyncio.Event()

        def holding(size: int, address: str = "") -> None:
            try:
                hold(size, address)
            except OverloadedError:
                refused.set()
                raise

        monkeypatch.setattr(served.inflight, "hold", holding)
        first, second = heartbeat("wait"), heartbeat("second", correlation=1)
        await kafka.send(first, second)
        await served.handlers.event("begun wait").wait()
        await until(lambda: served.inflight.bytes == len(first) + len(second) - 8)
        filling = 200_000 - served.inflight.bytes
        served.inflight.hold(filling)
        await kafka.send(heartbeat("third", correlation=2))
        await refused.wait()
        served.handlers.event("wait").set()
        async with asyncio.timeout(10):
            assert [await kafka.correlation() for _ in range(2)] == [0, 1]
        assert served.handlers.begun == ["wait", "second"]
        served.inflight.release(filling)
        assert await kafka.correlation() == 2
        await other.send(heartbeat())
        assert await other.heartbeat() == (0, 0)
    assert is_free(served)


async def test_a_request_waits_while_too_many_are_in_progress():
    async with serving(max_requests=1) as served, client(served) as first, client(served) as second:
        await first.send(heartbeat("wait"))
        await served.handlers.event("begun wait").wait()
        await second.send(heartbeat())
        await asyncio.sleep(0.1)
        assert served.handlers.begun == ["wait"]
        served.handlers.event("wait").set()
        assert await second.heartbeat() == (0, 0)


async def test_a_request_that_waits_for_other_clients_takes_no_place():
    async with serving(max_requests=1) as served, client(served) as second:
        async with client(served) as first, client(served) as lost:
            following = heartbeat("next", correlation=1)
            await first.send(heartbeat("wait for members", member="m" * 30_000), following)
            await served.handlers.event("begun wait for members").wait()
            await lost.send(heartbeat("wait for more members"))
            await served.handlers.event("begun wait for more members").wait()
            await until(lambda: served.inflight.bytes == len(following) - 4)
            assert served.inflight.requests == 0
            await second.send(heartbeat(number=7))
            async with asyncio.timeout(10):
                assert await second.heartbeat() == (0, 7)
            assert served.handlers.begun[2:] == ["g"], "the order of the connection is kept"
            served.handlers.event("wait for members").set()
            assert [await first.correlation() for _ in range(2)] == [0, 1]
        await until(lambda: served.handlers.cancelled == ["wait for more members"] and is_free(served))
    assert is_free(served)


async def test_a_handler_can_make_its_connection_pause():
    async with serving() as served, client(served) as kafka:
        await kafka.send(heartbeat("throttled"), heartbeat(correlation=1))
        began = time.monotonic()
        _, answer = await kafka.answer(HEARTBEAT, 3)
        assert answer.throttle_time_ms == 1_000
        assert time.monotonic() - began < 0.9, "the answer does not wait"
        await kafka.heartbeat()
        assert time.monotonic() - began > 0.9


async def test_a_sender_over_its_quota_is_answered_and_then_muted():
    async with serving() as served, client(served) as kafka:
        quota = Quota(user="ANONYMOUS", limits={"request_rate": 5.0})
        served.image = replace(served.image, quotas={("ANONYMOUS", ""): quota})
        began, throttled = time.monotonic(), []
        for _ in range(12):
            await kafka.send(heartbeat())
            throttled.append((await kafka.answer(HEARTBEAT, 3))[1].throttle_time_ms)
        assert max(throttled) > 100
        assert 0.8 < time.monotonic() - began < 5
        served.image = replace(served.image, quotas={})
        async with asyncio.timeout(3):
            await kafka.send(heartbeat())
            await kafka.heartbeat()


async def test_a_sender_that_is_held_is_identified_again(monkeypatch: pytest.MonkeyPatch):
    """It may be deleted, or its token may expire, while others of its quota pay."""
    identified = []
    call_of = KafkaDispatch.call_of

    def counted(self: KafkaDispatch, *arguments: Any) -> Any:
        identified.append(time.monotonic())
        return call_of(self, *arguments)

    monkeypatch.setattr(KafkaDispatch, "call_of", counted)
    async with serving() as served, client(served) as one, client(served) as other:
        quota = Quota(user="ANONYMOUS", limits={"request_rate": 1.0})
        served.image = replace(served.image, quotas={("ANONYMOUS", ""): quota})
        for _ in range(2):  # The second one leaves a debt of a second.
            await one.send(heartbeat())
            await one.answer(HEARTBEAT, 3)
        began, before = time.monotonic(), len(identified)
        await other.send(heartbeat())
        await other.heartbeat()
        assert len(identified) - before > 1
        assert identified[-1] - began > 0.1


def test_of_client_ids_that_no_quota_can_name_nothing_is_kept():
    image = replace(MetadataImage(), quotas={("", "*"): Quota(client_id="*", limits={"request_rate": 5.0})})
    gate = QuotaGate(lambda: image, 1, Throttling())
    for number in range(3):
        call = Mock(api_key=HEARTBEAT, client_id=f"{number}" + 30_000 * "\N{GRINNING FACE}", sender=Sender())
        KafkaQuotas(gate, "10.0.0.1").begin(call, None, 0)
    assert {client_id for _, client_id, _ in gate._table._found} == {""}


# Errors.


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", MAX_FRAME + 1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhi", 8, 999, 0, 1),
        b"GET / HTTP/1.1\r\n\r\n",
        heartbeat()[:4] + b"\xff" * 100,
        request(HEARTBEAT, 3, HeartbeatRequest(group_id="x" * 50))[:-3] + heartbeat(),
    ],
)
async def test_garbage_after_good_frames_closes_the_connection_when_they_are_answered(garbage: bytes):
    async with serving() as served, client(served) as kafka, client(served) as other:
        await kafka.send(heartbeat("wait"), heartbeat(correlation=1), garbage)
        await served.handlers.event("begun wait").wait()
        served.handlers.event("wait").set()
        assert await kafka.heartbeat() == (0, 0)
        assert await kafka.heartbeat() == (1, 0)
        await kafka.closed()
        await other.send(heartbeat())
        assert await other.heartbeat() == (0, 0)
    assert is_free(served)


@pytest.mark.parametrize(
    "first", [b"\0\0\0\0", b"\0\0\0\3abc", b"\7\xff\xff\xff", b"\0\x10\0\1", b"\0\0\0\x08\0\x63\0\0\0\0\0\0"]
)
async def test_a_connection_that_begins_with_a_bad_frame_is_closed(first: bytes):
    async with serving() as served, client(served) as kafka:
        await kafka.send(first)
        async with asyncio.timeout(5):
            await kafka.closed()
    assert is_free(served)


async def test_an_unknown_version_of_api_versions_is_answered_with_the_table():
    async with serving() as served, client(served) as kafka:
        await kafka.send(struct.pack(">ihhih", 10, API_VERSIONS, 99, 5, -1))
        correlation, answer = await kafka.answer(API_VERSIONS, 0)
        assert (correlation, answer.error_code) == (5, KafkaError.UNSUPPORTED_VERSION)
        assert {one.api_key for one in answer.api_keys} == {PRODUCE, LIST_OFFSETS, HEARTBEAT, API_VERSIONS}
        await kafka.send(api_versions(6))
        correlation, answer = await kafka.answer(API_VERSIONS, 3)
        assert (correlation, answer.error_code) == (6, 0)
        assert [one.min_version for one in answer.api_keys if one.api_key == PRODUCE] == [0]


async def test_errors_of_handlers_are_answered_in_the_form_of_their_message(caplog: pytest.LogCaptureFixture):
    async with serving() as served, client(served) as kafka:
        await kafka.send(heartbeat("refused"), heartbeat("bug", correlation=1), heartbeat(correlation=2))
        assert await kafka.heartbeat() == (0, KafkaError.INVALID_REQUEST)
        assert await kafka.heartbeat() == (1, KafkaError.UNKNOWN_SERVER_ERROR)
        assert await kafka.heartbeat() == (2, 0)
        (logged,) = [record.exc_info[1] for record in caplog.records if record.exc_info]
        assert repr(logged) == "RuntimeError('a bug')"
        assert list(served.metrics.counts.items()) == [(("kafka Heartbeat", status), 1) for status in (400, 500, 200)]
        await kafka.send(request(LIST_OFFSETS, 1, ListOffsetsRequest()))
        assert await kafka.closed(), "the message has no form for an error"
    assert is_free(served)


async def test_a_handler_can_close_the_connection():
    async with serving() as served, client(served) as kafka:
        await kafka.send(heartbeat(), heartbeat("closes"), heartbeat())
        assert await kafka.heartbeat() == (0, 0)
        assert await kafka.reader.read() == b""
    assert served.handlers.begun == ["g", "closes"]
    assert is_free(served)


# Deadlines, and connections that end.


async def test_an_idle_connection_is_closed():
    async with serving(idle_s=0.2) as served, client(served) as kafka:
        await kafka.send(heartbeat())
        await kafka.heartbeat()
        async with asyncio.timeout(5):
            assert await kafka.reader.read() == b""


async def test_a_connection_with_a_request_in_progress_is_not_idle():
    async with serving(idle_s=0.1) as served, client(served) as kafka:
        await kafka.send(heartbeat("wait"))
        await asyncio.sleep(0.4)
        served.handlers.event("wait").set()
        assert await kafka.heartbeat() == (0, 0)


@pytest.mark.parametrize("size", [1, 3, 20])
async def test_half_a_frame_has_a_deadline_however_slowly_its_bytes_come(size: int):
    async with serving(head_s=0.3, body_s=0.3) as served, client(served) as kafka:
        await kafka.send(heartbeat(correlation=1))
        await kafka.heartbeat()

        async def drip() -> None:
            with suppress(ConnectionError):
                for at in range(size):
                    await kafka.send(heartbeat()[at : at + 1])
                    await asyncio.sleep(0.03)

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(5):
            assert await kafka.reader.read() == b""
        await dripping
    assert is_free(served)


async def test_a_large_frame_has_a_deadline():
    async with serving(head_s=0.2, body_s=0.2) as served, client(served) as kafka:
        await kafka.send(struct.pack(">i", MAX_FRAME - 10) + bytes(300_000))
        async with asyncio.timeout(5):
            await kafka.closed()
    assert is_free(served)


async def test_a_listener_that_closes_answers_what_has_begun():
    async with serving(drain_s=5) as served, client(served) as kafka, client(served) as idle:
        await idle.send(heartbeat())
        await idle.heartbeat()
        await kafka.send(heartbeat("wait"), heartbeat("later", correlation=1))
        await served.handlers.event("begun wait").wait()
        closing = asyncio.create_task(served.listener.close())
        assert await idle.reader.read() == b""
        served.handlers.event("wait").set()
        assert await kafka.heartbeat() == (0, 0)
        assert await kafka.reader.read() == b""
        await closing
    assert served.handlers.begun == ["g", "wait"]
    assert is_free(served)


async def test_2_000_idle_connections_leave_the_others_alone():
    async with serving() as served:
        served.connections._total = served.connections._per_address = 5_000  # One address gets half of them.
        idle = []
        try:
            for _ in range(2_000):
                sock = socket.socket()
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, (served.address.host, served.address.port))
                await asyncio.get_running_loop().sock_sendall(sock, api_versions())
                idle.append(sock)
            async with client(served) as kafka:
                await kafka.send(heartbeat())
                assert await kafka.heartbeat() == (0, 0)
                assert served.connections.size == 2_001
            for sock in idle:
                assert len(await asyncio.get_running_loop().sock_recv(sock, 4_096)) > 4
        finally:
            for sock in idle:
                sock.close()
        await until(lambda: not served.connections.size)
