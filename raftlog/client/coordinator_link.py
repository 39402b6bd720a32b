"""The way to the broker that coordinates a group, or the transactions of a transactional id."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

from raftlog.client.arguments import require_id
from raftlog.client.connection import Connection, countdown, parse_bootstrap
from raftlog.client.core.backoff import backoff_ms
from raftlog.errors import ErrorCode, RetriableError, UnknownOutcomeError
from raftlog.model import Address
from raftlog.wire import paths
from raftlog.wire.coordinators import CoordinatorInfo, CoordinatorKind

T = TypeVar("T")
ANSWER_MARGIN_MS = 3_000
"""How much later than it may an answer comes before the coordinator counts as hung."""
_PLACE = {"group": "group", "transaction": "transactional_id"}
_STAYS = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)
"""The coordinator is the right one, but not ready yet."""


class CoordinatorLink:
    """The way to the coordinator of one group or transactional id; found by asking, and again when it moves."""

    def __init__(self, connection: Connection, kind: CoordinatorKind, key: str) -> None:
        require_id("group_id" if kind == "group" else "transactional_id", key)
        self.kind: CoordinatorKind = kind
        self.key = key
        self._connection = connection
        self._address: Address | None = None

    def dialled(self) -> tuple[Address | None, list[Address]]:
        """Return where the coordinator is, as far as is known, and who may know it otherwise: addresses to dial."""
        dialled = self._connection.session.dialled
        brokers = [dialled(broker) for broker in self._connection.known_brokers]
        return (None if self._address is None else dialled(self._address)), brokers

    async def call(self, cls: type[T], method: str, path: str, *, timeout_ms: int, message: object = None) -> T:
        """Ask the coordinator once.

        Args:
            path: with `{group}` or `{transactional_id}` where its key goes.

        Raises:
            RetriableError: it is another one by now, or not there; the next call looks for it.
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
        except RetriableError as error:
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
        attempt_timeout_ms: int = ANSWER_MARGIN_MS,
        on_doubt: Callable[[UnknownOutcomeError], None] = lambda _: None,
    ) -> T:
        """Ask until there is an answer, or time is up.

        Args:
            message: makes each attempt's own.
            repeatable: it may be sent again although an earlier one may have taken effect.
            on_doubt: told of each attempt that may have taken effect.
        """
        left_ms, attempt = countdown(timeout_ms), 0
        while True:
            limit_ms = max(1, min(left_ms(), attempt_timeout_ms))
            try:
                return await self.call(cls, method, path, timeout_ms=limit_ms, message=message())
            except RetriableError as error:
                if isinstance(error, UnknownOutcomeError):
                    if not repeatable:
                        raise
                    on_doubt(error)
                attempt += 1
                wait_ms = backoff_ms(attempt, jitter=random.random())  # noqa: S311
                if left_ms() <= wait_ms:
                    raise error from None
                await asyncio.sleep(wait_ms / 1000)

    async def _find(self, timeout_ms: int) -> Address:
        path = paths.fill(paths.COORDINATOR, kind=self.kind, key=self.key)
        found = await self._connection.ask_any(CoordinatorInfo, "GET", path, timeout_ms=timeout_ms)
        return parse_bootstrap(found.url)[0]
