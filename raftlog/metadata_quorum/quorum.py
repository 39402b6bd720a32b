"""The adapter to PySyncObj: implements `quorum_interface.Quorum` with raftlog's types and errors."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pysyncobj import FAIL_REASON

from raftlog.config import VoterConfig
from raftlog.errors import ErrorCode, OverloadedError, RaftlogError, StaleRouteError, UnknownOutcomeError
from raftlog.metadata_quorum.quorum_interface import QuorumFiles, QuorumState, StateMachine, VoterRole, VoterState
from raftlog.metadata_quorum.raft.engine import MAX_COMMAND_BYTES, EngineSettings, RaftEngine
from raftlog.metadata_quorum.raft.scrub import JOURNAL, SNAPSHOT, find_corruption
from raftlog.metadata_quorum.raft.transport import QuorumTls, RaftTransport, transport_key
from raftlog.metrics import Histogram
from raftlog.model import Address, ControllerId
from raftlog.runtime import Tasks

_log = logging.getLogger(__name__)
TICK_S = 0.03
"""How often deadlines are looked at: heartbeats are due every 50 ms. Messages and proposals do not wait for it. Each
look costs an idle process 0.4 ms, because its code has left the processor's caches."""
UNREACHABLE_S = 1.0
"""A voter that has not responded for this long; voters respond many times a second."""


def stop_process(reason: str) -> None:
    """Exit at once: continuing could contradict a vote or an acknowledgement that was already sent."""
    _log.critical("the metadata quorum stops this process: %s", reason)
    logging.shutdown()
    os._exit(70)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterSettings:
    """One voter: its identity, its listener and its folder."""

    node_id: ControllerId
    voters: Sequence[VoterConfig]
    """All voters, this one too."""
    listen: Address
    key: bytes = field(repr=False)
    """The secret that all voters share."""
    cluster_id: str
    data_dir: Path
    dial: Mapping[str, str] = field(default_factory=dict)
    """Addresses to dial in place of others."""
    tls: QuorumTls | None = None
    """None: voters talk without TLS."""
    scrub_interval_ms: int = -1
    """How often the journal and the snapshot are read and checked; -1: never."""
    engine: EngineSettings = field(default_factory=EngineSettings)

    @property
    def names(self) -> dict[str, ControllerId]:
        """Return the voters' ids by their Raft addresses, which are their names in PySyncObj."""
        return {str(voter.quorum): voter.node_id for voter in self.voters}


