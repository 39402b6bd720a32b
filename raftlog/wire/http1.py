"""A strict parser of HTTP/1.1 message heads: any other form returns None.

A head must have a request or status line of HTTP/1.1, no whitespace before a field's colon, no folded lines, no control
characters, and no field twice. A parser that accepts less than its peers cannot disagree with them about the end of a
message (request smuggling, RFC 9112 11.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus

MAX_HEAD_BYTES = 16 << 10
HEAD_END = b"\r\n\r\n"

_FIELDS = rb"((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)*)\r\n"
_REQUEST = re.compile(rb"([A-Z]{3,10}) (/[!-~]{0,4096}) HTTP/1\.1\r\n" + _FIELDS)
_STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2}) [\t -~]*\r\n" + _FIELDS)
_LENGTH = re.compile(r"[0-9]{1,12}")
_KEPT_HEADS = 64
_REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request's line and fields; names of fields are in lower case."""

    method: str
    target: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """A response's status and fields; names of fields are in lower case."""

    status: int
    fields: Mapping[str, str]


def parse_request(head: bytes) -> RequestHead | None:
    """Parse a request head, including its empty line; None if it is not of the strict form."""
    match = _REQUEST.fullmatch(head)
    fields = _fields(match[3]) if match is not None else None
    if match is None or fields is None:
        return None
    return RequestHead(match[1].decode(), match[2].decode(), fields)


def parse_response(head: bytes) -> ResponseHead | None:
    """Parse a response head, including its empty line; None if it is not of the strict form."""
    match = _STATUS.fullmatch(head)
    fields = _fields(match[2]) if match is not None else None
    return None if match is None or fields is None else ResponseHead(int(match[1]), fields)


def content_length(fields: Mapping[str, str]) -> int | None:
    """Return Content-Length; None if it is missing or invalid, or if there is a Transfer-Encoding."""
    text = fields.get("content-length", "")
    return int(text) if _LENGTH.fullmatch(text) and "transfer-encoding" not in fields else None


def encode_head(start_line: str, fields: Iterable[tuple[str, str | int]]) -> bytes:
    """Return a head. Peers repeat theirs, so the last ones are kept, except those with credentials.

    Raises:
        ValueError: a value would end its line.
    """
    fields = tuple(fields)
    for name, _ in fields:
        if name == "Authorization":
            return _encoded(start_line, fields)
    return _encoded_again(start_line, fields)


def _encoded(start_line: str, fields: tuple[tuple[str, str | int], ...]) -> bytes:
    text = "".join([start_line, "\r\n", *(f"{name}: {value}\r\n" for name, value in fields), "\r\n"])
    head = text.encode("latin-1")
    lines = head.count(b"\r\n")
    if lines != len(fields) + 2 or not (_REQUEST.fullmatch(head) or _STATUS.fullmatch(head)):
        raise ValueError(f"not the head of a message: {text!r:.200}")
    return head


_encoded_again = lru_cache(_KEPT_HEADS)(_encoded)


def status_line(status: int) -> str:
    """Return the first line of a response."""
    return f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}"


def _fields(lines: bytes) -> dict[str, str] | None:
    fields: dict[str, str] = {}
    for line in lines.decode("latin-1").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name = name.lower()
        if name in fields:
            return None
        fields[name] = value.strip(" \t")
    return fields
