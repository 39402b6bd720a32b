"""The checks: the promises of Raft, and of our engine, over a whole history."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from raftlog.metadata_quorum.raft.codec import decode, encode
from raftlog.metadata_quorum.raft.engine import RaftEngine
from raftlog.metadata_quorum.raft.journal import Entry, RaftJournal


class SafetyViolationError(Exception):
    """A promise was broken."""


class Promises:
    """Everything that voters and proposers have seen, which later events must not contradict."""

    def __init__(self) -> None:
        self.agreed: dict[int, bytes] = {}
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        """By payload, the index and the term of the success that its proposer got."""
        self.leaders: dict[int, str] = {}
        self.announced: set[int] = set()
        self.forgotten: dict[str, list[list[Entry]]] = {}
        """By voter, the logs on disks that were replaced: a leader may still count that voter's acknowledgements."""
        self.broken: str | None = None
        """The first violation: the core swallows exceptions in some places."""

    def fail(self, reason: str) -> None:
        self.broken = self.broken or reason
        raise SafetyViolationError(self.broken)

    def agree(self, name: str, index: int, payload: bytes) -> None:
        """State machine safety: every voter applies the same payload at an index."""
        known = self.agreed.setdefault(index, payload)
        if known != payload:
            self.fail(f"{name} applied {payload!r} at {index}, another voter {known!r}")

    def acknowledge(
        self, machine: Machine, payload: bytes, index: int, term: int, engines: dict[str, RaftEngine], voters: int
    ) -> None:
        """Check a success: the entry was applied here, at that index, once, and a majority has it.

        Stopped voters count too. A voter whose disk was replaced had the entry if that disk had it; the majority may
        include one such voter.
        """
        if not machine.entries or machine.entries[-1] != (index, payload):
            self.fail(f"{machine.name} acknowledged {payload!r} at {index}, and applied {machine.entries[-1:]} there")
        if payload in self.acknowledged:
            self.fail(f"{payload!r} was acknowledged at {self.acknowledged[payload][0]} and at {index}")
        self.acknowledged[payload] = (index, term)
        logs = {name: [engine.log(), *self.forgotten.get(name, ())] for name, engine in engines.items()}
        without = [name for name in sorted(logs) if not any(_holds(log, index, payload) for log in logs[name])]
        if voters - len(without) <= voters // 2:
            self.fail(f"{machine.name} acknowledged {payload!r} at {index}, which {', '.join(without)} do not hold")

    def forgets(self, name: str, log: list[Entry]) -> None:
        """Record the content of a disk that is replaced."""
        self.forgotten.setdefault(name, []).append(log)

    def remembers(self, name: str, log: list[Entry]) -> None:
        """A full voter has again the entries of its earlier disk; from now on it counts like any other."""
        for lost in self.forgotten.pop(name, ()):
            for payload, (index, _) in self.acknowledged.items():
                if _holds(lost, index, payload) and not _holds(log, index, payload):
                    self.fail(f"{name} is full again, and lacks acknowledged {payload!r} at {index}, which it forgot")

    def watch(self, name: str, engine: RaftEngine, machine: Machine) -> bool:
        """Check a voter that may lead; return whether its leadership is new."""
        if not engine.is_leader:
            return False
        term = engine.term
        new = term not in self.leaders
        if self.leaders.setdefault(term, name) != name:
            self.fail(f"{name} and {self.leaders[term]} both lead in term {term}")
        if term not in self.announced and engine.leader_name == name:
            self.announced.add(term)
            applied = dict(machine.entries)
            for payload, (index, acknowledged_in) in self.acknowledged.items():
                if acknowledged_in < term and applied.get(index) != payload:
                    self.fail(f"{name} says that it leads in term {term}, and has not applied {payload!r} at {index}")
        return new

    def logs_match(self, engines: dict[str, RaftEngine]) -> None:
        """Log matching: where two logs agree on a term, they agree on everything before."""
        for one, other in combinations(sorted(engines), 2):
            mine, theirs = ({entry[1]: entry for entry in engines[name].log()[:]} for name in (one, other))
            common = sorted(mine.keys() & theirs.keys())
            last = next((index for index in reversed(common) if mine[index][2] == theirs[index][2]), 0)
            for index in common:
                if index <= last and mine[index] != theirs[index]:
                    self.fail(f"the logs of {one} and {other} agree at {last}, and differ at {index}")

    def kept_everywhere(self, machines: dict[str, Machine]) -> None:
        """Every acknowledged entry is applied by every voter, at its index."""
        for name, machine in machines.items():
            applied = dict(machine.entries)
            for payload, (index, _) in self.acknowledged.items():
                if applied.get(index) != payload:
                    self.fail(f"{name} lacks acknowledged {payload!r} at {index}")


def _holds(log: RaftJournal | list[Entry], index: int, payload: bytes) -> bool:
    at = index - log[0][1]
    return bool(at < 0 or (at < len(log) and log[at][0][1:] == payload))


class Machine:
    """One voter's state machine: the entries applied since its process began."""

    def __init__(self, promises: Promises, name: str) -> None:
        self.name = name
        self.entries: list[tuple[int, bytes]] = []
        self._promises = promises

    def apply(self, index: int, payload: bytes) -> None:
        if self.entries and index <= self.entries[-1][0]:
            self._promises.fail(f"{self.name} applied {index} after {self.entries[-1][0]}")
        self.entries.append((index, payload))
        self._promises.agree(self.name, index, payload)

    def take_snapshot(self) -> bytes:
        return encode(tuple(self.entries))

    def load_snapshot(self, index: int, data: bytes) -> None:
        if self.entries and index < self.entries[-1][0]:
            self._promises.fail(f"{self.name} went back from {self.entries[-1][0]} to a snapshot of {index}")
        entries: list[Any] = [tuple(entry) for entry in decode(data)]
        if entries and entries[-1][0] > index:
            self._promises.fail(f"{self.name} loaded a snapshot of {index} that holds {entries[-1][0]}")
        for entry_index, payload in entries:
            self._promises.agree(self.name, entry_index, payload)
        self.entries = entries

    def leadership_changed(self, leader: int | None) -> None:
        """Do nothing: the world queries the engines."""
