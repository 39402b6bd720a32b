"""Kafka's clients write what raftlog's clients read, and the reverse."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import confluent_kafka
import pyarrow as pa
import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from kafka_frame import Frame, broker_for_kafka, number
from kafka_listener import Client, request

from raftlog import Admin, Consumer, Producer, Record
from raftlog.broker.appending import append_batch
from raftlog.broker.context import BrokerContext
from raftlog.broker.kafka import produce
from raftlog.broker.kafka.call import ProduceTurn
from raftlog.broker.kafka.fetch import KafkaPosition
from raftlog.broker.kafka.produce import KafkaAppend, KafkaBatch
from raftlog.checksum import crc32c
from raftlog.errors import InvalidRequestError, NotFoundError, OverloadedError
from raftlog.model import Address
from raftlog.record.kafka.header import HEADER_BYTES
from raftlog.security.identity import UNKNOWN_SENDER
from raftlog.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.listener_support import connected

pytestmark = pytest.mark.cluster
TIME_MS = 1_700_000_000_000
EXTREMES = [
    (TIME_MS, b"key", b"value", [("a", b"1"), ("a", None), ("b", b"")]),
    (TIME_MS + 1, None, None, []),
    (TIME_MS + 2, b"", b"", [("\u00e9", b"\xff")]),
    (TIME_MS - 9_999, b"k" * 5_000, b"v" * 100_000, []),
]


@pytest_asyncio.fixture
async def frame(tmp_path: Path, free_ports: Callable[[int], list[int]]) -> AsyncIterator[Frame]:
    async with broker_for_kafka(tmp_path, free_ports(3)) as frame:
        await until_ready(frame)
        async with Admin(url(frame)) as admin:
            await admin.create_topic("t", partitions=1, configs={"max_message_bytes": 16 << 20})
        await until_led(frame, "t")
        yield frame


async def until_ready(frame: Frame) -> None:
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        while (await session.get(f"{url(frame)}/readyz")).status != 200:
            await asyncio.sleep(0.02)


async def until_led(frame: Frame, *topics: str) -> None:
    async with asyncio.timeout(30):
        while not all(frame.context.image.topic(one) and frame.context.leads(one, 0) for one in topics):
            await asyncio.sleep(0.01)


def url(frame: Frame) -> str:
    return f"http://{frame.context.config.public}"


def place(frame: Frame) -> str:
    return f"127.0.0.1:{frame.port}"


async def read_here(frame: Frame, count: int, topic: str = "t") -> list[Record]:
    records: list[Record] = []
    async with asyncio.timeout(30), Consumer(url(frame), topic, start="earliest") as consumer:
        while len(records) < count:
            records += await consumer.fetch(max_records=count, max_wait_ms=1_000)
    return records


async def read_by_aiokafka(frame: Frame, count: int, **settings: Any) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=place(frame), auto_offset_reset="earliest", **settings)
    await consumer.start()
    consumer.assign([TopicPartition("t", 0)])
    await consumer.seek_to_beginning()
    records: list[Any] = []
    try:
        async with asyncio.timeout(60):
            while len(records) < count:
                for found in (await consumer.getmany(timeout_ms=1_000)).values():
                    records += found
    finally:
        await consumer.stop()
    return records


def plain(record: Any) -> tuple[Any, ...]:
    return record.timestamp, record.key, record.value, list(record.headers)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_confluent_produces(frame: Frame, compression: str):
    sent = EXTREMES + [(TIME_MS, None, b"value %d" % number, []) for number in range(300)]

    def produce() -> list[str]:
        errors: list[str] = []
        settings = {"bootstrap.servers": place(frame), "compression.type": compression, "linger.ms": 50}
        producer = confluent_kafka.Producer(settings | {"enable.idempotence": True, "message.max.bytes": 10_000_000})
        for time, key, value, headers in sent:
            producer.produce(
                "t",
                value,
                key,
                partition=0,
                timestamp=time,
                headers=headers,
                on_delivery=lambda error, _: errors.append(str(error)) if error else None,
            )
        assert producer.flush(30) == 0
        return errors

    assert await asyncio.to_thread(produce) == []
    ours = await read_here(frame, len(sent))
    assert [(one.timestamp // 1000, one.key, one.value, list(one.headers)) for one in ours] == sent
    assert [plain(one) for one in await read_by_aiokafka(frame, len(sent))] == sent


async def test_records_of_many_sizes_come_back_byte_by_byte(frame: Frame):
    chosen = random.Random(7)
    values = [chosen.randbytes(chosen.choice([0, 1, 10, 100, 1_000, 10_000])) for _ in range(10_000)]
    producer = AIOKafkaProducer(
        bootstrap_servers=place(frame), enable_idempotence=True, max_batch_size=500_000, linger_ms=5
    )
    await producer.start()
    futures = [await producer.send("t", value, partition=0) for value in values]
    offsets = [(await future).offset for future in futures]
    await producer.stop()
    assert offsets == list(range(10_000))
    assert [one.value for one in await read_here(frame, 10_000)] == values
    theirs = await read_by_aiokafka(frame, 10_000, max_partition_fetch_bytes=300_000)
    assert [one.value for one in theirs] == values
    assert [one.offset for one in theirs] == offsets


async def test_kafka_reads_what_raftlog_produces(frame: Frame):
    async with Producer(url(frame), compression="zstd", linger_ms=10) as producer:
        for _, key, value, headers in EXTREMES:
            await producer.send("t", value, key=key, headers=headers, timestamp=TIME_MS * 1000 + 999)
        await producer.send_many("t", [b"value %d" % number for number in range(1_000)])
    theirs = await read_by_aiokafka(frame, 1_004)
    assert [plain(one)[1:] for one in theirs[:4]] == [(key, value, headers) for _, key, value, headers in EXTREMES]
    assert {one.timestamp for one in theirs[:4]} == {TIME_MS}
    assert [one.value for one in theirs[4:]] == [b"value %d" % number for number in range(1_000)]


async def test_a_record_of_8_mb(frame: Frame):
    value = random.Random(8).randbytes(8 << 20)
    producer = AIOKafkaProducer(bootstrap_servers=place(frame), max_request_size=10 << 20)
    await producer.start()
    await producer.send_and_wait("t", value, partition=0)
    await producer.stop()
    assert [one.value for one in await read_here(frame, 1)] == [value]
    assert [one.value for one in await read_by_aiokafka(frame, 1)] == [value]


async def test_several_readers_share_converted_batches(frame: Frame):
    async with Producer(url(frame)) as producer:
        await producer.send_many("t", [b"x" * 100] * 5_000)
    readers = await asyncio.gather(*(read_by_aiokafka(frame, 5_000) for _ in range(4)))
    assert [len(records) for records in readers] == [5_000] * 4
    kept = frame.fetching.converted
    assert kept.hits >= kept.misses
    assert 0 < kept.bytes <= 32 << 20


async def append_in_turn(frame: Frame, order: asyncio.Lock, *batches: KafkaBatch) -> list[KafkaAppend]:
    """Append the batches of one of several overlapping requests of a connection."""
    turn = ProduceTurn(order)
    async with turn:
        return await frame.producing.append(
            batches, acks=-1, timeout_ms=10_000, sender=UNKNOWN_SENDER, on_placed=turn.end
        )


async def append(frame: Frame, *batches: KafkaBatch, acks: int = -1, timeout_ms: int = 10_000) -> list[KafkaAppend]:
    return await frame.producing.append(batches, acks=acks, timeout_ms=timeout_ms, sender=UNKNOWN_SENDER)


def batch_of(*values: bytes, producer: tuple[int, int, int] = (-1, -1, -1), topic: str = "t") -> KafkaBatch:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder  # noqa: PLC0415  (only here)

    builder = DefaultRecordBatchBuilder(2, 0, False, *producer, 1 << 20)
    for offset, value in enumerate(values):
        builder.append(offset, TIME_MS, None, value, [])
    return KafkaBatch(topic=topic, partition=0, records=bytes(builder.build()))


async def test_a_repeat_is_answered_with_the_first_offsets(frame: Frame):
    producer = await frame.offsets.new_producer_id()
    first = batch_of(b"a", b"b", producer=(producer, 0, 2**31 - 1))
    after = batch_of(b"c", producer=(producer, 0, 1))
    answers = [(await append(frame, one))[0] for one in (first, after, first, after)]
    assert [one.error for one in answers] == [None] * 4
    assert [one.base_offset for one in answers] == [0, 2, 0, 2]
    other = batch_of(b"a", b"z", producer=(producer, 0, 2**31 - 1))
    missing = batch_of(b"e", producer=(producer, 0, 7))
    codes = [number((await append(frame, one))[0].error) for one in (other, missing)]
    assert codes == [45, 45], "OUT_OF_ORDER_SEQUENCE_NUMBER, not 46, which clients take for success"


async def test_overlapping_requests_of_a_connection_are_appended_in_their_order(frame: Frame):
    """A large batch is converted in a thread, a small one at once."""
    producer, order, sequence, batches = await frame.offsets.new_producer_id(), asyncio.Lock(), 0, []
    for count in (4_000, 1, 3_000, 1, 1, 100):
        batches.append(batch_of(*[b"v" * 50] * count, producer=(producer, 0, sequence)))
        sequence += count
    answers = await asyncio.gather(*(append_in_turn(frame, order, one) for one in batches))
    assert [number(one.error) for (one,) in answers] == [0] * 6
    assert [one.base_offset for (one,) in answers] == [0, 4_000, 4_001, 7_001, 7_002, 7_003]


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_request_waits_while_an_earlier_one_of_its_connection_asks_for_its_producer(
    frame: Frame, monkeypatch: pytest.MonkeyPatch, *, is_refused: bool
):
    """A broker that does not know a new producer's id yet asks the controller. The next request finds it known."""
    producer, order = await frame.offsets.new_producer_id(), asyncio.Lock()
    asked, answered = list[int](), asyncio.Event()

    async def require_given(producer_id: int) -> None:
        asked.append(producer_id)
        if len(asked) == 1:
            await answered.wait()
            if is_refused:
                raise InvalidRequestError("the cluster has not allocated it")

    monkeypatch.setattr(frame.context.leader("t", 0), "_require_given", require_given)
    batches = [batch_of(b"v", producer=(producer, 0, sequence)) for sequence in range(3)]
    appends = [asyncio.ensure_future(append_in_turn(frame, order, one)) for one in batches]
    while not asked:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert asked == [producer]
    answered.set()
    answers = [(await one)[0] for one in appends]
    assert [one.base_offset for one in answers if one.error is None] == [[0, 1, 2], [0, 1]][is_refused]
    assert [number(one.error) for one in answers] == [[0, 0, 0], [42, 0, 0]][is_refused]
    assert not order.locked()


