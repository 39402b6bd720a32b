"""One request of a connection, from its last byte to its answer: what it holds, and its reply."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial

from raftlog.broker.kafka.call import ClosesConnectionError, KafkaCall, goes_on_counting
from raftlog.broker.kafka.dispatch import KafkaDispatch, KafkaRequest
from raftlog.broker.kafka.quotas import KafkaQuotas
from raftlog.security.quotas import Turn
from raftlog.serving.limits import AddressLimits
from raftlog.serving.metered import Metered
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.reader import Buffer

_log = logging.getLogger(__name__)
_PRODUCE = 0


@dataclass(slots=True)
class Reply:
    """What is sent for one request."""

    parts: list[Buffer] = field(default_factory=list)
    error: int = 0
    """The number of the error with which it failed as a whole."""
    closes: object = None
    """Why the connection is closed instead; None: it is not."""


@dataclass(slots=True, eq=False)
class Pending:
    """One request in the pipeline."""

    request: KafkaRequest
    held_bytes: int
    """Bytes of its frame that count against the broker's limit."""
    arrived: float
    """In seconds (`perf_counter`)."""
    call: KafkaCall | None = None
    """None: its sender is not known yet."""
    turn: Turn | None = None
    """What it is charged to quotas, until it is handled."""
    has_entered: bool = False
    """Whether it has had its turn at the turnstile."""
    is_entered: bool = False
    """Whether it has begun, and was not handled yet."""
    waits: bool = False
    """Whether it does not count against the broker's limits any more: it waits for other clients."""
    answering: asyncio.Task[Reply] | None = None
    """None: the connection's writer handles it."""

    @property
    def overlaps(self) -> bool:
        return self.request.header.api_key == _PRODUCE

    def release(self, inflight: AddressLimits) -> None:
        """Stop counting the request, which was handled."""
        self._release_frame(inflight)
        if self.is_entered:
            self.is_entered = False
            if self.call is not None:
                self.call.on_wait = goes_on_counting  # Without a cycle, both are freed at once.
            if not self.waits:
                inflight.leave()

    def enter(self, inflight: AddressLimits) -> None:
        """Count the request, which begins.

        Raises:
            OverloadedError: too many requests are being handled; this one was not counted.
        """
        inflight.enter()
        self.is_entered = True
        if self.call is not None:
            self.call.on_wait = partial(self._leave, inflight)

    def _leave(self, inflight: AddressLimits) -> None:
        """Stop counting the request: it waits for other clients, and its handler keeps little of its message.

        It does not count again when it goes on, because what is left to do is little, too.
        """
        if self.is_entered and not self.waits:
            self.waits = True
            inflight.leave()
            self._release_frame(inflight)

    def _release_frame(self, inflight: AddressLimits) -> None:
        self.request.frame = b""  # Its buffer is reused.
        held_bytes, self.held_bytes = self.held_bytes, 0
        inflight.release(held_bytes)

    def forget(self, inflight: AddressLimits, _: object = None) -> None:
        """Stop counting the request and its answer: it was sent, or the connection has ended."""
        if self.turn is not None and not self.is_entered:
            self.turn.cancel()
        self.release(inflight)
        if self.call is not None and self.call.held_bytes:
            inflight.release_answer(self.call.held_bytes)
            self.call.held_bytes = 0


async def reply_to(pending: Pending, dispatch: KafkaDispatch, quotas: KafkaQuotas) -> Reply:
    """Return the reply to a request that has begun. It raises nothing but `CancelledError`."""
    assert pending.call is not None
    try:
        work = Metered(dispatch.answer(pending.request, pending.call))
        answer = await work
        parts = await answer.encode()
        throttle_ms = _end_turn(pending, pending.call, quotas, sum(map(len, parts)), work.seconds)
        if throttle_ms and parts:
            answer.throttled(throttle_ms)
            parts = await answer.encode()
    except (KafkaProtocolError, ClosesConnectionError) as error:
        return Reply(closes=error.message, error=-1)
    except asyncio.CancelledError:
        raise
    except Exception:  # noqa: BLE001  (the log gets the traceback; the connection cannot go on)
        _log.exception("a Kafka request of API %d failed", pending.request.header.api_key)
        return Reply(closes="the request failed; see the log", error=-1)
    return Reply(parts, answer.error)


def _end_turn(pending: Pending, call: KafkaCall, quotas: KafkaQuotas, answer_bytes: int, seconds: float) -> int:
    """Charge an answer; return for how many ms the connection pauses after it."""
    if call.throttle_ms:
        quotas.mute(call.throttle_ms / 1000)
    turn, pending.turn = pending.turn, None
    return call.throttle_ms if turn is None else max(call.throttle_ms, quotas.end(turn, answer_bytes, seconds))
