"""Who leads a partition: a member of its ISR that is alive, else of its ELR; anybody else only by explicit opt-in.

Whoever leaves an ISR that is below min ISR becomes an eligible leader replica (KIP-966): the high watermark stands
still from then on, so it holds every acknowledged record. A member that has lost its disk, or what it had not synced,
is not eligible. Without anybody eligible a partition waits, without a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from raftlog.config import TopicConfig
from raftlog.metadata_quorum.controller.decision import change
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.records import ChangePartition
from raftlog.model import NO_LEADER, BrokerId, PartitionState, TopicIdPartition
from raftlog.wire.metadata import ConfigValue

MayLead = Callable[[BrokerId], bool]
_LEADERLESS: list[tuple[object, Sequence[tuple[TopicImage, int, PartitionState]]]] = [(None, ())]
"""The topics that were looked at last, and those of their partitions that have no leader."""


def is_active(image: MetadataImage, broker_id: BrokerId) -> bool:
    """Tell whether a broker may lead."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def settings(topic: TopicImage) -> TopicConfig:
    """Return the settings that elections go by. A topic is given those that matter here when it is created."""
    return _settings(tuple(topic.configs.items()))


@lru_cache(maxsize=1_024)
def _settings(configs: tuple[tuple[str, ConfigValue], ...]) -> TopicConfig:
    """Fencing a broker asks for each of its partitions; topics with the same settings share them."""
    return TopicConfig().with_overrides(dict(configs))


def min_isr(topic: TopicImage, state: PartitionState) -> int:
    """Return the effective min ISR: never more than there are replicas."""
    return min(settings(topic).min_insync_replicas, len(state.replicas))


def elect(state: PartitionState, may_lead: MayLead) -> BrokerId:
    """Return the first assigned replica that is in the ISR, else in the ELR, and may lead; or `NO_LEADER`."""
    for eligible in (state.isr, state.elr):
        for replica in state.replicas:
            if replica in eligible and may_lead(replica):
                return replica
    return NO_LEADER


def moved(
    state: PartitionState,
    *,
    isr: tuple[BrokerId, ...],
    leader: BrokerId,
    min_isr: int,
    lost: frozenset[BrokerId] = frozenset(),
) -> PartitionState:
    """Return the next state: each change takes a partition epoch, each change of leader a leader epoch.

    Args:
        leader: from the ISR, or from the ELR: then it is the whole ISR.
        lost: replicas that do not hold any more what they held.
    """
    isr = isr if leader in (NO_LEADER, *isr) else (leader,)
    elr: tuple[BrokerId, ...] = ()
    if len(isr) < min_isr:
        eligible = {*state.elr, *state.isr} - {*isr, *lost}
        elr = tuple(member for member in state.replicas if member in eligible)
    # Not by `replace`, which takes three times as long: thousands of partitions move at once when a broker is fenced.
    return PartitionState(
        replicas=state.replicas,
        isr=isr,
        leader=leader,
        leader_epoch=state.leader_epoch + (leader != state.leader),
        partition_epoch=state.partition_epoch + 1,
        elr=elr,
        adding=state.adding,
        removing=state.removing,
    )


def elected(topic: TopicImage, state: PartitionState, may_lead: MayLead, *, unclean: bool = False) -> PartitionState:
    """Return the next state of a partition that has no leader; the same one, if nobody can lead.

    Args:
        unclean: elect any assigned replica rather than nobody, even if the topic does not ask for that.
    """
    leader = elect(state, may_lead)
    if leader != NO_LEADER:
        return moved(state, isr=state.isr, leader=leader, min_isr=min_isr(topic, state))
    if unclean or settings(topic).unclean_leader_election_enable:
        leader = next((replica for replica in state.replicas if may_lead(replica)), NO_LEADER)
        if leader != NO_LEADER:
            # Its log is the truth from now on; what only the others hold is lost.
            return replace(
                state,
                isr=(leader,),
                elr=(),
                leader=leader,
                leader_epoch=state.leader_epoch + 1,
                partition_epoch=state.partition_epoch + 1,
            )
    return state


