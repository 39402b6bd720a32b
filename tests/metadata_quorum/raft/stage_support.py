"""A stage for scripted schedules: voters of the stock PySyncObj core, or of our engine, and a network moved by hand.

Nothing happens by itself: the script decides which voters tick, which one is elected, and which messages arrive, are
held or are lost.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from raftlog.metadata_quorum.raft.codec import decode, encode
from raftlog.metadata_quorum.raft.engine import EngineSettings, RaftEngine
from raftlog.metadata_quorum.raft.rejoin import Standing

NEVER = 1e12
CHUNK_BYTES = 64
MIN_TIMEOUT_S, MAX_TIMEOUT_S = 0.4, 0.5
Apply = Callable[[int, bytes], None]


class StoppedError(BaseException):
    """A voter stopped its own process, with a reason. No handler for ordinary errors may swallow it."""


class OrderedNode(Node):  # type: ignore[misc]
    """A node whose position in the core's sets is the same in each process."""

    def __hash__(self) -> int:
        return int.from_bytes(self.id.encode(), "big")


class HandTransport(Transport):  # type: ignore[misc]
    """PySyncObj's transport interface over the stage's links."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(None, None, None)
        self.stage, self.name = stage, name
        self.nodes = [OrderedNode(other) for other in stage.names if other != name]
        self.by_name = {node.id: node for node in self.nodes}

    @property
    def ready(self) -> bool:
        return True

    def send(self, node: Node, message: dict[str, Any]) -> bool:
        return self.stage.send(self.name, node.id, encode(message))

    def connected(self, other: str) -> None:
        self._onNodeConnected(self.by_name[other])

    def disconnected(self, other: str) -> None:
        self._onNodeDisconnected(self.by_name[other])

    def deliver(self, source: str, data: bytes) -> None:
        self._onMessageReceived(self.by_name[source], decode(data))


class StockVoter(SyncObj):  # type: ignore[misc]
    """The unmodified core with its own journal and snapshots, as its documentation says to use it."""

    def __init__(self, stage: Stage, name: str, wire: HandTransport, apply: Apply | None) -> None:
        folder = stage.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        conf = SyncObjConf(
            autoTick=False,
            appendEntriesUseBatch=True,
            appendEntriesBatchSizeBytes=stage.batch_bytes,
            raftMinTimeout=MIN_TIMEOUT_S,
            raftMaxTimeout=MAX_TIMEOUT_S,
            leaderFallbackTimeout=NEVER,
            connectionTimeout=3.5,
            useFork=False,
            journalFile=str(folder / "journal"),
            fullDumpFile=str(folder / "dump"),
            logCompactionBatchSize=CHUNK_BYTES,
            logCompactionMinEntries=10**9,
            logCompactionMinTime=10**9,
        )
        self.hook = apply
        super().__init__(OrderedNode(name), wire.nodes, conf, transport=wire, nodeClass=Node)
        self.entries: list[tuple[int, bytes]] = []

    @replicated  # type: ignore[untyped-decorator]
    def put(self, payload: bytes) -> int:
        index = int(self.raftLastApplied) + 1
        self.entries.append((index, payload))
        if self.hook is not None:
            self.hook(index, payload)
        return index

    def propose(self, payload: bytes, callback: Callable[[Any, int], None]) -> None:
        self.put(payload, callback=callback)

    def tick(self) -> None:
        self.doTick(0.0)

    def believes_to_lead(self) -> bool:
        return bool(self._isLeader() and self.isReady())

    def stop(self) -> None:
        """Release the files as a killed process does: the mapping's pages stay with the kernel."""
        self._SyncObj__raftLog._destroy()


class OurVoter(RaftEngine):
    """Our engine, on the same stage."""

    def __init__(self, stage: Stage, name: str, wire: HandTransport, apply: Apply | None) -> None:
        self.stage, self.name, self.hook = stage, name, apply
        self.entries: list[tuple[int, bytes]] = []
        super().__init__(
            name=name,
            folder=stage.folder / name,
            wire=wire,
            state_machine=self,
            now=lambda: stage.now,
            fatal=self.fatal,
            settings=EngineSettings(
                election_timeout_s=(MIN_TIMEOUT_S, MAX_TIMEOUT_S),
                leader_fallback_s=NEVER,
                batch_bytes=stage.batch_bytes,
                snapshot_min_entries=10**9,
            ),
        )

    def fatal(self, reason: str) -> None:
        self.stage.stopped[self.name] = reason
        raise StoppedError(reason)

    def apply(self, index: int, payload: bytes) -> None:
        self.entries.append((index, payload))
        if self.hook is not None:
            self.hook(index, payload)

    def take_snapshot(self) -> bytes:
        return encode(tuple(self.entries))

    def load_snapshot(self, index: int, data: bytes) -> None:
        self.entries = [tuple(entry) for entry in decode(data)]

    def leadership_changed(self, leader: int | None) -> None:
        """Do nothing: the script queries the voters."""

    @property
    def is_full(self) -> bool:
        return self.log().standing == Standing.FULL

    def believes_to_lead(self) -> bool:
        return self.leader_name == self.selfNode.id

    def stop(self) -> None:
        self.log().abandon()


