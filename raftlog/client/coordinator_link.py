"""Requests to the coordinator of a group or a transactional id."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

from raftlog import transport
from raftlog.client.addresses import address_of
from raftlog.client.arguments import require_id
from raftlog.client.connection import Connection, countdown
from raftlog.client.core.backoff import backoff_ms
from raftlog.client.keepalive import Route
from raftlog.errors import ErrorCode, RaftlogError, RetriableError, UnknownOutcomeError, with_request_of
from raftlog.model import Address
from raftlog.wire import paths
from raftlog.wire.coordinators import CoordinatorInfo, CoordinatorKind

T = TypeVar("T")
ANSWER_MARGIN_MS = 3_000
"""How long after the latest time for an answer the coordinator counts as hung."""
_PLACE = {"group": "group", "transaction": "transactional_id"}
_STAYS = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)
"""Errors of the right coordinator that is not ready yet: its address stays cached."""


class CoordinatorLink:
    """The coordinator of one group or transactional id. Its address is cached, and looked up again when it moves."""

    def __init__(self, connection: Connection, kind: CoordinatorKind, key: str) -> None:
        require_id("group_id" if kind == "group" else "transactional_id", key)
        self.kind: CoordinatorKind = kind
        self.key = key
        self._connection = connection
        self._address: Address | None = None

    @property
    def session(self) -> transport.HttpSession:
        """Return the session whose TLS and credentials reach the coordinator."""
        return self._connection.session

    def routes(self) -> tuple[Route | None, list[Route]]:
        """Return how the cached coordinator and the brokers are reached."""
        brokers = [self._route(broker) for broker in self._connection.known_brokers]
        return (None if self._address is None else self._route(self._address)), brokers

    def _route(self, broker: Address) -> Route:
        return Route(self._connection.session.dialled(broker), broker.host)

    async def call(self, cls: type[T], method: str, path: str, *, timeout_ms: int, message: object = None) -> T:
        """Send one request to the coordinator.

        Args:
            path: a path with `{group}` or `{transactional_id}` for the key.

        Raises:
            RetriableError: the coordinator moved or does not answer; the next call looks it up again.
        """
        if "{" in path:
            path = paths.fill(path, **{_PLACE[self.kind]: self.key})
        if self._address is None:
            self._address = await self._find(timeout_ms)
        address = self._address
        try:
            return await self._connection.session.call(
                cls,
                method,
                address,
                path,
                timeout_ms=timeout_ms,
                **({} if message is None else {"message": message}),
            )
        except (RetriableError, transport.PeerAnswerError) as error:
            if error.code not in _STAYS and self._address == address:
                self._address = None
            raise

    async def persist(
        self,
        cls: type[T],
        method: str,
        path: str,
        *,
        timeout_ms: int,
        message: Callable[[], object] = lambda: None,
        repeatable: bool = True,
        distrusted: bool = False,
        attempt_timeout_ms: int = ANSWER_MARGIN_MS,
        on_doubt: Callable[[UnknownOutcomeError], None] = lambda _: None,
    ) -> T:
        """Send a request until it is answered or the timeout passes.

        Args:
            message: returns the body of each attempt.
            repeatable: the request may be sent again after an attempt with an unknown outcome.
            distrusted: an answer that does not say what happened, such as a proxy's page or an internal error, is an
                unknown outcome.
            on_doubt: called for each attempt with an unknown outcome.
        """
        left_ms, attempt = countdown(timeout_ms), 0
        while True:
            limit_ms = max(1, min(left_ms(), attempt_timeout_ms))
            try:
                return await self.call(cls, method, path, timeout_ms=limit_ms, message=message())
            except RaftlogError as raised:
                error = _unknown(raised) if distrusted else raised
                if not isinstance(error, RetriableError):
                    raise
                if isinstance(error, UnknownOutcomeError):
                    if not repeatable:
                        raise error from None
                    on_doubt(error)
                attempt += 1
                wait_ms = backoff_ms(attempt, jitter=random.random())  # noqa: S311
                if left_ms() <= wait_ms:
                    raise error from None
                await asyncio.sleep(wait_ms / 1000)

    async def _find(self, timeout_ms: int) -> Address:
        path = paths.fill(paths.COORDINATOR, kind=self.kind, key=self.key)
        found = await self._connection.ask_any(CoordinatorInfo, "GET", path, timeout_ms=timeout_ms)
        return address_of(found.url)


def _unknown(error: RaftlogError) -> RaftlogError:
    if isinstance(error, transport.PeerAnswerError) or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
        return with_request_of(UnknownOutcomeError(error.message), error)
    return error
