"""Trace contexts as text: what is valid by W3C's rules, and everything else is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.traceparent import TraceParent, parse_traceparent

GOOD = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PARENT = TraceParent(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, 1)


def test_a_context_survives_its_text():
    assert parse_traceparent(GOOD) == PARENT
    assert PARENT.encoded() == GOOD
    assert parse_traceparent(TraceParent(2**128 - 1, 2**64 - 1, 255).encoded()) == TraceParent(
        2**128 - 1, 2**64 - 1, 255
    )


@pytest.mark.parametrize("later", [b"01" + GOOD[2:], b"cc" + GOOD[2:] + b"-what the-future will bring"])
def test_a_later_version_may_have_more(later: bytes):
    assert parse_traceparent(later) == PARENT


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        b"",
        GOOD[:-1],
        GOOD + b"0",
        GOOD + b"-00",
        GOOD + b"\n",
        b" " + GOOD,
        GOOD.upper(),
        b"ff" + GOOD[2:],
        b"00-" + b"0" * 32 + GOOD[35:],
        GOOD[:36] + b"0" * 16 + b"-01",
        GOOD.replace(b"-", b"_"),
        b"\xff" * 55,
        b"01" + GOOD[2:] + b"-" + b"x" * 10_000,
        b"01" + GOOD[2:] + b"-\xff\xfe",
        "\u0660".encode() * 55,
    ],
)
def test_what_is_not_valid_is_missing(wrong: bytes | None):
    assert parse_traceparent(wrong) is None


@given(st.binary(max_size=80) | st.from_regex(rb"[0-9a-f]{2}-[0-9a-f]{30,34}-[0-9a-f]{15,17}-[0-9a-f]{2}.?"))
def test_no_bytes_are_an_error(value: bytes):
    parent = parse_traceparent(value)
    assert parent is None or (0 < parent.trace_id < 2**128 and 0 < parent.span_id < 2**64)
