"""Transactions: requests of producers, partition leaders and administrators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms, check_query, json_bytes, json_response, query_choice, read_json
from raftlog.broker.openapi.parameters import BROKER_SCOPE, PAGE, STATE
from raftlog.broker.paging import Names, Wanted, names_of
from raftlog.broker.routes.groups import change_response, with_id
from raftlog.broker.routes.other_brokers import each_other_broker, joined
from raftlog.coordinator.group.offsets import require_limit
from raftlog.coordinator.transaction.state import Transactions
from raftlog.runtime import in_slices
from raftlog.security.audited_changes import note_change
from raftlog.security.guard import sender_of
from raftlog.serving.workers import in_worker
from raftlog.wire import paths
from raftlog.wire.codec import encode_json
from raftlog.wire.transactions import (
    EndSetBody,
    EndTransactionBody,
    InitTransactionsBody,
    JoinTransactionRequest,
    TransactionInfo,
    TransactionOffsetsBody,
    TransactionsResponse,
    WriteMarkersRequest,
    WriteMarkersResponse,
)

TIMEOUT_MS = 15_000
_SLICE = 512
"""The names of one request that are authorized in one turn of the event loop."""


class TransactionRoutes:
    """Handlers of the coordinator. Another broker answers NOT_COORDINATOR."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path of the public listener."""
        app.router.add_get(paths.TRANSACTIONS, self.listed)
        app.router.add_get(paths.TRANSACTION, self.describe)
        app.router.add_post(paths.INIT_TRANSACTIONS, self.init)
        app.router.add_post(paths.END_TRANSACTION, self.end)
        app.router.add_post(paths.TRANSACTION_OFFSETS, self.offsets)
        app.router.add_get(paths.TRANSACTION_SET, self.describe_set)
        app.router.add_post(paths.END_TRANSACTION_SET, self.end_set)

    def add_internal_to(self, app: web.Application) -> None:
        """Register every path of the internal listener."""
        app.router.add_post(paths.JOIN_TRANSACTION, self.join)
        app.router.add_post(paths.WRITE_MARKERS, self.write_markers)

    async def init(self, request: web.Request) -> web.Response:
        """Return a new producer epoch, which fences the previous producer."""
        check_query(request)
        body = await read_json(request, InitTransactionsBody)
        name, limit_ms = request.match_info["transactional_id"], caller_timeout_ms(request, TIMEOUT_MS)
        return json_response(await self._context.transactions.init(name, body.timeout_ms, deadline_ms=limit_ms))

    async def end(self, request: web.Request) -> web.Response:
        """Commit or abort; answer once the decision is replicated. Markers follow."""
        check_query(request)
        body = await read_json(request, EndTransactionBody)
        name, limit_ms = request.match_info["transactional_id"], caller_timeout_ms(request, TIMEOUT_MS)
        return json_response(await self._context.transactions.end(name, body, deadline_ms=limit_ms))

    async def offsets(self, request: web.Request) -> web.Response:
        """Store pending offsets of a group of this broker, which the transaction's end commits or drops."""
        check_query(request)
        body = await read_json(request, TransactionOffsetsBody)
        name, limit_ms = request.match_info["transactional_id"], caller_timeout_ms(request, TIMEOUT_MS)
        access, sender = self._context.access, sender_of(request)
        if body.member_epoch < 0:  # No member: the group alone moves, as when an operator resets its offsets.
            note_change(request, body)
        access.require(sender, "read", "group", body.group_id)
        require_limit(len(body.offsets))
        async for topic in in_slices(dict.fromkeys(offset.topic for offset in body.offsets), _SLICE):
            access.require(sender, "read", "topic", topic)
        answer = await self._context.groups.commit_in_transaction(
            name, body, transactions=self._context.transactions, timeout_ms=limit_ms
        )
        return await change_response(request, answer)

    async def listed(self, request: web.Request) -> web.Response:
        """List the transactional ids that this broker coordinates, or with `?scope=cluster` all brokers."""
        check_query(request, BROKER_SCOPE, STATE, *PAGE)
        access, sender, wanted = self._context.access, sender_of(request), Wanted.of(request)
        scope, state = query_choice(request, BROKER_SCOPE), query_choice(request, STATE)
        listed, own = await listed_transactions(
            self._context.transactions.runtime.active.values(),
            wanted,
            lambda name: access.sees(sender, "transactional_id", name),
            only_open=state == "open",
        )
        pages = [(listed, own.matching, own.next != "")]
        if scope == "cluster":
            query = wanted.query | {STATE.name: state}
            answers = await each_other_broker(self._context, request, TransactionsResponse, paths.TRANSACTIONS, query)
            pages += [(list(one.transactions), one.matching, one.next != "") for one in answers]
        return await joined(
            pages,
            wanted,
            lambda one: one.transactional_id,
            lambda found, matching, after: TransactionsResponse(transactions=found, matching=matching, next=after),
        )

    async def describe(self, request: web.Request) -> web.Response:
        """Describe one transactional id."""
        check_query(request)
        name, limit_ms = request.match_info["transactional_id"], caller_timeout_ms(request, TIMEOUT_MS)
        return json_response(await self._context.transactions.describe(name, deadline_ms=limit_ms))

    async def describe_set(self, request: web.Request) -> web.Response:
        """Describe the last commit of a set of transactional ids."""
        check_query(request)
        name, limit_ms = request.match_info["set_id"], caller_timeout_ms(request, TIMEOUT_MS)
        return json_response(await self._context.transactions.describe_set(name, deadline_ms=limit_ms))

    async def end_set(self, request: web.Request) -> web.Response:
        """Commit the listed transactions of a set and abort its others, in one decision; markers follow."""
        check_query(request)
        body = await read_json(request, EndSetBody)
        async for member in in_slices(body.members, _SLICE):
            self._context.access.require(sender_of(request), "write", "transactional_id", member.transactional_id)
        name, limit_ms = request.match_info["set_id"], caller_timeout_ms(request, TIMEOUT_MS)
        return json_response(await self._context.transactions.end_set(name, body, deadline_ms=limit_ms))

    async def join(self, request: web.Request) -> web.Response:
        """Register a leader's partition with a transaction."""
        body = await read_json(request, JoinTransactionRequest)
        joined = await self._context.transactions.join(body, deadline_ms=caller_timeout_ms(request, TIMEOUT_MS))
        return json_response(joined)

    async def write_markers(self, request: web.Request) -> web.Response:
        """Write a transaction's markers to partitions that this broker leads."""
        body = await read_json(request, WriteMarkersRequest)
        written = await self._context.transactions.write_markers(body)
        if len(written.errors) <= _SLICE:
            return json_bytes(_encoded(written))
        return json_bytes(await in_worker(_encoded, written))


def _encoded(written: WriteMarkersResponse) -> bytes:
    """Return the body of an answer whose errors have the id of the request."""
    errors = tuple(None if error is None else with_id(error) for error in written.errors)
    return encode_json(replace(written, errors=errors))


async def listed_transactions(
    states: Iterable[Transactions], wanted: Wanted, sees: Callable[[str], bool], *, only_open: bool
) -> tuple[list[TransactionInfo], Names]:
    """Return a page of the transactional ids of some shards, in slices, and their names."""
    shard_of: dict[str, Transactions] = {}
    for state in states:
        shard_of |= dict.fromkeys((*state.ongoing, *state.ending) if only_open else state.by_id, state)
        await asyncio.sleep(0)
    page = await names_of(shard_of, wanted, sees)
    found = [one async for name in in_slices(page.shown, 256) if (one := shard_of[name].by_id.get(name)) is not None]
    return [one.info() async for one in in_slices(found, 256)], page
