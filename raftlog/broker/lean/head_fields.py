"""The header fields that are cut out of a head before it is parsed: heads are cached; these differ, or are secret."""

from __future__ import annotations

from raftlog.request_marks import RequestMarks

_CREDENTIALS = (b"\r\nAuthorization: ", b"\r\nauthorization: ")
"""As clients spell the field. A head with another form goes to aiohttp."""
_REQUEST_ID = (b"\r\nX-Request-Id: ", b"\r\nx-request-id: ")
_TRACEPARENT = (b"\r\ntraceparent: ",)


def split_head(head: bytes) -> tuple[bytes, str | None, RequestMarks]:
    """Return a head without the fields, the `Authorization` field if there is one, and the request's marks."""
    head, credentials = _cut(head, _CREDENTIALS)
    head, request_id = _cut(head, _REQUEST_ID)
    head, traceparent = _cut(head, _TRACEPARENT)
    return head, credentials, RequestMarks(request_id or "", traceparent or "")


def _cut(head: bytes, spellings: tuple[bytes, ...]) -> tuple[bytes, str | None]:
    """Return a head without a field, and the field's value; None: it is missing, or its value is not plain."""
    for name in spellings:
        if (begin := head.find(name)) >= 0:
            break
    else:
        return head, None
    end = head.find(b"\r\n", begin + 2)
    text = head[begin + len(name) : end].decode("latin-1")
    if not (text.isascii() and text.isprintable()):
        return head, None
    return head[:begin] + head[end:], text.strip(" ")
