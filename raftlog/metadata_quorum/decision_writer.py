"""The single writer of the metadata log: decide, commit, respond; one commit at a time.

- A controller decides only after its own `BeginEpoch` is applied. By then every earlier entry is applied, and later
  commands of its predecessors have no effect.
- After a commit with an unknown outcome, the controller begins a new epoch before it decides again. The lost command
  is then either applied or void. A controller that was replaced meanwhile learns which from the log, and answers then.
- Urgent requests come first, one decision in each commit. Ordinary requests that wait meanwhile share a commit.
- Decisions are pure, and run in a worker thread: fencing a broker changes each of its partitions. Raft's heartbeats
  must continue during that time, or each such decision would cost the controller its leadership.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from raftlog.errors import (
    ErrorCode,
    OverloadedError,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.controller.grouping import Decide, decide_together
from raftlog.metadata_quorum.decision_effects import DecisionEffects, Effect
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.metrics import QuorumMetrics
from raftlog.metadata_quorum.priority_lock import PriorityLock
from raftlog.metadata_quorum.quorum_interface import Quorum
from raftlog.metadata_quorum.records import BeginEpoch, Command, Record, encode_command, encode_decision
from raftlog.model import ControllerId, Offset
from raftlog.runtime import Tasks

_log = logging.getLogger(__name__)
R = TypeVar("R")
T = TypeVar("T")
MAX_COMMAND_BYTES = 200 << 10
"""Below the engine's limit; a larger decision is split into several commands."""
MAX_WAITING = 1_024
"""Ordinary requests that wait for a decision; urgent ones are not limited."""
MAX_TOGETHER = 64
"""Ordinary decisions in one commit."""
_RETRY_S = 0.05
_ELECTION_S = 3.0
"""How long after a proposal the log may show its outcome if this controller was replaced. An election is shorter."""
_LATE_S = 0.5
"""How long after a proposal's timeout the log may still show the outcome; less than a broker waits longer."""


class _InDoubtError(UnknownOutcomeError):
    """A decision was proposed, and its effect is not known yet."""

    def __init__(self, message: str, effect: Effect, deadline: float) -> None:
        super().__init__(message)
        self.effect = effect
        self.deadline = deadline
        """By the event loop's clock."""


@dataclass(frozen=True, slots=True)
class _Made:
    """Decisions that were made together; without records, nothing was committed."""

    outcomes: tuple[Any, ...]
    epoch: int
    offset: Offset
    committed: bool
    doubt: _InDoubtError | None = None
    """The error of the commit, if it is not known yet whether they took effect."""


_Waiting: TypeAlias = tuple[Decide, asyncio.Future[tuple[_Made, Any]]]


