"""What a listener's requests may take: time, and memory."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError

MAX_JSON_BYTES = 2 << 20
"""Decoding more takes longer than a request may keep the event loop: 1 MiB of empty lists takes 20 ms."""
MAX_INTERNAL_JSON_BYTES = 8 << 20
"""Between nodes: one request may name every partition that a broker follows."""
WRITE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How large a request may be, and how long its connection may take for what."""

    max_body_bytes: int
    """Of batches."""
    max_json_bytes: int = MAX_JSON_BYTES
    """Of everything else."""
    idle_s: float = 75.0
    """Between requests."""
    head_s: float = 10.0
    """From a request's first byte to the end of its head."""
    body_s: float = 30.0
    """For a body of any size, and one second more for each `body_bytes_per_s` of it."""
    body_bytes_per_s: int = 1 << 20
    linger_s: float = 2.0
    """For what a peer still sends that was refused: a connection that is closed at once loses the answer."""
    write_s: float = WRITE_S
    """How long a peer may take no byte of an answer."""

    def require_size(self, length: int, *, json: bool) -> None:
        """Check the length that a request announces, or has reached.

        Raises:
            InvalidRequestError: MESSAGE_TOO_LARGE.
        """
        most = min(self.max_json_bytes, self.max_body_bytes) if json else self.max_body_bytes
        if length > most:
            raise InvalidRequestError(
                f"the body has {length} bytes, at most {most} are taken here: send smaller requests",
                code=ErrorCode.MESSAGE_TOO_LARGE,
                details={"max_request_bytes": most, "received": length},
            )

    def body_time_s(self, length: int) -> float:
        """Return how long a body of `length` bytes may take to arrive."""
        return self.body_s + length / self.body_bytes_per_s


class InflightLimits:
    """Bounds what a listener's requests hold in memory at once; beyond, they are answered 429.

    A body counts as it arrives, not by what its request announces. A request counts once its body is there.

    Args:
        max_requests: that are handled at once.
        max_bytes: of bodies that have arrived and are not answered yet; and of answers that are not sent yet.
    """

    def __init__(self, *, max_requests: int, max_bytes: int) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self.requests = 0
        self.bytes = 0
        self.answer_bytes = 0

    def enter(self) -> None:
        """Count a request that is handled from now on; `leave` when it is done.

        Raises:
            OverloadedError: too many are being handled; it was not counted.
        """
        if self.requests >= self._max_requests:
            raise self._overloaded()
        self.requests += 1

    def leave(self) -> None:
        """Count a request no longer."""
        self.requests -= 1

    def hold(self, size: int) -> None:
        """Count `size` more bytes of a body; `release` when nobody needs them any more.

        Raises:
            OverloadedError: too much is held; they were not counted.
        """
        if self.bytes + size > self._max_bytes:
            raise self._overloaded()
        self.bytes += size

    def release(self, size: int) -> None:
        """Count bytes of a body no longer."""
        self.bytes -= size

    def hold_answer(self, size: int) -> None:
        """Count an answer of `size` bytes until it is sent; `release_answer` then.

        Raises:
            OverloadedError: too many bytes wait for slow readers; it was not counted.
        """
        if self.answer_bytes + size > self._max_bytes:
            raise OverloadedError(
                f"answers of {self.answer_bytes} bytes wait until their readers take them; ask for less, or later"
            )
        self.answer_bytes += size

    def release_answer(self, size: int) -> None:
        """Count an answer no longer: it is sent, or its reader is gone."""
        self.answer_bytes -= size

    def _overloaded(self) -> OverloadedError:
        return OverloadedError(
            f"{self.requests} requests are being handled, and bodies of {self.bytes} bytes are here; slow down and "
            "send it again"
        )
