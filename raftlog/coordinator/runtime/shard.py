"""One shard: the coordinator of one partition's keys, while this broker leads that partition in one leader epoch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Literal, TypeVar

from raftlog.coordinator.runtime.codec import LogRecord
from raftlog.coordinator.runtime.core import Coordinator, Decision, Now
from raftlog.errors import (
    DiskFullError,
    ErrorCode,
    FencedError,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.model import ACKS_ALL, NO_LEADER, Offset
from raftlog.partition.replica import Replica
from raftlog.record import NewRecord, build_batch, iter_batches, read_records
from raftlog.runtime import Clock

_log = logging.getLogger(__name__)
S = TypeVar("S")
R = TypeVar("R")
LOAD_CHUNK_BYTES = 128 << 10
LOAD_RECORDS = 200
"""Records replayed in one iteration of the event loop."""
PROGRESS_S = 5.0
BARRIER_KEY = b'{"kind":"ReadBarrier"}'
"""The key of a record that no coordinator reads. Compaction keeps the newest one."""


async def without_controllers() -> None:
    """Raise, where a broker would ask the controllers."""
    raise RetriableError("this broker has no controllers to ask", code=ErrorCode.QUORUM_NOT_AVAILABLE)


class Shard(Generic[S]):
    """Loads its state from the log, then decides.

    - Decisions do not await, so each one sees all earlier ones.
    - A decision's records take effect for the next decision at once.
    - A response is sent only after everything that its decision may have read is replicated: no caller sees a state
      that a failover could undo.
    """

    def __init__(
        self,
        coordinator: Coordinator[S],
        replica: Replica,
        clock: Clock,
        *,
        catch_up: Callable[[], Awaitable[None]] = without_controllers,
        writes_short: Callable[[], bool] = bool,
    ) -> None:
        self.replica = replica
        self.epoch = replica.state.leader_epoch
        self.phase: Literal["loading", "active", "failed"] = "loading"
        self.state: S = coordinator.new_state()
        self._coordinator = coordinator
        self._clock = clock
        self._catch_up = catch_up
        """Applies all metadata that was committed before the call."""
        self._writes_short = writes_short
        """Whether all nodes read short batches."""
        self._failed_at_ms = 0
        self._tick_refused = False

    @property
    def failed_for_ms(self) -> int:
        """Milliseconds since loading failed; -1 if it has not."""
        return self._clock.monotonic_ms() - self._failed_at_ms if self.phase == "failed" else -1

    @property
    def leads(self) -> bool:
        """Whether this broker still leads the partition in this shard's leader epoch."""
        return self.replica.core is not None and self.replica.state.leader_epoch == self.epoch

    @property
    def now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.wall_us() // 1000)

    async def load(self) -> bool:
        """Replay the whole log; return whether the shard is then active. Requests are refused until it is.

        Records above the high watermark are replayed too: a leader never truncates its own log.
        """
        started, logged_at = self._seconds(), self._seconds()
        position, end, count = self.replica.log.log_start_offset, self.replica.log.log_end_offset, 0
        try:
            while position < end:
                position, read = await self._replay_chunk(position, end)
                count += read
                if self._seconds() - logged_at >= PROGRESS_S:
                    logged_at = self._seconds()
                    _log.info("%s: loading: at offset %d of %d, %d records", self, position, end, count)
                await asyncio.sleep(0)
                if not self.leads:
                    return False
            self._coordinator.on_loaded(self.state, self.now)
        except Exception as error:  # after any error the shard must refuse requests, and load again
            self._fail()
            if not isinstance(error, RaftlogError):
                raise
            _log.error("%s: cannot load: %s", self, error.message)
            return False
        self.phase = "active"
        taken_ms = int(1000 * (self._seconds() - started))
        _log.info("%s: active in epoch %d: %d records loaded in %d ms", self, self.epoch, count, taken_ms)
        return True

    async def decide(self, decide: Callable[[S, Now], Decision[R]], *, timeout_ms: int) -> R:
        """Decide, append the records, and return the response once they are replicated.

        Raises:
            RaftlogError: raised by `decide`; nothing was changed, and a failover does not undo what it is about.
            StaleRouteError: NOT_COORDINATOR.
            RetriableError: COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE; nothing was changed.
            UnknownOutcomeError: appended, but not known to be replicated; `details` has `appended`.
        """
        self._require_active()
        try:
            decision = decide(self.state, self.now)
        except RaftlogError as error:
            if not error.retriable:
                await self._require_lasting_state(timeout_ms)
            raise
        with self._translate_errors():
            self._write(decision.records)
            is_barred = not decision.is_confirmed or bool(decision.records) or self._write_barrier()
            end = self.replica.log.log_end_offset
            if not is_barred:
                timeout_ms = await self._require_newest_leader(timeout_ms)
            await self.replica.until_replicated(end, leader_epoch=self.epoch, timeout_ms=timeout_ms)
        return decision.response

    def tick(self) -> bool:
        """Append the coordinator's records for time-outs and expiry; return whether the next tick should come soon."""
        if self.phase != "active" or not self.leads:
            return False
        try:
            self._write(self._coordinator.on_tick(self.state, self.now))
            self._tick_refused = False
            return self._coordinator.is_behind(self.state, self.now)
        except RaftlogError as error:
            if not self._tick_refused:  # The next tick decides again; this is logged once.
                _log.warning("%s: %s", self, error.message)
            self._tick_refused = True
            return False

    async def _replay_chunk(self, position: Offset, end: Offset) -> tuple[Offset, int]:
        """Replay some batches, and let the loop serve others meanwhile; return the next offset and a record count."""
        data = self.replica.read_sound(position, LOAD_CHUNK_BYTES, limit_offset=end)
        topic, partition = self.replica.assignment.topic_partition
        records = read_records(data, topic=topic, partition=partition, from_offset=position)
        for number, record in enumerate(records, 1):
            if number % LOAD_RECORDS == 0:
                await asyncio.sleep(0)
            where = f"{self} at offset {record.offset}"
            if (decoded := self._coordinator.codec.read(record.key, record.value, where=where)) is not None:
                self._coordinator.replay(self.state, decoded)
        return max(header.next_offset for header, _ in iter_batches(data)), len(records)

    def _write(self, records: Sequence[LogRecord]) -> None:
        """Append records as one batch, which is atomic, and replay them."""
        if not records:
            return
        timestamp, encode = self._clock.wall_us(), self._coordinator.codec.encode
        rows = []
        for record in records:
            key, value = encode(record)
            rows.append(NewRecord(value, key, timestamp))
        self._append(rows)
        try:
            for record in records:
                self._coordinator.replay(self.state, record)
        except Exception:
            self._fail()  # A bug. The state is partly changed, and must not be used.
            raise

    def _append(self, rows: list[NewRecord]) -> None:
        try:
            self.replica.append_now(build_batch(rows, short=self._writes_short()), acks=ACKS_ALL)
        except DiskFullError as error:  # Nothing was appended, and room may be freed: clients try again.
            raise RetriableError(error.message, code=ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    def _write_barrier(self) -> bool:
        """Append a record without effect, which only a leader can replicate: Raft's read-only requests by the log.

        A leader that is cut off from the controllers does not know of its successor, whose state may be newer. Nothing
        is written if no other replica may lead, nor below min ISR, where nothing is replicated.

        Returns:
            Whether a replicated log end proves that this broker leads; below min ISR it does not.
        """
        core = self.replica.require_leader()
        if not (core.maximal_isr | {*core.state.elr}) - {core.broker_id}:
            return True
        if core.under_min_isr:
            return False
        self._append([NewRecord(None, BARRIER_KEY, self._clock.wall_us())])
        return True

    async def _require_lasting_state(self, timeout_ms: int) -> None:
        """Wait until all that a decision has seen is replicated: the caller acts on an error as on a response.

        Raises:
            RetriableError: this broker may have been replaced. Nothing was appended.
        """
        try:
            end = self.replica.log.log_end_offset
            await self.replica.until_replicated(end, leader_epoch=self.epoch, timeout_ms=timeout_ms)
        except (StaleRouteError, FencedError) as error:
            raise not_coordinator_error(self.replica) from error
        except UnknownOutcomeError as error:
            raise RetriableError(error.message, code=ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    async def _require_newest_leader(self, timeout_ms: int) -> int:
        """Raise unless the controllers know of no later leader; return the milliseconds that are left."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(deadline):
                await self._catch_up()
        except TimeoutError:
            raise RetriableError(
                f"{self}: no controller has confirmed the leader within {timeout_ms} ms",
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ) from None
        if not self.leads:
            raise not_coordinator_error(self.replica)
        return max(0, round(1000 * (deadline - loop.time())))

    def _fail(self) -> None:
        self.phase, self._failed_at_ms = "failed", self._clock.monotonic_ms()

    def _require_active(self) -> None:
        if not self.leads:
            raise not_coordinator_error(self.replica)
        if self.phase == "loading":
            raise RetriableError(
                f"{self}: the coordinator is still loading", code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )
        if self.phase == "failed":
            raise RetriableError(
                f"{self}: the coordinator could not load; the broker's log says why",
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate a replica's errors into a coordinator's."""
        try:
            yield
        except UnknownOutcomeError as error:
            lost = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            code = ErrorCode.NOT_COORDINATOR if lost else ErrorCode.COORDINATOR_NOT_AVAILABLE
            raise UnknownOutcomeError(error.message, code=code, details={"appended": True}) from error
        except StaleRouteError as error:
            raise not_coordinator_error(self.replica) from error
        except RetriableError as error:
            raise RetriableError(error.message, code=ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    def _seconds(self) -> float:
        return self._clock.monotonic_ms() / 1000

    def __str__(self) -> str:
        return str(self.replica.assignment.topic_partition)


def not_coordinator_error(replica: Replica) -> StaleRouteError:
    """Return the error for a request to a broker that does not lead the partition."""
    leader = replica.state.leader
    known = f"broker {leader} does" if leader not in (NO_LEADER, replica.broker_id) else "none is known"
    return StaleRouteError(
        f"broker {replica.broker_id} does not coordinate {replica.assignment.topic_partition}: {known}",
        code=ErrorCode.NOT_COORDINATOR,
        details={"leader": leader},
    )
