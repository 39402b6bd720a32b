"""Spans of a consumer's fetches that returned records, or failed. Those that found nothing leave none."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from raftlog import tracing
from raftlog.client.completed_fetch import CompletedFetch
from raftlog.errors import RaftlogError
from raftlog.model import Address, TopicPartition


@tracing.harmless
def note_fetch(address: Address, taken_s: float, fetched: Iterable[CompletedFetch]) -> None:
    """Make the span of a fetch that has just been answered with records."""
    fetched = list(fetched)
    if fetched and tracing.tracer() is not None:
        records = sum(fetch.record_count for fetch in fetched)
        _note(address, taken_s, [fetch.partition for fetch in fetched], {"messaging.batch.message_count": records})


@tracing.harmless
def note_failure(address: Address, taken_s: float, partitions: Collection[TopicPartition], error: RaftlogError) -> None:
    """Make the span of a fetch that has just failed."""
    if tracing.tracer() is not None:
        _note(address, taken_s, partitions, {}, error)


def _note(
    address: Address,
    taken_s: float,
    partitions: Collection[TopicPartition],
    more: dict[str, str | int],
    error: RaftlogError | None = None,
) -> None:
    found = tracing.tracer()
    assert found is not None
    topics, now_ns = {partition.topic for partition in partitions}, time.time_ns()
    if len(partitions) == 1:
        more["messaging.destination.partition.id"] = str(next(iter(partitions)).partition)
    span = found.start_span(
        tracing.span_name("fetch", topics),
        context=tracing.under(None),
        kind=tracing.kind("CLIENT"),
        attributes=tracing.attributes("receive", "fetch", topics)
        | {"server.address": address.host, "server.port": address.port}
        | more,
        start_time=now_ns - int(taken_s * 1_000_000_000),
    )
    if error is not None:
        tracing.fail(span, error)
    span.end(now_ns)
