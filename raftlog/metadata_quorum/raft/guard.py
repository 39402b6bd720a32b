"""Makes PySyncObj's core obey Raft: checks and completes every incoming and outgoing message.

The core (0.3.17, unmodified) loses acknowledged commands under ordinary faults. Each check below names the fault that
it prevents; S1-S6 are defined in docs/adr/0004. The rules are those of the Raft paper's figure 2 and of section 9.6 of
Ongaro's thesis (pre-vote).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from raftlog.metadata_quorum.raft.journal import Entry
from raftlog.metadata_quorum.raft.rejoin import Rejoin, Standing

Message = dict[str, Any]


class Core(Protocol):
    """The part of the engine that the guard uses."""

    term: int
    commit_index: int
    last_applied: int
    is_leader: bool
    min_election_timeout_s: float

    def log(self) -> Any: ...

    def now(self) -> float: ...

    def sync(self) -> None: ...

    def receive(self, node: Any, message: Message) -> None:
        """Hand a message to PySyncObj's core."""
        ...

    def transmit(self, node: Any, message: Message) -> bool:
        """Put a message on the wire."""
        ...

    def is_voter(self, node: Any) -> bool: ...

    def fail_forwarded(self, request_id: object) -> None: ...

    def adopt_term(self, term: int) -> None:
        """Become a follower of a later term."""
        ...

    def voters(self) -> list[Any]: ...

    def forfeit_vote(self, term: int) -> None: ...

    def set_standing(self, standing: Standing) -> None: ...

    def on_pre_vote(self, voter: str, term: int) -> None: ...