class DecisionWriter:
    """Commits the decisions of one controller while it leads the quorum.

    Args:
        image: returns the newest image.
        first_records: returns the records to commit with `BeginEpoch`.
        on_epoch: called when a controller epoch of this controller begins.
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
        metrics: QuorumMetrics | None = None,
    ) -> None:
        self._metrics = metrics or QuorumMetrics()
        self.leader: ControllerId | None = None
        self._node_id = node_id
        self._timeout_ms = proposal_timeout_ms
        self._image = image
        self._first_records = first_records
        self._on_epoch = on_epoch
        self._tasks = tasks
        self._quorum: Quorum | None = None
        self._lock = PriorityLock()
        self._waiting: deque[_Waiting] = deque()
        """Ordinary decisions."""
        self._serving: asyncio.Task[None] | None = None
        self._epoch: int | None = None
        self._sequence = 0
        self._next_read: asyncio.Task[None] | None = None
        self.effects = DecisionEffects()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"decisions of controller {node_id}")

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    def attach(self, quorum: Quorum) -> None:
        self._quorum = quorum

    @property
    def waiting(self) -> int:
        """The number of ordinary requests that wait for a decision."""
        return len(self._waiting)

    @property
    def is_active(self) -> bool:
        return self._epoch is not None

    def leadership_changed(self, leader: ControllerId | None) -> None:
        """Begin a controller epoch if this node leads; stop deciding if it does not."""
        self.leader = leader
        self._epoch = None
        if leader == self._node_id:
            self._tasks.spawn(self._begin_epoch(), name="begin epoch")

    async def decide(
        self, decide: Callable[[MetadataImage], Decision[R]], *, confirm: bool = False, urgent: bool = False
    ) -> tuple[R, Offset]:
        """Decide on the newest image and commit; return the response and the offset of the decision.

        Args:
            confirm: a response without records, or an error, must also come from the active controller. A commit
                proves that; concurrent requests share one. Without it such a response may be based on a stale image.
            urgent: decide before ordinary requests, which share commits; for requests that keep brokers in the cluster.
                After a commit with an unknown outcome they raise at once, to reach the next active controller.

        Raises:
            OverloadedError: too many requests wait already; nothing was done.
            StaleRouteError: another controller decides; nothing was done.
            UnknownOutcomeError: it may take effect later.
        """
        if urgent:
            async with self._lock.acquire(urgent=True):
                made = await self._decide([decide])
            if made.doubt is not None:
                raise made.doubt
            outcome = made.outcomes[0]
        else:
            made, outcome = await self._join(decide)
        if confirm and not made.committed:
            await self._require_same_epoch(made.epoch)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome, made.offset

    def _join(self, decide: Decide) -> asyncio.Future[tuple[_Made, Any]]:
        """Queue an ordinary decision; the result is what was made, and this decision's outcome."""
        if len(self._waiting) >= MAX_WAITING:
            raise OverloadedError(
                f"{len(self._waiting)} requests wait for the controller already; nothing was done: send the request "
                "again later"
            )
        answer: asyncio.Future[tuple[_Made, Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((decide, answer))
        if self._serving is None or self._serving.done():
            self._serving = self._tasks.spawn(self._serve(), name="decisions", awaited=True)
        return answer

    async def _serve(self) -> None:
        """Decide what waits, group by group."""
        try:
            while self._waiting:
                async with self._lock.acquire(urgent=False):
                    await self._serve_group()
        finally:  # Unless it was cancelled, none waits.
            for _, answer in self._waiting:
                answer.cancel()
            self._waiting.clear()

    async def _serve_group(self) -> None:
        count = min(len(self._waiting), MAX_TOGETHER)
        group = [one for one in (self._waiting.popleft() for _ in range(count)) if not one[1].done()]
        if not group:
            return  # Their callers were cancelled.
        try:
            made = await self._decide([decide for decide, _ in group])
        except BaseException as error:
            for _, answer in group:
                if isinstance(error, Exception) and not answer.done():
                    answer.set_exception(error)
                answer.cancel()
            if not isinstance(error, Exception):
                raise
            return
        self._waiting.extendleft(reversed(group[len(made.outcomes) :]))
        group = group[: len(made.outcomes)]
        if made.doubt is None:
            _answer(group, made)
        elif self._tasks.closed:
            _fail(group, made.doubt)
        else:  # Without the lock: requests that wait for it are to reach the next active controller at once.
            work = self._answer_later(group, made, made.doubt)
            self._tasks.spawn(work, name="decision in doubt", awaited=True)

    async def _answer_later(self, group: Sequence[_Waiting], made: _Made, doubt: _InDoubtError) -> None:
        """Answer a group whose commit failed with an unknown outcome, once the log shows what became of it."""
        error: RaftlogError = doubt
        try:
            async with asyncio.timeout_at(doubt.deadline):
                if await doubt.effect:
                    _answer(group, made)
                    return
                error = self._void()
        except (TimeoutError, asyncio.CancelledError):
            doubt.effect.cancel()
        _fail(group, error)

    async def _decide(self, decisions: Sequence[Decide]) -> _Made:
        """Decide, and commit all of it at once; the caller holds the lock."""
        epoch, image = self._require_active(), self._image()
        group = await self._run_in_thread(partial(decide_together, image), decisions)
        if not group.records:
            return _Made(group.outcomes, epoch, image.offset, committed=False)
        try:
            offset = await self._commit(epoch, group.records)
        except _InDoubtError as error:
            return _Made(group.outcomes, epoch, image.offset, committed=True, doubt=error)
        self._metrics.unclean_elections += len(group.unclean)
        for message in group.unclean:
            _log.error("%s", message)
        return _Made(group.outcomes, epoch, offset, committed=True)

    async def _require_same_epoch(self, epoch: int) -> None:
        """Prove by a commit that `epoch` still lasts, after a decision was made in it.

        Raises:
            RetriableError: another controller may have decided in between; nothing was done.
        """
        with suppress(UnknownOutcomeError):  # Of the commit, which changes nothing; the epoch is abandoned.
            await self.read()
        if self._epoch != epoch:
            raise self._void()

    async def read(self) -> None:
        """Prove by a commit that this controller is the active one. Concurrent callers share one commit."""
        if self._next_read is None:
            self._next_read = self._tasks.spawn(self._confirm(), name="read", awaited=True)
        await asyncio.shield(self._next_read)

    async def _confirm(self) -> None:
        # In turn with ordinary requests: reads that follow each other would keep those from ever being decided.
        async with self._lock.acquire(urgent=not self._waiting):
            self._next_read = None  # A read that begins from here on needs a later commit.
            await self._commit(self._require_active(), ())

    async def _commit(self, epoch: int, records: tuple[Record, ...]) -> Offset:
        assert self._quorum is not None
        encode = partial(
            encode_decision, controller_epoch=epoch, sequence=self._sequence + 1, max_bytes=MAX_COMMAND_BYTES
        )
        commands = await self._run_in_thread(encode, records) if records else encode(records)
        self._require_active()  # Another controller may have been elected during the encoding.
        self._sequence += len(commands)
        loop = asyncio.get_running_loop()
        proposed_at = loop.time()
        effect = self.effects.expect(epoch, self._sequence)
        offset, done = -1, 0
        try:
            for command in commands:
                began = time.perf_counter()
                offset = await self._quorum.propose(command, timeout_ms=self._timeout_ms)
                self._metrics.commit.observe(time.perf_counter() - began)
                done += 1
        except BaseException as error:
            nothing_done = done == 0 and isinstance(error, StaleRouteError | OverloadedError)
            if not nothing_done:
                self._abandon_epoch()
            if nothing_done or not isinstance(error, RaftlogError):
                effect.cancel()
                raise
            deadline = max(proposed_at + _ELECTION_S, loop.time() + _LATE_S)
            raise _InDoubtError(error.message, effect, deadline) from error
        if not await effect:
            raise self._void()
        return offset

    def _void(self) -> RetriableError:
        return RetriableError(
            f"controller {self._node_id} could not commit before a new controller epoch began; nothing was done",
            code=ErrorCode.QUORUM_NOT_AVAILABLE,
        )

    async def _run_in_thread(self, work: Callable[[T], R], argument: T) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, argument)

    def _abandon_epoch(self) -> None:
        """Begin a new epoch before the next decision: a command with an unknown outcome may still change the image."""
        self._epoch = None
        if self.leader == self._node_id and not self._tasks.closed:
            self._tasks.spawn(self._begin_epoch(), name="begin epoch")

    async def _begin_epoch(self) -> None:
        assert self._quorum is not None
        async with self._lock.acquire(urgent=True):
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


def _answer(group: Sequence[_Waiting], made: _Made) -> None:
    """Answer the requests whose decisions were made."""
    for (_, answer), outcome in zip(group, made.outcomes, strict=True):
        if not answer.done():
            answer.set_result((made, outcome))


def _fail(group: Sequence[_Waiting], error: RaftlogError) -> None:
    for _, answer in group:
        if not answer.done():
            answer.set_exception(error)
