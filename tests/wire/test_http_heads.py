"""Heads of messages: written as before, kept for the next message, and never kept with credentials."""

from __future__ import annotations

import pytest

from raftlog.broker.lean.reply import encode_reply
from raftlog.broker.raw import RawReply
from raftlog.wire import http1

FIELDS = [("Host", "broker:9092"), ("Content-Length", 12)]
HEAD = b"POST /v1/produce HTTP/1.1\r\nHost: broker:9092\r\nContent-Length: 12\r\n\r\n"


def test_a_repeated_head_is_kept():
    assert http1.encode_head("POST /v1/produce HTTP/1.1", FIELDS) == HEAD
    before = http1._encoded_again.cache_info()
    assert http1.encode_head("POST /v1/produce HTTP/1.1", iter(FIELDS)) == HEAD
    after = http1._encoded_again.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)
    assert http1.encode_head("POST /v1/produce HTTP/1.1", [FIELDS[0], ("Content-Length", 13)]) != HEAD


def test_a_head_with_credentials_is_not_kept():
    before = http1._encoded_again.cache_info()
    head = http1.encode_head("POST /v1/produce HTTP/1.1", [*FIELDS, ("Authorization", "Bearer secret")])
    assert head.endswith(b"Authorization: Bearer secret\r\n\r\n")
    assert http1._encoded_again.cache_info() == before


@pytest.mark.parametrize("fields", [[("Host", "a\r\nb")], [("Authorization", "a\r\nb")]])
def test_a_value_cannot_end_its_line_twice(fields: list[tuple[str, str | int]]):
    """An error is not kept either."""
    for _ in range(2):
        with pytest.raises(ValueError, match="not the head of a message"):
            http1.encode_head("POST / HTTP/1.1", fields)


def test_the_usual_reply_has_the_head_of_any_reply():
    usual, *_ = encode_reply(RawReply(parts=[b"{}"]), 1_700_000_000, 0, closes=False)
    closing, *_ = encode_reply(RawReply(parts=[b"{}"]), 1_700_000_000, 0, closes=True)
    assert isinstance(usual, bytes)
    assert usual.removesuffix(b"\r\n") + b"Connection: close\r\n\r\n" == closing
    later, *_ = encode_reply(RawReply(parts=[b"{}"]), 1_700_000_001, 0, closes=False)
    assert later != usual


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\r\n\r\n", "a\r\nb: c\r\nd: e", "a\n", "\r"])
@pytest.mark.parametrize("name", ["Content-Type", "Authorization"])
def test_a_value_that_would_begin_another_field_is_refused(name: str, value: str):
    for start in ("POST / HTTP/1.1", "HTTP/1.1 200 OK"):
        with pytest.raises(ValueError, match="head"):
            http1.encode_head(start, [(name, value)])
    with pytest.raises(ValueError, match="head"):
        http1.encode_head(f"POST /{value} HTTP/1.1", [])
