"""Requests whose answer is made of the answers of several brokers: each makes its part for the sender."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms, json_bytes
from raftlog.broker.openapi.parameters import SCOPE
from raftlog.broker.paging import Wanted, merged
from raftlog.broker.routes.metadata_access import ADMIN_TIMEOUT_MS
from raftlog.model import BrokerRegistration
from raftlog.security.guard import sender_of
from raftlog.security.identity import forwarded
from raftlog.serving.workers import INLINE_BYTES, in_worker
from raftlog.transport.session import PeerAnswerError
from raftlog.wire.codec import decode_json, encode_listing

P = TypeVar("P")
T = TypeVar("T")
_SLICE = 1_024


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

    async def answer_of(broker: BrokerRegistration) -> T:
        answer = await context.session.request(
            "GET",
            broker.public,
            path,
            timeout_ms=timeout_ms,
            query={SCOPE.name: "broker", **query},
            fields=on_behalf_of(context, request),
        )
        decode = partial(decode_json, cls, answer.body, error=PeerAnswerError, ignore_unknown=True)
        return decode() if len(answer.body) <= INLINE_BYTES else await in_worker(decode)

    return list(await asyncio.gather(*map(answer_of, others)))


async def joined(
    pages: Sequence[tuple[list[P], int, bool]],
    wanted: Wanted,
    name_of: Callable[[P], str],
    answer: Callable[[tuple[P, ...], int, str], object],
) -> web.Response:
    """Return one page of several brokers' pages as a response; a worker thread makes it, since it may be all of them.

    Args:
        pages: of each broker: its entries, how many fit there, and whether it has more. The lists are emptied.
        answer: returns the wire type of a page: its entries, how many fit in all, and the `after` of the next page.
    """

    def body() -> bytes:
        encoded = encode_listing(answer(*merged(pages, wanted, name_of)))
        for entries, _, _ in pages:
            while entries:  # The event loop would wait for 30 ms while 100,000 of them are freed at once.
                del entries[-_SLICE:]
        return encoded

    return json_bytes(await in_worker(body))
