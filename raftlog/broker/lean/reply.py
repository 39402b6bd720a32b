"""Replies as the lean path writes them."""

from __future__ import annotations

from email.utils import formatdate
from functools import lru_cache

from raftlog.broker.raw import RawReply
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.request_marks import RequestMarks
from raftlog.transport.socket_writer import Part
from raftlog.wire import http1, media


def encode_reply(reply: RawReply, second: int, throttle_ms: int, *, closes: bool, request_id: str = "") -> list[Part]:
    """Return a reply's head and the parts of its body.

    Args:
        second: the time in seconds since 1970 UTC.
        throttle_ms: for how long the connection is muted afterwards because of a quota; 0: it is not.
        closes: whether the connection is closed afterwards.
        request_id: the request's id; "": it is not shown.
    """
    if not (reply.headers or request_id or throttle_ms or closes):
        return [_usual_head(reply.status, reply.content_type, reply.length, second), *reply.parts]
    fields = [
        ("Content-Type", reply.content_type),
        ("Content-Length", reply.length),
        ("Date", _date(second)),
        *reply.headers.items(),
        *(((media.REQUEST_ID, request_id),) if request_id else ()),
        *(((media.THROTTLE_MS, throttle_ms),) if throttle_ms else ()),
        *((("Connection", "close"),) if closes else ()),
    ]
    return [http1.encode_head(http1.status_line(reply.status), fields), *reply.parts]


@lru_cache(maxsize=64)
def _usual_head(status: int, content_type: str, length: int, second: int) -> bytes:
    """Return the head of a reply that needs no other fields: most replies of one second have one of a few heads."""
    fields = (("Content-Type", content_type), ("Content-Length", length), ("Date", _date(second)))
    return http1.encode_head(http1.status_line(status), fields)


def late_reply(received: int, part: str, marks: RequestMarks) -> RawReply:
    """Return the reply to a request whose `part` (head, body) did not arrive completely before its deadline."""
    late = InvalidRequestError(
        f"the request took too long to arrive: received {received} bytes of its {part}; nothing was done",
        code=ErrorCode.INVALID_REQUEST,
    )
    return RawReply.of_error(late, status=408, marks=marks)


@lru_cache(maxsize=4)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
