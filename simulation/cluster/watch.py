"""The checks that must hold at every moment. They read all nodes at once, as no client can.

One leader for each epoch. What a leader reports as committed never changes, and each later leader has it. Every replica
that the quorum counts as in sync has what any leader reports as committed (strong ISR). No high watermark goes back.
Every update of a leader is sent to each follower, or about to be.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from chaos.checker import check
from chaos.transactions import check_transactions
from raftlog.errors import CorruptBatchError, StorageError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import LeaderEpoch, Offset, TopicIdPartition
from raftlog.partition.replica import Replica
from raftlog.partition.storage.log_files import LogClosedError
from simulation.cluster import changes, compaction, takeovers
from simulation.cluster.hearing import unheard
from simulation.cluster.holding import Holding, held_end
from simulation.cluster.keyed import KeyedLedger
from simulation.cluster.ledger import Ledger, wrong_epochs
from simulation.cluster.metadata import different_metadata
from simulation.cluster.nodes import Node
from simulation.cluster.pipelined import NAME, out_of_order
from simulation.cluster.starts import LogStarts
from simulation.cluster.undamaged import Undamaged

if TYPE_CHECKING:
    from simulation.cluster.members import Group
    from simulation.cluster.payments import Payments
    from simulation.cluster.relays import Relays
    from simulation.cluster.starts import WorldWithRemoval
    from simulation.cluster.unclean import Unclean
    from simulation.cluster.workload import Clients

    class _World(WorldWithRemoval, Protocol):
        clients: Clients

        @property
        def group(self) -> Group: ...
        @property
        def keeper(self) -> compaction.Keeper: ...
        @property
        def payments(self) -> Payments: ...
        @property
        def relays(self) -> Relays: ...
        @property
        def takeovers(self) -> takeovers.Takeovers: ...
        @property
        def unclean(self) -> Unclean: ...


EVERY_S = 0.01
WRONG_ANYWAY = {
    "aborted read",
    "altered",
    "corrupt",
    "duplicate",
    "inconsistent offset",
    "nonmonotonic poll",
    "nonmonotonic send",
    "reordered",
}
"""Anomalies that a history shows before its end; the others compare with the final reads, or with late answers."""


class BrokenPromiseError(Exception):
    """A promise was broken."""


class NothingPromisedError(Exception):
    """Faults destroyed every copy that counts: there is no promise for the rest."""


class Watch:
    """Checks all brokers every few milliseconds of simulated time."""

    def __init__(self, world: _World) -> None:
        self.broken: str | None = None
        self.starts = LogStarts(world)
        self.undamaged = Undamaged(world)
        self._holding = Holding()
        self._world = world
        self._leaders: dict[tuple[TopicIdPartition, LeaderEpoch], str] = {}
        self._ledgers: dict[TopicIdPartition, Ledger] = defaultdict(Ledger)
        self._compared: dict[TopicIdPartition, set[tuple[Replica, LeaderEpoch]]] = defaultdict(set)
        """Leaders whose logs were compared with the ledger."""
        self._marks: dict[Replica, tuple[Offset, int]] = {}
        """By replica: the high watermark, and how often its log was truncated."""
        self._settled: dict[Replica, tuple[object, ...]] = {}
        """What the checks of a follower read when they last held."""
        self._removed: set[str] = set()
        """Folders of partitions from which a replica with an intact copy was removed."""
        self._registered: tuple[MetadataImage, list[bool]] = (MetadataImage(), [])
        self._registrations = 0
        """How often the image, or the registration of a broker in it, has changed."""

    def fail(self, reason: str) -> None:
        self.broken = self.broken or reason
        self._world.note(f"BROKEN: {reason}")
        raise BrokenPromiseError(self.broken)

    def on_failure(self, node: Node) -> None:
        """A node exited by itself: only a bad disk is a reason."""
        disk = self._world.disks.by_host[node.host]
        if isinstance(node.failure, StorageError) and (disk.failed_once or disk.was_full or node.rotten):
            return
        self.broken = self.broken or f"{node.name} exited by itself with an intact disk: {node.failure!r}"

    def on_internal_error(self, what: str) -> None:
        """Note it: the next look, or the last one, fails the run. The code that met it runs on."""
        self._world.note(f"BROKEN: {what}")
        self.broken = self.broken or what

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self.look()
            self._world.forget_lost_disks()

    def look(self) -> None:
        if self.broken is not None:
            raise BrokenPromiseError(self.broken)
        self.undamaged.look()
        image = self._world.newest_image()
        self._something_is_promised(image)
        self._count_registrations(image)
        replicas = list(self.replicas())
        self._keys_have_ledgers(replicas)
        self._look_at_what_is_committed(image, self._unsettled(replicas))
        for node, replica in self._unsettled(replicas):
            if replica.core is None and not self._world.takeovers.has_had_one(replica):
                # Its leader, or it itself, reported it and stopped before the next look.
                self._extend_ledger(node, replica)
        self._what_was_told_is_so()
        self.starts.tick()
        # Leaders first: a follower that lagged takes its leader's start, and has no bytes to count for retention.
        for node, replica in self._unsettled(sorted(replicas, key=lambda each: each[1].core is None)):
            if wrong := self.starts.look(replica, self._ledgers[replica.assignment.key]):
                self.fail(f"{node.name}, {_name(replica)}: {wrong}")
            self._in_sync_replicas_hold_it(image, node, replica)
            self._settled[replica] = self._read_of(replica)

    def _keys_have_ledgers(self, replicas: Iterable[tuple[Node, Replica]]) -> None:
        for _, replica in replicas:
            if replica.assignment.topic == changes.TOPIC and replica.assignment.key not in self._ledgers:
                self._ledgers[replica.assignment.key] = KeyedLedger()

    def _look_at_what_is_committed(self, image: MetadataImage, replicas: Iterable[tuple[Node, Replica]]) -> None:
        for node, replica in replicas:
            self._lost_batches_had_a_copy(image, node, replica)
            self._marks_grow(node, replica)
            self._begin_again(replica)
            if replica.core is not None:
                self._one_leader_per_epoch(node, replica)
                self._committed_stays(node, replica)

    def _unsettled(self, replicas: Iterable[tuple[Node, Replica]]) -> Iterator[tuple[Node, Replica]]:
        """Yield those of which something has changed since their checks held; asked when it is their turn."""
        return (each for each in replicas if not self._is_settled(*each))

    def _count_registrations(self, image: MetadataImage) -> None:
        registered = [node.is_registered_in(image) for node in self._world.brokers]
        if self._registered[0] is not image or self._registered[1] != registered:
            self._registered = image, registered
            self._registrations += 1

    def _is_settled(self, node: Node, replica: Replica) -> bool:
        """Return whether all that the checks of a follower read is as it was when they last held."""
        if replica.core is not None or node.rotten or node.spotted or replica.assignment.topic == takeovers.TOPIC:
            return False
        return self._settled.get(replica) == self._read_of(replica)

    def _read_of(self, replica: Replica) -> tuple[object, ...]:
        log, ledger = replica.log, self._ledgers[replica.assignment.key]
        return (
            self._registrations,
            replica.assignment,
            replica.high_watermark,
            log.log_start_offset,
            log.log_end_offset,
            log.durable_end_offset,
            log.cuts,
            ledger.start,
            ledger.end,
            ledger.last_leader_epoch,
            ledger.partition_epoch,
        )

    def _what_was_told_is_so(self) -> None:
        for node in self._world.brokers:
            if wrong := unheard(node):
                self.fail(f"{node.name} leads {wrong}")
        if wrong := self._holding.look(self._world.brokers):
            self.fail(wrong)

    def replicas(self) -> Iterator[tuple[Node, Replica]]:
        """Yield every replica of every running broker whose log is open. A broker that ends closes logs one by one."""
        for node in self._world.brokers:
            for replica in node.replicas:
                if not isinstance(replica.log.failure, LogClosedError):
                    yield node, replica

    def _something_is_promised(self, image: MetadataImage) -> None:
        """One replica in sync must have its disk: the run is void where chance gives only those that lost it."""
        lost = {node.node_id for node in self._world.brokers if node.disk_lost_at >= 0 or node.rotten}
        for topic, number, state in image.partitions() if lost else ():
            if topic.topic == takeovers.TOPIC:
                continue  # Any replica may lead; see `_lost_batches_had_a_copy`.
            if lost.issuperset((*state.isr, *state.elr)):
                raise NothingPromisedError(f"{topic.topic}-{number}: only brokers {sorted(lost)} are in sync, {state}")

    def _lost_batches_had_a_copy(self, image: MetadataImage, node: Node, replica: Replica) -> None:
        """The run is void where a batch is lost by design.

        - An unclean election chose a replica that alone had a batch, which then rotted.
        - A reassignment has removed the replica with the intact copy before the damage was found. That it was added
          again afterwards brings nothing back.
        """
        if not (node.rotten or node.spotted):
            return
        assert node.broker is not None
        key, folder = replica.assignment.key, replica.log.folder.name
        state, spared = image.partition(*key), self._world.spared.get(folder, frozenset())
        if state is not None and not spared <= {*state.replicas}:
            self._removed.add(folder)
        chosen = replica.core is not None and self._world.takeovers.has_had_one(replica)
        if (chosen or folder in self._removed) and (lost := node.broker.replicas.repairs.lost(key)):
            raise NothingPromisedError(f"{_name(replica)}: no replica has the batches at {lost} that {node.name} lost")

    def _marks_grow(self, node: Node, replica: Replica) -> None:
        mark, cuts = replica.high_watermark, replica.log.cuts
        before, cuts_before = self._marks.get(replica, (0, 0))
        may_go_back = cuts != cuts_before and replica.core is None and self._world.takeovers.has_had_one(replica)
        if mark < before and not may_go_back:
            self.fail(f"{node.name}: {_name(replica)}'s high watermark went back from {before} to {mark}")
        if mark > replica.log.log_end_offset:
            self.fail(f"{node.name}: {_name(replica)}'s high watermark {mark} is above its log end")
        self._marks[replica] = mark, cuts

    def _begin_again(self, replica: Replica) -> None:
        """After an unclean election, the log of its leader is what is committed."""
        held = self._world.takeovers.begins(replica)
        if held is not None:
            self._ledgers[replica.assignment.key].begin_again(held)
            self._compared[replica.assignment.key].clear()

    def _one_leader_per_epoch(self, node: Node, replica: Replica) -> None:
        epoch = _epoch(replica)
        leader = self._leaders.setdefault((replica.assignment.key, epoch), node.name)
        if leader != node.name:
            self.fail(f"{leader} and {node.name} both lead {_name(replica)} in epoch {epoch}")

    def _committed_stays(self, node: Node, replica: Replica) -> None:
        """Leader completeness: a leader's log has what leaders of earlier epochs reported as committed, unchanged."""
        key, epoch = replica.assignment.key, _epoch(replica)
        if self._world.takeovers.is_void(replica):
            return
        try:
            if (replica, epoch) not in self._compared[key]:
                self._compared[key].add((replica, epoch))
                self._holds_ledger(node, replica, self._ledgers[key])
        except (StorageError, CorruptBatchError) as error:
            if not (node.rotten or node.spotted):
                self.fail(f"{node.name} leads {_name(replica)} in epoch {epoch}, and {error.message}")
        self._extend_ledger(node, replica)

    def _extend_ledger(self, node: Node, replica: Replica) -> None:
        """Add to the ledger what a replica's high watermark commits beyond it."""
        key, mark = replica.assignment.key, replica.high_watermark
        ledger = self._ledgers[key]
        if mark <= ledger.end:
            return
        if ledger.told_by(replica).leader_epoch < ledger.last_leader_epoch:
            self._compared[key].clear()  # A late report of an earlier leader binds later ones too.
        try:
            if wrong := ledger.extend(replica, mark):
                self.fail(f"{node.name}, {_name(replica)}: {wrong}")
        except (StorageError, CorruptBatchError) as error:
            if not (node.rotten or node.spotted):
                self.fail(f"{node.name}, {_name(replica)}: {error.message}")

    def _holds_ledger(self, node: Node, replica: Replica, ledger: Ledger) -> None:
        epoch, later = _epoch(replica), _epoch(replica) > ledger.last_leader_epoch
        if wrong := ledger.differs(replica, ledger.end if later else replica.high_watermark):
            self.fail(f"{node.name} leads {_name(replica)} in epoch {epoch}, and {wrong}")

    def _in_sync_replicas_hold_it(self, image: MetadataImage, node: Node, replica: Replica) -> None:
        """Strong ISR: a replica that may be elected has what any leader, present or former, reports as committed."""
        state, ledger = image.partition(*replica.assignment.key), self._ledgers[replica.assignment.key]
        if self._world.takeovers.is_under_way(replica):
            return
        if state is None or state.partition_epoch < ledger.partition_epoch:
            return  # No running controller knows that leader's last answer.
        if node.node_id in state.isr and held_end(replica) < ledger.end and node.is_registered_in(image):
            self.fail(
                f"{node.name} is in sync, and holds of {_name(replica)} everything below {held_end(replica)}; "
                f"in epoch {ledger.last_leader_epoch} everything below {ledger.end} was committed"
            )

    # The end.

    def all_start_alike(self) -> bool:
        """Return whether no replica stores deleted records or a segment of nothing else."""
        found = [replica for _, replica in self.replicas()]
        starts = {one.assignment.key: one.log.log_start_offset for one in found if one.core is not None}
        return all(
            one.log.log_start_offset >= starts.get(one.assignment.key, 0)
            and (len(one.log.segments) == 1 or one.log.segments[0].next_offset > one.log.log_start_offset)
            for one in found
        )

    def replicas_agree(self) -> None:
        """Every replica has what was committed, and the right epoch of each batch, by its indexes; nodes agree, too."""
        # Not `replicas`: a log that is still closed fails here.
        for node, replica in ((each, replica) for each in self._world.brokers for replica in each.replicas):
            ledger = self._ledgers[replica.assignment.key]
            for segment in replica.log.segments * 2:
                segment.release_if_idle()  # The first call only notes that it was used.
            try:
                wrong = ledger.differs(replica, ledger.end) or wrong_epochs(replica)
            except (StorageError, CorruptBatchError) as error:
                wrong = error.message
            if wrong:
                self.fail(f"{node.name}, {_name(replica)}, in the end: {wrong}")
        if wrong := different_metadata(self._world.nodes.values()):
            self.fail(wrong)

    def judge_so_far(self) -> None:
        """Judge the history of a run that ended early: what was promised until then."""
        payments = self._world.payments
        told = [
            *check(self._world.history).anomalies,
            *(check_transactions(payments.history) if payments.exist else ()),
        ]
        found = [one for one in told if one.kind in WRONG_ANYWAY]
        if self.broken is None and found:
            self.fail("; ".join(f"{anomaly.kind}: {anomaly.detail}" for anomaly in found[:3]))
        if self.broken is not None:
            raise BrokenPromiseError(self.broken)

    def judge(self) -> None:
        """Judge the clients' histories."""
        verdict = check(self._world.history)
        if self.broken is None and not verdict.ok:
            found = [f"{anomaly.kind}: {anomaly.detail}" for anomaly in verdict.anomalies[:3]]
            self.fail("; ".join(found) or "the history proves nothing")
        one_by_one = {process.name for process in self._world.clients.producers}
        if self.broken is None and (late := list(out_of_order(self._world.history, one_by_one | {NAME}))):
            self.fail("; ".join(late[:3]))
        if self.broken is None and (astray := self.starts.judge()):
            self.fail(astray)
        if self.broken is None and (wrong := self._world.payments.judge()):
            self.fail(f"transactions: {'; '.join(wrong[:3])}")
        if self.broken is None and (wrong := self._world.keeper.judge()):
            self.fail(f"compaction: {'; '.join(wrong[:3])}")
        if self.broken is None and (wrong := self._world.group.judge()):
            self.fail(f"groups: {'; '.join(wrong[:3])}")
        if self.broken is None and (wrong := self._world.relays.judge()):
            self.fail(f"relays: {'; '.join(wrong[:3])}")
        if self.broken is None and (wrong := self._world.unclean.judge()):
            self.fail(f"unclean elections: {'; '.join(wrong[:3])}")
        if self.broken is not None:
            raise BrokenPromiseError(self.broken)


def _name(replica: Replica) -> str:
    return str(replica.assignment.topic_partition)


def _epoch(replica: Replica) -> LeaderEpoch:
    assert replica.core is not None
    return replica.core.state.leader_epoch
