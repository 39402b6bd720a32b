"""Leader election: a live member of the ISR, else of the ELR; any other replica only by unclean election.

- A replica that leaves an ISR below min ISR becomes an eligible leader replica (ELR, KIP-966). The high watermark does
  not move below min ISR, so this replica has every acknowledged record.
- A replica that lost its disk, or records that it had not synced, is not eligible.
- A partition without an eligible live replica has no leader.
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
_leaderless_cache: list[tuple[object, Sequence[tuple[TopicImage, int, PartitionState]]]] = [(None, ())]
"""A cache of one entry: a table of topics, and those of its partitions that have no leader."""


def is_active(image: MetadataImage, broker_id: BrokerId) -> bool:
    """Return whether a broker may lead: it is neither fenced nor shutting down."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def settings(topic: TopicImage) -> TopicConfig:
    """Return a topic's settings; those that elections use are written down when it is created."""
    return _settings(tuple(topic.configs.items()))


@lru_cache(maxsize=1_024)
def _settings(configs: tuple[tuple[str, ConfigValue], ...]) -> TopicConfig:
    """Cached, because fencing a broker needs the settings of each of its partitions."""
    return TopicConfig().with_overrides(dict(configs))


def min_isr(topic: TopicImage, state: PartitionState) -> int:
    """Return the effective min ISR; see `PartitionState.most_in_sync`."""
    return min(settings(topic).min_insync_replicas, state.most_in_sync)


def choose_leader(state: PartitionState, may_lead: MayLead) -> BrokerId:
    """Return the first assigned replica that is in the ISR, else in the ELR, and may lead; or `NO_LEADER`."""
    for eligible in (state.isr, state.elr):
        for replica in state.replicas:
            if replica in eligible and may_lead(replica):
                return replica
    return NO_LEADER


def next_state(
    state: PartitionState,
    *,
    isr: tuple[BrokerId, ...],
    leader: BrokerId,
    min_isr: int,
    lost: frozenset[BrokerId] = frozenset(),
) -> PartitionState:
    """Return the next state, with the next partition epoch, and the next leader epoch if the leader changes.

    Args:
        leader: a member of `isr`, or of the ELR; in that case it becomes the only member of the ISR.
        lost: replicas that have lost records.
    """
    isr = isr if leader in (NO_LEADER, *isr) else (leader,)
    elr: tuple[BrokerId, ...] = ()
    if len(isr) < min_isr:
        eligible = {*state.elr, *state.isr} - {*isr, *lost}
        elr = tuple(member for member in state.replicas if member in eligible)
    # `replace` would take three times as long; fencing a broker changes thousands of partitions at once.
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


def with_new_leader(
    topic: TopicImage, state: PartitionState, may_lead: MayLead, *, unclean: bool = False
) -> PartitionState:
    """Return the next state of a partition without a leader; the same state if no replica can lead.

    Args:
        unclean: allow an unclean election even if the topic's settings do not.
    """
    leader = choose_leader(state, may_lead)
    if leader != NO_LEADER:
        return next_state(state, isr=state.isr, leader=leader, min_isr=min_isr(topic, state))
    if unclean or settings(topic).unclean_leader_election_enable:
        leader = next((replica for replica in state.replicas if may_lead(replica)), NO_LEADER)
        if leader != NO_LEADER:
            # Unclean: records that only the other replicas have are lost.
            return replace(
                state,
                isr=(leader,),
                elr=(),
                leader=leader,
                leader_epoch=state.leader_epoch + 1,
                partition_epoch=state.partition_epoch + 1,
            )
    return state


