"""`GET /v1/topics/{topic}/records`: a whole topic, or some of its partitions, as one answer of any length."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query
from raftlog.broker.kafka.config_sources import effective
from raftlog.broker.openapi.parameters import TOPIC_READ
from raftlog.broker.topic_reads.query import Place, TopicQuery, parse, positions_text
from raftlog.broker.topic_reads.ranges import (
    DIVISIBLE,
    Layouts,
    RangeNotSatisfiableError,
    begins_a_read,
    parse_range,
    pieces_between,
)
from raftlog.broker.topic_reads.source import TopicSource
from raftlog.broker.topic_reads.stream import Spans, StreamPart, TopicStream
from raftlog.broker.topic_reads.stream_encoders import CODINGS, EVENT_ROWS, EVENT_STREAM, Compressed, Events
from raftlog.errors import InvalidRequestError, NotFoundError, OffsetOutOfRangeError
from raftlog.metadata_quorum.image import TopicImage
from raftlog.model import Offset
from raftlog.record.formats import Encoder, encoder
from raftlog.security.guard import sender_of
from raftlog.serving.error_bodies import encoded_error
from raftlog.serving.streams import StreamedResponse, StreamLimits
from raftlog.wire import media, paths
from raftlog.wire.codec import Buffer
from raftlog.wire.negotiation import content_coding, negotiate

_FORM_OF = {
    media.NDJSON: "ndjson",
    media.JSON: "json",
    media.ARROW_STREAM: "arrow",
    media.CSV: "csv",
    media.PARQUET: "parquet",
    EVENT_STREAM: "events",
}
_WILDCARDS = {
    "": media.NDJSON,
    "*/*": media.NDJSON,
    "application/*": media.NDJSON,
    "text/*": media.CSV,
    "text/html": media.JSON,
}
_FOLLOWED = ("ndjson", "events", "arrow", "csv")
"""Formats that can be streamed without an end."""
_MOST_NAMED = 100
"""The most partitions in a header or an event's id."""
_MOST_FOLLOWED = 1_000
"""The most partitions to follow: each is visited whenever one has new records."""
_ASKED_AT_ONCE = 64