async def test_a_connection_that_ends_while_a_request_asks_for_its_producer(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
):
    producer, order, asked = await frame.offsets.new_producer_id(), asyncio.Lock(), asyncio.Event()

    async def require_given(_: int) -> None:
        asked.set()
        await asyncio.get_running_loop().create_future()

    logged = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
    monkeypatch.setattr(frame.context.leader("t", 0), "_require_given", require_given)
    batches = [batch_of(b"v", producer=(producer, 0, sequence)) for sequence in range(2)]
    appends = [asyncio.ensure_future(append_in_turn(frame, order, one)) for one in batches]
    await asked.wait()
    for one in appends:
        one.cancel()
    await asyncio.wait(appends)
    assert not order.locked()
    await asyncio.sleep(0)
    del appends, one
    gc.collect()
    assert logged == []
    assert await append_in_turn(frame, order) == []
    monkeypatch.undo()
    assert number((await append_in_turn(frame, order, batches[0]))[0].error) == 0


async def test_a_connection_that_ends_while_its_requests_overlap(frame: Frame):
    order = asyncio.Lock()
    batches = [batch_of(*[b"v" * 50] * 4_000) for _ in range(4)]
    appends = [asyncio.create_task(append_in_turn(frame, order, one)) for one in batches]
    await asyncio.sleep(0)
    for one in appends:
        one.cancel()
    await asyncio.wait(appends)
    assert not order.locked()
    assert number((await append_in_turn(frame, order, batch_of(b"a")))[0].error) == 0


