"""Trace contexts as W3C Trace Context writes them: the fields `traceparent` and `tracestate`.

https://www.w3.org/TR/trace-context/. Records and requests carry them. Every client can write them, so a value that is
not valid counts as missing, and never as an error.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
MAX_STATE_BYTES = 256
"""A longer `tracestate` is neither written nor read: each record would carry it."""
_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]{0,200})?")
_NO_VERSION = b"ff"


class TraceParent(NamedTuple):
    """The place of a span: its trace, its id, and whether it is sampled (`flags`)."""

    trace_id: int
    span_id: int
    flags: int

    def encoded(self) -> bytes:
        """Return the field's value."""
        return b"00-%032x-%016x-%02x" % (self.trace_id, self.span_id, self.flags & 0xFF)


def parse_traceparent(value: bytes | None) -> TraceParent | None:
    """Return the trace context of a field's value; None: it is missing or not valid."""
    match = _TRACEPARENT.fullmatch(value) if value is not None else None
    if match is None or match[1] == _NO_VERSION or (match[1] == b"00" and match[5] is not None):
        return None
    parent = TraceParent(int(match[2], 16), int(match[3], 16), int(match[4], 16))
    return parent if parent.trace_id and parent.span_id else None
