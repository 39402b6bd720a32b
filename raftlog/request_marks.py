"""What follows one request through logs and traces: its id, and the trace context that its sender gave.

The marks of the current request are in a context variable, so that a log line or an error anywhere below a handler has
them. Tasks that outlive a request run without them (`runtime.Tasks`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

MAX_LENGTH = 128
REQUEST_ID_PATTERN = r"[A-Za-z0-9._:/+=@-]+"
"""A regular expression of request ids, which does not limit their length."""
EXPECTED = f"1 to {MAX_LENGTH} characters of ASCII letters, digits and . _ : / + = @ -"
_REQUEST_ID = re.compile(rf"(?=.{{1,{MAX_LENGTH}}}\Z){REQUEST_ID_PATTERN}")
_prefix = os.urandom(6).hex()
_numbers = count(1)


def is_request_id(text: str) -> bool:
    """Return whether a text can be a request id: none with spaces, quotes or control characters is one."""
    return _REQUEST_ID.fullmatch(text) is not None


def new_request_id() -> str:
    """Return an id that no other request has: a random name of this process, and a number."""
    return f"{_prefix}-{next(_numbers):x}"


def _rename() -> None:
    global _prefix  # noqa: PLW0603  (a forked child is another process)
    _prefix = os.urandom(6).hex()


os.register_at_fork(after_in_child=_rename)


class RequestMarks:
    """The marks of one request.

    Args:
        given: the id that the client sent; an id of another form is replaced.
        traceparent: the W3C trace context that the client sent, not yet checked; "": none.
    """

    __slots__ = ("_id", "is_given", "traceparent")

    def __init__(self, given: str = "", traceparent: str = "") -> None:
        self.is_given = given != "" and is_request_id(given)
        """Whether the client chose the id."""
        self._id = given if self.is_given else ""
        self.traceparent = traceparent

    @property
    def id(self) -> str:
        """The request's id; made when it is first needed, because most requests need none."""
        if not self._id:
            self._id = new_request_id()
        return self._id

    def shown(self, status: int) -> str:
        """Return the id that an answer with this status shows on the lean path; "": none."""
        return self.id if self.is_given or status >= 300 else ""

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make these the marks of the current request."""
        token = current_marks.set(self)
        try:
            yield
        finally:
            current_marks.reset(token)


current_marks: ContextVar[RequestMarks | None] = ContextVar("raftlog_request_marks", default=None)
"""The marks of the request that is being handled; None: no request is."""


def current_request_id() -> str:
    """Return the id of the request that is being handled; "": no request is."""
    marks = current_marks.get()
    return "" if marks is None else marks.id
