"""Repair of damaged batches: fetches them from other replicas and writes them in place (docs/adr/0017).

One task for each damaged log, open or not. It retries until the log is intact, closed, or fetched again as a whole.
`core/repair.py` decides which bytes may be written, and when the replica is beyond repair.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from raftlog.errors import DiskFullError, RaftlogError, StorageError
from raftlog.model import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, PartitionAssignment, TopicIdPartition
from raftlog.partition.core.repair import Accepted, DamagedBatch, RepairVerdict, accept, later_starts, repair_verdict
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.rebuild import Ask
from raftlog.partition.storage.data_dir import quarantined_logs
from raftlog.partition.storage.files import storage_error
from raftlog.partition.storage.repair import RepairTarget
from raftlog.partition.storage.repair_source import find_batches
from raftlog.runtime import Tasks
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.repair import Holding, RepairRequest, RepairResponse

_log = logging.getLogger(__name__)
T = TypeVar("T")
PATIENCE_S = 10.0
"""After this long, a replica that may lead and does not respond is no longer waited for."""
ASK_TIMEOUT_MS = 5_000
ASK_BYTES = 1 << 20
MAX_ANSWER_BYTES = 8 << 20
MIN_RETRY_S, MAX_RETRY_S = 0.1, 5.0
_MIN_REBUILD_S, _MAX_REBUILD_S = 2.0, 300.0
_AT_ONCE = 2
"""Logs read at the same time, for own repairs and for those of others each: every read takes a thread."""


class DamagedLog(Protocol):
    """A damaged log, open or not, and what its repair reports to it; see `damaged_logs.py`."""

    key: TopicIdPartition
    folder: Path
    is_open: bool
    """Whether its leader moves the log start; else the repair does."""

    @property
    def assignment(self) -> PartitionAssignment | None:
        """The current assignment of the replica; None once it is closed or not assigned here."""
        ...

    def begin(self) -> RepairTarget:
        """Open the log for repair, from the beginning. Called in a worker thread."""
        ...

    async def finished(self) -> bool:
        """Note that no damage is left; return True to end the repair."""
        ...

    async def unrepairable(self) -> bool:
        """Note that the log is beyond repair, perhaps not for the first time; return True to end the repair."""
        ...

    def on_attempt_done(self, lost: tuple[Offset, ...]) -> None:
        """Note that all replicas were asked for every damaged batch.

        Args:
            lost: offsets of batches that no replica has intact, if all the damage left is of that kind; else none.
        """
        ...

    def drop_deleted(self, damaged: Offset) -> bool:
        """Set a closed log's deleted records aside if the damage is below its start; return whether that changed it.

        Called in a worker thread.
        """
        ...

    def move_start(self, start: Offset, epoch: LeaderEpoch) -> bool:
        """Move the start of a closed log; return whether it was moved. Called in a worker thread."""
        ...

    async def rebuild(self, ask: Ask, ask_others: Sequence[Ask]) -> bool:
        """Rebuild a closed log with another replica's; return whether it is open now, or need not be repaired."""
        ...


