"""Checks where logs start: which records may be removed, that all others stay, and that none comes back.

A log start offset rises for one of two reasons: a client has requested the deletion of records, or records are beyond
the topic's retention. After an acknowledged deletion, no later leader starts below it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from raftlog.model import Offset
from raftlog.partition.core.leader import LeaderCore
from raftlog.partition.replica import Replica
from simulation.cluster.ledger import Ledger
from simulation.cluster.patches import EPOCH_US
from simulation.cluster.settings import Removal
from simulation.cluster.workload import TOPIC

if TYPE_CHECKING:
    from simulation.cluster.ports import World
    from simulation.cluster.removal import Remover

    class WorldWithRemoval(World, Protocol):
        """A world, and the deletions of its records."""

        @property
        def remover(self) -> Remover: ...


TAIL_BYTES = 2_048
"""Records that are not committed yet count for a log's size, and may be truncated a moment later."""


class LogStarts:
    """Judges every change of a log's start."""

    def __init__(self, world: WorldWithRemoval) -> None:
        self._world = world
        self._rules = world.settings.removal or Removal()
        self._known: dict[Replica, tuple[Offset, int, LeaderCore | None]] = {}
        self._starts: dict[int, set[Offset]] = defaultdict(lambda: {0})
        """By partition of the workload's topic, every log start offset of any replica."""
        self._latest_us = 0
        """The latest time of any broker's clock."""

    @property
    def removed(self) -> int:
        return sum(max(starts) for starts in self._starts.values())

    def look(self, replica: Replica, ledger: Ledger) -> str | None:
        """Return what is wrong with a log's start."""
        start, cuts, core = replica.log.log_start_offset, replica.log.cuts, replica.core
        before, cuts_before, core_before = self._known.get(replica, (start, cuts, core))
        self._known[replica] = start, cuts, core
        if start < before and (cuts == cuts_before or (core is not None and core is core_before)):
            return f"its log start went back from {before} to {start}"
        if core is not None and start > replica.high_watermark:
            return f"it leads, and its log starts at {start}, above its high watermark {replica.high_watermark}"
        if start > ledger.end:
            return f"its log starts at {start}, and only what is below {ledger.end} was committed"
        if start > ledger.start:
            if wrong := self._must_stay(replica, ledger, start):
                return wrong
            ledger.start = start
        if replica.assignment.topic == TOPIC:
            self._starts[replica.assignment.partition].add(start)
        return self._is_back(replica, start) if core is not None else None

    def tick(self) -> None:
        """Record the times of the brokers' clocks."""
        skews = (node.process.wall_skew_us for node in self._world.brokers if node.process is not None)
        now_us = EPOCH_US + int(self._world.loop.time() * 1e6)
        self._latest_us = max(self._latest_us, now_us + max((0, *skews)))

    def judge(self) -> str | None:
        """Judge the reads: a reader skips only to a former log start; and no deleted record is there in the end."""
        history, following = self._world.history, dict[tuple[str, int], Offset]()
        for read in history.reads:
            expected = following.get((read.process, read.partition), 0)
            if read.offset != expected and read.offset not in self._starts[read.partition]:
                return f"{read.process} read {read.offset}, expected {expected}, and no log started there"
            following[read.process, read.partition] = read.offset + 1
        for partition, promises in self._world.remover.promised.items():
            promised = max((offset for _, offset in promises), default=0)
            if history.log_starts.get(partition, 0) < promised:
                return f"{TOPIC}-{partition} starts at {history.log_starts.get(partition)}; {promised} was promised"
        return None

    def _must_stay(self, replica: Replica, ledger: Ledger, start: Offset) -> str | None:
        """Return why records below `start` had to stay, or None."""
        rules, ours = self._rules, replica.assignment.topic == TOPIC
        kept = max(ledger.start, self._world.remover.asked[replica.assignment.partition] if ours else 0)
        if start <= kept:
            return None
        if ours and 0 <= rules.retention_bytes <= replica.log.size_bytes + TAIL_BYTES:
            return None
        oldest_us = self._latest_us - rules.retention_ms * 1_000
        if ours and rules.retention_ms >= 0 and ledger.newest_timestamp(kept, start) < oldest_us:
            return None
        return f"its log starts at {start}, and only records below {kept} may be removed"

    def _is_back(self, replica: Replica, start: Offset) -> str | None:
        """Return the deleted records that a later leader still stores, or None."""
        if replica.assignment.topic != TOPIC:
            return None
        epoch = replica.state.leader_epoch
        for acknowledged, offset in self._world.remover.promised[replica.assignment.partition]:
            if epoch > acknowledged and start < offset:
                return (
                    f"it leads in epoch {epoch}, and its log starts at {start}; a deletion of everything below "
                    f"{offset} was acknowledged in epoch {acknowledged}"
                )
        return None
