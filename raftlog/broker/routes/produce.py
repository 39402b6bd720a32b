"""Producing: raw batches to the leader, frames of batches, and JSON to any broker."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

from aiohttp import web

from raftlog.broker.appending import append_batch
from raftlog.broker.context import BrokerContext
from raftlog.broker.http import (
    RequestQuery,
    caller_timeout_ms,
    check_query,
    decode_body,
    path_partition,
    query_choice,
    query_number,
    read_body,
)
from raftlog.broker.json_records import record_from_json
from raftlog.broker.openapi.parameters import ACKS, TIMEOUT_MS, TRANSACTIONAL_ID
from raftlog.broker.raw import RawReply, RawRequest, RawRoute
from raftlog.broker.routes.leader_redirect import leader_elsewhere
from raftlog.errors import ErrorCode, RaftlogError, UnknownOutcomeError
from raftlog.model import ACKS_ALL, Acks
from raftlog.record import NewRecord, build_batch
from raftlog.record.partitioner import partition_for_key
from raftlog.request_marks import current_request_id
from raftlog.runtime import concurrently
from raftlog.schema import from_plain
from raftlog.security.guard import sender_of
from raftlog.security.identity import Sender, forwarded
from raftlog.serving.error_bodies import error_body
from raftlog.serving.workers import INLINE_BYTES, in_worker
from raftlog.wire import media, paths
from raftlog.wire.answers import JsonProduceAnswer, RecordPlace
from raftlog.wire.codec import decode_plain, encode_frame, encode_json, split_frame, split_parts
from raftlog.wire.data import (
    MAX_REQUEST_PARTITIONS,
    JsonProduceRequest,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
)
from raftlog.wire.errors import WireError
from raftlog.wire.metadata import SHORT_BATCHES

FORWARD_RETRY_MS = 50
FEW_RECORDS = 200
"""Up to this many records are encoded in the event loop: a worker thread would take longer to start."""
_BEGIN_AT_ONCE = 256
"""Appends of one request that begin in one turn of the event loop."""
_MAX_VALUES = 15 * MAX_REQUEST_PARTITIONS
"""The most JSON values in the head of a frame: a partition has at most four fields."""
_ACKS: dict[str, Acks] = {"all": ACKS_ALL, "-1": ACKS_ALL, "1": 1, "0": 0}


class ProduceRoutes:
    """Handlers that append."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        times = context.metrics.partition.produce
        self.raw = (
            RawRoute(path=paths.BATCHES, form=media.BATCHES, handler=self.batches, times=times),
            RawRoute(path=paths.PRODUCE, form=media.FRAME, handler=self.produce, times=times),
        )

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        for route in self.raw:
            route.add_to(app)
        app.router.add_post(paths.TOPIC_RECORDS, self.records)

    async def batches(self, request: RawRequest) -> RawReply:
        """Append one raw batch to a partition that this broker leads; another broker redirects to the leader."""
        check_query(request, ACKS, TIMEOUT_MS, TRANSACTIONAL_ID)
        topic, partition = path_partition(request)
        acks, timeout_ms = self._acks(request), self._timeout_ms(request)
        if not self._context.leads(topic, partition):
            return leader_elsewhere(self._context, request.target, topic, partition)
        transactional_id = request.query.get(TRANSACTIONAL_ID.name, "")
        if transactional_id:
            self._context.access.require(request.sender, "write", "transactional_id", transactional_id)
        return RawReply.json(
            await append_batch(
                self._context, topic, partition, request.body, acks, timeout_ms, transactional_id=transactional_id
            )
        )

    async def produce(self, request: RawRequest) -> RawReply:
        """Append a frame of batches, one for each partition; each has a result of its own."""
        check_query(request)
        encoded, body = split_frame(request.body)
        small = len(encoded) <= INLINE_BYTES
        head = _decode(encoded) if small else await in_worker(_decode, encoded)
        if head.transactional_id:
            self._context.access.require(request.sender, "write", "transactional_id", head.transactional_id)
        batches = split_parts(body, [entry.length for entry in head.partitions])
        timeout_ms = min(head.timeout_ms, caller_timeout_ms(request, self._context.config.broker.request_timeout_ms))
        appends = [
            self._result_of(request.sender, entry, batch, _ACKS[head.acks], timeout_ms, head.transactional_id)
            for entry, batch in zip(head.partitions, batches, strict=True)
        ]
        # A single batch needs no task.
        results = [await appends[0]] if len(appends) == 1 else await concurrently(appends, each=_BEGIN_AT_ONCE)
        response = ProduceResponse(partitions=tuple(results))
        return RawReply(parts=[encode_json(response) if small else await in_worker(encode_json, response)])

    async def records(self, request: web.Request) -> web.Response:
        """Append JSON records, forwarding them to the leaders; return each record's partition and offset."""
        check_query(request, ACKS, TIMEOUT_MS)
        topic = request.match_info["topic"]
        acks, timeout_ms = self._acks(request), self._timeout_ms(request)
        partitions = len(self._context.topic(topic).partitions)
        body = await read_body(request, media.JSON)
        command = await decode_body(JsonProduceRequest, body)
        few = len(command.records) <= FEW_RECORDS and len(body) <= INLINE_BYTES
        if few:
            chosen, batches = self._build(topic, command, partitions)
        else:
            chosen, batches = await in_worker(self._build, topic, command, partitions)
        forwarded = await asyncio.gather(
            *(
                self._forward(sender_of(request), topic, partition, batch, acks, timeout_ms)
                for partition, batch in batches.items()
            )
        )
        results = dict(zip(batches, forwarded, strict=True))
        status, answer = _answer_of(chosen, results) if few else await in_worker(_answer_of, chosen, results)
        return web.Response(body=answer, status=status, content_type=media.JSON)

    def _build(
        self, topic: str, command: JsonProduceRequest, partitions: int
    ) -> tuple[list[int], dict[int, bytearray]]:
        """Return the partition of each record, and each partition's batch."""
        grouped: dict[int, list[NewRecord]] = defaultdict(list)
        chosen = self._choose(topic, command, partitions)
        for partition, record in chosen:
            grouped[partition].append(record)
        short = self._context.image.feature_level >= SHORT_BATCHES
        batches = {partition: build_batch(records, short=short) for partition, records in grouped.items()}
        return [partition for partition, _ in chosen], batches

    def _choose(self, topic: str, command: JsonProduceRequest, partitions: int) -> list[tuple[int, NewRecord]]:
        now_us, unkeyed = self._context.clock.wall_us(), random.randrange(partitions)  # noqa: S311  (spreads load, hides nothing)
        chosen = []
        for number, entry in enumerate(command.records):
            record = record_from_json(entry, number=number, now_us=now_us)
            if entry.partition is not None:
                self._context.partition(topic, entry.partition)
                partition = entry.partition
            else:
                partition = unkeyed if record.key is None else partition_for_key(record.key, partitions)
            chosen.append((partition, record))
        return chosen

    async def _forward(
        self, sender: Sender, topic: str, partition: int, batch: bytearray, acks: Acks, timeout_ms: int
    ) -> ProduceResult:
        """Append at the leader; retry if nothing was certainly appended and a retry may succeed."""
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        while True:
            left_ms = int((deadline - asyncio.get_running_loop().time()) * 1000)
            try:
                return await self._at_leader(sender, topic, partition, batch, acks, max(1, left_ms))
            except RaftlogError as error:
                appended = isinstance(error, UnknownOutcomeError) or error.details.get("appended")
                if appended or not error.retriable or left_ms <= FORWARD_RETRY_MS:
                    return ProduceResult(
                        topic=topic, partition=partition, error=WireError.of(error, current_request_id())
                    )
            await asyncio.sleep(FORWARD_RETRY_MS / 1000)

    async def _at_leader(
        self, sender: Sender, topic: str, partition: int, batch: bytearray, acks: Acks, timeout_ms: int
    ) -> ProduceResult:
        if self._context.leads(topic, partition):
            return await append_batch(self._context, topic, partition, batch, acks, timeout_ms)
        entry = ProducePartition(topic=topic, partition=partition, length=len(batch))
        text = next(text for text, value in _ACKS.items() if value == acks)
        head = ProduceRequest(acks=text, timeout_ms=timeout_ms, partitions=(entry,))  # type: ignore[arg-type]
        response = await self._context.session.call(
            ProduceResponse,
            "POST",
            self._context.leader_address(topic, partition),
            paths.PRODUCE,
            timeout_ms=timeout_ms,
            body=encode_frame(head, [batch]),
            content_type=media.FRAME,
            fields=self._context.quotas.node_header() | ({} if self._context.access.is_off else forwarded(sender)),
        )
        (result,) = response.partitions
        if result.error is not None:
            raise result.error.to_error()
        return result

    async def _result_of(
        self,
        sender: Sender,
        entry: ProducePartition,
        batch: memoryview,
        acks: Acks,
        timeout_ms: int,
        transactional_id: str,
    ) -> ProduceResult:
        try:
            self._context.access.require(sender, "write", "topic", entry.topic)
            return await append_batch(
                self._context,
                entry.topic,
                entry.partition,
                batch,
                acks,
                timeout_ms,
                topic_id=entry.topic_id,
                transactional_id=transactional_id,
            )
        except RaftlogError as error:
            return ProduceResult(
                topic=entry.topic, partition=entry.partition, error=WireError.of(error, current_request_id())
            )

    def _acks(self, request: RequestQuery) -> Acks:
        return _ACKS[query_choice(request, ACKS, ErrorCode.INVALID_REQUIRED_ACKS)]

    def _timeout_ms(self, request: RequestQuery) -> int:
        limit = self._context.config.broker.request_timeout_ms
        return query_number(request, TIMEOUT_MS, default=caller_timeout_ms(request, limit), at_most=limit)


def _decode(head: memoryview) -> ProduceRequest:
    return from_plain(ProduceRequest, decode_plain(head, max_values=_MAX_VALUES))


def _answer_of(partitions: list[int], results: dict[int, ProduceResult]) -> tuple[int, bytes]:
    """Return status and body: one entry for each record, in order; the status is that of the first error, if any."""
    next_offsets = {partition: result.base_offset for partition, result in results.items()}
    offsets: list[RecordPlace] = []
    first: RaftlogError | None = None
    for partition in partitions:
        error = results[partition].error
        if error is not None:
            first = first or error.to_error()
            offsets.append({"partition": partition, "error": error})
            continue
        offsets.append({"partition": partition, "offset": next_offsets[partition]})
        next_offsets[partition] += next_offsets[partition] >= 0
    if first is None:
        return 200, encode_json(JsonProduceAnswer(offsets=offsets))
    return first.http_status, encode_json({**error_body(first), "offsets": offsets})