@dataclass(slots=True)
class _Repair:
    """The repair of one log so far."""

    log: DamagedLog
    began: float
    """When it began, by the event loop's clock."""
    reported: set[Offset] = field(default_factory=set)
    """Batches whose damage was logged."""
    last_error: str = ""
    written: int = 0
    """How often it changed the log."""
    cleaned_at: tuple[BrokerId, ...] = ()
    """The brokers that have other batches in place of a damaged one, by compaction."""
    rebuild_s: float = _MIN_REBUILD_S
    """The pause after the next failed attempt to rebuild the log."""
    rebuild_at: float = 0.0
    """When to attempt that again, by the event loop's clock."""


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

    def start(self, log: DamagedLog) -> None:
        """Start the repair of a log, unless it is running."""
        if log.key in self._running:
            return
        repair = _Repair(log, asyncio.get_running_loop().time())
        task = self._tasks.spawn(self._repair(repair), name=f"repair {log.folder.name}")
        self._running[log.key] = task
        task.add_done_callback(lambda _: self._ended(log.key, task))

    def stop(self, key: TopicIdPartition) -> None:
        """Cancel the repair of a log that is closed, deleted or quarantined."""
        if (task := self._running.pop(key, None)) is not None:
            task.cancel()
        self.lost.pop(key, None)

    def _ended(self, key: TopicIdPartition, task: asyncio.Task[None]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
            self.on_end(key)

    async def serve(self, request: RepairRequest, folder: Path) -> tuple[Holding, bytes, Holding]:
        """Answer another broker from this one's log, or else from quarantined copies of it.

        Returns:
            What was found, whole batches, and what was found in the log itself.
        """
        limit = min(request.max_bytes, MAX_ANSWER_BYTES)

        def look() -> tuple[Holding, bytes, Holding]:
            own, data = find_batches([folder], request.offset, request.leader_epoch, limit)
            if own is Holding.WHOLE:
                return own, data, own
            folders = [folder, *reversed(quarantined_logs(folder))]
            return *find_batches(folders, request.offset, request.leader_epoch, limit), own

        return await self._look(folder, look)

    async def _look(self, folder: Path, look: Callable[[], T]) -> T:

        async with self._serving:
            try:
                return await asyncio.to_thread(look)
            except OSError as error:
                raise storage_error(error, f"{folder} cannot be read") from error

    async def _repair(self, repair: _Repair) -> None:
        retry_s = MIN_RETRY_S
        while repair.log.assignment is not None:
            before = repair.written
            verdict = await self._attempt(repair)
            try:
                if await self._has_ended(repair, verdict, has_written=repair.written > before):
                    return
            except Exception:  # noqa: BLE001  (as in `_attempt`: else a closed log stays offline until a restart)
                _log.exception("ending the repair of %s failed", repair.log.folder.name)
            else:
                if verdict is not RepairVerdict.RESIGN and repair.written > before:
                    continue
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, MAX_RETRY_S)

    async def _has_ended(self, repair: _Repair, verdict: RepairVerdict | None, *, has_written: bool) -> bool:
        """Do what follows from a verdict; return whether the repair ends.

        Args:
            has_written: whether this attempt has changed the log.
        """
        if verdict is None and await repair.log.finished():
            self.lost.pop(repair.log.key, None)
            return True
        # A log that stays damaged although every batch is intact cannot be repaired by writing batches.
        if verdict is RepairVerdict.RESIGN or (verdict is None and not has_written):
            return await repair.log.unrepairable()
        if has_written or not await self._rebuild(repair, verdict):
            return False
        self.lost.pop(repair.log.key, None)
        return True

    async def _rebuild(self, repair: _Repair, verdict: RepairVerdict | None) -> bool:
        """Rebuild a log with that of a replica that has compacted the damaged batch; return whether that is done."""
        now = asyncio.get_running_loop().time()
        if not repair.cleaned_at or now < repair.rebuild_at:
            return False
        if verdict is RepairVerdict.WAIT and now - repair.began < self._patience_s:
            return False
        assignment = repair.log.assignment
        replicas = () if assignment is None else assignment.state.replicas
        asks = {broker: partial(self._ask_for_log, repair.log.key, broker) for broker in replicas}
        for source in repair.cleaned_at:
            others = [ask for broker, ask in asks.items() if broker not in (source, self._local.broker_id)]
            try:
                if source in asks and await repair.log.rebuild(asks[source], others):
                    return True
            except (RaftlogError, OSError) as error:
                _log.warning("%s cannot be rebuilt now: %s", repair.log.folder.name, error)
            except Exception:  # noqa: BLE001  (as in `_attempt`)
                _log.exception("rebuilding %s failed", repair.log.folder.name)
        repair.rebuild_at = asyncio.get_running_loop().time() + repair.rebuild_s
        repair.rebuild_s = min(2 * repair.rebuild_s, _MAX_REBUILD_S)
        return False

    async def _ask_for_log(
        self, key: TopicIdPartition, broker: BrokerId, offset: Offset, max_bytes: int
    ) -> tuple[RepairResponse, bytes] | None:
        request = RepairRequest(
            topic_id=key.topic_id,
            partition=key.partition,
            offset=offset,
            leader_epoch=NO_LEADER_EPOCH,
            max_bytes=max_bytes,
        )
        return await self._call(broker, request)

    async def _attempt(self, repair: _Repair) -> RepairVerdict | None:
        try:
            return await self._repair_all(repair)
        except (RaftlogError, OSError) as error:
            if str(error) != repair.last_error:
                repair.last_error = str(error)
                _log.warning("%s cannot be repaired now: %s", repair.log.folder.name, error)
            # A full disk, too many open files, a segment just removed by retention: another attempt may succeed.
            passing = isinstance(error, DiskFullError) or not isinstance(error, StorageError)
            return RepairVerdict.WAIT if passing else RepairVerdict.RESIGN
        except Exception:  # noqa: BLE001  (our own bug: other repairs go on, and this one is retried with a delay)
            _log.exception("repairing %s failed", repair.log.folder.name)
            return RepairVerdict.WAIT

    async def _repair_all(self, repair: _Repair) -> RepairVerdict | None:
        """Repair every batch that can be repaired now; return the worst verdict on the others, None if none is left."""
        async with self._reading:
            target = await asyncio.to_thread(repair.log.begin)
        left, lost = list[RepairVerdict](), list[Offset]()
        repair.cleaned_at = ()
        written: tuple[int, Offset] | None = None
        while (damaged := await self._find(target)) is not None:
            accepted, responses = await self._ask(repair, damaged)
            if accepted is not None and written != (damaged.position, damaged.offset):
                if not await self._write(repair, target, damaged, accepted):
                    return RepairVerdict.WAIT  # The log has changed: start over.
                written = (damaged.position, damaged.offset)
                continue
            if await self._start_later(repair, damaged, responses.values()):
                return RepairVerdict.WAIT  # The log starts after the damage: start over.
            answers = {broker: None if answer is None else answer.holding for broker, answer in responses.items()}
            verdict = RepairVerdict.RESIGN if accepted is not None else self._verdict(repair, answers)
            self._log_unrepaired(repair, damaged, verdict, answers)
            if damaged.exact_fit and Holding.OTHER in answers.values():
                repair.cleaned_at = tuple(sorted(who for who, answer in answers.items() if answer is Holding.OTHER))
            left.append(verdict)
            if verdict is RepairVerdict.LOST:
                lost.append(damaged.offset)
            async with self._reading:
                await asyncio.to_thread(target.skip, damaged)
        self.lost.pop(repair.log.key, None)
        if lost:
            self.lost[repair.log.key] = tuple(lost)
        repair.log.on_attempt_done(tuple(lost) if set(left) == {RepairVerdict.LOST} else ())
        return next(
            (verdict for verdict in (RepairVerdict.RESIGN, RepairVerdict.WAIT, RepairVerdict.LOST) if verdict in left),
            None,
        )

    async def _find(self, target: RepairTarget) -> DamagedBatch | None:
        async with self._reading:
            return await asyncio.to_thread(target.find)

    async def _write(self, repair: _Repair, target: RepairTarget, damaged: DamagedBatch, accepted: Accepted) -> bool:
        async with self._reading:
            if not await asyncio.to_thread(target.write, damaged, accepted):
                return False
        self.repaired_batches += 1
        repair.written += 1
        _log.warning(
            "%s: repaired %d bytes at offset %d to %d",
            repair.log.folder.name,
            len(accepted.data),
            damaged.offset,
            accepted.next_offset - 1,
        )
        return True

    async def _start_later(
        self, repair: _Repair, damaged: DamagedBatch, responses: Iterable[RepairResponse | None]
    ) -> bool:
        """Let a closed log start where it says, or where another replica's does, if that is after a damaged batch."""
        if repair.log.is_open:
            return False
        async with self._reading:
            if await asyncio.to_thread(repair.log.drop_deleted, damaged.offset):
                repair.written += 1
                _log.warning("%s: the damage at offset %d is below its start", repair.log.folder.name, damaged.offset)
                return True
        for start, epoch in later_starts(damaged, responses):
            async with self._reading:
                if await asyncio.to_thread(repair.log.move_start, start, epoch):
                    repair.written += 1
                    _log.warning("%s: starts at offset %d, as on another replica", repair.log.folder.name, start)
                    return True
        return False

    def _verdict(self, repair: _Repair, answers: Mapping[BrokerId, Holding | None]) -> RepairVerdict:
        assignment = repair.log.assignment
        if assignment is None:
            return RepairVerdict.WAIT
        over = asyncio.get_running_loop().time() - repair.began >= self._patience_s
        return repair_verdict(assignment.state, self._local.broker_id, answers, patience_over=over)

    def _log_unrepaired(
        self, repair: _Repair, damaged: DamagedBatch, verdict: RepairVerdict, answers: Mapping[BrokerId, Holding | None]
    ) -> None:
        """Log, once for each batch, why it is not repaired."""
        if damaged.offset in repair.reported:
            return
        repair.reported.add(damaged.offset)
        answered = {broker: answer.value if answer else "no answer" for broker, answer in answers.items()}
        what = (
            "no replica has it intact: its records are lost"
            if verdict is RepairVerdict.LOST
            else "it is not repaired yet"
        )
        _log.error(
            "%s: the batch at offset %d is damaged; %s; %s", repair.log.folder.name, damaged.offset, what, answered
        )

    async def _ask(
        self, repair: _Repair, damaged: DamagedBatch
    ) -> tuple[Accepted | None, dict[BrokerId, RepairResponse | None]]:
        """Look in quarantined copies here, then ask all other replicas at once; take the first bytes that fit."""
        assignment = repair.log.assignment
        if assignment is None:
            return None, {}
        folder, offset, epoch = repair.log.folder, damaged.offset, damaged.leader_epoch
        _, data = await self._look(
            folder, lambda: find_batches([*reversed(quarantined_logs(folder))], offset, epoch, ASK_BYTES)
        )
        if (accepted := accept(damaged, data)) is not None:
            return accepted, {}
        responses = dict[BrokerId, RepairResponse | None]()
        others = [member for member in assignment.state.replicas if member != self._local.broker_id]
        asking = [asyncio.ensure_future(self._ask_one(repair.log.key, other, damaged)) for other in others]
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
        request = RepairRequest(
            topic_id=key.topic_id,
            partition=key.partition,
            offset=damaged.offset,
            leader_epoch=damaged.leader_epoch,
            max_bytes=ASK_BYTES,
        )
        if (answer := await self._call(broker, request)) is None:
            return broker, None, None
        response, body = answer
        if response.holding is not Holding.WHOLE:
            return broker, response, None
        return broker, replace(response, holding=Holding.OTHER), accept(damaged, body)

    async def _call(self, broker: BrokerId, request: RepairRequest) -> tuple[RepairResponse, bytes] | None:
        registration = self._local.brokers.get(broker)
        if registration is None:
            return None
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
            return None
        return response, bytes(body)
