"""PySyncObj's core with our guard, journal, snapshots and transport; one event loop, no thread, no fork, no pickle.

It reaches into the core by name-mangled names, so the version is pinned exactly, and the fuzzer runs with the tests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pysyncobj.pickle
import pysyncobj.syncobj as core_module
from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf
from pysyncobj.journal import Journal
from pysyncobj.node import Node

from raftlog.errors import StorageError
from raftlog.metadata_quorum.raft.codec import MessageFormatError
from raftlog.metadata_quorum.raft.frames import DUTY
from raftlog.metadata_quorum.raft.guard import Guard, Message
from raftlog.metadata_quorum.raft.journal import RaftJournal, fsync_folder
from raftlog.metadata_quorum.raft.rejoin import Standing
from raftlog.metadata_quorum.raft.scrub import JOURNAL, SNAPSHOT, Rot, find_rot
from raftlog.metadata_quorum.raft.snapshots import Snapshots, require_sound_snapshot
from raftlog.metadata_quorum.seam import StateMachine

_log = logging.getLogger(__name__)
BATCH_BYTES = 1 << 20
MAX_COMMAND_BYTES = 512 << 10
QUEUE_SIZE = 10_000
_REGULAR = b"\x00"
_LEADER = 2
_FOLLOWER = 0
_PRE_VOTE_RETRY_S = 0.002
_NO_VOTE_LEFT = "?"
"""Stands for a vote that was given to somebody, perhaps."""
_LONG_TICK_S = 0.05
_MAX_JOURNAL_BYTES = 16 << 20
"""Large commands make a snapshot worth while before there are many: all entries after it are in memory."""


class _NoPickle:
    """Stands where the core looks for pickle. None of its paths there is used; whoever finds another builds nothing."""

    def __getattr__(self, name: str) -> Any:
        raise MessageFormatError(f"the metadata quorum neither reads nor writes pickles (pickle.{name})")


pysyncobj.pickle.pickle = _NoPickle()
_stock_create_journal = core_module.createJournal
core_module.createJournal = lambda file: file if isinstance(file, Journal) else _stock_create_journal(file)


class GuardedWire:
    """What the core takes for its transport: the guard stands before the real one."""

    def __init__(self, wire: Any) -> None:
        self._wire = wire
        self.guard: Guard | None = None
        self.deliver: Callable[[Node, Message], None] | None = None

    def send(self, node: Node, message: Message) -> bool:
        assert self.guard is not None
        return self.guard.send(node, message)

    def setOnMessageReceivedCallback(self, callback: Callable[[Node, Message], None] | None) -> None:  # noqa: N802
        self.deliver = callback
        self._wire.setOnMessageReceivedCallback(None if callback is None else self._received)

    def _received(self, node: Node, message: Message) -> None:
        if self.guard is not None and isinstance(message, dict):
            self.guard.receive(node, message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wire, name)


def _sound_journal(folder: Path) -> RaftJournal:
    """Open a voter's journal, if it and the snapshot are sound, and fit each other.

    Raises:
        StorageError: one of them is damaged, or something is missing between them.
    """
    needed = require_sound_snapshot(folder / SNAPSHOT)
    journal = RaftJournal(folder / JOURNAL)
    first = journal[0][1] if len(journal) else needed
    if first > needed:
        journal.abandon()
        raise StorageError(f"{folder}: its journal starts at {first}, and no snapshot holds what was before. {DUTY}")
    return journal


class RaftEngine(SyncObj):  # type: ignore[misc]
    """One voter.

    Args:
        wire: a `RaftTransport`, or the simulator's.
        now: the clock that the core reads too.
        fatal: called with a reason when the process must not go on; it does not return in production.
    """

    def __init__(
        self,
        *,
        name: str,
        folder: Path,
        wire: Any,
        state_machine: StateMachine,
        now: Callable[[], float],
        fatal: Callable[[str], None],
        election_timeout_s: tuple[float, float] = (0.35, 0.7),
        snapshot_min_entries: int = 20_000,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        fsync_folder(folder.parent)  # A journal in a folder that a loss of power takes away is no journal.
        self._machine = state_machine
        self._fatal = fatal
        self._now = now
        self._folder = folder
        self._journal = _sound_journal(folder)
        self._wire = wire
        self._guard: Guard | None = None
        self._pre_votes: tuple[int, set[str], float] | None = None
        self._announced: tuple[int, int] = (0, 0)
        guarded = GuardedWire(wire)
        conf = SyncObjConf(
            autoTick=False,
            appendEntriesUseBatch=True,
            appendEntriesBatchSizeBytes=BATCH_BYTES,
            appendEntriesPeriod=0.05,
            raftMinTimeout=election_timeout_s[0],
            raftMaxTimeout=election_timeout_s[1],
            leaderFallbackTimeout=election_timeout_s[0],
            connectionTimeout=1.0,
            commandsQueueSize=QUEUE_SIZE,
            commandsWaitLeader=False,
            dynamicMembershipChange=False,
            useFork=False,
            journalFile=self._journal,
            fullDumpFile=str(folder / SNAPSHOT),
            logCompactionMinEntries=snapshot_min_entries,
            logCompactionMinTime=10**9,
        )
        super().__init__(Node(name), wire.nodes, conf, transport=guarded, nodeClass=Node)
        self._SyncObj__serializer = Snapshots(
            folder / SNAPSHOT, machine=state_machine, journal=self._journal, fatal=fatal, renew=self._take_snapshot
        )
        self._deliver = guarded.deliver
        self._guard = guarded.guard = Guard(self, fatal=fatal)

    # What the guard sees.

    @property
    def term(self) -> int:
        return int(self.raftCurrentTerm)

    @property
    def commit_index(self) -> int:
        return int(self.raftCommitIndex)

    @property
    def last_applied(self) -> int:
        return int(self.raftLastApplied)

    @property
    def is_leader(self) -> bool:
        return bool(self._isLeader())

    @property
    def min_election_timeout_s(self) -> float:
        return float(self.conf.raftMinTimeout)

    def log(self) -> RaftJournal:
        return self._journal

    def now(self) -> float:
        return self._now()

    def sync(self) -> None:
        """Make the journal durable."""
        with self._stopping_on_disk_errors():
            self._journal.sync()

    @contextmanager
    def _stopping_on_disk_errors(self) -> Iterator[None]:
        """After a failed fsync nobody knows what is on disk, so the process stops.

        The core writes too, in the middle of a change of state: after an error there, a leader of one term would go on
        as leader of the next, for which it has no votes.
        """
        try:
            yield
        except OSError as error:
            self._fatal(f"cannot write the Raft journal: {error}")

    def receive(self, node: Node, message: Message) -> None:
        assert self._deliver is not None
        with self._stopping_on_disk_errors():
            self._deliver(node, message)

    def transmit(self, node: Node, message: Message) -> bool:
        return bool(self._wire.send(node, message))

    def is_voter(self, node: Node) -> bool:
        return node in self._SyncObj__otherNodes

    def fail_forwarded(self, request_id: object) -> None:
        callback = self._SyncObj__commandsWaitingReply.pop(request_id, None)
        if callback is not None:
            callback(None, FAIL_REASON.NOT_LEADER)

    def adopt_term(self, term: int) -> None:
        with self._stopping_on_disk_errors():
            self._SyncObj__setCurrentTerm(term, None)
        self._SyncObj__setState(_FOLLOWER)
        self._SyncObj__raftLeader = None

    def forfeit_vote(self, term: int) -> None:
        with self._stopping_on_disk_errors():
            self._SyncObj__setCurrentTerm(term, _NO_VOTE_LEFT)
        self._SyncObj__setState(_FOLLOWER)
        self._SyncObj__raftLeader = None

    def set_standing(self, standing: Standing) -> None:
        with self._stopping_on_disk_errors():
            self._journal.set_standing(standing)

    def voters(self) -> list[Node]:
        return sorted(self._SyncObj__otherNodes, key=lambda node: str(node.id))

    def on_pre_vote(self, voter: str, term: int) -> None:
        if self._pre_votes is not None and self._pre_votes[0] == term:
            self._pre_votes[1].add(voter)
            if self._has_majority(self._pre_votes[1]):
                self._SyncObj__raftElectionDeadline = 0

    # What the seam asks.

    @property
    def leader_name(self) -> str | None:
        """Who leads: this voter only once its own term's no-op is applied (S6)."""
        if self.is_leader:
            noop = self._SyncObj__noopIDx
            return str(self.selfNode.id) if noop is not None and self.last_applied >= noop else None
        leader = self._getLeader()
        return None if leader is None or leader == self.selfNode else str(leader.id)

    def voter_states(self) -> dict[str, tuple[int, float]]:
        """Return of every other voter the last index that it holds, and when it was heard; only a leader knows."""
        heard = self._SyncObj__lastResponseTime
        return {
            str(node.id): (int(self._SyncObj__raftMatchIndex.get(node, 0)), float(heard.get(node, float("-inf"))))
            for node in self.voters()
        }

    @property
    def catching_up(self) -> set[str]:
        """Voters that do not vote yet, because they started without a journal."""
        return self._guard.catching_up if self._guard is not None else set()

    def propose(self, payload: bytes, callback: Callable[[int | None, int], None]) -> None:
        """Append a command; `callback(index, FAIL_REASON.SUCCESS)` once it is committed and applied."""
        assert len(payload) <= MAX_COMMAND_BYTES

        def settled(index: int | None, reason: int) -> None:
            try:
                callback(index, reason)
            except Exception:  # noqa: BLE001  (D1: the core would apply the entry again)
                _log.critical("a proposal's callback failed", exc_info=True)

        self._applyCommand(_REGULAR + payload, settled)

    def tick(self) -> None:
        """Let time pass: elections, heartbeats, commits, applying. Cheap when there is nothing to do."""
        assert self._guard is not None
        started = self._now()
        with self._stopping_on_disk_errors():
            self._guard.rejoin.tick()
            self.doTick(0.0)
            self._forgive(self._now() - started)
            if self._journal.size > _MAX_JOURNAL_BYTES:
                self.forceLogCompaction()
        if self.is_leader:
            # Group commit: all commands since the last tick are one fsync and one message to each follower.
            state = (self._journal[-1][1], self.commit_index)
            if state != self._announced:
                self._announced = state
                self.sync()
                self._SyncObj__sendAppendEntries()

    def _forgive(self, busy_s: float) -> None:
        """Do not take for silence what this voter could not hear while it applied a large decision.

        What came meanwhile waits in its sockets, and the core looks at its deadlines first.
        """
        if busy_s < _LONG_TICK_S:
            return
        assert self._guard is not None
        self._SyncObj__raftElectionDeadline += busy_s  # type: ignore[assignment]
        self._guard.last_heard_of_leader += busy_s
        heard = self._SyncObj__lastResponseTime
        for node in heard:
            heard[node] += busy_s

    def mend(self) -> Rot:
        """Look at the files once more, and write anew what has rotted; return what had."""
        rot = find_rot(self._folder)
        if rot.journal:
            with self._stopping_on_disk_errors():
                self._journal.write_anew()
        if rot.snapshot:
            self._take_snapshot()
        return rot

    def _take_snapshot(self) -> None:
        applied = self._SyncObj__getEntries(self.last_applied - 1, 2)
        if len(applied) == 2:  # As after any snapshot: the core keeps both, and learns of this one in its next tick.
            self._SyncObj__serializer.serialize((None, applied[1], applied[0], None), applied[0][1])

    def stop(self) -> None:
        """Release files; the wire is its owner's."""
        self._journal.close()

    # What the core asks.

    def _onTick(self, timeToWait: float = 0.0) -> None:  # noqa: N802, N803
        self._pre_vote_gate()
        super()._onTick(timeToWait)

    def _pre_vote_gate(self) -> None:
        """Hold an election back until a majority says that it would vote: a voter that was cut off disturbs nobody."""
        now = self._now()
        if self._SyncObj__raftState == _LEADER or self._SyncObj__raftElectionDeadline >= now:
            return
        others = self._SyncObj__otherNodes
        if self._guard is None:
            return
        if not self._guard.rejoin.is_full:
            self._SyncObj__raftElectionDeadline = now + self.min_election_timeout_s  # type: ignore[assignment]
            return
        if not others:
            return
        term = self.term + 1
        if self._pre_votes is not None and self._pre_votes[0] == term and self._has_majority(self._pre_votes[1]):
            self._pre_votes = None
            return  # The core runs the election now.
        if self._pre_votes is None or self._pre_votes[0] != term or now > self._pre_votes[2]:
            self._pre_votes = (term, set(), now + self.min_election_timeout_s / 2)
            self._SyncObj__raftLeader = None
            last = self._journal[-1]
            question = {"type": "pre_vote", "term": term, "last_log_index": last[1], "last_log_term": last[2]}
            for node in others:
                self.transmit(node, dict(question))
        self._SyncObj__raftElectionDeadline = now + _PRE_VOTE_RETRY_S  # type: ignore[assignment]

    def _has_majority(self, others: set[str]) -> bool:
        voters = len(self._SyncObj__otherNodes) + 1
        return len(others) + 1 > voters // 2

    def _SyncObj__doApplyCommand(self, command: bytes) -> int:  # noqa: N802
        """Apply one entry, instead of the core, which would unpickle it."""
        index = self.last_applied + 1
        if command[:1] == _REGULAR:
            try:
                self._machine.apply(index, bytes(command[1:]))
            except Exception as error:  # noqa: BLE001  (D2: the core would apply it again, for ever)
                _log.critical("applying entry %d failed", index, exc_info=error)
                self._fatal(f"the state machine failed at entry {index}: {error!r}")
        return index
