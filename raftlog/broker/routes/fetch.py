"""Fetching: one partition in any form, several as a frame, and offsets by time. All long-polled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import cast

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import (
    ParkedFetches,
    caller_timeout_ms,
    check_query,
    json_response,
    path_partition,
    query_choice,
    query_number,
)
from raftlog.broker.offsets import describe_offsets, offset_at
from raftlog.broker.openapi.parameters import AT, ISOLATION, MAX_BYTES, MAX_WAIT_MS, MIN_BYTES, OFFSET, RECORDS, REPLICA
from raftlog.broker.raw import RawReply, RawRequest, RawRoute
from raftlog.broker.render import form_of, next_offset, render
from raftlog.broker.routes.leader_redirect import redirect_to_leader
from raftlog.errors import InvalidRequestError
from raftlog.model import Isolation, Offset
from raftlog.partition.consumer_fetch import FindReplica, serve_fetch
from raftlog.partition.readable_replica import ReadResult, in_memory
from raftlog.partition.replica import Replica
from raftlog.record.unpacking import first_that_unpack_to
from raftlog.schema import from_plain
from raftlog.security.access import TopicReads
from raftlog.security.guard import sender_of
from raftlog.security.identity import Sender
from raftlog.serving.workers import INLINE_BYTES, in_worker
from raftlog.wire import media, paths
from raftlog.wire.codec import Buffer, decode_plain, encode_frame
from raftlog.wire.data import MAX_REQUEST_PARTITIONS, FetchPartition, FetchRequest, FetchResponse

MAX_GET_BYTES = 1 << 20
"""The most batch bytes of one `GET .../records`, which is rendered in memory. A larger value is not an error."""
_MAX_VALUES = 25 * MAX_REQUEST_PARTITIONS
"""The most JSON values in the body of a fetch: a partition has at most nine fields."""


class FetchRoutes:
    """Handlers that read."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self.parked = ParkedFetches(max_requests=context.config.broker.max_inflight_requests)
        self.raw = (RawRoute(path=paths.FETCH, form=media.JSON, handler=self.fetch),)

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_get(paths.RECORDS, self.records)
        for route in self.raw:
            route.add_to(app)
        app.router.add_get(paths.OFFSETS, self.offsets)

    async def records(self, request: web.Request) -> web.StreamResponse:
        """Read one partition from an offset; another broker redirects to the leader, unless `replica=any`."""
        check_query(request, *RECORDS)
        topic, partition = path_partition(request)
        form = form_of(request.headers.get("Accept", ""))
        isolation = cast("Isolation", query_choice(request, ISOLATION))
        any_replica = query_choice(request, REPLICA) == "any" and self._context.holds(topic, partition)
        if not any_replica and not self._context.leads(topic, partition):
            return redirect_to_leader(self._context, request, topic, partition)
        config = self._context.config.broker
        find = self._context.replica if any_replica else self._context.leader
        offset = self._offset(request, find(topic, partition), isolation)
        max_bytes = query_number(request, MAX_BYTES, at_most=config.fetch_max_bytes)
        max_bytes = min(max_bytes, MAX_GET_BYTES)
        part = FetchPartition(
            topic=topic, partition=partition, offset=offset, max_bytes=max_bytes, any_replica=any_replica
        )
        fetch = FetchRequest(
            partitions=(part,),
            max_wait_ms=min(
                query_number(request, MAX_WAIT_MS, at_most=config.fetch_max_wait_ms),
                caller_timeout_ms(request, config.fetch_max_wait_ms),
            ),
            min_bytes=query_number(request, MIN_BYTES),
            max_bytes=max_bytes,
            isolation=isolation,
        )
        with self.parked.waiting(fetch.max_wait_ms):
            (served,) = await serve_fetch(self._find_for(sender_of(request)), fetch)
        result = served.result
        if result.error is not None:
            raise result.error.to_error()
        data = in_memory(served.data)
        if form != media.BATCHES and data:
            data = bytes(await in_worker(first_that_unpack_to, MAX_GET_BYTES, data))
        read = ReadResult(
            data=data,
            high_watermark=result.high_watermark,
            log_start_offset=result.log_start_offset,
            leader_epoch=result.leader_epoch,
            last_stable_offset=result.last_stable_offset,
            aborted=result.aborted,
        )
        following = next_offset(data, offset)
        self._context.metrics.sent(topic, records=following - offset, size=len(data))
        more = following < (read.last_stable_offset if isolation == "read_committed" else read.high_watermark)
        work = partial(render, form, read, topic=topic, partition=partition, offset=offset, more=more)
        # A small batch may decompress to a large one: records are rendered in a worker thread.
        body = work() if form == media.BATCHES or not data else await in_worker(work)
        return web.Response(body=body, headers={"Content-Type": form, **_marks(read, following, more=more)})

    async def fetch(self, request: RawRequest) -> RawReply:
        """Read several partitions that this broker leads or follows; the response is a frame of raw batches."""
        check_query(request)
        small = len(request.body) <= INLINE_BYTES
        fetch = self._decode(request.body) if small else await in_worker(self._decode, request.body)
        wait_ms = min(fetch.max_wait_ms, caller_timeout_ms(request, fetch.max_wait_ms))
        if request.max_answer_bytes is not None:
            most = min(fetch.max_bytes, request.max_answer_bytes)
            fetch = replace(fetch, max_bytes=most, min_bytes=min(fetch.min_bytes, most))
        prefer, find = self._context.replicas.preferred, self._find_for(request.sender)
        with self.parked.waiting(wait_ms, len(fetch.partitions)):
            served = await serve_fetch(find, replace(fetch, max_wait_ms=wait_ms), prefer=prefer)
        self._context.metrics.served(served)
        head = FetchResponse(partitions=tuple(one.result for one in served))
        frame = encode_frame(head) if small else await in_worker(encode_frame, head)
        parts = [*frame, *(one.data for one in served if one.data)]
        return RawReply(parts=parts, content_type=media.FRAME)

    async def offsets(self, request: web.Request) -> web.StreamResponse:
        """Return the offset of earliest, latest or a time (ms since 1970)."""
        check_query(request, AT, ISOLATION)
        isolation = cast("Isolation", query_choice(request, ISOLATION))
        topic, partition = path_partition(request)
        at = request.query.get(AT.name, str(AT.default))
        if not self._context.leads(topic, partition):
            return redirect_to_leader(self._context, request, topic, partition)
        return json_response(await describe_offsets(self._context.leader(topic, partition), at, isolation))

    def _find_for(self, sender: Sender) -> FindReplica:
        access = self._context.access
        return self._context.replica if access.is_off else partial(self._allowed_replica, TopicReads(access, sender))

    def _allowed_replica(self, reads: TopicReads, topic: str, partition: int, topic_id: str) -> Replica:
        """Return this broker's replica if the sender may read it, at each read of a long poll."""
        reads.require(topic)
        return self._context.replica(topic, partition, topic_id)

    def _offset(self, request: web.Request, replica: Replica, isolation: Isolation) -> Offset:
        text = request.query.get(OFFSET.name, str(OFFSET.default))
        if text in OFFSET.choices:
            return offset_at(replica, text, isolation)
        return query_number(request, OFFSET)

    def _decode(self, body: Buffer) -> FetchRequest:
        fetch = from_plain(FetchRequest, decode_plain(body, max_values=_MAX_VALUES))
        self._check_limits(fetch)
        return fetch

    def _check_limits(self, fetch: FetchRequest) -> None:
        config = self._context.config.broker
        if len({(part.topic, part.partition) for part in fetch.partitions}) < len(fetch.partitions):
            raise InvalidRequestError("partitions: expected each partition once, received one of them several times")
        limits = [
            ("max_wait_ms", fetch.max_wait_ms, 0, config.fetch_max_wait_ms),
            ("max_bytes", fetch.max_bytes, 1, config.fetch_max_bytes),
            ("min_bytes", fetch.min_bytes, 0, config.fetch_max_bytes),
        ]
        for name, number, least, most in limits:
            if not least <= number <= most:
                raise InvalidRequestError(f"{name}: expected {least} to {most}, received {number}")


def _marks(read: ReadResult, following: Offset, *, more: bool) -> dict[str, str]:
    return {
        media.HIGH_WATERMARK: str(read.high_watermark),
        media.LAST_STABLE_OFFSET: str(read.last_stable_offset),
        media.LOG_START_OFFSET: str(read.log_start_offset),
        media.LEADER_EPOCH: str(read.leader_epoch),
        media.NEXT_OFFSET: str(following),
        media.MORE: "true" if more else "false",
    }