class TopicRecordsRoutes:
    """Streams topics."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self.limits = StreamLimits(context.config.broker.max_streams)
        self._layouts = Layouts()

    def add_to(self, app: web.Application) -> None:
        """Register the path."""
        app.router.add_get(paths.TOPIC_RECORDS, self.records)
        app.on_shutdown.append(self.limits.end_tails)

    async def records(self, request: web.Request) -> web.StreamResponse:
        """Read a topic; see docs/reference/http.md."""
        check_query(request, *TOPIC_READ)
        _require_once(request)
        name, address = request.match_info["topic"], request.remote or ""
        form = self._form(request)
        query = parse(request.query, last_event_id=request.headers.get("Last-Event-ID") if form == "events" else None)
        if query.follow and form not in _FOLLOWED:
            raise InvalidRequestError(f"follow: {form} has an end, expected a format of {', '.join(_FOLLOWED)}")
        topic = self._context.topic(name)
        partitions = self._partitions(query, len(topic.partitions))
        if query.follow and len(partitions) > _MOST_FOLLOWED:
            raise InvalidRequestError(
                f"partitions: expected at most {_MOST_FOLLOWED} with follow=true, received {len(partitions)}; name some"
            )
        self.limits.enter(address)
        try:
            source = TopicSource(self._context, name, topic.topic_id, query.isolation, sender_of(request))
            spans = await _spans(source, query, partitions)
            answer = _Answer(request, form, query, spans)
            heartbeat = b": nothing yet\n\n" if form == "events" else b"" if form == "arrow" else b"\n"

            def read() -> TopicStream:
                return TopicStream(
                    source,
                    answer.encoder,
                    query,
                    topic=name,
                    spans=spans,
                    heartbeat=heartbeat,
                    piece_rows=EVENT_ROWS if form == "events" else None,
                )

            headers = answer.headers
            if form in DIVISIBLE and self._is_never_compacted(topic):
                part = await self._part(request, read, answer, topic.topic_id)
                if part is not None:
                    return self._streamed(request, (), part.pieces, {**headers, **part.headers}, status=part.status)
                if answer.is_fixed:
                    headers |= {"Accept-Ranges": "bytes", "ETag": answer.etag(topic.topic_id, spans)}
            pieces = read().pieces()
            first = [await anext(pieces)]
            if not query.follow:
                first.append(await anext(pieces, b""))  # Before the status is sent, so that an error can set it.
        except BaseException:
            self.limits.leave(address)
            raise
        return self._streamed(request, first, pieces, headers, endless=query.follow)

    def _is_never_compacted(self, topic: TopicImage) -> bool:
        return effective(self._context, topic.configs)["cleanup_policy"] == "delete"

    def _streamed(
        self,
        request: web.Request,
        first: Sequence[Buffer],
        rest: AsyncGenerator[Buffer, None],
        headers: Mapping[str, str],
        *,
        status: int = 200,
        endless: bool = False,
    ) -> StreamedResponse:
        limits = self.limits
        return StreamedResponse(request, first, rest, headers=headers, limits=limits, status=status, endless=endless)

    async def _part(
        self, request: web.Request, read: Callable[[], TopicStream], answer: _Answer, topic_id: str
    ) -> _Part | None:
        """Return the part for a `Range` header or HEAD; None: the whole response."""
        range_header = request.headers.get("Range")
        if (range_header is None and request.method != "HEAD") or not answer.is_divisible:
            return None
        name = answer.name(topic_id)
        # The layout of a fixed answer is always the same: this or another broker may have given the part before.
        lays_out = answer.is_fixed or begins_a_read(range_header)
        layout = await self._layouts.newest(name, read()) if lays_out else self._layouts.known(name)
        if layout is None:
            return None
        etag = answer.etag(topic_id, layout.spans, [] if answer.is_fixed else [part for _, part in layout.parts])
        headers = {"Accept-Ranges": "bytes", "ETag": etag}
        if request.headers.get("If-Range", etag) != etag:
            range_header = None
        try:
            span = None if range_header is None else parse_range(range_header, layout.size)
        except RangeNotSatisfiableError as error:
            headers |= {"Content-Type": media.JSON, "Content-Range": f"bytes */{layout.size}"}
            return _Part(_once(encoded_error(error)), headers, status=416)
        first, last = span or (0, layout.size - 1)
        headers["Content-Length"] = str(last + 1 - first)
        if span is not None:
            headers["Content-Range"] = f"bytes {first}-{last}/{layout.size}"
        return _Part(pieces_between(layout, read(), first, last), headers, status=200 if span is None else 206)

    def _form(self, request: web.Request) -> str:
        named = request.query.get("format")
        if named is None:
            return _FORM_OF[negotiate(request.headers.get("Accept", ""), tuple(_FORM_OF), _WILDCARDS)]
        if named not in _FORM_OF.values():
            raise InvalidRequestError(f"format: expected one of {', '.join(_FORM_OF.values())}, received {named!r:.80}")
        return named

    @staticmethod
    def _partitions(query: TopicQuery, count: int) -> tuple[int, ...]:
        wanted = tuple(range(count)) if query.partitions is None else query.partitions
        for name, place in (("partitions", wanted), ("from", query.begin), ("until", query.end)):
            named = place if isinstance(place, tuple | Mapping) else ()
            if wrong := [number for number in named if number >= count]:
                raise NotFoundError(f"{name}: the topic has partitions 0 to {count - 1}, received {wrong[0]}")
        return wanted


@dataclass(frozen=True, slots=True)
class _Part:
    pieces: AsyncGenerator[Buffer, None]
    headers: dict[str, str]
    status: int


class _Answer:
    """The format of one response.

    Raises:
        InvalidRequestError: the format does not fit the query.
    """

    def __init__(self, request: web.Request, form: str, query: TopicQuery, spans: Spans) -> None:
        self._form = form
        self._query = query
        self._spans = spans
        self._begins = {partition: begin for partition, (begin, _) in spans.items()}
        if form == "events" and len(spans) > _MOST_NAMED:
            raise InvalidRequestError(
                f"partitions: expected at most {_MOST_NAMED} for server-sent events, whose ids name them all; "
                f"received {len(spans)}"
            )
        compressible = form not in ("parquet", "events") and not query.follow
        accepted = request.headers.get("Accept-Encoding", "")
        self._coding = content_coding(accepted, CODINGS) if compressible else None

    @property
    def headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": EVENT_STREAM if self._form == "events" else encoder(self._form).media_type,
            "Vary": "Accept, Accept-Encoding",
            "Cache-Control": "no-store",
        }
        if self._coding is not None:
            headers["Content-Encoding"] = self._coding
        if len(self._spans) <= _MOST_NAMED:
            headers[media.FROM] = positions_text(self._begins)
            if not self._query.follow:
                headers[media.UNTIL] = positions_text({number: end or 0 for number, (_, end) in self._spans.items()})
        return headers

    @property
    def is_divisible(self) -> bool:
        """Whether any part of the response can be rendered alone."""
        whole = self._query.max_records is None and not self._query.follow
        return self._form in DIVISIBLE and self._coding is None and whole

    @property
    def is_fixed(self) -> bool:
        """Whether the same URL always returns the same bytes."""
        query = self._query
        named = [
            isinstance(place, Mapping) and self._spans.keys() <= place.keys() for place in (query.begin, query.end)
        ]
        return self.is_divisible and all(named)

    def name(self, topic_id: str) -> str:
        """Return a name of the response that does not depend on its current end."""
        from raftlog.record.formats.parquet_file import RENDERING  # noqa: PLC0415  (5 MB, for who reads so)

        query = self._query
        places = [sorted(at.items()) if isinstance(at, Mapping) else at for at in (query.begin, query.end)]
        text = repr(
            (RENDERING, topic_id, self._form, list(self._spans), query.columns, query.key, query.isolation, places)
        )
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def etag(self, topic_id: str, spans: Spans, parts: Sequence[StreamPart] = ()) -> str:
        """Return the ETag of the response's bytes.

        Args:
            parts: how the response is divided, unless the query determines that.
        """
        text = repr((self.name(topic_id), list(spans.items()), list(parts)))
        return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'

    def encoder(self) -> Encoder:
        """Return a new encoder."""
        if self._form == "events":
            return Events(self._begins, self._query.columns)
        plain = encoder(self._form, self._query.columns)
        return plain if self._coding is None else Compressed(plain, self._coding)


def _require_once(request: web.Request) -> None:
    """Raise for repeated query names, as some libraries write lists: all values but one would be ignored.

    Raises:
        InvalidRequestError: a name is repeated; the message shows how to write a list.
    """
    for name in request.query:
        if len(values := request.query.getall(name)) > 1:
            raise InvalidRequestError(
                f"query: {name} is repeated ({', '.join(values):.80}); give it once, with commas between the values"
            )


async def _once(body: bytes) -> AsyncGenerator[Buffer, None]:
    yield body


async def _spans(source: TopicSource, query: TopicQuery, partitions: tuple[int, ...]) -> Spans:
    """Return the offset range of each partition; ends are resolved now."""

    async def span(partition: int) -> tuple[Offset, Offset | None]:
        begin = await _offset(source, partition, query.begin, "earliest")
        end = None if query.follow else await _offset(source, partition, query.end, "latest")
        return begin, end if end is None else max(begin, end)

    spans = dict[int, tuple[Offset, Offset | None]]()
    for start in range(0, len(partitions), _ASKED_AT_ONCE):
        some = partitions[start : start + _ASKED_AT_ONCE]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(span(partition)) for partition in some]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        spans |= zip(some, (task.result() for task in tasks), strict=True)
    return spans


async def _offset(source: TopicSource, partition: int, place: Place, missing: str) -> Offset:
    """Resolve a place to an offset.

    Raises:
        OffsetOutOfRangeError: the offset is not in the partition's log.
    """
    if isinstance(place, Mapping):
        if partition not in place:
            return (await source.offsets(partition, missing)).offset
        known, wanted = await source.offsets(partition, "latest"), place[partition]
        if not known.log_start_offset <= wanted <= known.offset:
            raise OffsetOutOfRangeError(
                f"partition {partition}: offsets {known.log_start_offset} to {known.offset} can be read, "
                f"received {wanted}",
                details={"log_start_offset": known.log_start_offset, "log_end_offset": known.offset},
            )
        return wanted
    return (await source.offsets(partition, str(place))).offset
