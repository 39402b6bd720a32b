"""The bytes that a lean connection has received: a request's head, its body, or the rest of a refused body."""

from __future__ import annotations

from raftlog.broker.lean.routes import LeanRequest
from raftlog.serving.admission import UNLIMITED
from raftlog.wire import http1

DISCARDED = bytearray(64 << 10)
"""Receives the bodies of refused requests, which are discarded."""
_HEALTH = tuple(f"GET {path} ".encode() for path in UNLIMITED)
_HEALTH_BYTES = max(map(len, _HEALTH))
_NO_BODY = memoryview(b"")


class LeanInput:
    """What has been received of the current request, and of the requests behind it."""

    __slots__ = ("_head", "body", "held", "received", "request", "unwanted")

    def __init__(self) -> None:
        self._head = bytearray(http1.MAX_HEAD_BYTES)
        self.held = 0
        """How many bytes are in the head buffer: the head, and what follows it."""
        self.request: LeanRequest | None = None
        """The request whose body is being received."""
        self.body = _NO_BODY
        self.received = 0
        """How many bytes of the body have been received."""
        self.unwanted = 0
        """How many bytes of a refused request's body are still to be discarded."""

    def buffer(self) -> memoryview:
        """Return where the next bytes are to be written."""
        if self.unwanted:
            return memoryview(DISCARDED)[: self.unwanted]
        if self.request is not None:
            return self.body[self.received :]
        return memoryview(self._head)[self.held :]

    @property
    def is_full(self) -> bool:
        """Whether the head buffer has no space."""
        return self.held == len(self._head)

    @property
    def is_idle(self) -> bool:
        """Whether nothing of a request has been received that is still to be answered."""
        return not self.held and self.request is None

    @property
    def missing(self) -> int:
        """The bytes of the current request's body that have not arrived."""
        return 0 if self.request is None else self.request.length - self.received

    def head(self) -> bytes | None:
        """Return the first head in the buffer, its end included; None: it has not arrived completely."""
        end = self._head.find(http1.HEAD_END, 0, self.held)
        return None if end < 0 else bytes(memoryview(self._head)[: end + len(http1.HEAD_END)])

    @property
    def first(self) -> int:
        """The first byte in the head buffer, which has one."""
        return self._head[0]

    @property
    def asks_for_health(self) -> bool:
        """Whether this is a health check, which is answered under any load."""
        return bytes(self._head[:_HEALTH_BYTES]).startswith(_HEALTH)

    def all(self) -> bytes:
        """Return everything in the head buffer."""
        return bytes(memoryview(self._head)[: self.held])

    def begin_body(self, request: LeanRequest, body: memoryview, head_bytes: int, content: int) -> None:
        """Receive a request's body, of which the first `content` bytes follow its head in the buffer."""
        body[:content] = memoryview(self._head)[head_bytes : head_bytes + content]
        self.drop(head_bytes + content)
        self.request, self.body, self.received = request, body, content

    def drop(self, count: int) -> None:
        """Remove the first bytes of the head buffer."""
        left = self.held - count
        if left:
            self._head[:left] = self._head[count : self.held]
        self.held = left

    def take_body(self) -> memoryview:
        """Return the body, without a reference to it from here: its buffer is reused."""
        body, self.body, self.request = self.body, _NO_BODY, None
        return body