def take_out(
    image: MetadataImage, broker_id: BrokerId, *, lost_disk: bool = False, lost_unsynced: bool = False
) -> list[ChangePartition]:
    """Return the changes that take a broker out of every ISR and every leadership.

    Args:
        lost_disk: it holds nothing any more of what it held.
        lost_unsynced: it may have lost what topics with `flush = os` had not synced.
    """
    active = {candidate for candidate in image.brokers if candidate != broker_id and is_active(image, candidate)}
    may_lead = active.__contains__
    changes = []
    for topic, partition, state in image.partitions():
        if broker_id not in state.isr and broker_id not in state.elr:
            continue
        gone = lost_disk or (lost_unsynced and settings(topic).flush == "os")
        if broker_id not in state.isr and not gone:
            continue
        changes.append(change(topic.topic_id, partition, _without(topic, state, broker_id, may_lead, gone=gone)))
    return changes


def take_offline(
    image: MetadataImage, broker_id: BrokerId, replicas: Iterable[TopicIdPartition]
) -> Iterator[ChangePartition]:
    """Return the changes that keep replicas from leading and from being in sync, because their logs are damaged.

    The last one that may hold every acknowledged record stays eligible, without leading: what becomes of it is for an
    operator to decide.
    """

    def may_lead(candidate: BrokerId) -> bool:
        return candidate != broker_id and is_active(image, candidate)

    for topic_id, partition in replicas:
        topic, state = image.topics.get(topic_id), image.partition(topic_id, partition)
        if topic is None or state is None:
            continue
        eligible = {*state.isr, *state.elr}
        last = eligible == {broker_id}
        if broker_id in eligible and (not last or state.leader == broker_id):
            yield change(topic_id, partition, _without(topic, state, broker_id, may_lead, gone=not last))


def _without(
    topic: TopicImage, state: PartitionState, broker_id: BrokerId, may_lead: MayLead, *, gone: bool
) -> PartitionState:
    """Return the next state without a broker in the ISR; `gone`: nor among those who may lead later."""
    isr = tuple(member for member in state.isr if member != broker_id)
    leader = NO_LEADER if state.leader == broker_id else state.leader
    lost = frozenset({broker_id}) if gone else frozenset[BrokerId]()
    after = moved(state, isr=isr, leader=leader, min_isr=min_isr(topic, state), lost=lost)
    if leader != NO_LEADER:
        return after
    # One change of the partition, and of its leader: one step of each epoch.
    next_state = elected(topic, after, may_lead)
    epoch = state.leader_epoch + (next_state.leader != state.leader)
    return replace(next_state, leader_epoch=epoch, partition_epoch=state.partition_epoch + 1)


def _leaderless(image: MetadataImage) -> Sequence[tuple[TopicImage, int, PartitionState]]:
    """Return the partitions without a leader. Heartbeats ask: they are looked for once for each change of topics."""
    topics, found = _LEADERLESS[0]
    if topics is not image.topics:
        found = tuple(one for one in image.partitions() if one[2].leader == NO_LEADER)
        _LEADERLESS[0] = image.topics, found
    return found


def elect_leaderless(
    image: MetadataImage, returning: BrokerId, *, offline: Container[TopicIdPartition] = ()
) -> Iterable[ChangePartition]:
    """Return the changes that give partitions without a leader to a broker that is back, or whose replicas are.

    Args:
        offline: replicas of that broker that cannot lead.
    """

    def may_lead(candidate: BrokerId) -> bool:
        return candidate == returning

    for topic, partition, state in _leaderless(image):
        unable = TopicIdPartition(topic.topic_id, partition) in offline
        if returning in state.replicas and not unable:
            after = elected(topic, state, may_lead)
            if after is not state:
                yield change(topic.topic_id, partition, after)


def unclean_elections(image: MetadataImage, records: Iterable[object]) -> list[str]:
    """Say of each election among these records that may lose acknowledged ones, what it does."""
    said = []
    for record in records:
        if not isinstance(record, ChangePartition) or record.leader == NO_LEADER:
            continue
        before = image.partition(record.topic_id, record.partition)
        topic = image.topics.get(record.topic_id)
        if before is None or topic is None or record.leader in (*before.isr, *before.elr):
            continue
        if record.leader in before.adding and not record.adding:
            continue  # It came into the ISR and ended a reassignment in one decision.
        said.append(
            f"unclean election: {topic.topic}-{record.partition} is led by broker {record.leader} in epoch "
            f"{record.leader_epoch}; records that only {sorted({*before.isr, *before.elr})} held are lost"
        )
    return said
