"""Metadata reads (linearizable or local) and administrative requests, for HTTP handlers."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.administration import (
    ADMIN_TIMEOUT_MS,
    MOST_ADMIN_TIMEOUT_MS,
    newest_image,
    send_to_controller,
)
from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms, query_choice
from raftlog.broker.metadata_listener import READ_TIMEOUT_MS
from raftlog.broker.openapi.parameters import CONSISTENCY
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.security.audited_changes import note_change
from raftlog.wire.admin import AdminResponse

__all__ = ["ADMIN_TIMEOUT_MS", "administer", "read_image"]


async def read_image(context: BrokerContext, request: web.Request) -> MetadataImage:
    """Return an image with every change that was acknowledged before the request arrived (linearizable).

    With `?consistency=local`, return this broker's image: it may be old, but needs no quorum.

    Raises:
        RetriableError: QUORUM_NOT_AVAILABLE; or this broker did not receive the newest metadata before the deadline.
        InvalidRequestError: another consistency.
    """
    if query_choice(request, CONSISTENCY) == "linearizable":
        return await newest_image(context, timeout_ms=caller_timeout_ms(request, READ_TIMEOUT_MS))
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
    return await send_to_controller(context, path, command, address=request.remote or "", timeout_ms=timeout_ms)