async def test_large_batches_with_acks_0_arrive_although_their_sender_closes_at_once(frame: Frame):
    values = [[b"%d-%d" % (number, record) + bytes(1_000) for record in range(200)] for number in range(5)]
    frames = [
        request(0, 8, ProduceRequest(acks=0, timeout_ms=10_000, topic_data=[produced("t", batch_of(*some).records)]))
        for some in values
    ]
    _, writer = await asyncio.open_connection("127.0.0.1", frame.port)
    writer.write(b"".join(frames))
    writer.close()
    await writer.wait_closed()
    assert [one.value for one in await read_here(frame, 1_000)] == [value for some in values for value in some]


async def test_aborted_records_are_hidden_from_committed_readers(frame: Frame):
    async with Producer(url(frame), transactional_id="one") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_many("t", [b"committed"] * 3)
        with contextlib.suppress(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_many("t", [b"aborted"] * 60)
                raise ZeroDivisionError
        async with producer.transaction():
            await producer.send_many("t", [b"again"] * 2)
    committed = await read_by_aiokafka(frame, 5, isolation_level="read_committed")
    assert [one.value for one in committed] == [b"committed"] * 3 + [b"again"] * 2
    everything = await read_by_aiokafka(frame, 65)
    assert [one.value for one in everything] == [b"committed"] * 3 + [b"aborted"] * 60 + [b"again"] * 2


async def test_a_committed_reader_of_nothing_but_aborted_records_goes_on(frame: Frame):
    async with Producer(url(frame), transactional_id="one") as producer:
        await producer.init_transactions()
        with contextlib.suppress(ZeroDivisionError):
            async with producer.transaction():
                for _ in range(20):
                    await producer.send_many("t", [b"aborted" * 100] * 100)
                raise ZeroDivisionError
        await producer.close()
    async with Producer(url(frame)) as producer:
        await producer.send("t", b"last")
    committed = await read_by_aiokafka(frame, 1, isolation_level="read_committed", max_partition_fetch_bytes=10_000)
    assert [one.value for one in committed] == [b"last"]


async def test_each_partition_has_an_error_of_its_own(frame: Frame):
    damaged = bytearray(batch_of(b"a").records or b"")
    damaged[-1] ^= 1
    answers = await append(
        frame,
        batch_of(b"a"),
        KafkaBatch(topic="t", partition=0, records=bytes(damaged)),
        KafkaBatch(topic="t", partition=0, records=None),
        KafkaBatch(topic="t", partition=0, records=bytes(HEADER_BYTES)),
        batch_of(b"a", topic="missing"),
        batch_of(b"a", producer=(12345, 0, 0)),
        batch_of(b"b"),
    )
    assert [number(one.error) for one in answers] == [0, 2, 87, 87, 3, 59, 0]
    assert [one.base_offset for one in (answers[0], answers[-1])] == [0, 1]
    assert [number(one.error) for one in await append(frame, batch_of(b"a"), acks=2)] == [21]


async def test_a_request_of_many_bombs_is_unpacked_up_to_its_limit(frame: Frame):
    bombs = [packed(8 << 20)] * 5_000
    began = monotonic()
    answers = await append(frame, *bombs, batch_of(b"a"))
    assert monotonic() - began < 5
    assert {number(one.error) for one in answers[:-1]} == {87, 19}
    assert number(answers[-2].error) == 19, "the request's limit is used up: such a batch is sent again, with fewer"
    assert number(answers[-1].error) == 0, "it is not compressed, so it costs what was received"


def packed(size: int) -> KafkaBatch:
    """Return a batch that unpacks to so many bytes, and has no records."""
    head = bytearray((batch_of(b"x").records or b"")[:HEADER_BYTES])
    head[22] = 4
    batch = head + pa.compress(bytes(size), codec="zstd", asbytes=True)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return KafkaBatch(topic="t", partition=0, records=bytes(batch))


def test_a_batch_that_can_never_fit_is_said_to_be_too_large():
    """A request may take less than the topic allows. Sent again alone, the batch would fit no better."""
    (alone,) = produce._converted([packed(2 << 20)], [8 << 20], 1 << 20)
    assert (type(alone), number(alone)) == (InvalidRequestError, 10)
    (inline,) = produce._converted([packed(2 << 20)], [8 << 20], 16 << 20, 1_000)
    assert isinstance(inline, OverloadedError), "a worker thread does it"


async def test_requests_of_a_connection_are_appended_in_their_order_whatever_their_size(frame: Frame):
    """A worker thread decodes a request of many partitions, whose topics are looked up in several turns."""
    producer, frames = await frame.offsets.new_producer_id(), list[bytes]()
    for sequence, others in enumerate((4_000, 1, 300, 2)):
        batch = batch_of(b"v", producer=(producer, 0, sequence))
        topics = [produced(f"unknown-{number}", b"") for number in range(others)] + [produced("t", batch.records)]
        frames.append(request(0, 9, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)))
    host, port = place(frame).split(":")
    async with connected(Address(host, int(port))) as streams:
        kafka = Client(*streams)
        await kafka.send(*frames)
        answers = [(await kafka.answer(0, 9))[1].responses[-1].partition_responses[0] for _ in frames]
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, 0), (0, 1), (0, 2), (0, 3)]


