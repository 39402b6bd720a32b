"""Metadata reads (linearizable or local) and administrative requests, for handlers."""

from __future__ import annotations

import asyncio

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms, query_choice
from raftlog.broker.metadata_listener import READ_TIMEOUT_MS
from raftlog.broker.openapi.parameters import CONSISTENCY
from raftlog.errors import OverloadedError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.security.audited_changes import note_change
from raftlog.wire.admin import AdminResponse

ADMIN_TIMEOUT_MS = 15_000
MOST_ADMIN_TIMEOUT_MS = 120_000
"""A broker on a busy machine opens the 10,000 partitions of one topic in tens of seconds."""


async def read_image(context: BrokerContext, request: web.Request) -> MetadataImage:
    """Return an image with every change that was acknowledged before the request arrived (linearizable).

    With `?consistency=local`, return this broker's image: it may be old, but needs no quorum.

    Raises:
        RetriableError: QUORUM_NOT_AVAILABLE; or this broker did not receive the newest metadata before the deadline.
        InvalidRequestError: another consistency.
    """
    if query_choice(request, CONSISTENCY) == "linearizable":
        timeout_ms = caller_timeout_ms(request, READ_TIMEOUT_MS)
        await context.listener.require_applied(await context.channel.read(timeout_ms=timeout_ms), timeout_ms=timeout_ms)
    return context.image


async def administer(context: BrokerContext, path: str, command: object, request: web.Request) -> AdminResponse:
    """Send a command to the active controller; return its answer once this broker has applied the change.

    Raises:
        OverloadedError: the client has too many administrative requests; nothing was done.
        RetriableError: QUORUM_NOT_AVAILABLE, nothing was done.
        UnknownOutcomeError: the change may take effect later.
    """
    note_change(request, command)
    timeout_ms = caller_timeout_ms(request, ADMIN_TIMEOUT_MS, most_ms=MOST_ADMIN_TIMEOUT_MS)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    try:
        async with asyncio.timeout_at(deadline) as waiting, context.admin_limits.slot(request.remote or ""):
            waiting.reschedule(None)  # A timeout from here on would be an unknown outcome: each step has its own.
            left_ms = max(1, int((deadline - loop.time()) * 1000))
            answer = await context.channel.administer(path, command, timeout_ms=left_ms)
    except TimeoutError:
        raise OverloadedError(f"other changes of this client took {timeout_ms} ms; nothing was done") from None
    left_ms = max(1, int((deadline - loop.time()) * 1000))
    await context.listener.require_applied(answer.metadata_offset, timeout_ms=left_ms)
    return answer