class Stage:
    """Voters named by letters. `kind` is the class of all of them."""

    def __init__(
        self, kind: type[Any], folder: Path, names: str, *, batch_bytes: int = 1 << 16, apply: Apply | None = None
    ) -> None:
        self.kind, self.names, self.batch_bytes, self.apply = kind, list(names), batch_bytes, apply
        self.folder = folder / kind.__name__
        self.now = 1000.0
        self.send_takes_s = 0.0
        self.voters: dict[str, Any] = {}
        self.wires: dict[str, HandTransport] = {}
        self.links: dict[tuple[str, str], deque[bytes]] = defaultdict(deque)
        self.lossy: set[tuple[str, str]] = set()
        self.held: set[tuple[str, str]] = set()
        self.settled: dict[bytes, int] = {}
        self.stopped: dict[str, str] = {}
        """Voters that stopped themselves, and why.

        The core may have swallowed the error, but they send nothing more.
        """

    def open(self) -> None:
        for name in self.names:
            self.start(name)
        if issubclass(self.kind, OurVoter):
            self._found()

    def _found(self) -> None:
        """Let voters without a journal query each other, and find that this cluster is new."""
        self.tick(self.names)
        self.pump(2)
        assert all(voter.is_full for voter in self.voters.values())

    def close(self) -> None:
        for voter in self.voters.values():
            voter.stop()

    # The network.

    def send(self, source: str, target: str, data: bytes) -> bool:
        self.now += self.send_takes_s
        if source in self.stopped:
            return False
        if (source, target) not in self.lossy and target in self.voters:
            self.links[source, target].append(data)
        return True

    def cut(self, *names: str) -> None:
        """Drop, from now on, everything between these and all others; neither side notices."""
        self.lossy |= {pair for pair in self._pairs() if (pair[0] in names) != (pair[1] in names)}

    def mend(self, *names: str) -> None:
        """Connect these again."""
        self.lossy -= {pair for pair in self._pairs() if set(pair) <= set(names)}

    def lose(self, source: str, target: str) -> None:
        """Break the connection and open it again at once: messages on it are lost."""
        self.links[source, target].clear()
        for one, other in ((source, target), (target, source)):
            self.wires[one].disconnected(other)
            self.wires[one].connected(other)

    def deliver(self, source: str, target: str, count: int = 1_000) -> None:
        queue = self.links[source, target]
        for _ in range(min(count, len(queue))):
            self.wires[target].deliver(source, queue.popleft())

    def waiting(self, source: str, target: str) -> list[dict[str, Any]]:
        """Messages that were sent and have not arrived."""
        return [decode(data) for data in self.links[source, target]]

    def pump(self, rounds: int = 1) -> None:
        """Deliver all that may arrive."""
        for _ in range(rounds):
            for pair in self._pairs():
                if pair not in self.held and pair[1] in self.voters:
                    self.deliver(*pair)

    def _pairs(self) -> list[tuple[str, str]]:
        return [(one, other) for one in self.names for other in self.names if one != other]

    # Voters.

    def start(self, name: str) -> None:
        wire = self.wires[name] = HandTransport(self, name)
        self.voters[name] = self.kind(self, name, wire, self.apply)
        for other in self.voters:
            if other != name:
                wire.connected(other)
                self.wires[other].connected(name)

    def kill(self, name: str) -> None:
        """Kill a voter in the middle of its work."""
        self.voters.pop(name).stop()
        self.stopped.pop(name, None)
        for other in self.names:
            self.links[name, other].clear()
            self.links[other, name].clear()
            if other in self.voters:
                self.wires[other].disconnected(name)

    def tick(self, names: Iterable[str]) -> None:
        """Tick these; no election timeout passes, except that of `elect`."""
        for name in names:
            self.voters[name]._SyncObj__raftElectionDeadline = NEVER
            self.voters[name].tick()

    def elect(self, name: str, *, rounds: int = 2) -> None:
        """Let one voter's election timeout pass, and its election run over the present links."""
        voter = self.voters[name]
        voter._SyncObj__raftElectionDeadline = 0
        if isinstance(voter, OurVoter):  # As if its pre-vote round was won: the stock core has none.
            voter._pre_votes = (voter.term + 1, set(self.names) - {name}, NEVER)
        voter.tick()
        self.pump(rounds)

    def beat(self, leader: str, *, rounds: int = 1) -> None:
        """Exchange heartbeats and their answers; every voter applies the committed entries."""
        for _ in range(rounds):
            self.now += 0.2
            self.tick([leader])
            self.pump(2)
            self.tick(self.voters)

    def propose(self, name: str, *payloads: bytes) -> None:
        for payload in payloads:
            self.voters[name].propose(
                payload, lambda _, reason, payload=payload: self.settled.__setitem__(payload, reason)
            )

    def compact(self, name: str) -> None:
        """Take a snapshot and trim the log to it."""
        self.voters[name].forceLogCompaction()
        for _ in range(2):
            self.tick([name])

    # What the script looks at.

    @property
    def acknowledged(self) -> set[bytes]:
        return {payload for payload, reason in self.settled.items() if reason == FAIL_REASON.SUCCESS}

    def applied(self, name: str) -> list[bytes]:
        return [payload for _, payload in self.voters[name].entries]

    def log(self, name: str) -> list[tuple[int, int]]:
        """(index, term) of a voter's entries."""
        return [(index, term) for _, index, term in self.voters[name]._SyncObj__raftLog[:]]