async def test_a_request_that_waits_for_its_replicas_lets_the_next_one_begin(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
):
    replicated, order = asyncio.Event(), asyncio.Lock()

    async def replicate_late(*arguments: Any, **options: Any) -> Any:
        done = await append_batch(*arguments, **options)
        await replicated.wait()
        return done

    monkeypatch.setattr(produce, "append_batch", replicate_late)
    async with asyncio.timeout(20):
        first = asyncio.ensure_future(append_in_turn(frame, order, batch_of(b"a")))
        while not order.locked():
            await asyncio.sleep(0)
        async with ProduceTurn(order):
            assert not first.done()
        replicated.set()
        assert [one.base_offset for one in await first] == [0]


def produced(topic: str, records: Any) -> TopicProduceData:
    return TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])


async def test_a_batch_is_not_refused_because_of_others_in_its_request(frame: Frame):
    """Each refused batch was counted as if it had unpacked to the most bytes of a batch: eight used up the limit."""
    refused = bytearray(batch_of(b"a").records or b"")
    refused[HEADER_BYTES + 3] = 2  # The offset delta of the only record.
    struct.pack_into(">I", refused, 17, crc32c(memoryview(refused)[21:]))
    answers = await append(frame, *[KafkaBatch(topic="t", partition=0, records=bytes(refused))] * 50, batch_of(b"a"))
    assert [number(one.error) for one in answers] == [87] * 50 + [0]


