"""What one event of the console holds. Pure; sizes are bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from raftlog.broker.console.advice import advice_for
from raftlog.metrics.overview import Overview
from raftlog.wire.codec import encode_json

MAX_ROWS = 100
"""Topics and groups in one event: those with the most traffic, and the most lag."""
HISTORY = 300
"""Samples that a broker remembers for charts."""


class History:
    """The rates of the last samples, for charts."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, ...]] = deque(maxlen=HISTORY)

    def add(self, at_ms: int, seen: Overview) -> None:
        """Remember a sample that has rates; the first one after a pause has none."""
        if seen.bytes_in_per_s is None:
            return
        rates = (seen.bytes_in_per_s, seen.bytes_out_per_s, seen.records_in_per_s, seen.records_out_per_s)
        self._samples.append((at_ms, *(round(rate or 0) for rate in rates)))

    def event(self) -> bytes:
        """Return the event `history`: lists of time (ms), bytes in and out, records in and out, each by second."""
        return event("history", list(self._samples))


def event(name: str, value: object) -> bytes:
    """Return a server-sent event (WHATWG HTML, 9.2). JSON has no line feed, so the data is one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode_json(value))


def snapshot(seen: Overview, *, at_ms: int, broker_id: int, metadata_offset: int) -> dict[str, Any]:
    """Return the data of the event `cluster`."""
    return {
        "at_ms": at_ms,
        "broker_id": broker_id,
        "metadata_offset": metadata_offset,
        "cluster_id": seen.cluster_id,
        "level": seen.level,
        "alerts": [{"text": text, "advice": advice_for(text)} for text in seen.words],
        "bytes_in_per_s": seen.bytes_in_per_s,
        "bytes_out_per_s": seen.bytes_out_per_s,
        "records_in_per_s": seen.records_in_per_s,
        "records_out_per_s": seen.records_out_per_s,
        "requests_per_s": seen.requests_per_s,
        "under_replicated": seen.under_replicated,
        "controllers": seen.controllers,
        "brokers": seen.brokers,
        "topics": _most(seen.topics, lambda row: row.bytes_in_per_s + row.bytes_out_per_s),
        "groups": _most(seen.groups, lambda row: row.lag_records),
    }


def _most(rows: Iterable[Any], weight: Any) -> list[Any]:
    return sorted(rows, key=weight, reverse=True)[:MAX_ROWS]