class PySyncObjQuorum:
    """One voter of the metadata quorum; see `quorum_interface.Quorum`."""

    def __init__(
        self, settings: VoterSettings, state_machine: StateMachine, *, fatal: Callable[[str], None] = stop_process
    ) -> None:
        self._settings = settings
        self._node_id = settings.node_id
        self._names = settings.names
        self._name = next(name for name, voter_id in self._names.items() if voter_id == settings.node_id)
        self._machine = state_machine
        self._reported: tuple[ControllerId | None, int] = (None, -1)
        self._proposed: dict[asyncio.Future[int], None] = {}
        self._wire = RaftTransport(
            name=self._name,
            names=list(self._names),
            listen=settings.listen,
            key=transport_key(settings.key, settings.cluster_id),
            dial=settings.dial,
            wake=self._wake,
            tls=settings.tls,
        )
        self._tasks = Tasks(f"quorum voter {settings.node_id}")
        self._fatal = fatal
        self._engine: RaftEngine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tick_due = False
        self._ticked = math.inf
        """When the last tick ended, by the monotonic clock."""

    @property
    def node_id(self) -> ControllerId:
        return self._node_id

    @property
    def leader(self) -> ControllerId | None:
        return self._reported[0]

    async def start(self) -> None:
        """Recover from disk, listen, and join the quorum.

        Raises:
            StorageError: the journal or the snapshot is damaged.
            OSError: the quorum's address is in use.
        """
        self._loop = asyncio.get_running_loop()
        self._engine = RaftEngine(
            name=self._name,
            folder=self._settings.data_dir,
            wire=self._wire,
            state_machine=self._machine,
            now=time.monotonic,
            fatal=self._fatal,
            settings=self._settings.engine,
        )
        await self._wire.start()
        self._on_timer()
        if self._settings.scrub_interval_ms >= 0:
            self._tasks.keep(self._scrub, name="quorum scrubber")

    async def close(self) -> None:
        """Leave the quorum; the outcome of pending proposals is unknown."""
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()
        engine, self._engine = self._engine, None
        await self._wire.close()
        if engine is not None:
            engine.stop()

    async def _scrub(self) -> None:
        """Check this voter's files periodically; rewrite damaged ones from memory."""
        while True:
            await asyncio.sleep(self._settings.scrub_interval_ms / 1000)
            if not await asyncio.to_thread(find_corruption, self._settings.data_dir) or self._engine is None:
                continue
            corruption = self._engine.repair_files()
            for problem in filter(None, (corruption.journal, corruption.snapshot)):
                _log.error("a quorum file was damaged on disk, and was rewritten from memory: %s", problem)

    def status(self) -> QuorumState:
        """See `quorum_interface.Quorum.status`."""
        engine = self._engine
        assert engine is not None, "the quorum is closed"
        end, now = engine.log()[-1][1] + 1, time.monotonic()
        states = [
            VoterState(
                node_id=self._names[name],
                role=self._role(engine, name, now - last_response),
                log_end_offset=index + 1,
                last_heard_ms=-1 if last_response < 0 else int((now - last_response) * 1000),
                # A voter that is silent may have been replaced by an older version since.
                max_feature_level=engine.feature_levels.get(name, 0) if now - last_response <= UNREACHABLE_S else 0,
            )
            for name, (index, last_response) in engine.voter_states().items()
        ]
        own = VoterState(
            node_id=self._node_id,
            role="leader" if self.leader == self._node_id else "follower",
            log_end_offset=end,
            last_heard_ms=0,
            max_feature_level=self._settings.engine.max_feature_level,
        )
        voters = tuple(sorted([own, *states], key=lambda state: state.node_id))
        return QuorumState(term=engine.term, log_end_offset=end, committed_offset=engine.commit_index, voters=voters)

    @property
    def journal_syncs(self) -> Histogram:
        assert self._engine is not None, "the quorum is closed"
        return self._engine.log().syncs

    def files(self) -> QuorumFiles:
        """See `quorum_interface.Quorum.files`."""
        folder = self._settings.data_dir
        journal_bytes = (folder / JOURNAL).stat().st_size
        try:
            snapshot = (folder / SNAPSHOT).stat()
        except FileNotFoundError:
            return QuorumFiles(journal_bytes=journal_bytes)
        return QuorumFiles(
            journal_bytes=journal_bytes, snapshot_bytes=snapshot.st_size, snapshot_written_s=snapshot.st_mtime
        )

    def _role(self, engine: RaftEngine, name: str, silent_s: float) -> VoterRole:
        if silent_s > UNREACHABLE_S:
            return "unreachable"
        return "catching up" if name in engine.catching_up else "follower"

    async def propose(self, payload: bytes, *, timeout_ms: int) -> int:
        """Commit an entry; return its index once it is applied here. See `quorum_interface.Quorum.propose`."""
        engine = self._engine
        if engine is None or self.leader != self._node_id:
            raise StaleRouteError(f"controller {self._node_id} does not lead the quorum", code=ErrorCode.NOT_CONTROLLER)
        if len(payload) > MAX_COMMAND_BYTES:
            raise RaftlogError(f"a command has at most {MAX_COMMAND_BYTES} bytes, received {len(payload)}")
        outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._proposed[outcome] = None
        expiry = outcome.get_loop().call_later(timeout_ms / 1000, _time_out, outcome, timeout_ms)
        engine.propose(payload, lambda index, reason: _settle(outcome, index, reason))
        self._wake()
        try:
            return await outcome
        finally:
            expiry.cancel()
            del self._proposed[outcome]

    def _wake(self) -> None:
        if not self._tick_due and self._loop is not None:
            self._tick_due = True
            self._loop.call_soon(self._tick)

    def _on_timer(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(TICK_S, self._on_timer)
        self._tick()

    def _tick(self) -> None:
        self._tick_due = False
        if self._engine is None:
            return
        self._engine.extend_deadlines(time.monotonic() - self._ticked - TICK_S)
        self._engine.tick()
        self._ticked = time.monotonic()
        self._report_leader(self._engine)

    def _report_leader(self, engine: RaftEngine) -> None:
        """Report the leader to the state machine, also when this node is elected again in a later term."""
        name = engine.leader_name
        leader = None if name is None else self._names.get(name)
        now: tuple[Any, int] = (leader, engine.term if leader == self._node_id else -1)
        if now != self._reported:
            self._reported = now
            if leader != self._node_id:
                self._fail_proposals()
            self._machine.leadership_changed(leader)

    def _fail_proposals(self) -> None:
        """Fail the pending proposals, so that the requests queued behind them can go to the new leader."""
        for outcome in self._proposed:
            if not outcome.done():
                outcome.set_exception(
                    UnknownOutcomeError("this controller was replaced; the request may take effect later")
                )


def _time_out(outcome: asyncio.Future[int], timeout_ms: int) -> None:
    if not outcome.done():
        outcome.set_exception(
            UnknownOutcomeError(f"not committed within {timeout_ms} ms; the request may take effect later")
        )


def _settle(outcome: asyncio.Future[int], index: int | None, reason: int) -> None:
    if outcome.done():
        return
    if reason == FAIL_REASON.SUCCESS:
        assert index is not None
        outcome.set_result(index)
    elif reason == FAIL_REASON.QUEUE_FULL:
        outcome.set_exception(OverloadedError("too many proposals are waiting; nothing was done"))
    elif reason in (FAIL_REASON.NOT_LEADER, FAIL_REASON.MISSING_LEADER, FAIL_REASON.DISCARDED):
        # Discarded: another leader's entry was committed at this index, so this proposal never will be.
        outcome.set_exception(
            StaleRouteError(
                "this controller no longer leads the quorum; nothing was done", code=ErrorCode.NOT_CONTROLLER
            )
        )
    else:
        outcome.set_exception(UnknownOutcomeError(f"the outcome of a proposal is unknown (reason {reason})"))