async def test_an_acknowledged_batch_is_no_error_although_its_replica_has_left(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
):
    def gone(*_: Any) -> Any:
        raise NotFoundError("no replica here")

    async def append_and_leave(*arguments: Any, **options: Any) -> Any:
        done = await append_batch(*arguments, **options)
        monkeypatch.setattr(BrokerContext, "replica", gone)
        return done

    monkeypatch.setattr(produce, "append_batch", append_and_leave)
    (answer,) = await append(frame, batch_of(b"a"))
    assert (answer.error, answer.base_offset, answer.log_start_offset) == (None, 0, 0)


async def test_converted_batches_count_as_memory_in_use(frame: Frame):
    frame.inflight.hold(frame.context.config.broker.max_inflight_bytes - 100)
    (refused,) = await append(frame, batch_of(b"a" * 1_000))
    assert number(refused.error) == 19, "NOT_ENOUGH_REPLICAS, after which every client sends again"
    frame.inflight.release(frame.inflight.bytes)
    assert number((await append(frame, batch_of(b"a" * 1_000)))[0].error) == 0
    assert frame.inflight.bytes == 0


async def test_fetches_of_wrong_positions(frame: Frame):
    await append(frame, batch_of(b"a", b"b"))

    async def code_of(**position: Any) -> int:
        one = KafkaPosition(**{"topic": "t", "partition": 0, "offset": 0, "max_bytes": 1 << 20} | position)
        (read,) = await frame.fetching.fetch(
            [one], max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation="read_uncommitted", sender=UNKNOWN_SENDER
        )
        return number(read.result.error)

    epoch = frame.context.leader("t", 0).state.leader_epoch
    assert await code_of() == 0
    assert await code_of(offset=3) == 1
    assert await code_of(offset=-1) == 1
    assert await code_of(topic="missing") == 3
    assert await code_of(partition=9) == 3
    assert await code_of(topic_id="f" * 32) == 100
    assert await code_of(current_leader_epoch=epoch + 1) == 75


