"""Spans of a producer's requests: one for each attempt to send batches to a leader."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from raftlog import tracing
from raftlog.client.produce_requests import Routed
from raftlog.errors import RaftlogError
from raftlog.model import Address
from raftlog.traceparent import TRACEPARENT
from raftlog.wire.data import ProduceResult

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class SendSpan:
    """The span of one request. Whatever becomes of the request, `end` is called once."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def fields(self) -> dict[str, str]:
        """Return the header fields that lead the broker to the span."""
        traceparent = tracing.traceparent_of(self._span)
        return {TRACEPARENT: traceparent} if traceparent else {}

    @tracing.harmless
    def end(self, results: Sequence[ProduceResult | RaftlogError]) -> None:
        """End the span with the batches' results; none: the request was cancelled."""
        if not results:
            tracing.fail_as(self._span, "cancelled", "the request was cancelled: the producer was closed")
        for result in results:
            if isinstance(result, RaftlogError):
                tracing.fail(self._span, result)
                break
            if result.error is not None:
                tracing.fail_as(self._span, result.error.code, result.error.message)
                break
        self._span.end()


@tracing.harmless
def begin_send(address: Address, routed: Sequence[Routed], client_id: str) -> SendSpan | None:
    """Begin the span of a request: below the span in which its first record was sent, with links to the others'."""
    found = tracing.tracer()
    if found is None:
        return None
    topics = {partition.topic for partition, _ in routed}
    rows = chain.from_iterable(batch.records.headers or () for _, batch in routed)
    parent, *others = [*tracing.contexts_in(rows), None]
    more: dict[str, str | int] = {
        "messaging.batch.message_count": sum(len(batch.records) for _, batch in routed),
        "server.address": address.host,
        "server.port": address.port,
    }
    if len(routed) == 1:
        more["messaging.destination.partition.id"] = str(routed[0][0].partition)
    if client_id:
        more["messaging.client.id"] = client_id
    return SendSpan(
        found.start_span(
            tracing.span_name("send", topics),
            context=tracing.under(parent),
            kind=tracing.kind("CLIENT"),
            links=tracing.links(filter(None, others)),
            attributes=tracing.attributes("send", "send", topics) | more,
        )
    )
