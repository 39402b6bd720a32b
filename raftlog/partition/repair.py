"""Repair of damaged batches from other replicas (docs/adr/0017): asks whoever may hold them, and puts them in place.

One task for each log that is known to be damaged, open or not. It asks until everything is whole, or the log is closed;
what it may put in place, and when the replica has to give way instead, `core/repair.py` decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from raftlog.errors import DiskFullError, RaftlogError, StorageError
from raftlog.model import BrokerId, BrokerRegistration, Offset, PartitionAssignment, TopicIdPartition
from raftlog.partition.core.repair import Accepted, DamagedBatch, RepairVerdict, accept, repair_verdict
from raftlog.partition.storage.data_dir import quarantined_logs
from raftlog.partition.storage.repair import RepairTarget
from raftlog.partition.storage.repair_source import find_batches
from raftlog.runtime import Tasks
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.repair import Holding, RepairRequest, RepairResponse

_log = logging.getLogger(__name__)
PATIENCE_S = 10.0
"""So long a replica that may lead is asked before its silence counts as an answer."""
ASK_TIMEOUT_MS = 5_000
ASK_BYTES = 1 << 20
MAX_ANSWER_BYTES = 8 << 20
SHORTEST_REST_S, LONGEST_REST_S = 0.1, 5.0
_AT_ONCE = 2
"""Logs that are read at the same time, to repair them or for others' repairs: each such read takes a thread."""


@dataclass(slots=True)
class RepairJob:
    """A damaged log, as the task that repairs it sees it.

    Args:
        assignment: what metadata says of the replica now; None once it is not wanted here any more.
        begin: opens the log for repair, from the beginning.
        finished: called once nothing damaged is left.
        hopeless: called each time it turns out that the replica has to give way; True ends the repair.
        rests: called when everything was gone over, with the batches that nobody has whole.
    """

    key: TopicIdPartition
    folder: Path
    assignment: Callable[[], PartitionAssignment | None]
    begin: Callable[[], RepairTarget]
    finished: Callable[[], Awaitable[bool]]
    unrepairable: Callable[[], Awaitable[bool]]
    on_attempt_done: Callable[[tuple[Offset, ...]], None]
    began: float = 0.0
    reported: set[Offset] = field(default_factory=set)
    last_error: str = ""
    written: int = 0


