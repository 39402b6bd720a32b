"""Unclean elections: which records each of them may cost.

After such an election the new leader's log is the truth. Two kinds of records may be lost: those that its log lacked
when the leadership began, and those that leaders of earlier epochs reported as committed later, before they learned of
the election. Every other record is promised as in any other topic.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from raftlog.errors import CorruptBatchError, StorageError
from raftlog.metadata_quorum import active_controller
from raftlog.metadata_quorum.controller import brokers
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.publisher import Publisher
from raftlog.model import NO_LEADER, BrokerId, LeaderEpoch, Offset, PartitionState
from raftlog.partition.replica import Replica
from raftlog.record import parse_header
from raftlog.record.reading import read_records
from raftlog.wire.controller import HeartbeatRequest, OfflineReplica
from simulation.cluster.holding import held_end
from simulation.cluster.ledger import Entry, entries

if TYPE_CHECKING:
    from simulation.cluster.ports import World

TOPIC = "unclean"


class Place(NamedTuple):
    """Where a record was appended: in two epochs, one offset may have two records."""

    offset: Offset
    leader_epoch: LeaderEpoch


@dataclass(frozen=True)
class Takeover:
    """A leadership that an unclean election began."""

    leader_epoch: LeaderEpoch
    held: frozenset[Place]
    """The records of earlier epochs in its log when it began."""

    def costs(self, place: Place) -> bool:
        """Return whether a record that was appended there may be lost since."""
        return place.leader_epoch < self.leader_epoch and place not in self.held


class Takeovers:
    """The unclean elections of one world, from the controllers' decisions and from the new leaders' logs."""

    def __init__(self, world: World) -> None:
        self.elections = 0
        self._world = world
        self._image = MetadataImage()
        self._unopened: dict[BrokerId, deque[tuple[OfflineReplica, ...]]] = defaultdict(lambda: deque(maxlen=2))
        """What each broker's newest heartbeats reported as logs that it cannot open. A decision may be one older."""
        self._since: dict[int, LeaderEpoch] = {}
        """By partition, the epoch of the newest unclean election."""
        self._pending = set[int]()
        """Partitions whose newest unclean leader has not been seen leading yet."""
        self._begun: dict[int, list[Takeover]] = defaultdict(list)
        self._values: dict[int, dict[Place, str]] = defaultdict(dict)
        self._before: dict[int, dict[Place, LeaderEpoch]] = defaultdict(dict)
        """Of each appended record, the epoch of the record below it."""

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Watch every decision, and every record that a leader appends, in a world that has such elections."""
        if not self._world.unclean.exist:
            yield
            return
        publish, append = Publisher.publish, Replica._append_stamped
        heartbeat = brokers.decide_heartbeat

        def hear_and_decide(image: MetadataImage, request: HeartbeatRequest) -> Any:
            self._unopened[request.broker_id].append(request.offline)
            return heartbeat(image, request)

        def publish_and_tell(publisher: Publisher, image: MetadataImage, records: Any) -> None:
            self._hear(image)
            publish(publisher, image, records)

        def append_and_tell(replica: Replica, core: Any, header: Any, batch: Any, marker: Any = None) -> Any:
            offset = replica.log.log_end_offset
            below = replica.log.epochs.epoch_at(offset - 1) if offset else -1
            result = append(replica, core, header, batch, marker)
            if replica.assignment.topic == TOPIC:
                self._note_appended(replica.assignment.partition, result, batch, below)
            return result

        with (
            mock.patch.object(Publisher, "publish", publish_and_tell),
            mock.patch.object(active_controller, "decide_heartbeat", hear_and_decide),
            mock.patch.object(Replica, "_append_stamped", append_and_tell),
        ):
            yield

    # The present state.

    def is_void(self, replica: Replica) -> bool:
        """Return whether an unclean election has replaced a leader: what it reports as committed does not count."""
        core = replica.core
        return self._is_ours(replica) and core is not None and core.state.leader_epoch < self._newest(replica)

    def has_had_one(self, replica: Replica) -> bool:
        """Return whether followers may still have an earlier leader's high watermark."""
        return self._is_ours(replica) and replica.assignment.partition in self._since

    def is_under_way(self, replica: Replica) -> bool:
        """Return whether the new leader's log has not been seen yet."""
        return self._is_ours(replica) and replica.assignment.partition in self._pending

    def begins(self, replica: Replica) -> list[Entry] | None:
        """Return the log of a leader whose leadership just began by such an election; None for any other."""
        if replica.core is None or not self.is_under_way(replica) or self.is_void(replica):
            return None
        number, epoch = replica.assignment.partition, self._newest(replica)
        self._pending.discard(number)
        held = list(_readable_entries(replica, epoch))
        places = (Place(offset, one.leader_epoch) for one in held for offset in range(one.base_offset, one.next_offset))
        self._begun[number].append(Takeover(epoch, frozenset(places)))
        self._world.note(f"{TOPIC}-{number}: the log of an unclean epoch {epoch} ends at {held_end(replica)}")
        return held

    # What clients may have lost.

    def may_be_gone(self, partition: int, offset: Offset, value: str) -> bool:
        """Return whether a record that was acknowledged or read at an offset may be lost."""
        places = [p for p, v in self._values[partition].items() if p.offset == offset and v == value]
        begun = self._begun[partition]
        return bool(places) and all(any(takeover.costs(place) for takeover in begun) for place in places)

    def follows(self, partition: int, offset: Offset, value: str, before: str) -> bool:
        """Return whether a log with `value` at an offset had `before` below it."""
        values, below = self._values[partition], self._before[partition]
        return any(
            values.get(Place(offset - 1, below[place])) == before
            for place, found in values.items()
            if place.offset == offset and found == value
        )

    # Watching.

    def _hear(self, image: MetadataImage) -> None:
        """Look at the next image; every controller that replays it publishes it."""
        before, topic = self._image, image.topic(TOPIC)
        if image.offset <= before.offset:
            return
        self._image = image
        for number, state in topic.partitions.items() if topic is not None else ():
            known = before.partition(topic.topic_id, number) if topic is not None else None
            if known is not None and topic is not None and known.leader_epoch != state.leader_epoch:
                self._judge_election(before, topic, number, known, state)

    def _judge_election(
        self, before: MetadataImage, topic: TopicImage, number: int, known: PartitionState, state: PartitionState
    ) -> None:
        if not is_unclean(known, state):
            return
        eligible = {*known.isr, *known.elr}
        name = f"{topic.topic}-{number}"
        self._world.note(
            f"{name}: broker {state.leader} leads from epoch {state.leader_epoch} on, none of {sorted(eligible)}"
        )
        replica = OfflineReplica(topic_id=topic.topic_id, partition=number)
        if able := [broker for broker in eligible if self._could_lead(before, broker, replica)]:
            self._world.watch.fail(f"{name}: broker {state.leader} was elected, and brokers {able} could have led")
        self.elections += 1
        self._since[number] = state.leader_epoch
        self._pending.add(number)

    def _could_lead(self, before: MetadataImage, broker: BrokerId, replica: OfflineReplica) -> bool:
        """Return whether a broker could lead: before a decision and after it, it was there and had the log open.

        A disk without room, or damaged bytes, may keep it from opening the log.
        """
        if any(replica in unopened for unopened in self._unopened[broker]):
            return False
        node = self._world.nodes[f"broker-{broker}"]
        images = (before, self._image)
        known = [image.brokers.get(broker) for image in images]
        alive = all(one is not None and not one.fenced and not one.in_controlled_shutdown for one in known)
        return alive and not (node.rotten or node.spotted)

    def _note_appended(self, partition: int, result: Any, batch: Any, below: LeaderEpoch) -> None:
        first = parse_header(batch).base_offset
        records = read_records(bytes(batch), topic="", partition=0, from_offset=first)
        for offset, record in enumerate(records, result.base_offset):
            place, value = Place(offset, result.leader_epoch), (record.value or b"").decode()
            if self._values[partition].setdefault(place, value) != value:
                self._world.watch.fail(
                    f"{TOPIC}-{partition}: {place} held {self._values[partition][place]}, and {value}"
                )
            self._before[partition][place] = below
            below = result.leader_epoch

    def _newest(self, replica: Replica) -> LeaderEpoch:
        return self._since.get(replica.assignment.partition, -1)

    @staticmethod
    def _is_ours(replica: Replica) -> bool:
        return replica.assignment.topic == TOPIC


def is_unclean(before: PartitionState, after: PartitionState) -> bool:
    """Return whether a decision elected a replica that may lack committed records."""
    if after.leader in (NO_LEADER, *before.isr, *before.elr):
        return False
    # The leader before may have reported it in sync, and so have completed a reassignment in the same decision.
    return before.leader == NO_LEADER or after.leader not in before.adding or bool(after.adding)


def _readable_entries(replica: Replica, epoch: LeaderEpoch) -> Iterator[Entry]:
    """Yield a log's entries of earlier epochs, as durable as its topic requires, up to the first damaged one."""
    try:
        for entry in entries(replica, replica.log.log_start_offset, held_end(replica)):
            if entry.leader_epoch >= epoch:
                return
            yield entry
    except (StorageError, CorruptBatchError):
        return
