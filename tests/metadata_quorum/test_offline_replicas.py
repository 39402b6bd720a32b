"""A broker that says which of its logs are damaged: they neither lead nor count, and the last one waits for people."""

from __future__ import annotations

from dataclasses import replace

from metadata_support import TOPIC_ID, cluster, decided, state_of, with_partition
from test_elections import fence, restart, seen

from raftlog.metadata_quorum.controller.brokers import decide_heartbeat
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import NO_LEADER
from raftlog.wire.controller import HeartbeatRequest, OfflineReplica

LOST = (OfflineReplica(topic_id=TOPIC_ID, partition=0),)


def beat(image: MetadataImage, broker: int, *offline: OfflineReplica) -> MetadataImage:
    request = HeartbeatRequest(
        broker_id=broker,
        broker_epoch=image.brokers[broker].broker_epoch,
        metadata_offset=image.offset,
        offline=offline,
    )
    return decided(image, decide_heartbeat(image, request))


def test_who_returns_with_a_damaged_log_is_unfenced_and_not_eligible_where_others_are():
    image = fence(with_partition(cluster(), isr=(1, 2), leader=1), 2, 1)
    assert seen(state_of(image)) == ((), (1, 2), NO_LEADER)

    image = beat(restart(image, 1), 1, *LOST)

    assert not image.brokers[1].fenced
    assert seen(state_of(image)) == ((), (2,), NO_LEADER)
    assert seen(state_of(beat(image, 2))) == ((2,), (), 2)


def test_damage_that_is_found_while_it_leads_moves_the_leadership_in_one_step():
    image = with_partition(cluster(), isr=(1, 2, 3), leader=1)
    before = state_of(image)

    after = state_of(beat(image, 1, *LOST))

    assert seen(after) == ((2, 3), (), 2)
    assert (after.leader_epoch, after.partition_epoch) == (before.leader_epoch + 1, before.partition_epoch + 1)


def test_a_follower_with_a_damaged_log_leaves_the_isr_and_the_leader_stays():
    image = beat(with_partition(cluster(), isr=(1, 2, 3), leader=1), 3, *LOST)
    assert seen(state_of(image)) == ((1, 2), (), 1)
    assert state_of(image).leader_epoch == 5


def test_the_last_eligible_replica_stays_eligible_and_does_not_lead():
    image = fence(with_partition(cluster(), isr=(1,), leader=1), 1)
    image = beat(restart(image, 1), 1, *LOST)
    assert not image.brokers[1].fenced
    assert seen(state_of(image)) == ((), (1,), NO_LEADER)

    # Its log was repaired, and the broker started again.
    image = beat(restart(fence(image, 1), 1), 1)
    assert seen(state_of(image)) == ((1,), (), 1)


def test_the_last_eligible_replica_that_leads_all_the_same_loses_the_lead():
    image = beat(with_partition(cluster(), isr=(1,), leader=1), 1, *LOST)
    assert seen(state_of(image)) == ((), (1,), NO_LEADER)


def test_saying_it_again_changes_nothing():
    for isr in ((1, 2), (1,)):
        image = beat(with_partition(cluster(), isr=isr, leader=1), 1, *LOST)
        assert beat(image, 1, *LOST) == replace(image, offset=image.offset + 1)


def test_what_is_offline_and_unknown_here_is_nobodys_concern():
    image = with_partition(cluster(), isr=(1, 2), leader=1)
    unknown = (OfflineReplica(topic_id="b" * 32, partition=0), OfflineReplica(topic_id=TOPIC_ID, partition=9))
    assert state_of(beat(image, 1, *unknown)) == state_of(image)


def test_the_last_eligible_replica_leads_once_its_log_is_repaired():
    image = fence(with_partition(cluster(), isr=(1,), leader=1), 1)
    image = beat(restart(image, 1), 1, *LOST)
    assert seen(state_of(beat(image, 1, *LOST))) == ((), (1,), NO_LEADER)
    assert seen(state_of(beat(image, 2))) == ((), (1,), NO_LEADER)

    assert seen(state_of(beat(image, 1))) == ((1,), (), 1)


class Counted(str):
    """A topic id that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_a_heartbeat_of_thousands_of_damaged_logs_looks_at_each_of_them_a_few_times():
    """Half a second of the controller for each heartbeat, with 5,000, so that other brokers lost their sessions."""
    many = 1_000
    state = state_of(fence(with_partition(cluster(), isr=(1,), leader=1), 1))
    image = fence(with_partition(cluster(), isr=(1,), leader=1), 1)
    topic = replace(image.topics[TOPIC_ID], partitions=dict.fromkeys(range(many), state))
    image = replace(image, topics={TOPIC_ID: topic})
    offline = [OfflineReplica(topic_id=Counted(TOPIC_ID), partition=number) for number in range(many)]
    image = beat(restart(image, 1), 1, *offline)
    Counted.compared = 0

    after = beat(image, 1, *offline)

    assert {seen(one) for one in after.topics[TOPIC_ID].partitions.values()} == {((), (1,), NO_LEADER)}
    assert Counted.compared <= 10 * many