class Repairer:
    """RepairManager this broker's logs, and serves whole batches to others."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        session: HttpSession,
        brokers: Callable[[], Mapping[BrokerId, BrokerRegistration]],
        tasks: Tasks,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.repaired_batches = 0
        self.lost: dict[TopicIdPartition, tuple[Offset, ...]] = {}
        """Batches, by their first offsets, that no replica has whole, as far as is known."""
        self.broker_id = broker_id
        self._session = session
        self._brokers = brokers
        self._tasks = tasks
        self.on_end: Callable[[TopicIdPartition], None] = lambda _: None
        """Called when a repair has ended by itself."""
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
        """Whether no repair can begin any more."""
        return self._tasks.closed

    def start(self, job: RepairJob) -> None:
        """Begin to repair a log, unless that is under way."""
        if job.key in self._running:
            return
        job.began = asyncio.get_running_loop().time()
        task = self._tasks.spawn(self._repair(job), name=f"repair {job.folder.name}")
        self._running[job.key] = task
        task.add_done_callback(lambda _: self._ended(job.key, task))

    def stop(self, key: TopicIdPartition) -> None:
        """End the repair of a log that is closed, deleted or put aside."""
        if (task := self._running.pop(key, None)) is not None:
            task.cancel()
        self.lost.pop(key, None)

    def _ended(self, key: TopicIdPartition, task: asyncio.Task[None]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
            self.on_end(key)

    async def serve(self, request: RepairRequest, folder: Path) -> tuple[RepairResponse, bytes]:
        """Answer another broker with what this one has, in its log or in what was put aside of it."""
        limit = min(request.max_bytes, MAX_ANSWER_BYTES)
        holding, data = await self._look(folder, request.offset, request.leader_epoch, limit, with_log=True)
        return RepairResponse(holding=holding), data

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
        rest_s = SHORTEST_REST_S
        while job.assignment() is not None:
            before = job.written
            verdict = await self._attempt(job)
            if verdict is None and await job.finished():
                self.lost.pop(job.key, None)
                return
            # A log that stays damaged though all its batches are whole is damaged in a way that no batch repairs.
            if verdict is RepairVerdict.RESIGN or (verdict is None and job.written == before):
                if await job.unrepairable():
                    return
            elif job.written > before:
                continue
            await asyncio.sleep(rest_s)
            rest_s = min(2 * rest_s, LONGEST_REST_S)

    async def _attempt(self, job: RepairJob) -> RepairVerdict | None:
        try:
            return await self._repair_all(job)
        except (RaftlogError, OSError) as error:
            if str(error) != job.last_error:
                job.last_error = str(error)
                _log.warning("%s cannot be repaired now: %s", job.folder.name, error)
            # A full disk, too many open files, a segment that retention has just removed: another attempt may do.
            passing = isinstance(error, DiskFullError) or not isinstance(error, StorageError)
            return RepairVerdict.WAIT if passing else RepairVerdict.RESIGN
        except Exception:  # noqa: BLE001  (our own bug: the others go on, and this one does not spin)
            _log.exception("repairing %s failed", job.folder.name)
            return RepairVerdict.WAIT

    async def _repair_all(self, job: RepairJob) -> RepairVerdict | None:
        """Repair what can be repaired now; return the worst that is left, None if there is nothing left."""
        async with self._reading:
            target = await asyncio.to_thread(job.begin)
        left, lost = list[RepairVerdict](), list[Offset]()
        written: tuple[int, Offset] | None = None
        while (damaged := await self._find(target)) is not None:
            accepted, answers = await self._ask(job, damaged)
            if accepted is not None and written != (damaged.position, damaged.offset):
                if not await self._write(job, target, damaged, accepted):
                    return RepairVerdict.WAIT  # The log has changed: begin again.
                written = (damaged.position, damaged.offset)
                continue
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

    def _verdict(self, job: RepairJob, answers: Mapping[BrokerId, Holding | None]) -> RepairVerdict:
        assignment = job.assignment()
        if assignment is None:
            return RepairVerdict.WAIT
        over = asyncio.get_running_loop().time() - job.began >= self._patience_s
        return repair_verdict(assignment.state, self.broker_id, answers, patience_over=over)

    def _log_unrepaired(
        self, job: RepairJob, damaged: DamagedBatch, verdict: RepairVerdict, answers: Mapping[BrokerId, Holding | None]
    ) -> None:
        """Say once of each batch what could not be done about it."""
        if damaged.offset in job.reported:
            return
        job.reported.add(damaged.offset)
        answered = {broker: answer.value if answer else "no answer" for broker, answer in answers.items()}
        what = (
            "no replica has it whole: its records are lost"
            if verdict is RepairVerdict.LOST
            else "it is not repaired yet"
        )
        _log.error("%s: the batch at offset %d is damaged; %s; %s", job.folder.name, damaged.offset, what, answered)

    async def _ask(
        self, job: RepairJob, damaged: DamagedBatch
    ) -> tuple[Accepted | None, dict[BrokerId, Holding | None]]:
        """Ask what lies aside here, then all other replicas at once; the first who has the right bytes is believed."""
        assignment = job.assignment()
        if assignment is None:
            return None, {}
        offset, epoch = damaged.offset, damaged.leader_epoch
        _, data = await self._look(job.folder, offset, epoch, ASK_BYTES, with_log=False)
        if (accepted := accept(damaged, data)) is not None:
            return accepted, {}
        answers = dict[BrokerId, Holding | None]()
        others = [member for member in assignment.state.replicas if member != self.broker_id]
        asking = [asyncio.ensure_future(self._ask_one(job.key, other, damaged)) for other in others]
        try:
            for answer in asyncio.as_completed(asking):
                broker, holding, accepted = await answer
                if accepted is not None:
                    return accepted, {}
                answers[broker] = holding
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return None, answers

    async def _ask_one(
        self, key: TopicIdPartition, broker: BrokerId, damaged: DamagedBatch
    ) -> tuple[BrokerId, Holding | None, Accepted | None]:
        registration = self._brokers().get(broker)
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
            _log.debug("broker %d does not help to repair: %s", broker, error.message)
            return broker, None, None
        if response.holding is not Holding.WHOLE:
            return broker, response.holding, None
        return broker, Holding.OTHER, accept(damaged, body)
