"""A broker's requests to the active controller: finds it, follows it when it moves, and bounds every wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TypeVar

from raftlog.broker.shared_read import SharedRead
from raftlog.errors import (
    ErrorCode,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
    UnreachableError,
)
from raftlog.model import Address, Offset
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.admin import AdminResponse, QuorumResponse, ReadRequest
from raftlog.wire.controller import (
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    DamagedReplicasRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataUpdate,
    ProducerIdBlock,
    ProducerIdBlockRequest,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)

_log = logging.getLogger(__name__)
T = TypeVar("T")
RETRY_MS = 50
ATTEMPT_TIMEOUT_MS = 6_000
"""Longer than a controller waits for a commit: its answer explains more than a timeout here."""
REPEATABLE_ATTEMPT_MS = 1_000
"""How long a repeatable attempt may take before the next controller is tried."""
NO_CONTROLLER_MS = 3_000
"""Longer than an election takes. After it, a request fails instead of waiting for a majority."""
WATCH_WAIT_MS = 1_000


class ControllerChannel:
    """Sends requests to the active controller.

    Args:
        controllers: the internal listeners of all voters.
        vital: a session with its own connections for registration and heartbeats; None: `session`.
    """

    def __init__(
        self, controllers: Sequence[Address], session: HttpSession, *, vital: HttpSession | None = None
    ) -> None:
        self._controllers = list(controllers)
        self._session = session
        self._vital = vital or session
        self._active: Address | None = None
        self._silent: Address | None = None
        """The last controller that did not answer. It is tried last: it may be paused, and an attempt takes long."""
        self._next = 0
        self._reads = SharedRead(self._read)

    async def close(self) -> None:
        """Cancel reads under way. The owner closes the sessions."""
        await self._reads.close()

    async def register(self, request: RegisterBrokerRequest) -> RegisterBrokerResponse:
        return await self._call(
            RegisterBrokerResponse, paths.REGISTER_BROKER, request, timeout_ms=5_000, repeatable=True, vital=True
        )

    async def heartbeat(self, request: HeartbeatRequest, *, timeout_ms: int) -> HeartbeatResponse:
        return await self._call(HeartbeatResponse, paths.HEARTBEAT, request, timeout_ms=timeout_ms, vital=True)

    async def alter_partitions(self, request: AlterPartitionsRequest) -> AlterPartitionsResponse:
        return await self._call(AlterPartitionsResponse, paths.ALTER_PARTITIONS, request, timeout_ms=3_000, vital=True)

    async def damaged_replicas(self, request: DamagedReplicasRequest) -> AlterPartitionsResponse:
        return await self._call(AlterPartitionsResponse, paths.DAMAGED_REPLICAS, request, timeout_ms=3_000)

    async def producer_ids(self, request: ProducerIdBlockRequest) -> ProducerIdBlock:
        return await self._call(ProducerIdBlock, paths.PRODUCER_ID_BLOCK, request, timeout_ms=5_000)

    async def administer(self, path: str, request: object, *, timeout_ms: int) -> AdminResponse:
        """Send an administrative request to the active controller; see `wire.admin`."""
        return await self._call(AdminResponse, path, request, timeout_ms=timeout_ms)

    async def read(self, *, timeout_ms: int) -> Offset:
        """Return the metadata offset that a linearizable read must have applied; see `SharedRead`."""
        return await self._reads.read(timeout_ms=min(timeout_ms, NO_CONTROLLER_MS))  # The wait for its round included.

    async def _read(self) -> Offset:
        answer = await self._call(
            AdminResponse, paths.READ, ReadRequest(), timeout_ms=NO_CONTROLLER_MS, repeatable=True
        )
        return answer.metadata_offset

    async def describe_quorum(self, *, timeout_ms: int) -> QuorumResponse:
        """Return the state of every voter, as the active controller sees it."""
        return await self._call(
            QuorumResponse, paths.DESCRIBE_QUORUM, None, timeout_ms=timeout_ms, method="GET", repeatable=True
        )

    async def watch(self, after_offset: int, *, broker_id: int) -> MetadataUpdate:
        """Long-poll the metadata log at the active controller, or at any controller while the active one is unknown."""
        address = self._active or self._rotate()
        query = {"after_offset": after_offset, "max_wait_ms": WATCH_WAIT_MS, "broker_id": broker_id, "packed": 1}
        try:
            update = await self._vital.call(
                MetadataUpdate, "GET", address, paths.METADATA_WATCH, timeout_ms=2 * WATCH_WAIT_MS, query=query
            )
        except RaftlogError as error:
            self._forget(address, error)
            raise
        self._heard_from(address)
        return update

    async def _call(
        self,
        cls: type[T],
        path: str,
        message: object,
        *,
        timeout_ms: int,
        method: str = "POST",
        repeatable: bool = False,
        vital: bool = False,
    ) -> T:
        """Send until the active controller answers, none is found for `NO_CONTROLLER_MS`, or `timeout_ms` passes.

        Only a `repeatable` request is sent again after an unknown outcome.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        session = self._vital if vital else self._session
        patience_ms = min(timeout_ms, NO_CONTROLLER_MS)
        while True:
            address = self._active or self._rotate()
            spent_ms = int((loop.time() - started) * 1000)
            attempt_ms = min(timeout_ms - spent_ms, REPEATABLE_ATTEMPT_MS if repeatable else ATTEMPT_TIMEOUT_MS)
            try:
                answer = await session.call(cls, method, address, path, timeout_ms=max(1, attempt_ms), message=message)
            except (StaleRouteError, UnreachableError, RetriableError) as error:
                self._learn_from(address, error)
                if not repeatable and not _may_repeat(error):
                    raise
                if (loop.time() - started) * 1000 + RETRY_MS >= patience_ms:
                    raise RetriableError(
                        f"no active controller answered within {patience_ms} ms; nothing was done; the last one asked: "
                        + error.message,
                        code=ErrorCode.QUORUM_NOT_AVAILABLE,
                    ) from None
                await asyncio.sleep(RETRY_MS / 1000)
            else:
                self._active = address
                self._heard_from(address)
                return answer

    def _learn_from(self, address: Address, error: RaftlogError) -> None:
        if error.code is ErrorCode.QUORUM_NOT_AVAILABLE:
            return  # It is the active controller, and not ready yet.
        self._forget(address, error)
        if error.code is ErrorCode.NOT_CONTROLLER and (known := error.details.get("internal")):
            self._active = Address.parse(str(known))

    def _forget(self, address: Address, error: RaftlogError) -> None:
        if self._active == address:
            self._active = None
        if isinstance(error, UnreachableError | UnknownOutcomeError):
            self._silent = address

    def _heard_from(self, address: Address) -> None:
        if self._silent == address:
            self._silent = None

    def _rotate(self) -> Address:
        """Return the next controller; skip the silent one if there is another."""
        self._next = (self._next + 1) % len(self._controllers)
        if self._controllers[self._next] == self._silent:
            self._next = (self._next + 1) % len(self._controllers)
        return self._controllers[self._next]


def _may_repeat(error: RaftlogError) -> bool:
    """Return whether nothing was done: the request did not arrive, or a standby refused it."""
    return isinstance(error, UnreachableError) or error.code in (
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.QUORUM_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    )
