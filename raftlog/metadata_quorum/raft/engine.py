"""PySyncObj's core with our guard, journal, snapshots and transport. No thread, no fork, no pickle.

It uses private, name-mangled attributes of the core. So the version is pinned exactly, and the fuzzer runs with the
tests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pysyncobj.pickle
import pysyncobj.syncobj as core_module
from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf
from pysyncobj.journal import Journal
from pysyncobj.node import Node

from raftlog.errors import StorageError
from raftlog.metadata_quorum.quorum_interface import StateMachine
from raftlog.metadata_quorum.raft.codec import MessageFormatError
from raftlog.metadata_quorum.raft.frames import REMEDY
from raftlog.metadata_quorum.raft.guard import Guard, Message
from raftlog.metadata_quorum.raft.journal import RaftJournal, fsync_folder, unfinished_journal
from raftlog.metadata_quorum.raft.rejoin import Standing
from raftlog.metadata_quorum.raft.scrub import JOURNAL, SNAPSHOT, Corruption, find_corruption
from raftlog.metadata_quorum.raft.snapshots import Snapshots, require_valid_snapshot, unfinished_snapshot

_log = logging.getLogger(__name__)
BATCH_BYTES = 1 << 20
MAX_COMMAND_BYTES = 512 << 10
QUEUE_SIZE = 10_000
_REGULAR = b"\x00"
_LEADER = 2
_FOLLOWER = 0
_PRE_VOTE_RETRY_S = 0.002
_FORFEITED_VOTE = "?"
"""Placeholder for a vote whose recipient is unknown: the voter must not vote in that term."""
_LONG_PAUSE_S = 0.05
_MAX_JOURNAL_BYTES = 16 << 20
"""A larger journal causes a snapshot before there are many entries: entries after a snapshot are in memory."""


class _NoPickle:
    """Replaces pickle in the core. The core does not use it on our paths; any other use raises."""

    def __getattr__(self, name: str) -> Any:
        raise MessageFormatError(f"the metadata quorum neither reads nor writes pickles (pickle.{name})")


pysyncobj.pickle.pickle = _NoPickle()
_stock_create_journal = core_module.createJournal
core_module.createJournal = lambda file: file if isinstance(file, Journal) else _stock_create_journal(file)


class GuardedWire:
    """The transport given to the core: passes messages through the guard, in both directions."""

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


def _open_journal(folder: Path) -> RaftJournal:
    """Open a voter's journal, if journal and snapshot are intact and leave no gap.

    Raises:
        StorageError: one of them is damaged, or entries between them are missing.
    """
    for unfinished in (unfinished_snapshot(folder / SNAPSHOT), unfinished_journal(folder / JOURNAL)):
        unfinished.unlink(missing_ok=True)  # Of a process that ended while it wrote: it may fill the disk.
    needed = require_valid_snapshot(folder / SNAPSHOT)
    journal = RaftJournal(folder / JOURNAL)
    first = journal[0][1] if len(journal) else needed
    if first > needed:
        journal.abandon()
        raise StorageError(f"{folder}: the journal starts at {first}, and no snapshot has the entries before. {REMEDY}")
    return journal


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Times and sizes of one voter's Raft."""

    election_timeout_s: tuple[float, float] = (0.35, 0.7)
    """A follower that hears no leader for a random time in this range stands for election."""
    leader_fallback_s: float = 0.7
    """A leader that hears no majority for this long resigns. Followers may wait as long before they stand for election:
    a leader that resigned earlier would only leave the cluster without one."""
    batch_bytes: int = BATCH_BYTES
    """The most bytes of entries in one message."""
    snapshot_min_entries: int = 20_000
    """A snapshot replaces at least this many entries of the journal."""
    max_feature_level: int = 0
    """What this voter's version supports, as it tells leaders."""


