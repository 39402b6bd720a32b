"""How handlers read metadata: linearizably, unless the caller is content with what this broker knows."""

from __future__ import annotations

import asyncio

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import deadline_ms
from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError, RetriableError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import Offset
from raftlog.wire.admin import AdminResponse

CONSISTENCY = "consistency"
READ_TIMEOUT_MS = 5_000
ADMIN_TIMEOUT_MS = 15_000


async def read_image(context: BrokerContext, request: web.Request) -> MetadataImage:
    """Return an image that holds everything that was acknowledged before the request came.

    With `?consistency=local` it is what this broker knows: never wrong, maybe old, and there without a quorum too.

    Raises:
        RetriableError: QUORUM_NOT_AVAILABLE; or this broker does not hear of the newest metadata in time.
        InvalidRequestError: another consistency.
    """
    wanted = request.query.get(CONSISTENCY, "linearizable")
    if wanted == "linearizable":
        timeout_ms = deadline_ms(request, READ_TIMEOUT_MS)
        await until_known(context, await context.channel.read(timeout_ms=timeout_ms), timeout_ms=timeout_ms)
    elif wanted != "local":
        raise InvalidRequestError(f"{CONSISTENCY}: expected linearizable or local, received {wanted!r:.80}")
    return context.image


async def administer(context: BrokerContext, path: str, command: object, request: web.Request) -> AdminResponse:
    """Have the active controller do something; return its answer once this broker has applied it.

    Raises:
        OverloadedError: the same client asks for too much at once; nothing was done.
        RetriableError: QUORUM_NOT_AVAILABLE, nothing was done.
        UnknownOutcomeError: it may be done later.
    """
    timeout_ms = deadline_ms(request, ADMIN_TIMEOUT_MS)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    try:
        async with asyncio.timeout_at(deadline) as waiting, context.admin_gate.turn(request.remote or ""):
            waiting.reschedule(None)  # From here on the outcome would be unknown: each step has its own limit.
            left_ms = max(1, int((deadline - loop.time()) * 1000))
            answer = await context.channel.administer(path, command, timeout_ms=left_ms)
    except TimeoutError:
        raise OverloadedError(f"other changes of this client took {timeout_ms} ms; nothing was done") from None
    await until_known(context, answer.metadata_offset, timeout_ms=timeout_ms)
    return answer


async def until_known(context: BrokerContext, offset: Offset, *, timeout_ms: int) -> None:
    """Wait until this broker has applied the metadata log up to `offset`.

    Raises:
        RetriableError: it has not, in time.
    """
    if not await context.listener.until(offset, timeout_ms=timeout_ms):
        raise RetriableError(
            f"done, but this broker has not heard of it within {timeout_ms} ms", code=ErrorCode.REQUEST_TIMED_OUT
        )
