"""Bodies of answers that report an error: each carries the id of its request."""

from __future__ import annotations

from raftlog.errors import RaftlogError
from raftlog.request_marks import RequestMarks, current_marks
from raftlog.wire.codec import encode_json


def error_body(error: RaftlogError, marks: RequestMarks | None = None) -> dict[str, object]:
    """Return the members of a body that reports an error.

    Args:
        marks: those of the request; None: those of the request that is being handled, or new ones.
    """
    marks = marks or current_marks.get() or RequestMarks()
    return {"error": error.to_wire(marks.id)}


def encoded_error(error: RaftlogError, marks: RequestMarks | None = None) -> bytes:
    """Return a body that reports an error; see `error_body`."""
    return bytes(encode_json(error_body(error, marks)))