class Guard:
    """Filters the messages between one core and its transport.

    - Nothing is sent before the journal is synced.
    - A message of an earlier term is never acted upon.
    - A follower acknowledges and commits only entries that the leader's message has proven to match its log.
    - A snapshot replaces a log only if it is ahead of it, complete, and from one leader.
    - A vote counts once per voter and term.
    """

    def __init__(self, core: Core, *, fatal: Callable[[str], None], max_feature_level: int = 0) -> None:
        self._core = core
        self._max_feature_level = max_feature_level
        self.feature_levels: dict[str, int] = {}
        """The highest feature level of each voter, as its last response said; 0: it is of an older version."""
        self.rejoin = Rejoin(core)
        self.catching_up: set[str] = set()
        """Voters that report that they do not vote yet."""
        self._fatal = fatal
        self.last_leader_contact = float("-inf")
        self._sent = 0
        """The number of the last append_entries; responses repeat it."""
        self._answering = 0
        self._reset_floor: dict[str, int] = {}
        self._votes: tuple[int, set[str]] = (0, set())
        self._ack_cap: int | None = None
        self._snapshots_out: dict[str, list[int]] = {}
        self._snapshot_in: tuple[tuple[str, int, int], int] | None = None

    # Outgoing.

    def send(self, node: Any, message: Message) -> bool:
        """Complete one of the core's messages, sync the journal, and send it."""
        kind = message["type"]
        if kind == "apply_command":
            # Commands are not forwarded: a deposed controller's command must not commit under its successor.
            self._core.fail_forwarded(message.get("request_id"))
            return False
        if kind == "next_node_idx":
            self._complete_ack(message)
        if kind == "append_entries":
            self._add_identity(node, message)
        # Terms, votes, entries and acks must be on disk before they are sent.
        self._core.sync()
        return self._core.transmit(node, message)

    def _complete_ack(self, message: Message) -> None:
        core = self._core
        # S2: the core's acks carry no term, so an ack of an earlier term could commit entries of this one.
        message["term"] = core.term
        message["seq"] = self._answering
        message["full"] = self.rejoin.is_full
        message["level"] = self._max_feature_level
        if message["reset"]:
            # Back up to the last entry that surely matches, instead of one entry per round trip.
            common = max(core.commit_index, core.last_applied) + 1
            message["next_node_idx"] = min(message["next_node_idx"], common)
        if self._ack_cap is not None and message["success"]:
            # S1, S3: acknowledge only entries that this message proved to match, not this log's own end.
            message["next_node_idx"] = min(message["next_node_idx"], self._ack_cap)

    def _add_identity(self, node: Any, message: Message) -> None:
        assert "transmission" not in message, "a command is larger than a batch; propose() refuses those"
        self._sent += 1
        message["seq"] = self._sent
        chunk = message.get("serialized")
        if not chunk:
            return
        # S5: the core's snapshot chunks have no identity. Add the snapshot's number, the chunk's number, and the last
        # entry that the snapshot includes.
        if chunk[1]:
            _, index, term = self._core.log()[1]
            self._snapshots_out[node.id] = [self._sent, 0, index, term]
        if (identity := self._snapshots_out.get(node.id)) is not None:
            message["snapshot"] = tuple(identity)
            identity[1] += 1

    # Incoming.

    def receive(self, node: Any, message: Message) -> None:
        """Check one message, and pass to the core what a correct core would act upon."""
        handler = getattr(self, f"_on_{message.get('type')}", None)
        if handler is None or not self._core.is_voter(node) or not self._may_act_on(message["type"]):
            return
        forwarded = handler(node, message)
        if forwarded is None:
            return
        try:
            self._core.receive(node, forwarded)
        finally:
            self._ack_cap = None
        if message["type"] == "append_entries":
            self.rejoin.on_append(message["term"])

    def _may_act_on(self, kind: str) -> bool:
        """Return whether a voter in this standing may act on a kind of message; see `rejoin`."""
        standing = self.rejoin.standing
        if standing is Standing.BLANK:
            return kind in ("status", "status_ok")
        return standing is Standing.FULL or kind not in ("request_vote", "pre_vote")

    def _on_status(self, node: Any, _: Message) -> None:
        self.rejoin.on_status(node)

    def _on_status_ok(self, node: Any, message: Message) -> None:
        self.rejoin.on_status_ok(node, message)

    def _on_request_vote(self, _: Any, message: Message) -> Message:
        return message

    def _on_response_vote(self, node: Any, message: Message) -> Message | None:
        if message["term"] != self._core.term:
            return None  # From an earlier election: the core would drop the votes of this one.
        if self._votes[0] != message["term"]:
            self._votes = (message["term"], set())
        if node.id in self._votes[1]:
            return None  # The core counts responses, not voters: a repeated one would be a second vote.
        self._votes[1].add(node.id)
        return message

    def _on_next_node_idx(self, node: Any, message: Message) -> Message | None:
        if message.get("term") != self._core.term:
            return None  # S2.
        (self.catching_up.discard if message.get("full", True) else self.catching_up.add)(node.id)
        self.feature_levels[node.id] = int(message.get("level", 0))
        if message["reset"]:
            # One reset per probe: otherwise every pipelined batch would cause everything to be sent again.
            if message["seq"] <= self._reset_floor.get(node.id, 0):
                return {**message, "reset": False, "success": False}
            self._reset_floor[node.id] = self._sent
        return message

    def _on_append_entries(self, node: Any, message: Message) -> Message | None:
        core = self._core
        if message["term"] < core.term:
            # The core would not respond, and a deposed leader would keep sending.
            core.transmit(node, {"type": "stale_term", "term": core.term})
            return None
        self.last_leader_contact = core.now()
        self._answering = message.get("seq", 0)
        if "transmission" in message:
            return None
        if "prevLogIdx" in message:
            return self._trim(message)
        # S1: a snapshot message proves nothing about this log, so it must not commit entries of it.
        message = {**message, "commit_index": 0}
        if message.get("serialized") and not self._is_next_chunk(node, message):
            message["serialized"] = None
        return message

    def _on_stale_term(self, _: Any, message: Message) -> None:
        if message["term"] > self._core.term:
            self._core.adopt_term(message["term"])

    def _on_pre_vote(self, node: Any, message: Message) -> None:
        """Grant a pre-vote if there is no live leader and the candidate's log is up to date."""
        core = self._core
        if message["term"] <= core.term:
            # The candidate may be the only one that can win. It needs the current term: no voter votes in a past one.
            core.transmit(node, {"type": "stale_term", "term": core.term})
            return
        last = core.log()[-1]
        up_to_date = (message["last_log_term"], message["last_log_index"]) >= (last[2], last[1])
        leaderless = core.now() - self.last_leader_contact >= core.min_election_timeout_s and not core.is_leader
        if up_to_date and leaderless:
            core.transmit(node, {"type": "pre_vote_ok", "term": message["term"]})

    def _on_pre_vote_ok(self, node: Any, message: Message) -> None:
        self._core.on_pre_vote(node.id, message["term"])

    def _is_next_chunk(self, node: Any, message: Message) -> bool:
        identity = message.get("snapshot")
        if identity is None:
            return False
        number, chunk, index, term = identity
        _, first, last = message["serialized"]
        key = (node.id, message["term"], number)
        if first and self._needs_snapshot(index, term):
            self._snapshot_in = (key, 0)
        if self._snapshot_in != (key, chunk):
            self._snapshot_in = None  # A chunk is missing or from another snapshot: wait for the next first chunk.
            return False
        self._snapshot_in = None if last else (key, chunk + 1)
        return not last or self._needs_snapshot(index, term)

    def _needs_snapshot(self, index: int, term: int) -> bool:
        """Return whether a snapshot up to this entry is ahead of this log.

        The core clears the log for a snapshot. If the log has that entry, later entries may be acknowledged already.
        """
        log = self._core.log()
        at = index - log[0][1]
        if index <= self._core.last_applied or at < 0:
            return False
        return not (at < len(log) and log[at][2] == term)

    def _trim(self, message: Message) -> Message:
        """Remove entries that this log has already: the core would truncate the log before it adds them again (S3)."""
        log, previous = self._core.log(), message["prevLogIdx"]
        entries: list[Entry] = list(message.get("entries") or ())
        first, last = log[0][1], log[-1][1]
        # S1: commit at most up to the last entry of this message; entries after it may be another leader's.
        message = {**message, "entries": entries, "commit_index": min(message["commit_index"], previous + len(entries))}
        if previous < first or previous > last or log[previous - first][2] != message["prevLogTerm"]:
            return message  # The core rejects it, and the leader backs up.
        same = 0
        while same < len(entries) and previous + 1 + same <= last:
            if log[previous + 1 + same - first][2] != entries[same][2]:
                break
            same += 1
        if same == len(entries):
            self._ack_cap = previous + len(entries) + 1
            return {**message, "prevLogIdx": last, "prevLogTerm": log[-1][2], "entries": []}
        at = previous + same
        if at < last and at < self._core.last_applied:
            self._fatal(f"the leader's log contradicts applied entries after index {at}")
            return {**message, "entries": [], "commit_index": 0}
        return {**message, "prevLogIdx": at, "prevLogTerm": log[at - first][2], "entries": entries[same:]}