class RaftEngine(SyncObj):  # type: ignore[misc]
    """One voter.

    - A message leaves only after everything that it acknowledges or votes for is on disk (`Guard.send`).
    - A failed write or sync of the journal stops the process.
    - An entry is applied once after each start or snapshot; a state machine that fails stops the process.

    Args:
        wire: a `RaftTransport`, or the simulator's.
        now: the clock, which the core reads too.
        fatal: called with a reason when the process must stop; it does not return in production.
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
        settings: EngineSettings,
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # It holds the verifiers of passwords.
        fsync_folder(folder.parent)  # Otherwise a power failure could remove the folder with the journal.
        self._machine = state_machine
        self._fatal = fatal
        self._now = now
        self._folder = folder
        self._journal = _open_journal(folder)
        self._wire = wire
        self._guard: Guard | None = None
        self._pre_votes: tuple[int, set[str], float] | None = None
        self._last_sent: tuple[int, int] = (0, 0)
        self._extended_contact: float | None = None
        """The leader's last contact, if it was extended already."""
        self._extended_responses: dict[Node, float] = {}
        """Of each other voter: its last response, if it was extended already."""
        guarded = GuardedWire(wire)
        conf = SyncObjConf(
            autoTick=False,
            appendEntriesUseBatch=True,
            appendEntriesBatchSizeBytes=settings.batch_bytes,
            appendEntriesPeriod=0.05,
            raftMinTimeout=settings.election_timeout_s[0],
            raftMaxTimeout=settings.election_timeout_s[1],
            leaderFallbackTimeout=settings.leader_fallback_s,
            connectionTimeout=max(1.0, settings.election_timeout_s[1]),
            commandsQueueSize=QUEUE_SIZE,
            commandsWaitLeader=False,
            dynamicMembershipChange=False,
            useFork=False,
            journalFile=self._journal,
            fullDumpFile=str(folder / SNAPSHOT),
            logCompactionMinEntries=settings.snapshot_min_entries,
            logCompactionMinTime=10**9,
        )
        super().__init__(Node(name), wire.nodes, conf, transport=guarded, nodeClass=Node)
        self._SyncObj__serializer = Snapshots(
            folder / SNAPSHOT, machine=state_machine, journal=self._journal, fatal=fatal, take_new=self._take_snapshot
        )
        self._deliver = guarded.deliver
        self._guard = guarded.guard = Guard(self, fatal=fatal, max_feature_level=settings.max_feature_level)

    # The port `guard.Core`.

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
        """Stop the process on a disk error: after a failed fsync it is unknown what is on disk.

        The core also writes during changes of state. If it continued after an error there, a leader of one term could
        act as leader of the next without votes.
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
            self._SyncObj__setCurrentTerm(term, _FORFEITED_VOTE)
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

    # For `quorum`.

    @property
    def leader_name(self) -> str | None:
        """The leader's name; this voter's own only after its term's no-op is applied (S6)."""
        if self.is_leader:
            noop = self._SyncObj__noopIDx
            return str(self.selfNode.id) if noop is not None and self.last_applied >= noop else None
        leader = self._getLeader()
        return None if leader is None or leader == self.selfNode else str(leader.id)

    def voter_states(self) -> dict[str, tuple[int, float]]:
        """Return each other voter's last acknowledged index and the time of its last response. For leaders only."""
        last_response = self._SyncObj__lastResponseTime
        return {
            str(node.id): (
                int(self._SyncObj__raftMatchIndex.get(node, 0)),
                float(last_response.get(node, float("-inf"))),
            )
            for node in self.voters()
        }

    @property
    def catching_up(self) -> set[str]:
        """The voters that do not vote yet, because they started without a journal."""
        return self._guard.catching_up if self._guard is not None else set()

    @property
    def feature_levels(self) -> dict[str, int]:
        """The highest feature level of each voter that has responded to this one."""
        return self._guard.feature_levels if self._guard is not None else {}

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
        """Advance elections, heartbeats, commits and applying. Cheap when idle."""
        assert self._guard is not None
        started = self._now()
        with self._stopping_on_disk_errors():
            self._guard.rejoin.tick()
            self.doTick(0.0)
            self.extend_deadlines(self._now() - started)
            if self._journal.size > _MAX_JOURNAL_BYTES:
                self.forceLogCompaction()
        if self.is_leader:
            # Group commit: one fsync and one message to each follower for all commands since the last tick.
            state = (self._journal[-1][1], self.commit_index)
            if state != self._last_sent:
                self._last_sent = state
                self.sync()
                self._SyncObj__sendAppendEntries()

    def extend_deadlines(self, pause_s: float) -> None:
        """Extend deadlines by a time in which this voter could read no message, unless it was short.

        It applied a large decision, waited for its disk, or its process or machine was paused. What the other voters
        sent meanwhile waits in the sockets, and the core checks its deadlines before it reads that. Each deadline is
        extended once after each message: a voter that pauses again and again still stands for election, and resigns.
        """
        if pause_s < _LONG_PAUSE_S:
            return
        guard, last_response, now = self._guard, self._SyncObj__lastResponseTime, self._now()
        assert guard is not None
        if guard.last_leader_contact != self._extended_contact:
            guard.last_leader_contact = self._extended_contact = min(guard.last_leader_contact + pause_s, now)
            deadline = self._SyncObj__raftElectionDeadline
            latest = max(deadline, now + self.conf.raftMaxTimeout)
            self._SyncObj__raftElectionDeadline = min(deadline + pause_s, latest)
        for node, heard in last_response.items():
            if heard != self._extended_responses.get(node):
                last_response[node] = self._extended_responses[node] = min(heard + pause_s, now)

    def repair_files(self) -> Corruption:
        """Check the files again, and rewrite damaged ones from memory; return what was damaged."""
        corruption = find_corruption(self._folder)
        if corruption.journal:
            with self._stopping_on_disk_errors():
                self._journal.rewrite()
        if corruption.snapshot:
            self._take_snapshot()
        return corruption

    def _take_snapshot(self) -> None:
        applied = self._SyncObj__getEntries(self.last_applied - 1, 2)
        if len(applied) == 2:  # As after any snapshot: the core keeps both, and polls for this one in its next tick.
            self._SyncObj__serializer.serialize((None, applied[1], applied[0], None), applied[0][1])

    def stop(self) -> None:
        """Close the files; the caller owns the wire."""
        self._journal.close()

    # Overridden methods of the core.

    def _onTick(self, timeToWait: float = 0.0) -> None:  # noqa: N802, N803
        self._pre_vote_gate()
        super()._onTick(timeToWait)

    def _pre_vote_gate(self) -> None:
        """Delay an election until a majority grants pre-votes, so that a partitioned voter does not disturb the leader.

        Ongaro's thesis, section 9.6.
        """
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
            return  # The core starts the election now.
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
        """Apply one entry. Overrides the core's method, which would unpickle it."""
        index = self.last_applied + 1
        if command[:1] == _REGULAR:
            try:
                self._machine.apply(index, bytes(command[1:]))
            except Exception as error:  # noqa: BLE001  (D2: the core would apply it again and again)
                _log.critical("applying entry %d failed", index, exc_info=error)
                self._fatal(f"the state machine failed at entry {index}: {error!r}")
        return index
