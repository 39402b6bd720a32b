"""The single writer of the metadata log: `decide -> commit -> answer`, one decision after another.

A controller acts only after its own `BeginEpoch` is applied: by then it has applied everything before, and every later
command of its predecessors is void. If the outcome of a commit is unknown, it begins a new epoch before it decides
again: the lost command is then either applied, or void.

Decisions are pure, and made in a worker thread: fencing a broker changes each of its partitions, and Raft's heartbeats
must go on meanwhile, or the controller would lose its leadership over every such decision, and so would its successor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from raftlog.errors import (
    ErrorCode,
    OverloadedError,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.controller.elections import unclean_elections
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import BeginEpoch, Command, Record, encode_command, encode_decision
from raftlog.metadata_quorum.seam import Quorum
from raftlog.metadata_quorum.turns import Turns
from raftlog.model import ControllerId, Offset
from raftlog.runtime import Tasks

_log = logging.getLogger(__name__)
R = TypeVar("R")
T = TypeVar("T")
MAX_COMMAND_BYTES = 400 << 10
"""Below the engine's limit; a larger decision becomes several commands."""
MAX_WAITING = 1_024
"""Requests that wait for a decision, apart from those that keep the cluster alive."""
_RETRY_S = 0.05


class DecisionWriter:
    """Decides in the name of one controller, while that leads the quorum.

    Args:
        image: the newest image.
        first_records: what a new epoch says first, besides that it begins.
        on_epoch: called when this controller begins to act.
    """

    def __init__(
        self,
        *,
        node_id: ControllerId,
        proposal_timeout_ms: int,
        image: Callable[[], MetadataImage],
        first_records: Callable[[MetadataImage], tuple[Record, ...]],
        on_epoch: Callable[[], None],
        tasks: Tasks,
    ) -> None:
        self.leader: ControllerId | None = None
        self._node_id = node_id
        self._timeout_ms = proposal_timeout_ms
        self._image = image
        self._first_records = first_records
        self._on_epoch = on_epoch
        self._tasks = tasks
        self._quorum: Quorum | None = None
        self._writing = Turns(max_waiting=MAX_WAITING)
        self._epoch: int | None = None
        self._sequence = 0
        self._next_read: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"decisions of controller {node_id}")

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    def attach(self, quorum: Quorum) -> None:
        self._quorum = quorum

    @property
    def is_active(self) -> bool:
        return self._epoch is not None

    def leadership_changed(self, leader: ControllerId | None) -> None:
        """Begin an epoch when this node leads; stop acting when it does not."""
        self.leader = leader
        self._epoch = None
        if leader == self._node_id:
            self._tasks.spawn(self._begin_epoch(), name="begin epoch")

    async def decide(
        self, decide: Callable[[MetadataImage], Decision[R]], *, confirm: bool = False, vital: bool = False
    ) -> tuple[R, Offset]:
        """Decide on the newest image, commit, and answer; also return the offset of the decision.

        Args:
            confirm: even an answer that changes nothing, or a refusal, must come from the controller in charge, which
                a commit proves: one for all who ask meanwhile. Without it, such an answer may rest on an image that
                others have moved on from.
            vital: decide before those who are not: without it the cluster would not stay alive.

        Raises:
            OverloadedError: too many wait already; nothing was done.
            StaleRouteError: another controller decides; nothing was done.
            UnknownOutcomeError: it may take effect later.
        """
        refusal: RaftlogError | None = None
        async with self._writing.turn(vital=vital):
            epoch = self._require_active()
            image = self._image()
            try:
                decision = await self._aside(decide, image)
            except RaftlogError as error:
                refusal = error
            else:
                if decision.records:
                    unclean = unclean_elections(image, decision.records)
                    offset = await self._commit(epoch, decision.records)
                    for said in unclean:
                        _log.error("%s", said)
                    return decision.response, offset
        if confirm:
            await self._require_still(epoch)
        if refusal is not None:
            raise refusal
        return decision.response, image.offset

    async def _require_still(self, epoch: int) -> None:
        """Commit once more after a decision of `epoch` was made, in the same epoch.

        Raises:
            RetriableError: another controller may have decided in between; nothing was done.
        """
        await self.read()
        if self._epoch != epoch:
            raise RetriableError(
                f"controller {self._node_id} was replaced while it decided; nothing was done",
                code=ErrorCode.QUORUM_NOT_AVAILABLE,
            )

    async def read(self) -> None:
        """Prove that this controller is in charge: one commit for all who ask meanwhile."""
        if self._next_read is None:
            self._next_read = self._tasks.spawn(self._confirm(), name="read", awaited=True)
        await asyncio.shield(self._next_read)

    async def _confirm(self) -> None:
        async with self._writing.turn(vital=True):
            self._next_read = None  # Who asks from here on must not be told of an earlier commit.
            await self._commit(self._require_active(), ())

    async def _commit(self, epoch: int, records: tuple[Record, ...]) -> Offset:
        assert self._quorum is not None
        encode = partial(
            encode_decision, controller_epoch=epoch, sequence=self._sequence + 1, max_bytes=MAX_COMMAND_BYTES
        )
        commands = await self._aside(encode, records) if records else encode(records)
        self._require_active()  # In the meantime another controller may have been elected.
        self._sequence += len(commands)
        offset, done = -1, 0
        try:
            for command in commands:
                offset = await self._quorum.propose(command, timeout_ms=self._timeout_ms)
                done += 1
        except BaseException as error:
            nothing_done = done == 0 and isinstance(error, StaleRouteError | OverloadedError)
            if not nothing_done:
                self._doubt()
            raise
        if self._image().controller_epoch != epoch:
            raise UnknownOutcomeError(f"controller {self._node_id} was replaced while it decided")
        return offset

    async def _aside(self, work: Callable[[T], R], argument: T) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, argument)

    def _doubt(self) -> None:
        """Decide nothing on an image that a lost command may still change: begin a new epoch first."""
        self._epoch = None
        if self.leader == self._node_id and not self._tasks.closed:
            self._tasks.spawn(self._begin_epoch(), name="begin epoch")

    async def _begin_epoch(self) -> None:
        assert self._quorum is not None
        async with self._writing.turn(vital=True):
            while self.leader == self._node_id and self._epoch is None:
                records = (BeginEpoch(controller_id=self._node_id), *self._first_records(self._image()))
                command = Command(controller_epoch=-1, sequence=-1, records=records)
                try:
                    offset = await self._quorum.propose(encode_command(command), timeout_ms=self._timeout_ms)
                except RaftlogError as error:
                    _log.warning("cannot begin a controller epoch yet: %s", error.message)
                    await asyncio.sleep(_RETRY_S)
                    continue
                if self.leader == self._node_id and self._image().controller_epoch == offset:
                    self._epoch, self._sequence = offset, 0
                    self._on_epoch()
                    _log.info("active controller in epoch %d", offset)

    def _require_active(self) -> int:
        if self._epoch is None:
            if self.leader == self._node_id:
                raise RetriableError(
                    f"controller {self._node_id} has just been elected and is not ready to decide yet",
                    code=ErrorCode.QUORUM_NOT_AVAILABLE,
                )
            leader = -1 if self.leader is None else self.leader
            raise StaleRouteError(
                f"controller {self._node_id} is not the active one; "
                + (f"controller {leader} is" if leader >= 0 else "none is known"),
                code=ErrorCode.NOT_CONTROLLER,
                details={"controller_id": leader},
            )
        return self._epoch
