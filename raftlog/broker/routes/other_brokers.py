"""Requests whose answer is made of the answers of several brokers: each makes its part for the sender."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms
from raftlog.broker.openapi.parameters import SCOPE
from raftlog.broker.routes.metadata_access import ADMIN_TIMEOUT_MS
from raftlog.security.guard import sender_of
from raftlog.security.identity import forwarded

T = TypeVar("T")


def on_behalf_of(context: BrokerContext, request: web.Request) -> dict[str, str]:
    """Return the fields of a request to another broker: it checks the sender's rights, and no quota limits it."""
    sender = {} if context.access.is_off else forwarded(sender_of(request))
    return context.quotas.node_header() | sender


async def each_other_broker(
    context: BrokerContext, request: web.Request, cls: type[T], path: str, query: Mapping[str, str | int]
) -> list[T]:
    """Return the answers of all other brokers that are not fenced, each for what it coordinates.

    Raises:
        RaftlogError: one of them does not answer. A listing without its part would look complete.
    """
    mine, timeout_ms = context.config.node_id, caller_timeout_ms(request, ADMIN_TIMEOUT_MS)
    others = [broker for broker in context.image.brokers.values() if broker.broker_id != mine and not broker.fenced]
    asked = (
        context.session.call(
            cls,
            "GET",
            broker.public,
            path,
            timeout_ms=timeout_ms,
            query={SCOPE.name: "broker", **query},
            fields=on_behalf_of(context, request),
        )
        for broker in others
    )
    return list(await asyncio.gather(*asked))
