"""Traces by OpenTelemetry's API: spans of producers, brokers and consumers, and the context that records carry.

raftlog never imports OpenTelemetry. A process whose application has imported it and has set a tracer provider gets
spans; any other pays nothing for them (docs/adr/0036). Names and attributes are those of OpenTelemetry's semantic
conventions for messaging.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from raftlog.errors import RaftlogError
from raftlog.record.model import Headers, Record
from raftlog.traceparent import MAX_STATE_BYTES, TRACEPARENT, TRACESTATE, TraceParent, parse_traceparent
from raftlog.version import VERSION

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.context import Context

MAX_LINKS = 64
"""The most links of a span; the contexts of further records are left out."""
LOOK_S = 0.1
"""How often a process without a tracer provider looks for one."""
SYSTEM: Final = "raftlog"
_NOTHING: AbstractContextManager[None] = nullcontext()


P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger(__name__)


class _Found:
    """The tracer of this process, and when to look for it again."""

    def __init__(self) -> None:
        self.is_wanted = os.environ.get("RAFTLOG_TRACES", "on") != "off"
        self.tracer: trace.Tracer | None = None
        self.next_look_s = 0.0
        self.has_failed = False


_found = _Found()


def tracer() -> trace.Tracer | None:
    """Return the tracer for raftlog's spans; None: the application has set no tracer provider, or traces are off."""
    if _found.tracer is None and _found.is_wanted and "opentelemetry.trace" in sys.modules:
        now = time.monotonic()
        if now >= _found.next_look_s:
            _found.next_look_s = now + LOOK_S
            _found.tracer = _look()
    return _found.tracer


def _look() -> trace.Tracer | None:
    api = _api()
    find = getattr(api, "get_tracer_provider", None)  # None: another thread is importing it now.
    if find is None:
        return None
    provider = find()
    if isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    found: trace.Tracer = provider.get_tracer("raftlog", VERSION)
    return None if isinstance(found, api.NoOpTracer) else found


def harmless(work: Callable[P, T]) -> Callable[P, T | None]:
    """Return a function that logs an error of the application's tracer provider, once, and returns None then.

    A span processor that raises must not lose a batch or a request.
    """

    @wraps(work)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return work(*args, **kwargs)
        except Exception:  # noqa: BLE001  (the code of the application)
            if not _found.has_failed:
                _found.has_failed = True
                _log.warning("spans are lost: the tracer provider fails", exc_info=True)
            return None

    return guarded


def _api() -> Any:
    return sys.modules["opentelemetry.trace"]


