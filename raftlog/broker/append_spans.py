"""Spans of a leader below those of producers: `append`, and `replicate` until the in-sync replicas have the batch."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from raftlog import tracing
from raftlog.model import ACKS_ALL, Acks
from raftlog.partition.replica import AppendResult
from raftlog.request_marks import current_marks

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer


class _Append(Protocol):
    def __call__(self, *, on_appended: _OnAppended) -> Awaitable[AppendResult]: ...


class _OnAppended(Protocol):
    def __call__(self, result: AppendResult, /) -> None: ...


def begin_append(topic: str, partition: int, acks: Acks) -> AppendSpans | None:
    """Begin the spans of an append; None: its request carries no trace context, or the node has no tracer provider."""
    marks = current_marks.get()
    if marks is None or not marks.traceparent:
        return None
    return _begin(marks.traceparent, topic, partition, acks)


@tracing.harmless
def _begin(traceparent: str, topic: str, partition: int, acks: Acks) -> AppendSpans | None:
    found = tracing.tracer()
    parent = tracing.remote_parent(traceparent) if found is not None else None
    return None if found is None or parent is None else AppendSpans(found, parent, topic, partition, acks)


class AppendSpans:
    """The spans of one append."""

    def __init__(self, found: Tracer, parent: Context, topic: str, partition: int, acks: Acks) -> None:
        self._tracer, self._parent, self._topic, self._acks = found, parent, topic, acks
        self._partition = partition
        self._span: Span | None = self._start("append", "SERVER")

    async def of(self, append: _Append) -> AppendResult:
        """Append under the spans. They end with it, also if it fails or is cancelled."""
        try:
            result = await append(on_appended=self._on_appended)
        except BaseException as error:
            self._end(error)
            raise
        self._end()
        return result

    @tracing.harmless
    def _on_appended(self, result: AppendResult) -> None:
        span = self._span
        assert span is not None
        span.set_attribute("raftlog.offset", result.base_offset)
        span.set_attribute("messaging.batch.message_count", result.last_offset - result.base_offset + 1)
        if result.duplicate:
            span.set_attribute("raftlog.duplicate", True)
        if self._acks == ACKS_ALL:
            self._end()
            self._span = self._start("replicate", "INTERNAL")

    def _start(self, name: str, kind: str) -> Span:
        more: dict[str, str | int] = {
            "messaging.destination.partition.id": str(self._partition),
            "raftlog.acks": str(self._acks),
        }
        return self._tracer.start_span(
            f"{name} {self._topic}",
            context=self._parent,
            kind=tracing.kind(kind),
            attributes=tracing.attributes("", name, [self._topic]) | more,
        )

    @tracing.harmless
    def _end(self, error: BaseException | None = None) -> None:
        span, self._span = self._span, None
        if span is None:
            return
        if error is not None:
            tracing.fail(span, error)
        span.end()
