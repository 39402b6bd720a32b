"""Transactions: for producers, for leaders of partitions, and for whoever wants to see them."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, deadline_ms, json_response, read_json
from raftlog.wire import paths
from raftlog.wire.transactions import (
    EndSetBody,
    EndTransactionBody,
    InitTransactionsBody,
    JoinTransactionRequest,
    TransactionOffsetsBody,
    TransactionsResponse,
    WriteMarkersRequest,
)

TIMEOUT_MS = 15_000


class TransactionRoutes:
    """Handlers of the coordinator, which say NOT_COORDINATOR where it is another broker."""

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
        """Give a producer a new epoch, and fence the one before it."""
        check_query(request)
        body = await read_json(request, InitTransactionsBody)
        name, limit_ms = request.match_info["transactional_id"], deadline_ms(request, TIMEOUT_MS)
        return json_response(await self._context.transactions.init(name, body.timeout_ms, deadline_ms=limit_ms))

    async def end(self, request: web.Request) -> web.Response:
        """Commit or abort; answered once that is certain. Markers follow."""
        check_query(request)
        body = await read_json(request, EndTransactionBody)
        name, limit_ms = request.match_info["transactional_id"], deadline_ms(request, TIMEOUT_MS)
        return json_response(await self._context.transactions.end(name, body, deadline_ms=limit_ms))

    async def offsets(self, request: web.Request) -> web.Response:
        """Keep offsets of a group, which this broker coordinates, that count if the transaction does."""
        check_query(request)
        body = await read_json(request, TransactionOffsetsBody)
        name, limit_ms = request.match_info["transactional_id"], deadline_ms(request, TIMEOUT_MS)
        return json_response(await self._context.groups.commit_in_transaction(name, body, timeout_ms=limit_ms))

    async def listed(self, request: web.Request) -> web.Response:
        """List the transactional ids that this broker coordinates."""
        check_query(request)
        return json_response(TransactionsResponse(transactions=tuple(self._context.transactions.list_transactions())))

    async def describe(self, request: web.Request) -> web.Response:
        """Show one transactional id."""
        check_query(request)
        name, limit_ms = request.match_info["transactional_id"], deadline_ms(request, TIMEOUT_MS)
        return json_response(await self._context.transactions.describe(name, deadline_ms=limit_ms))

    async def describe_set(self, request: web.Request) -> web.Response:
        """Show what was committed last for a set of transactional ids."""
        check_query(request)
        name, limit_ms = request.match_info["set_id"], deadline_ms(request, TIMEOUT_MS)
        return json_response(await self._context.transactions.describe_set(name, deadline_ms=limit_ms))

    async def end_set(self, request: web.Request) -> web.Response:
        """Commit the listed transactions of a set, and abort its others, as one; markers follow."""
        check_query(request)
        body = await read_json(request, EndSetBody)
        name, limit_ms = request.match_info["set_id"], deadline_ms(request, TIMEOUT_MS)
        return json_response(await self._context.transactions.end_set(name, body, deadline_ms=limit_ms))

    async def join(self, request: web.Request) -> web.Response:
        """Have a leader's partition take part in a transaction."""
        asked = await read_json(request, JoinTransactionRequest)
        await self._context.transactions.join(asked, deadline_ms=deadline_ms(request, TIMEOUT_MS))
        return json_response({})

    async def write_markers(self, request: web.Request) -> web.Response:
        """Write a transaction's end to partitions that this broker leads."""
        asked = await read_json(request, WriteMarkersRequest)
        return json_response(await self._context.transactions.write_markers(asked))
