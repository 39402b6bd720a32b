"""What handlers of administrative requests share: deadlines, many entries of one request, errors of each entry.

A request has many entries, and the controller decides each by itself, as it decides requests of HTTP. So each entry has
its own answer. The broker sends `AT_ONCE` of them at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from raftlog.broker.administration import (
    ADMIN_TIMEOUT_MS,
    MOST_ADMIN_TIMEOUT_MS,
    newest_image,
    send_to_controller,
    until_known_everywhere,
)
from raftlog.broker.context import BrokerContext
from raftlog.broker.kafka.call import KafkaCall
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError, RetriableError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import Offset
from raftlog.wire.admin import AdminResponse
from raftlog.wire.kafka.error_codes import KafkaError

T = TypeVar("T")
Item = TypeVar("Item")
Result: TypeAlias = T | RaftlogError
MAX_ENTRIES: Final = 5_000
"""The most entries of one request: topics, partitions, rules. More are refused, each with POLICY_VIOLATION."""
LARGE_ENTRIES: Final = 500
"""An answer with more entries is encoded in a worker thread."""
AT_ONCE: Final = 8
MAX_IMAGE_WAIT_MS: Final = 5_000


class PolicyViolationError(InvalidRequestError):
    """A request is larger than this broker allows. Its number is POLICY_VIOLATION, which HTTP does not have."""


@dataclass(slots=True)
class AdminRequest:
    """One administrative request, with its deadline."""

    call: KafkaCall
    deadline: float
    """By the event loop's time."""
    done_at: Offset = -1
    """The metadata offset of the last change that it made."""

    @classmethod
    def begin(cls, call: KafkaCall, timeout_ms: int = ADMIN_TIMEOUT_MS) -> AdminRequest:
        """Return a request that begins now. A time-out below 1 ms counts as 1 ms."""
        bounded = max(1, min(timeout_ms, MOST_ADMIN_TIMEOUT_MS))
        return cls(call, asyncio.get_running_loop().time() + bounded / 1_000)

    @property
    def context(self) -> BrokerContext:
        return self.call.context

    def left_ms(self) -> int:
        """Return the time that is left, in ms.

        Raises:
            RetriableError: REQUEST_TIMED_OUT: none is.
        """
        left = int((self.deadline - asyncio.get_running_loop().time()) * 1_000)
        if left <= 0:
            raise RetriableError(
                "the request's time-out passed before this entry began; nothing was done for it",
                code=ErrorCode.REQUEST_TIMED_OUT,
            )
        return left

    async def send(self, path: str, command: object) -> AdminResponse:
        """Send a command to the active controller; see `send_to_controller`."""
        address = self.call.connection.peer.address
        self.call.acts = True
        answer = await send_to_controller(self.context, path, command, address=address, timeout_ms=self.left_ms())
        self.done_at = max(self.done_at, answer.metadata_offset)
        return answer

    async def known_everywhere(self) -> None:
        """Wait until every live broker knows its changes, at most a second: a client may ask any of them next."""
        if self.done_at >= 0:
            await until_known_everywhere(self.context, self.done_at)

    async def image(self) -> MetadataImage:
        """Return an image with every change that was acknowledged before the request; see `newest_image`."""
        return await newest_image(self.context, timeout_ms=min(self.left_ms(), MAX_IMAGE_WAIT_MS))


async def each(items: Iterable[Item], work: Callable[[Item], Awaitable[T]], at_once: int = AT_ONCE) -> list[Result[T]]:
    """Do the work of each item, `at_once` at a time; return the results, or the errors, in the items' order.

    Errors have no tracebacks, whose frames would keep all of them until the next full garbage collection.
    """
    todo = list(items)
    found: list[Result[T] | None] = [None] * len(todo)
    numbers = iter(range(len(todo)))

    async def some() -> None:
        for number in numbers:
            try:
                found[number] = await work(todo[number])
            except RaftlogError as error:
                found[number] = error.with_traceback(None)
            if not number % 32:
                await asyncio.sleep(0)  # Entries that are refused at once do not wait for anything.

    if len(todo) == 1:
        await some()
    else:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(at_once, len(todo))):
                tasks.create_task(some())
    return found  # type: ignore[return-value]


def require_few(call: KafkaCall, entries: Sequence[object], what: str, most: int = MAX_ENTRIES) -> RaftlogError | None:
    """Return the error of every entry of a request with too many; None: it has not. Notes that an answer is large."""
    if len(entries) > LARGE_ENTRIES:
        call.is_large = True
    if len(entries) <= most:
        return None
    return PolicyViolationError(f"expected at most {most:,} {what}, received {len(entries):,}: send several requests")


def repeated(names: Iterable[Hashable]) -> set[Hashable]:
    """Return what occurs more than once."""
    return {name for name, count in Counter(names).items() if count > 1}


def require_once(name: Hashable, twice: set[Hashable]) -> None:
    """Raise if an entry occurs more than once in its request.

    Raises:
        InvalidRequestError: nothing is done for any of them.
    """
    if name in twice:
        raise InvalidRequestError(f"{name!r:.300} is in the request more than once; nothing was done for it")


def special_number(error: RaftlogError) -> int | None:
    """Return Kafka's number of an error that HTTP does not have; None: it is another error."""
    return KafkaError.POLICY_VIOLATION if isinstance(error, PolicyViolationError) else None