async def test_an_answer_has_one_batch_at_least_and_no_more_than_its_limit(frame: Frame):
    async with Admin(url(frame)) as admin:
        await admin.create_topic("wide", partitions=3)
    await until_led(frame, "wide")
    async with Producer(url(frame), compression="zstd") as producer:
        for partition in range(3):
            for _ in range(4):
                await producer.send("wide", bytes(20_000), partition=partition)

    async def sizes(most: int, of_partition: int = 1 << 20) -> list[int]:
        positions = [
            KafkaPosition(topic="wide", partition=partition, offset=0, max_bytes=of_partition) for partition in range(3)
        ]
        reads = await frame.fetching.fetch(
            positions,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=most,
            isolation="read_uncommitted",
            sender=UNKNOWN_SENDER,
        )
        assert [number(read.result.error) for read in reads] == [0, 0, 0]
        assert [read.result.high_watermark for read in reads] == [4, 4, 4]
        return [len(read.batches) for read in reads]

    assert await sizes(1) == [1, 0, 0], "packed, all of them are small"
    assert await sizes(30_000) == [1, 0, 0]
    assert await sizes(50_000) == [2, 0, 0]
    assert await sizes(1 << 20, of_partition=1) == [1, 1, 1]
    assert await sizes(1 << 20) == [4, 4, 4]


async def test_a_long_poll_ends_when_a_record_arrives_or_its_reader_leaves(frame: Frame):
    position = KafkaPosition(topic="t", partition=0, offset=0, max_bytes=1 << 20)
    asked = {"max_wait_ms": 20_000, "min_bytes": 1, "max_bytes": 1 << 20, "isolation": "read_uncommitted"}
    fetch = asyncio.create_task(frame.fetching.fetch([position], sender=UNKNOWN_SENDER, **asked))  # type: ignore[arg-type]
    left = asyncio.create_task(frame.fetching.fetch([position], sender=UNKNOWN_SENDER, **asked))  # type: ignore[arg-type]
    while frame.parked.count < 2:
        await asyncio.sleep(0)
    left.cancel()
    await append(frame, batch_of(b"a"))
    async with asyncio.timeout(5):
        (read,) = await fetch
    assert read.size > HEADER_BYTES
    assert left.cancelled()
    assert frame.parked.count == 0


async def test_an_epoch_before_the_first_record_ends_where_that_begins(frame: Frame):
    replica = frame.context.leader("t", 0)
    state = replica.state
    replica.apply_state(replace(state, leader_epoch=state.leader_epoch + 3, partition_epoch=state.partition_epoch + 1))
    asked = replica.state.leader_epoch - 1
    assert frame.offsets.epoch_end("t", 0, asked, sender=UNKNOWN_SENDER) == (-1, -1)
    await append(frame, batch_of(b"a", b"b"))
    assert frame.offsets.epoch_end("t", 0, asked, sender=UNKNOWN_SENDER) == (asked, 0)
    await frame.offsets.delete_before("t", 0, 1, timeout_ms=10_000, sender=UNKNOWN_SENDER)
    await append(frame, batch_of(b"c"), batch_of(b"d"))
    await frame.offsets.delete_before("t", 0, 3, timeout_ms=10_000, sender=UNKNOWN_SENDER)
    assert frame.offsets.epoch_end("t", 0, asked, sender=UNKNOWN_SENDER) == (asked, 3)


async def test_offsets_are_found(frame: Frame):
    await append(frame, batch_of(b"a", b"b"), batch_of(b"c"))

    async def find(time: int) -> tuple[int, int]:
        found = await frame.offsets.find("t", 0, time, sender=UNKNOWN_SENDER)
        return found.offset, found.timestamp_ms

    assert await find(-1) == (3, -1)
    assert await find(-2) == (0, -1)
    assert await find(-3) == (0, TIME_MS)
    assert await find(-4) == (0, -1)
    assert await find(-5) == (-1, -1)
    assert await find(0) == (0, TIME_MS)
    assert await find(TIME_MS) == (0, TIME_MS)
    assert await find(TIME_MS + 1) == (-1, -1)
    assert await find(2**63 - 1) == (-1, -1)
    epoch = frame.context.leader("t", 0).state.leader_epoch
    assert frame.offsets.epoch_end("t", 0, epoch, sender=UNKNOWN_SENDER) == (epoch, 3)
    assert frame.offsets.epoch_end("t", 0, epoch + 5, sender=UNKNOWN_SENDER) == (-1, -1)
    assert await frame.offsets.delete_before("t", 0, 2, timeout_ms=10_000, sender=UNKNOWN_SENDER) == 2
    assert await frame.offsets.delete_before("t", 0, -1, timeout_ms=10_000, sender=UNKNOWN_SENDER) == 3
    assert await find(-2) == (3, -1)
