"""Lines in, records out, and back; nothing is lost on the way, bad lines are named."""

from __future__ import annotations

import asyncio
import io
import os

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.cli.line_reader import chunk_reader, read_lines
from raftlog.cli.record_lines import LineRecord, parse_json, parse_value, render_json, render_value
from raftlog.errors import InvalidRequestError
from raftlog.record import Record


def record(**members: object) -> Record:
    return Record(**{"topic": "t", "partition": 1, "offset": 7, "timestamp": 1_700_000_000_123_456, "key": None,
                     "value": b"v", "headers": (), **members})  # fmt: skip


def test_a_value_line():
    assert parse_value(b"hello", None) == LineRecord(b"hello")
    assert parse_value(b"k:v:w", b":") == LineRecord(b"v:w", b"k")
    with pytest.raises(InvalidRequestError, match="expected a key, b':' and a value, received b'hello'"):
        parse_value(b"hello", b":")


def test_a_json_line():
    line = b'{"key": "k", "value": {"a": 1}, "headers": {"h": "x", "n": null}, "partition": 2, "timestamp": 5}'
    assert parse_json(line) == LineRecord(b'{"a":1}', b"k", (("h", b"x"), ("n", None)), 2, 5000)
    assert parse_json(b"{}") == LineRecord(None)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "expected an object, received"),
        (b'{"valu": 1}', "valu: unknown name; known names are headers, key"),
        (b'{"value": "$", "value_encoding": "base64"}', "value: expected base64, received '\\$'"),
        (b'{"headers": [1]}', r"headers\[0\]: expected .*, received 1"),
        (b'{"timestamp": "noon"}', "timestamp: expected milliseconds or ISO 8601, received 'noon'"),
    ],
)
def test_a_bad_json_line(line: bytes, message: str):
    with pytest.raises(InvalidRequestError, match=message):
        parse_json(line)


def test_printed_records():
    assert render_value(record()) == b"v\n"
    assert render_value(record(value=None)) == b"null\n"
    assert orjson.loads(render_json(record(key=b"\xff", headers=(("h", b"x"),)))) == {
        "topic": "t", "partition": 1, "offset": 7, "timestamp": 1_700_000_000_123,
        "key": "/w==", "key_encoding": "base64", "value": "v", "headers": [{"key": "h", "value": "x"}],
    }  # fmt: skip


_BYTES = st.none() | st.binary() | st.text().map(str.encode)


@given(
    key=_BYTES,
    value=_BYTES,
    headers=st.lists(st.tuples(st.text(), _BYTES)).map(tuple),
    timestamp=st.integers(0, 253_402_300_799_999_999),
)
def test_what_is_consumed_can_be_produced_again(key, value, headers, timestamp):
    original = record(key=key, value=value, headers=headers, timestamp=timestamp)
    again = parse_json(render_json(original).removesuffix(b"\n"))
    assert (again.key, again.value, again.headers, again.partition) == (key, value, headers, 1)
    assert again.timestamp_us == timestamp // 1000 * 1000  # The HTTP API's form is in milliseconds.


async def _collect(chunks: list[bytes]) -> list[bytes]:
    feed = iter([*chunks, b""])
    return [line async for lines in read_lines(lambda: next(feed)) for line in lines]


@given(st.lists(st.binary(min_size=1)))
def test_chunks_become_lines(chunks: list[bytes]):
    whole = b"".join(chunks)
    expected = [line.removesuffix(b"\r") for line in whole.removesuffix(b"\n").split(b"\n")] if whole else []
    assert asyncio.run(_collect(chunks)) == expected


async def test_lines_arrive_before_the_input_ends():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as pen:
        pen.write(b"one\ntw")
        lines = read_lines(chunk_reader(stream))
        assert await anext(lines) == [b"one"]
        pen.write(b"o\r\n")
        assert await anext(lines) == [b"two"]
        pen.close()
        assert [line async for line in lines] == []


async def test_input_that_is_not_a_file():
    assert [lines async for lines in read_lines(chunk_reader(io.BytesIO(b"a\nb")))] == [[b"a"], [b"b"]]


async def test_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("raftlog.cli.line_reader.MAX_LINE_BYTES", 10)
    with pytest.raises(InvalidRequestError, match="longer than 10 bytes"):
        await _collect([b"x" * 6, b"x" * 6])


async def test_input_that_cannot_be_read():
    def broken() -> bytes:
        raise OSError(5, "Input/output error")

    with pytest.raises(InvalidRequestError, match="cannot read standard input: Input/output error"):
        [lines async for lines in read_lines(broken)]