class RecordMarker:
    """Adds the current span's context to the headers of records. `is_on` is looked at again by `look`."""

    __slots__ = ("_last", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self._last: tuple[trace.SpanContext | None, Headers] = (None, ())
        """A span's context and the headers that lead to it: one object, because threads share it."""
        self.look()

    def look(self) -> None:
        """Find out whether the process has a tracer provider now."""
        self.is_on = tracer() is not None

    def headers(self) -> Headers:
        """Return the headers that lead to the current span; (): there is none."""
        if not self.is_on:
            return ()
        context, (known, headers) = _api().get_current_span().get_span_context(), self._last
        if context is not known:  # Records of one span mostly follow each other.
            headers = _headers_of(context)
            self._last = (context, headers)
        return headers

    def marked(self, headers: Headers) -> Headers:
        """Return a record's headers with the current span's context, unless the application has set one."""
        more = self.headers()
        return headers if not more or any(name == TRACEPARENT for name, _ in headers) else (*headers, *more)


def _headers_of(context: trace.SpanContext) -> Headers:
    if not context.is_valid:
        return ()
    parent = (TRACEPARENT, TraceParent(context.trace_id, context.span_id, context.trace_flags).encoded())
    state = context.trace_state.to_header().encode("ascii", "replace") if context.trace_state else b""
    return (parent, (TRACESTATE, state)) if 0 < len(state) <= MAX_STATE_BYTES else (parent,)


def contexts_in(rows: Iterable[Headers]) -> list[trace.SpanContext]:
    """Return the different contexts in records' headers, at most `MAX_LINKS`, of at most 1,000 different values.

    A value that is not valid is left out.
    """
    seen: set[bytes] = set()
    contexts: list[trace.SpanContext] = []
    before: object = None
    for headers in rows:
        if headers is before or not headers:
            continue
        before = headers
        value = next((value for name, value in headers if name == TRACEPARENT), None)
        if value is None or value in seen or len(value) > MAX_STATE_BYTES:
            continue
        seen.add(value)
        if (context := _remote(value, headers)) is not None:
            contexts.append(context)
        if len(contexts) == MAX_LINKS or len(seen) == 1_000:
            break
    return contexts


def _remote(value: bytes, headers: Headers = ()) -> trace.SpanContext | None:
    parent = parse_traceparent(value)
    if parent is None:
        return None
    api = _api()
    state = next((value for name, value in headers if name == TRACESTATE), None)
    return api.SpanContext(  # type: ignore[no-any-return]
        trace_id=parent.trace_id,
        span_id=parent.span_id,
        is_remote=True,
        trace_flags=api.TraceFlags(parent.flags),
        trace_state=_state(api, state),
    )


def _state(api: Any, value: bytes | None) -> Any:
    """Return a `tracestate`; an empty one for what is not valid."""
    if not value or len(value) > MAX_STATE_BYTES or not value.isascii():
        return api.TraceState()
    return api.TraceState.from_header([value.decode("ascii")])


def under(context: trace.SpanContext | None) -> Context:
    """Return the context of a span whose parent is `context`; None: the span begins a trace."""
    api, none = _api(), sys.modules["opentelemetry.context"].Context()
    return none if context is None else api.set_span_in_context(api.NonRecordingSpan(context), none)  # type: ignore[no-any-return]


def remote_parent(traceparent: str) -> Context | None:
    """Return the context of a request's field `traceparent`; None: it is missing or not valid."""
    context = _remote(traceparent.encode("latin-1", "replace")) if traceparent else None
    return None if context is None else under(context)


def traceparent_of(span: trace.Span) -> str:
    """Return the field `traceparent` that leads to a span; "": to none."""
    context = span.get_span_context()
    if not context.is_valid:
        return ""
    return TraceParent(context.trace_id, context.span_id, context.trace_flags).encoded().decode()


def current_traceparent() -> str:
    """Return the field `traceparent` that leads to the current span; "": there is none, or no tracer provider."""
    return "" if tracer() is None else traceparent_of(_api().get_current_span())


def attributes(kind: str, name: str, topics: Iterable[str]) -> dict[str, str | int]:
    """Return the attributes of a span by the semantic conventions.

    Args:
        kind: the type of the operation: `send`, `receive` or `process`; "": none of them.
        name: the operation's name.
        topics: those that it touches; the span names the topic if it is one.
    """
    found: dict[str, str | int] = {"messaging.system": SYSTEM, "messaging.operation.name": name}
    if kind:
        found["messaging.operation.type"] = kind
    if (topic := only(topics)) is not None:
        found["messaging.destination.name"] = topic
    return found


def only(topics: Iterable[str]) -> str | None:
    """Return the only one of some topics; None: there are several, or none."""
    different = set(topics)
    return different.pop() if len(different) == 1 else None


def fail(span: trace.Span, error: BaseException) -> None:
    """Mark a span as failed."""
    fail_as(span, error.code.value if isinstance(error, RaftlogError) else type(error).__qualname__, str(error))


def fail_as(span: trace.Span, kind: str, why: str) -> None:
    """Mark a span as failed with an error's name."""
    span.set_attribute("error.type", kind)
    span.set_status(_api().StatusCode.ERROR, why[:500])


def kind(name: str) -> trace.SpanKind:
    """Return a kind of spans: CLIENT, SERVER, CONSUMER or INTERNAL."""
    return _api().SpanKind[name]  # type: ignore[no-any-return]


def links(contexts: Iterable[trace.SpanContext]) -> list[trace.Link]:
    """Return links to spans."""
    return [_api().Link(context) for context in contexts]


def process(
    records: Record | Sequence[Record], *, group_id: str = "", as_child: bool = False
) -> AbstractContextManager[trace.Span | None]:
    """Return a context manager: the span in which an application processes records.

    The span is linked to the spans in which the records were sent, and is the current one within the block. An
    exception marks it as failed. Without a tracer provider, nothing happens and the block gets None.

    Args:
        records: one record, or several; at most 64 links are made.
        group_id: the consumer group, as an attribute.
        as_child: make the span a child of the first record's span, in the same trace, as well.
    """
    found = tracer()
    if found is None:
        return _NOTHING
    return _processing(found, [records] if isinstance(records, Record) else records, group_id, as_child=as_child)


@contextmanager
def _processing(
    found: trace.Tracer, records: Sequence[Record], group_id: str, *, as_child: bool
) -> Iterator[trace.Span]:
    contexts = contexts_in(record.headers for record in records)
    topics = {record.topic for record in records}
    partition = only(str(record.partition) for record in records) or ""
    more: dict[str, str | int] = {"messaging.consumer.group.name": group_id} if group_id else {}
    if len(records) == 1:
        more["raftlog.offset"] = records[0].offset
    else:
        more["messaging.batch.message_count"] = len(records)
    if len(topics) == 1 and partition:
        more["messaging.destination.partition.id"] = partition
    with found.start_as_current_span(
        span_name("process", topics),
        context=under(contexts[0]) if as_child and contexts else None,
        kind=kind("CONSUMER"),
        links=links(contexts),
        attributes=attributes("process", "process", topics) | more,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            fail(span, error)
            raise


def span_name(operation: str, topics: Iterable[str]) -> str:
    """Return the name of a span: the operation and its topic, if it is one."""
    topic = only(topics)
    return operation if topic is None else f"{operation} {topic}"
