"""A broker in a thread: real HTTP and real record batches, without replication and disk."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from aiohttp import web

from raftlog.coordinator.runtime import Decision, Now
from raftlog.coordinator.transaction.core import TransactionCoordinator
from raftlog.coordinator.transaction.sets import abort_left, describe_set, end_set
from raftlog.errors import NotFoundError, OffsetOutOfRangeError, RaftlogError, UnknownOutcomeError
from raftlog.record.arrow import build_batch
from raftlog.record.batch import BatchHeader, parse_header, stamp
from raftlog.record.model import NewRecord, Record
from raftlog.record.reading import read_records
from raftlog.record.validate import validate_batch
from raftlog.wire import media, paths
from raftlog.wire.codec import decode_frame, decode_json, encode_frame, encode_json, split_parts
from raftlog.wire.coordinators import CoordinatorInfo
from raftlog.wire.data import (
    EpochStart,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResult,
    OffsetResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProducerIdResponse,
)
from raftlog.wire.errors import WireError
from raftlog.wire.metadata import BrokerInfo, ClientMetadata, PartitionInfo, TopicInfo
from raftlog.wire.transactions import EndSetBody, InitTransactionsBody, JoinTransactionRequest, TransactionPartition

T = TypeVar("T")

FIRST_TIMESTAMP_MS = 1_700_000_000_000
"""Record n of a partition has this timestamp plus n seconds, unless it brings its own."""


@dataclass
class FakePartition:
    batches: list[bytes] = field(default_factory=list)
    log_start_offset: int = 0
    high_watermark: int = 0
    unreplicated: int = 0
    """Records above the high watermark."""
    open_from: int | None = None
    """The first offset of an open transaction."""
    leader_epoch: int = 0
    """Of the batches that are appended next."""
    sound_batches: list[bytes] | None = None
    """They replace the log's batches once a reader requests a check."""
    next_sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    open: dict[int, list[bytes]] = field(default_factory=dict)
    """Batches of transactions that have not ended, by producer id. They are stored when they commit."""

    def append(self, records: Sequence[NewRecord]) -> None:
        timed = [
            record if record.timestamp else record._replace(timestamp=self._timestamp_us(i))
            for i, record in enumerate(records)
        ]
        self.store(build_batch(timed), len(records))

    def store(self, batch: bytearray, count: int) -> None:
        stamp(batch, base_offset=self.high_watermark, leader_epoch=self.leader_epoch)
        self.batches.append(bytes(batch))
        self.high_watermark += count

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        starts: dict[int, int] = {}
        for header in map(parse_header, self.batches):
            starts.setdefault(header.leader_epoch, max(header.base_offset, self.log_start_offset))
        return tuple(EpochStart(leader_epoch=epoch, start_offset=start) for epoch, start in starts.items())

    def is_duplicate(self, header: BatchHeader) -> bool:
        """Check that sequences continue; return whether this one was stored before."""
        producer = (header.producer_id, header.producer_epoch)
        expected = self.next_sequences.get(producer, 0)
        assert header.base_sequence <= expected, (header, expected)
        self.next_sequences[producer] = max(expected, header.base_sequence + header.record_count)
        return header.base_sequence < expected

    def records(self, topic: str = "", partition: int = 0) -> list[Record]:
        return [record for batch in self.batches for record in read_records(batch, topic=topic, partition=partition)]

    def _timestamp_us(self, i: int) -> int:
        return FIRST_TIMESTAMP_MS * 1000 + (self.high_watermark + i) * 1_000_000

    def end(self, isolation: str) -> int:
        """Return the end of a reader's log."""
        committed = isolation == "read_committed" and self.open_from is not None
        return self.open_from if committed else self.high_watermark

    def read(self, offset: int, max_bytes: int, isolation: str) -> bytes:
        log_end = self.high_watermark + self.unreplicated
        if not self.log_start_offset <= offset <= log_end:
            raise OffsetOutOfRangeError(f"offset {offset} is outside of [{self.log_start_offset}, {log_end}]")
        taken: list[bytes] = []
        for batch in self.batches:
            if offset < parse_header(batch).next_offset <= self.end(isolation):
                max_bytes -= len(batch)
                if taken and max_bytes < 0:
                    break
                taken.append(batch)
        return b"".join(taken)


