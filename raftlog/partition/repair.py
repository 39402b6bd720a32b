"""Repair of damaged batches: fetches them from other replicas and writes them in place (docs/adr/0017).

One task for each damaged log, open or not. It retries until the log is intact, closed, or fetched again as a whole.
`core/repair.py` decides which bytes may be written, and when the replica is beyond repair.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from raftlog.errors import DiskFullError, RaftlogError, StorageError
from raftlog.model import BrokerId, LeaderEpoch, Offset, PartitionAssignment, TopicIdPartition
from raftlog.partition.core.repair import Accepted, DamagedBatch, RepairVerdict, accept, later_starts, repair_verdict
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.storage.data_dir import quarantined_logs
from raftlog.partition.storage.repair import RepairTarget
from raftlog.partition.storage.repair_source import find_batches
from raftlog.runtime import Tasks
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.repair import Holding, RepairRequest, RepairResponse

_log = logging.getLogger(__name__)
PATIENCE_S = 10.0
"""After this long, a replica that may lead and does not respond is no longer waited for."""
ASK_TIMEOUT_MS = 5_000
ASK_BYTES = 1 << 20
MAX_ANSWER_BYTES = 8 << 20
MIN_RETRY_S, MAX_RETRY_S = 0.1, 5.0
_AT_ONCE = 2
"""Logs read at the same time, for own repairs and for those of others each: every read takes a thread."""


@dataclass(slots=True)
class RepairJob:
    """The repair of one damaged log.

    Args:
        assignment: returns the current assignment of the replica; None once it is closed or not assigned here.
        begin: opens the log for repair, from the beginning.
        finished: called when no damage is left; True ends the repair.
        unrepairable: called each time the log turns out to be beyond repair; True ends the repair.
        on_attempt_done: called after each attempt, with the offsets of batches that no replica has intact if all the
            damage left is of that kind; otherwise with none.
        move_start: moves the log start, as `storage/log_start.py` does; None for an open log, whose leader moves it.
    """

    key: TopicIdPartition
    folder: Path
    assignment: Callable[[], PartitionAssignment | None]
    begin: Callable[[], RepairTarget]
    finished: Callable[[], Awaitable[bool]]
    unrepairable: Callable[[], Awaitable[bool]]
    on_attempt_done: Callable[[tuple[Offset, ...]], None]
    move_start: Callable[[Offset, LeaderEpoch], bool] | None = None
    began: float = field(init=False, default=0.0)
    reported: set[Offset] = field(init=False, default_factory=set)
    last_error: str = field(init=False, default="")
    written: int = field(init=False, default=0)


class Repairer:
    """Repairs this broker's logs, and serves intact batches to other brokers."""

    def __init__(
        self,
        *,
        local: LocalBroker,
        session: HttpSession,
        tasks: Tasks,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.repaired_batches = 0
        self.lost: dict[TopicIdPartition, tuple[Offset, ...]] = {}
        """First offsets of the batches that no replica has intact, as far as is known."""
        self._local = local
        self._session = session
        self._tasks = tasks
        self.on_end: Callable[[TopicIdPartition], None] = lambda _: None
        """Called when a repair has ended without `stop`."""
        self._patience_s = patience_s
        self._running: dict[TopicIdPartition, asyncio.Task[None]] = {}
        self._reading = asyncio.Semaphore(_AT_ONCE)
        self._serving = asyncio.Semaphore(_AT_ONCE)

    def __contains__(self, key: TopicIdPartition) -> bool:
        return key in self._running

    def __len__(self) -> int:
        return len(self._running)

    @property
    def closed(self) -> bool:
        """Whether new repairs are refused: the broker is stopping."""
        return self._tasks.closed

    def start(self, job: RepairJob) -> None:
        """Start the repair of a log, unless it is running."""
        if job.key in self._running:
            return
        job.began = asyncio.get_running_loop().time()
        task = self._tasks.spawn(self._repair(job), name=f"repair {job.folder.name}")
        self._running[job.key] = task
        task.add_done_callback(lambda _: self._ended(job.key, task))

    def stop(self, key: TopicIdPartition) -> None:
        """Cancel the repair of a log that is closed, deleted or quarantined."""
        if (task := self._running.pop(key, None)) is not None:
            task.cancel()
        self.lost.pop(key, None)

    def _ended(self, key: TopicIdPartition, task: asyncio.Task[None]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
            self.on_end(key)

    async def serve(self, request: RepairRequest, folder: Path) -> tuple[Holding, bytes]:
        """Answer another broker from this one's log, or from quarantined copies of it."""
        limit = min(request.max_bytes, MAX_ANSWER_BYTES)
        return await self._look(folder, request.offset, request.leader_epoch, limit, with_log=True)

    async def _look(
        self, folder: Path, offset: Offset, epoch: int, limit: int, *, with_log: bool
    ) -> tuple[Holding, bytes]:
        def look() -> tuple[Holding, bytes]:
            folders = [*([folder] if with_log else []), *reversed(quarantined_logs(folder))]
            return find_batches(folders, offset, epoch, limit)

        async with self._serving:
            try:
                return await asyncio.to_thread(look)
            except OSError as error:
                raise StorageError(f"{folder} cannot be read: {error}") from error

    async def _repair(self, job: RepairJob) -> None:
        retry_s = MIN_RETRY_S
        while job.assignment() is not None:
            before = job.written
            verdict = await self._attempt(job)
            if verdict is None and await job.finished():
                self.lost.pop(job.key, None)
                return
            # A log that stays damaged although every batch is intact cannot be repaired by writing batches.
            if verdict is RepairVerdict.RESIGN or (verdict is None and job.written == before):
                if await job.unrepairable():
                    return
            elif job.written > before:
                continue
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, MAX_RETRY_S)

    async def _attempt(self, job: RepairJob) -> RepairVerdict | None:
        try:
            return await self._repair_all(job)
        except (RaftlogError, OSError) as error:
            if str(error) != job.last_error:
                job.last_error = str(error)
                _log.warning("%s cannot be repaired now: %s", job.folder.name, error)
            # A full disk, too many open files, a segment just removed by retention: another attempt may succeed.
            passing = isinstance(error, DiskFullError) or not isinstance(error, StorageError)
            return RepairVerdict.WAIT if passing else RepairVerdict.RESIGN
        except Exception:  # noqa: BLE001  (our own bug: other repairs go on, and this one is retried with a delay)
            _log.exception("repairing %s failed", job.folder.name)
            return RepairVerdict.WAIT

    async def _repair_all(self, job: RepairJob) -> RepairVerdict | None:
        """Repair every batch that can be repaired now; return the worst verdict on the others, None if none is left."""
        async with self._reading:
            target = await asyncio.to_thread(job.begin)
        left, lost = list[RepairVerdict](), list[Offset]()
        written: tuple[int, Offset] | None = None
        while (damaged := await self._find(target)) is not None:
            accepted, responses = await self._ask(job, damaged)
            if accepted is not None and written != (damaged.position, damaged.offset):
                if not await self._write(job, target, damaged, accepted):
                    return RepairVerdict.WAIT  # The log has changed: start over.
                written = (damaged.position, damaged.offset)
                continue
            if await self._start_later(job, damaged, responses.values()):
                return RepairVerdict.WAIT  # The log starts after the damage: start over.
            answers = {broker: None if answer is None else answer.holding for broker, answer in responses.items()}
            verdict = RepairVerdict.RESIGN if accepted is not None else self._verdict(job, answers)
            self._log_unrepaired(job, damaged, verdict, answers)
            left.append(verdict)
            if verdict is RepairVerdict.LOST:
                lost.append(damaged.offset)
            async with self._reading:
                await asyncio.to_thread(target.skip, damaged)
        self.lost.pop(job.key, None)
        if lost:
            self.lost[job.key] = tuple(lost)
        job.on_attempt_done(tuple(lost) if set(left) == {RepairVerdict.LOST} else ())
        return next(
            (verdict for verdict in (RepairVerdict.RESIGN, RepairVerdict.WAIT, RepairVerdict.LOST) if verdict in left),
            None,
        )

    async def _find(self, target: RepairTarget) -> DamagedBatch | None:
        async with self._reading:
            return await asyncio.to_thread(target.find)

    async def _write(self, job: RepairJob, target: RepairTarget, damaged: DamagedBatch, accepted: Accepted) -> bool:
        async with self._reading:
            if not await asyncio.to_thread(target.write, damaged, accepted):
                return False
        self.repaired_batches += 1
        job.written += 1
        _log.warning(
            "%s: repaired %d bytes at offset %d to %d",
            job.folder.name,
            len(accepted.data),
            damaged.offset,
            accepted.next_offset - 1,
        )
        return True

    async def _start_later(
        self, job: RepairJob, damaged: DamagedBatch, responses: Iterable[RepairResponse | None]
    ) -> bool:
        """Let a closed log start where another replica's does, if that is after a damaged batch."""
        if job.move_start is None:
            return False
        for start, epoch in later_starts(damaged, responses):
            async with self._reading:
                if await asyncio.to_thread(job.move_start, start, epoch):
                    job.written += 1
                    _log.warning("%s: starts at offset %d, as on another replica", job.folder.name, start)
                    return True
        return False

    def _verdict(self, job: RepairJob, answers: Mapping[BrokerId, Holding | None]) -> RepairVerdict:
        assignment = job.assignment()
        if assignment is None:
            return RepairVerdict.WAIT
        over = asyncio.get_running_loop().time() - job.began >= self._patience_s
        return repair_verdict(assignment.state, self._local.broker_id, answers, patience_over=over)

    def _log_unrepaired(
        self, job: RepairJob, damaged: DamagedBatch, verdict: RepairVerdict, answers: Mapping[BrokerId, Holding | None]
    ) -> None:
        """Log, once for each batch, why it is not repaired."""
        if damaged.offset in job.reported:
            return
        job.reported.add(damaged.offset)
        answered = {broker: answer.value if answer else "no answer" for broker, answer in answers.items()}
        what = (
            "no replica has it intact: its records are lost"
            if verdict is RepairVerdict.LOST
            else "it is not repaired yet"
        )
        _log.error("%s: the batch at offset %d is damaged; %s; %s", job.folder.name, damaged.offset, what, answered)

    async def _ask(
        self, job: RepairJob, damaged: DamagedBatch
    ) -> tuple[Accepted | None, dict[BrokerId, RepairResponse | None]]:
        """Look in quarantined copies here, then ask all other replicas at once; take the first bytes that fit."""
        assignment = job.assignment()
        if assignment is None:
            return None, {}
        offset, epoch = damaged.offset, damaged.leader_epoch
        _, data = await self._look(job.folder, offset, epoch, ASK_BYTES, with_log=False)
        if (accepted := accept(damaged, data)) is not None:
            return accepted, {}
        responses = dict[BrokerId, RepairResponse | None]()
        others = [member for member in assignment.state.replicas if member != self._local.broker_id]
        asking = [asyncio.ensure_future(self._ask_one(job.key, other, damaged)) for other in others]
        try:
            for answer in asyncio.as_completed(asking):
                broker, response, accepted = await answer
                if accepted is not None:
                    return accepted, {}
                responses[broker] = response
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return None, responses

    async def _ask_one(
        self, key: TopicIdPartition, broker: BrokerId, damaged: DamagedBatch
    ) -> tuple[BrokerId, RepairResponse | None, Accepted | None]:
        registration = self._local.brokers.get(broker)
        if registration is None:
            return broker, None, None
        request = RepairRequest(
            topic_id=key.topic_id,
            partition=key.partition,
            offset=damaged.offset,
            leader_epoch=damaged.leader_epoch,
            max_bytes=ASK_BYTES,
        )
        try:
            response, body = await self._session.call_frame(
                RepairResponse,
                "POST",
                registration.internal,
                paths.REPAIR,
                timeout_ms=ASK_TIMEOUT_MS,
                message=request,
            )
        except RaftlogError as error:
            _log.debug("broker %d sent no batch for a repair: %s", broker, error.message)
            return broker, None, None
        if response.holding is not Holding.WHOLE:
            return broker, response, None
        return broker, replace(response, holding=Holding.OTHER), accept(damaged, body)