def remove_from_isrs(
    image: MetadataImage, broker_id: BrokerId, *, lost_disk: bool = False, lost_unsynced: bool = False
) -> list[ChangePartition]:
    """Return the changes that remove a broker from every ISR and every leadership.

    Args:
        lost_disk: the broker has lost all its records.
        lost_unsynced: the broker may have lost unsynced records, which topics with `flush = os` have.
    """
    active = {candidate for candidate in image.brokers if candidate != broker_id and is_active(image, candidate)}
    may_lead = active.__contains__
    changes = []
    for topic, partition, state in image.partitions():
        if broker_id not in state.isr and broker_id not in state.elr:
            continue
        ineligible = lost_disk or (lost_unsynced and settings(topic).flush == "os")
        if broker_id not in state.isr and not ineligible:
            continue
        changes.append(
            change(topic.topic_id, partition, _without_broker(topic, state, broker_id, may_lead, ineligible=ineligible))
        )
    return changes


def mark_offline(
    image: MetadataImage, broker_id: BrokerId, replicas: Iterable[TopicIdPartition]
) -> Iterator[ChangePartition]:
    """Return the changes that remove replicas with damaged logs from ISR, ELR and leadership.

    The last eligible replica of a partition stays eligible, but does not lead: an operator has to decide.
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
            yield change(topic_id, partition, _without_broker(topic, state, broker_id, may_lead, ineligible=not last))


def _without_broker(
    topic: TopicImage, state: PartitionState, broker_id: BrokerId, may_lead: MayLead, *, ineligible: bool
) -> PartitionState:
    """Return the next state without a broker in the ISR; with `ineligible` it is not in the ELR either."""
    isr = tuple(member for member in state.isr if member != broker_id)
    leader = NO_LEADER if state.leader == broker_id else state.leader
    lost = frozenset({broker_id}) if ineligible else frozenset[BrokerId]()
    after = next_state(state, isr=isr, leader=leader, min_isr=min_isr(topic, state), lost=lost)
    if leader != NO_LEADER:
        return after
    # Removal and election are one change: each epoch grows by one only.
    with_leader = with_new_leader(topic, after, may_lead)
    epoch = state.leader_epoch + (with_leader.leader != state.leader)
    return replace(with_leader, leader_epoch=epoch, partition_epoch=state.partition_epoch + 1)


def _leaderless(image: MetadataImage) -> Sequence[tuple[TopicImage, int, PartitionState]]:
    """Return the partitions without a leader. Cached until topics change, because every heartbeat needs them."""
    topics, leaderless = _leaderless_cache[0]
    if topics is not image.topics:
        leaderless = tuple(entry for entry in image.partitions() if entry[2].leader == NO_LEADER)
        _leaderless_cache[0] = image.topics, leaderless
    return leaderless


def elect_leaderless(
    image: MetadataImage, returning: BrokerId, *, offline: Container[TopicIdPartition] = ()
) -> Iterable[ChangePartition]:
    """Return the changes that elect a broker for leaderless partitions, after it or its replicas became available.

    Args:
        offline: replicas of that broker that cannot lead.
    """

    def may_lead(candidate: BrokerId) -> bool:
        return candidate == returning

    for topic, partition, state in _leaderless(image):
        unable = TopicIdPartition(topic.topic_id, partition) in offline
        if returning in state.replicas and not unable:
            after = with_new_leader(topic, state, may_lead)
            if after is not state:
                yield change(topic.topic_id, partition, after)


def unclean_elections(image: MetadataImage, records: Iterable[object]) -> list[str]:
    """Return a log message for each unclean election among these records."""
    messages = []
    for record in records:
        if not isinstance(record, ChangePartition) or record.state.leader == NO_LEADER:
            continue
        after = record.state
        before = image.partition(record.topic_id, record.partition)
        topic = image.topics.get(record.topic_id)
        if before is None or topic is None or after.leader in (*before.isr, *before.elr):
            continue
        if after.leader in before.adding and not after.adding and before.leader != NO_LEADER:
            continue  # The new leader joined the ISR and completed a reassignment in one decision.
        messages.append(
            f"unclean election: {topic.topic}-{record.partition} is led by broker {after.leader} in epoch "
            f"{after.leader_epoch}; records that only brokers {sorted({*before.isr, *before.elr})} have are lost"
        )
    return messages
