"""What must hold at every moment, looked at from outside: into all nodes at once, as no client can."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chaos.checker import check
from raftlog.errors import StorageError
from raftlog.partition.replica import Replica
from raftlog.record import iter_batches
from simulation.cluster.nodes import Node

if TYPE_CHECKING:
    from simulation.cluster.world import World

EVERY_S = 0.02


class BrokenPromiseError(Exception):
    """A promise was broken."""


class Watch:
    """Looks at all brokers every few milliseconds of simulated time."""

    def __init__(self, world: World) -> None:
        self.broken: str | None = None
        self.healing = False
        self._world = world
        self._leaders: dict[tuple[str, int, int], str] = {}
        self._committed: dict[tuple[str, int], tuple[int, int]] = {}
        """By partition: the highest high watermark of any leader, and that leader's epoch."""

    def fail(self, reason: str) -> None:
        self.broken = self.broken or reason
        self._world.note(f"BROKEN: {reason}")
        raise BrokenPromiseError(self.broken)

    def on_failure(self, node: Node) -> None:
        """A node ended by itself: only a bad disk is a reason."""
        disk = self._world.disks.by_host[node.host]
        if isinstance(node.failure, StorageError) and (disk.failed_once or disk.was_full):
            return
        self.broken = self.broken or f"{node.name} ended with a sound disk: {node.failure!r}"

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self.look()
            self._world.forget_lost_disks()

    def look(self) -> None:
        if self.broken is not None:
            raise BrokenPromiseError(self.broken)
        for node, replica in self._replicas():
            if replica.core is not None:
                self._one_leader_per_epoch(node, replica)
                self._holds_what_was_committed(node, replica)

    def _replicas(self) -> Iterator[tuple[Node, Replica]]:
        for node in self._world.brokers:
            if node.running and node.broker is not None:
                for replica in list(node.broker.replicas._replicas.values()):
                    yield node, replica

    def _one_leader_per_epoch(self, node: Node, replica: Replica) -> None:
        assert replica.core is not None
        partition, epoch = replica.assignment.topic_partition, replica.core.state.leader_epoch
        key = (partition.topic, partition.partition, epoch)
        leader = self._leaders.setdefault(key, node.name)
        if leader != node.name:
            self.fail(f"{leader} and {node.name} both lead {partition} in epoch {epoch}")

    def _holds_what_was_committed(self, node: Node, replica: Replica) -> None:
        """Leader completeness: a leader's log holds what leaders of earlier epochs called committed."""
        assert replica.core is not None
        partition, epoch = replica.assignment.topic_partition, replica.core.state.leader_epoch
        key = (partition.topic, partition.partition)
        committed, committed_in = self._committed.get(key, (0, -1))
        if epoch > committed_in and replica.log.log_end_offset < committed:
            self.fail(
                f"{node.name} leads {partition} in epoch {epoch} with a log that ends at {replica.log.log_end_offset}; "
                f"in epoch {committed_in} everything below {committed} was committed"
            )
        mark = replica.core.high_watermark
        if mark > replica.log.log_end_offset:
            self.fail(f"{node.name}: {partition}'s high watermark {mark} is above its log end")
        if mark >= committed:
            self._committed[key] = (mark, max(epoch, committed_in))

    # The end.

    def replicas_agree(self) -> None:
        """Every replica holds the same bytes below the high watermark."""
        logs: dict[tuple[str, int], dict[str, bytes]] = {}
        for node, replica in self._replicas():
            partition = replica.assignment.topic_partition
            mark, _ = self._committed.get((partition.topic, partition.partition), (0, 0))
            logs.setdefault((partition.topic, partition.partition), {})[node.name] = _bytes_below(replica, mark)
        for name, copies in logs.items():
            if len(set(copies.values())) != 1:
                sizes = {node: len(data) for node, data in copies.items()}
                self.fail(f"replicas of {name} differ below the high watermark: {sizes}")

    def judge(self) -> None:
        """Judge what clients saw."""
        verdict = check(self._world.history)
        if self.broken is None and not verdict.ok:
            found = [f"{anomaly.kind}: {anomaly.detail}" for anomaly in verdict.anomalies[:3]]
            self.fail("; ".join(found) or "the history proves nothing")
        if self.broken is not None:
            raise BrokenPromiseError(self.broken)


def _bytes_below(replica: Replica, mark: int) -> bytes:
    data, offset = b"", replica.log.log_start_offset
    while offset < mark:
        piece = replica.log.read(offset, 1 << 20, limit_offset=mark)
        if not piece:
            break
        data += piece
        offset = max(header.last_offset for header, _ in iter_batches(piece)) + 1
    return data