class FakeLog:
    """Use as a context manager; every method may be called from any thread."""

    def __init__(self) -> None:
        self.topics: dict[str, list[FakePartition]] = {}
        self.topic_ids: dict[str, str] = {}
        self.failures: list[RaftlogError] = []
        """Each fails one request, in order."""
        self.requests: list[str] = []
        self.traceparents: list[str] = []
        """Of produce requests."""
        self.leaderless = False
        self.names_epochs = True
        """False: as brokers that do not name the leader epochs of a log."""
        self.broker_id = self.leader_id = 1
        """This broker, and the leader of every partition as it knows."""
        self.metadata_offset = 1
        self.cluster_id = "fake"
        self.others: dict[int, str] = {}
        """Further brokers of its metadata: URLs by id."""
        self.lose_answers = 0
        """So many produce requests take effect, and their answers are lost."""
        self._producers = 100
        self.lose_ends = 0
        """So many ends of transaction sets take effect, and their answers are lost."""
        self._coordinator = TransactionCoordinator()
        self._transactions = self._coordinator.new_state()
        self._news: asyncio.Event
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def create(self, topic: str, partitions: int = 1) -> None:
        self.topics[topic] = [FakePartition() for _ in range(partitions)]
        self.topic_ids[topic] = uuid.uuid4().hex

    def add_partition(self, topic: str) -> None:
        self.topics[topic].append(FakePartition())

    def append(self, topic: str, values: Sequence[bytes | NewRecord], partition: int = 0) -> None:
        """Append one batch."""
        records = [value if isinstance(value, NewRecord) else NewRecord(value) for value in values]
        self.topics[topic][partition].append(records)
        self._loop.call_soon_threadsafe(self._wake)

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        log = self.topics[topic][partition]
        log.batches = [batch for batch in log.batches if parse_header(batch).next_offset > offset]
        log.log_start_offset = offset

    def truncate(self, topic: str, offset: int, partition: int = 0) -> None:
        """Cut the log as an unclean election does; `offset` is where a batch begins."""
        log = self.topics[topic][partition]
        log.batches = [batch for batch in log.batches if parse_header(batch).next_offset <= offset]
        log.high_watermark = offset
        log.leader_epoch += 1

    def corrupt(self, topic: str, partition: int = 0, *, heals: bool = False) -> None:
        """Flip one bit in the payload of the last batch; `heals`: until a reader requests a check."""
        batches = self.topics[topic][partition].batches
        self.topics[topic][partition].sound_batches = list(batches) if heals else None
        damaged = bytearray(batches[-1])
        damaged[-1] ^= 1
        batches[-1] = bytes(damaged)

    def records(self, topic: str) -> list[Record]:
        return [record for i, log in enumerate(self.topics[topic]) for record in log.records(topic, i)]

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _start(self) -> None:
        self._news = asyncio.Event()
        app = web.Application(middlewares=[self._errors])
        app.router.add_get(paths.METADATA, self._metadata)
        app.router.add_get(paths.OFFSETS, self._offsets)
        app.router.add_post(paths.FETCH, self._fetch)
        app.router.add_post(paths.PRODUCERS, self._producer_id)
        app.router.add_post(paths.PRODUCE, self._produce)
        app.router.add_get(paths.COORDINATOR, self._find_coordinator)
        app.router.add_post(paths.INIT_TRANSACTIONS, self._init)
        app.router.add_get(paths.TRANSACTION, self._describe_transaction)
        app.router.add_get(paths.TRANSACTION_SET, self._describe_set)
        app.router.add_post(paths.END_TRANSACTION_SET, self._end_set)
        self._runner = web.AppRunner(app, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    @web.middleware
    async def _errors(self, request: web.Request, handler: web.Handler) -> web.StreamResponse:  # type: ignore[name-defined]
        self.requests.append(request.path)
        try:
            if self.failures:
                raise self.failures.pop(0)
            return await handler(request)
        except RaftlogError as error:
            body = encode_json({"error": error.to_wire()})
            return web.Response(status=error.http_status, body=body, content_type=media.JSON)

    async def _metadata(self, request: web.Request) -> web.Response:
        names = request.query.getall("topic", list(self.topics))
        answer = ClientMetadata(
            cluster_id=self.cluster_id,
            metadata_offset=self.metadata_offset,
            brokers=tuple(
                BrokerInfo(broker_id=broker_id, url=url)
                for broker_id, url in ({self.broker_id: self.url} | self.others).items()
            ),
            topics=tuple(self._describe(name) for name in names if name in self.topics),
        )
        return web.Response(body=encode_json(answer), content_type=media.JSON)

    def _describe(self, name: str) -> TopicInfo:
        leader = -1 if self.leaderless else self.leader_id
        partitions = tuple(
            PartitionInfo(partition=i, leader=leader, leader_epoch=0, replicas=(1,), isr=(1,))
            for i in range(len(self.topics[name]))
        )
        return TopicInfo(topic=name, topic_id=self.topic_ids[name], partitions=partitions)

    def _log(self, topic: str, partition: int) -> FakePartition:
        if topic not in self.topics or partition >= len(self.topics[topic]):
            raise NotFoundError(f"{topic}-{partition} is not here")
        return self.topics[topic][partition]

    async def _offsets(self, request: web.Request) -> web.Response:
        topic, partition = request.match_info["topic"], int(request.match_info["partition"])
        log, at = self._log(topic, partition), request.query["at"]
        end = log.end(request.query.get("isolation", "read_uncommitted"))
        fixed = {"earliest": log.log_start_offset, "latest": end}
        answer = OffsetResponse(
            topic=topic,
            partition=partition,
            offset=fixed[at] if at in fixed else self._offset_at(log, int(at)),
            leader_epoch=log.leader_epoch,
            epochs=log.epochs if self.names_epochs else (),
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            last_stable_offset=log.end("read_committed"),
        )
        return web.Response(body=encode_json(answer), content_type=media.JSON)

    def _offset_at(self, log: FakePartition, at_ms: int) -> int:
        seconds = -(-(at_ms - FIRST_TIMESTAMP_MS) // 1000)
        return min(max(seconds, log.log_start_offset), log.high_watermark)

    async def _fetch(self, request: web.Request) -> web.Response:
        asked = decode_json(FetchRequest, await request.read())
        deadline = self._loop.time() + asked.max_wait_ms / 1000
        while True:
            news = self._news
            parts = [self._read(item, asked.isolation) for item in asked.partitions]
            remaining = deadline - self._loop.time()
            if any(data or result.error for result, data in parts) or remaining <= 0:
                break
            try:
                await asyncio.wait_for(news.wait(), remaining)
            except TimeoutError:
                break
        head = FetchResponse(partitions=tuple(result for result, _ in parts))
        body = b"".join(bytes(piece) for piece in encode_frame(head, [data for _, data in parts]))
        return web.Response(body=body, content_type=media.FRAME)

    async def _producer_id(self, request: web.Request) -> web.Response:
        self._producers += 1
        answer = ProducerIdResponse(producer_id=self._producers)
        return web.Response(body=encode_json(answer), content_type=media.JSON)

    async def _produce(self, request: web.Request) -> web.Response:
        self.traceparents.append(request.headers.get("traceparent", ""))
        head, body = decode_frame(ProduceRequest, await request.read())
        parts = split_parts(body, [asked.length for asked in head.partitions])
        results = [
            self._store(asked, part, head.transactional_id) for asked, part in zip(head.partitions, parts, strict=True)
        ]
        if self.lose_answers:
            self.lose_answers -= 1
            raise UnknownOutcomeError("the answer is lost")
        return web.Response(body=encode_json(ProduceResponse(partitions=tuple(results))), content_type=media.JSON)

    def _store(self, asked: ProducePartition, part: memoryview, transactional_id: str) -> ProduceResult:
        log, batch = self._log(asked.topic, asked.partition), bytearray(part)
        header = validate_batch(batch, max_message_bytes=8 << 20)
        if header.is_transactional:
            self._join(asked, header, transactional_id)
        duplicate = log.is_duplicate(header)
        if header.is_transactional and not duplicate:
            log.open.setdefault(header.producer_id, []).append(bytes(batch))
        elif not duplicate:
            log.store(batch, header.record_count)
        return ProduceResult(topic=asked.topic, partition=asked.partition, duplicate=duplicate)

    async def _find_coordinator(self, request: web.Request) -> web.Response:
        answer = CoordinatorInfo(
            kind="transaction",
            key=request.match_info["key"],
            broker_id=1,
            url=self.url,
            topic="__transaction_state",
            partition=0,
            leader_epoch=0,
        )
        return web.Response(body=encode_json(answer), content_type=media.JSON)

    async def _init(self, request: web.Request) -> web.Response:
        body = decode_json(InitTransactionsBody, await request.read())
        self._producers += 1
        name, made = request.match_info["transactional_id"], None
        while made is None:
            made = self._decide(self._coordinator.init, name, body.timeout_ms, self._producers)
        return web.Response(body=encode_json(made), content_type=media.JSON)

    async def _describe_transaction(self, request: web.Request) -> web.Response:
        known = self._transactions.require(request.match_info["transactional_id"])
        return web.Response(body=encode_json(known.info()), content_type=media.JSON)

    async def _describe_set(self, request: web.Request) -> web.Response:
        known = describe_set(self._transactions, request.match_info["set_id"])
        return web.Response(body=encode_json(known), content_type=media.JSON)

    async def _end_set(self, request: web.Request) -> web.Response:
        body = decode_json(EndSetBody, await request.read())
        ended = self._decide(end_set, request.match_info["set_id"], body)
        left = ended.left
        while left:
            left = self._decide(abort_left, left)
        if self.lose_ends:
            self.lose_ends -= 1
            raise UnknownOutcomeError("the answer is lost")
        return web.Response(body=encode_json(ended.info), content_type=media.JSON)

    def _join(self, asked: ProducePartition, header: BatchHeader, transactional_id: str) -> None:
        partition = TransactionPartition(topic=asked.topic, partition=asked.partition, topic_id=asked.topic_id)
        joining = JoinTransactionRequest(
            transactional_id=transactional_id,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            partitions=(partition,),
        )
        self._decide(self._coordinator.join, joining)

    def _decide(self, decide: Callable[..., Decision[T]], *arguments: object) -> T:
        """Decide as the real coordinator does; a decision takes effect everywhere at once."""
        decision = decide(self._transactions, self._now, *arguments)
        for record in decision.records:
            self._coordinator.replay(self._transactions, record)
        for name in list(self._transactions.ending):
            ended = self._transactions.by_id[name]
            for partition in ended.partitions:
                log = self.topics[partition.topic][partition.partition]
                for batch in log.open.pop(ended.marker_id, []) if ended.phase == "committing" else ():
                    log.store(bytearray(batch), parse_header(batch).record_count)
                log.open.pop(ended.marker_id, None)
            for record in self._coordinator.complete(self._transactions, self._now, ended).records:
                self._coordinator.replay(self._transactions, record)
        return decision.response

    @property
    def _now(self) -> Now:
        now_ms = int(self._loop.time() * 1000)
        return Now(now_ms, now_ms)

    def _read(self, asked: FetchPartition, isolation: str) -> tuple[FetchResult, bytes]:
        try:
            log = self._log(asked.topic, asked.partition)
            if asked.check_crcs and log.sound_batches is not None:
                log.batches, log.sound_batches = log.sound_batches, None
            data = log.read(asked.offset, asked.max_bytes, isolation)
        except RaftlogError as error:
            return FetchResult(topic=asked.topic, partition=asked.partition, error=WireError.of(error)), b""
        result = FetchResult(
            topic=asked.topic,
            partition=asked.partition,
            length=len(data),
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
        )
        return result, data
