"""Limits of time and memory for a listener's requests."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError

MAX_JSON_BYTES = 2 << 20
"""Decoding more would block the event loop for too long: 1 MiB of empty lists takes 20 ms."""
MAX_INTERNAL_JSON_BYTES = 8 << 20
"""Between nodes: one request may list every partition that a broker follows."""
MAX_HEAD_BYTES = 32 << 10
"""The longest head of a request."""
WRITE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Limits of size and time for one connection's requests."""

    max_body_bytes: int
    """The largest body of batches."""
    max_json_bytes: int = MAX_JSON_BYTES
    """The largest body of any other kind."""
    idle_s: float = 75.0
    """The longest pause between requests."""
    head_s: float = 10.0
    """The longest time from a request's first byte to the end of its head."""
    body_s: float = 30.0
    """The longest time for a body, plus one second for each `body_bytes_per_s` of it."""
    body_bytes_per_s: int = 1 << 20
    linger_s: float = 2.0
    """How long the rest of a refused request is read: closing at once would lose the response."""
    write_s: float = WRITE_S
    """How long a peer may accept no byte of a response."""

    def require_size(self, length: int, *, json: bool) -> None:
        """Raise if a body's announced or received length is above the limit.

        Raises:
            InvalidRequestError: MESSAGE_TOO_LARGE.
        """
        most = min(self.max_json_bytes, self.max_body_bytes) if json else self.max_body_bytes
        if length > most:
            raise InvalidRequestError(
                f"body: expected at most {most} bytes, received {length}: send smaller requests",
                code=ErrorCode.MESSAGE_TOO_LARGE,
                details={"max_request_bytes": most, "received": length},
            )

    def body_time_s(self, length: int) -> float:
        """Return the longest time in seconds for a body of `length` bytes."""
        return self.body_s + length / self.body_bytes_per_s


class InflightLimits:
    """Bounds the memory of a listener's requests; requests above the limits get 429.

    A body counts as it arrives, not by its announced length. A request counts once its body is complete.

    One address may hold no more than what is left for all others. So the first takes up to half, the second up to a
    third, and there is always space for a further one (Choudhury and Hahne, "Dynamic queue length thresholds", 1998).

    Args:
        max_requests: the most requests handled at once.
        max_bytes: the most bytes of unanswered bodies, and separately of unsent responses.
        of_one: bytes that each address may hold as long as `max_bytes` allows; None: all of them.
    """

    def __init__(self, *, max_requests: int, max_bytes: int, of_one: int | None = None) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._of_one = max_bytes if of_one is None else of_one
        self._bodies_of: dict[str, int] = {}
        self._answers_of: dict[str, int] = {}
        self.requests = 0
        self.bytes = 0
        self.answer_bytes = 0

    def enter(self) -> None:
        """Count a request that is being handled; call `leave` when it is done.

        Raises:
            OverloadedError: too many requests are being handled; this one was not counted.
        """
        if self.requests >= self._max_requests:
            raise self._overloaded()
        self.requests += 1

    def leave(self) -> None:
        """Stop counting a request."""
        self.requests -= 1

    def hold(self, size: int, address: str = "") -> None:
        """Count `size` more bytes of a body from an address ("": of any); call `release` when they are not needed.

        Raises:
            OverloadedError: too many bytes are held; these were not counted.
        """
        if self.bytes + size > self._max_bytes:
            raise self._overloaded()
        if self._is_too_much(address, own := self._bodies_of.get(address, 0) + size, self.bytes):
            raise OverloadedError(
                f"bodies of {own} bytes from {address} are being handled, and other addresses need space: slow down, "
                "and send the request again"
            )
        if own:
            self._bodies_of[address] = own
        self.bytes += size

    def release(self, size: int, address: str = "") -> None:
        """Stop counting bytes of a body."""
        _subtract(self._bodies_of, address, size)
        self.bytes -= size

    def hold_answer(self, size: int, address: str = "") -> None:
        """Count a response of `size` bytes to an address; call `release_answer` when it is sent.

        Raises:
            OverloadedError: too many bytes wait for slow readers; this response was not counted.
        """
        if self.answer_bytes + size > self._max_bytes:
            raise OverloadedError(
                f"responses of {self.answer_bytes} bytes wait for slow readers; request less, or send it again later"
            )
        if self._is_too_much(address, own := self._answers_of.get(address, 0) + size, self.answer_bytes):
            raise OverloadedError(
                f"responses of {own} bytes to {address} wait to be read, and other addresses need space: read them, "
                "request less, or send it again later"
            )
        if own:
            self._answers_of[address] = own
        self.answer_bytes += size

    def answer_space(self, address: str = "") -> int:
        """Return the size of the largest response that `hold_answer` would count now."""
        left = self._max_bytes - self.answer_bytes
        if address == "":
            return max(0, left)
        return max(0, min(left, max(self._of_one, left) - self._answers_of.get(address, 0)))

    def release_answer(self, size: int, address: str = "") -> None:
        """Stop counting a response: it is sent, or its reader has disconnected."""
        _subtract(self._answers_of, address, size)
        self.answer_bytes -= size

    def of(self, address: str) -> AddressLimits:
        """Return these limits for the requests of one address."""
        return AddressLimits(self, address)

    def _is_too_much(self, address: str, own: int, held: int) -> bool:
        """Return whether an address would hold `own` bytes of what others need. `held`: by all, before."""
        return address != "" and own > self._of_one and own > self._max_bytes - held

    def _overloaded(self) -> OverloadedError:
        return OverloadedError(
            f"{self.requests} requests with bodies of {self.bytes} bytes are being handled; slow down, and send the "
            "request again"
        )


@dataclass(frozen=True, slots=True)
class AddressLimits:
    """The limits of a listener for the requests of one address: see the methods of `InflightLimits`."""

    limits: InflightLimits
    address: str

    def enter(self) -> None:
        self.limits.enter()

    def leave(self) -> None:
        self.limits.leave()

    def hold(self, size: int) -> None:
        self.limits.hold(size, self.address)

    def release(self, size: int) -> None:
        self.limits.release(size, self.address)

    def hold_answer(self, size: int) -> None:
        self.limits.hold_answer(size, self.address)

    def release_answer(self, size: int) -> None:
        self.limits.release_answer(size, self.address)


def _subtract(counts: dict[str, int], address: str, size: int) -> None:
    left = counts.get(address, 0) - size
    if left > 0:
        counts[address] = left
    else:
        counts.pop(address, None)
