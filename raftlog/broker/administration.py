"""Linearizable reads of metadata, and requests to the active controller, for handlers of any protocol."""

from __future__ import annotations

import asyncio

from raftlog.broker.context import BrokerContext
from raftlog.errors import OverloadedError, RaftlogError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import Address, Offset
from raftlog.wire import paths
from raftlog.wire.admin import AdminResponse
from raftlog.wire.metadata import ControllerInfo

ADMIN_TIMEOUT_MS = 15_000
MOST_ADMIN_TIMEOUT_MS = 120_000
"""A broker on a busy machine opens the 10,000 partitions of one topic in tens of seconds."""
KNOWN_EVERYWHERE_S = 1.0


async def newest_image(context: BrokerContext, *, timeout_ms: int) -> MetadataImage:
    """Return an image with every change that was acknowledged before the call.

    Raises:
        RetriableError: QUORUM_NOT_AVAILABLE; or this broker did not receive the newest metadata before the deadline.
    """
    await context.listener.require_applied(await context.channel.read(timeout_ms=timeout_ms), timeout_ms=timeout_ms)
    return context.image


async def send_to_controller(
    context: BrokerContext, path: str, command: object, *, address: str, timeout_ms: int
) -> AdminResponse:
    """Send a command to the active controller; return its answer once this broker has applied the change.

    Args:
        address: the client's, whose concurrent changes are limited.

    Raises:
        OverloadedError: the client has too many administrative requests; nothing was done.
        RetriableError: QUORUM_NOT_AVAILABLE, nothing was done.
        UnknownOutcomeError: the change may take effect later.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    try:
        async with asyncio.timeout_at(deadline) as waiting, context.admin_limits.slot(address):
            waiting.reschedule(None)  # A timeout from here on would be an unknown outcome: each step has its own.
            left_ms = max(1, int((deadline - loop.time()) * 1000))
            answer = await context.channel.administer(path, command, timeout_ms=left_ms)
    except TimeoutError:
        raise OverloadedError(f"other changes of this client took {timeout_ms} ms; nothing was done") from None
    left_ms = max(1, int((deadline - loop.time()) * 1000))
    await context.listener.require_applied(answer.metadata_offset, timeout_ms=left_ms)
    return answer


async def until_known_everywhere(context: BrokerContext, offset: Offset) -> None:
    """Wait until every live broker has applied the metadata log up to `offset`, at most a second."""
    others = [broker for broker in context.image.brokers.values() if broker.broker_id != context.config.node_id]
    await asyncio.gather(*(_until_known(context, broker.public, offset) for broker in others if not broker.fenced))


async def _until_known(context: BrokerContext, address: Address, offset: Offset) -> None:
    deadline = asyncio.get_running_loop().time() + KNOWN_EVERYWHERE_S
    path = f"{paths.CONTROLLER}?consistency=local"
    while asyncio.get_running_loop().time() < deadline:
        try:
            info = await context.session.call(
                ControllerInfo,
                "GET",
                address,
                path,
                timeout_ms=int(KNOWN_EVERYWHERE_S * 1000),
                fields=context.quotas.node_header(),
            )
        except RaftlogError:
            return  # It cannot answer now; the next request to it gets the error.
        if info.metadata_offset >= offset:
            return
        await asyncio.sleep(0.005)
