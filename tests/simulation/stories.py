"""The faults that lost records elsewhere, replayed on real brokers and controllers in simulation.

Each story causes its own situation; the world then heals and judges everything: acknowledged records are there, once,
in order. Replicas agree. There was one leader for each epoch, and each had every record that was committed before.
"""

from __future__ import annotations

import errno

from telling import story

from simulation.cluster.nodes import Node
from simulation.cluster.script import Script


@story()
async def scenario_1_a_follower_that_restarts_with_a_stale_high_watermark_keeps_what_it_holds(script: Script) -> None:
    """KIP-101: it once truncated to its high watermark, and then was elected."""
    leader, follower = script.leader(), script.followers()[0]
    script.hold(leader, follower)  # It acknowledges, and does not receive the new high watermark.
    await script.pass_time(0.1)
    script.world.kill(follower)
    script.world.start(follower)
    script.release(leader, follower)
    script.world.kill(leader)
    await script.acknowledged(3)
    script.world.start(leader)


@story(min_insync_replicas=1)
async def scenario_2_histories_that_part_twice_are_made_one(script: Script) -> None:
    """KIP-279: two leaders in a row write records that stay theirs, then one leads that lacks the other's epoch."""
    first = script.leader()
    script.isolate(first)  # Its clients still reach it: it appends, and cannot commit.
    second_id = script.state().leader
    await script.until(lambda: script.state().leader not in (second_id, -1), "another leader")
    second = script.leader()
    await script.acknowledged(2)
    script.isolate(second)
    script.mend(first)
    await script.until(lambda: script.state().leader not in (second.node_id, -1), "a third leader")
    await script.acknowledged(2)
    script.mend(second)
    await script.in_sync()


@story(min_insync_replicas=1)
async def scenario_3_an_epoch_is_on_disk_before_its_first_record(script: Script) -> None:
    """KAFKA-7164, KAFKA-7415: a leader that forgot its epoch's start could not tell where histories part."""
    for _ in range(3):
        leader = script.leader()
        follower = script.followers()[0]
        script.world.kill(follower)
        script.world.lose_power(leader)
        await script.until(lambda leader=leader: script.state().leader != leader.node_id, "another leader")
        for node in (leader, follower):
            script.world.power_on(node)
            script.world.start(node)
        await script.in_sync()
        await script.acknowledged(2)


@story()
async def scenario_4_a_leader_that_slept_through_its_end_is_fenced(script: Script) -> None:
    """KIP-320: messages at its restart, fetches of its own epoch among them, change nothing."""
    leader = script.leader()
    script.pause(leader)
    await script.until(lambda: script.state().leader not in (leader.node_id, -1), "another leader")
    await script.acknowledged(5)
    script.resume(leader)
    await script.acknowledged(5)
    replica = script.replica(leader)
    await script.until(lambda: replica is not None and replica.core is None, "it follows")
    await script.in_sync()


@story(min_insync_replicas=1, replica_lag_time_max_ms=2_000)
async def scenario_5_nobody_joins_the_isr_below_the_start_of_the_leaders_epoch(script: Script) -> None:
    """KAFKA-7128: the new leader's high watermark lags; a follower that reached only that lacks records."""
    leader, (one, other) = script.leader(), script.followers()
    script.isolate(other)
    await script.in_sync(leader, one)
    script.hold(leader, one)
    await script.pass_time(0.1)  # One has more records than its high watermark shows.
    script.world.kill(leader)
    script.release(leader, one)
    script.mend(other)
    await script.leads(one)
    await script.acknowledged(3)
    script.world.start(leader)


@story()
async def scenario_6_both_isrs_count_while_a_change_is_in_flight(script: Script) -> None:
    """The leader's request is held and applied late: until then, every replica that it would add or remove counts."""
    leader, (one, _) = script.leader(), script.followers()
    script.isolate(one)
    await script.until(lambda: one.node_id not in script.state().isr, "it left")
    script.mend(one)
    script.hold(leader, script.world.controllers)
    await script.until(
        lambda: (r := script.replica(leader)) is not None and r.core is not None and r.core.pending_isr is not None,
        "a change is proposed",
    )
    before = script.count()
    script.world.kill(one)
    script.release(leader, script.world.controllers)
    await script.until(lambda: script.count() > before, "it goes on")
    script.world.start(one)


@story()
async def scenario_7_a_wiped_broker_does_not_slip_into_the_isr_by_its_past(script: Script) -> None:
    """KIP-841, KIP-903: an ISR change that names an earlier incarnation is refused."""
    leader, (one, _) = script.leader(), script.followers()
    script.isolate(one)
    await script.until(lambda: one.node_id not in script.state().isr, "it left")
    script.mend(one)
    script.hold(leader, script.world.controllers)
    await script.until(
        lambda: (r := script.replica(leader)) is not None and r.core is not None and r.core.pending_isr is not None,
        "its return is proposed",
    )
    script.world.lose_power(one)
    script.world.replace_disk(one)
    script.world.net.slow[leader.host, one.host] = 0.4  # It is connected long before it has any record.
    script.world.power_on(one)
    script.world.start(one)
    await script.until(lambda: one.is_registered_in(script.world.newest_image()), "it is back")
    script.release(leader, script.world.controllers)
    await script.pass_time(0.5)
    del script.world.net.slow[leader.host, one.host]
    await script.in_sync()


@story(flush="os")
async def scenario_8_the_last_of_the_isr_loses_its_tail_to_a_power_loss(script: Script) -> None:
    """KIP-966: below min ISR nothing is acknowledged, so no promise depends on a single replica."""
    leader, others = script.leader(), script.followers()
    for other in others:
        script.world.kill(other)
    await script.in_sync(leader)
    script.world.lose_power(leader)
    for node in others:
        script.world.start(node)
    await script.acknowledged(3)  # From the ELR.
    script.world.power_on(leader)
    script.world.start(leader)


@story()
async def scenario_8_whoever_lost_its_disk_is_not_eligible_any_more(script: Script) -> None:
    """It left the ISR last, and so was the first to be elected from the ELR: but not with another disk."""
    leader, (one, other) = script.leader(), script.followers()
    script.world.kill(one)
    await script.in_sync(leader, other)
    await script.acknowledged(3)
    script.world.lose_power(other)
    script.world.replace_disk(other)
    await _comes_back_alone(script, leader, other)


@story(flush="os")
async def scenario_8_whoever_lost_its_unsynced_tail_is_not_eligible_any_more(script: Script) -> None:
    """The same with records that were never synced: their number is unknown."""
    leader, (one, other) = script.leader(), script.followers()
    script.world.kill(one)
    await script.in_sync(leader, other)
    await script.acknowledged(10)
    script.world.lose_power(other)
    await _comes_back_alone(script, leader, other)


@story()
async def scenario_8_whoever_left_while_enough_stayed_is_not_eligible(script: Script) -> None:
    """It lacks the records that were acknowledged after that."""
    leader, (one, other) = script.leader(), script.followers()
    script.world.kill(one)
    await script.in_sync(leader, other)
    await script.acknowledged(5)
    script.world.kill(other)
    await _comes_back_alone(script, leader, one)
    script.world.start(other)


async def _comes_back_alone(script: Script, leader: Node, other: Node) -> None:
    """Only the leader is in sync; it is stopped, and another one restarts alone."""
    await script.in_sync(leader)
    script.world.kill(leader)
    await script.until(lambda: script.world.newest_image().brokers[leader.node_id].fenced, "its end was noticed")
    script.world.power_on(other)
    script.world.start(other)
    await script.until(lambda: other.is_registered_in(script.world.newest_image()), "it is back")
    await script.until(lambda: not script.world.newest_image().brokers[other.node_id].fenced, "it may serve")
    await script.pass_time(1.0)
    script.world.start(leader)


@story(brokers=5, replicas=5, min_insync_replicas=3)
async def scenario_9_two_sleep_one_loses_power_two_more_sleep(script: Script) -> None:
    """A resumed broker must not serve what the others have replaced."""
    one, two, three, four, five = script.world.brokers
    for node in (one, two):
        script.pause(node)
    await script.acknowledged(5)
    script.world.lose_power(three)
    for node in (four, five):
        script.pause(node)
    for node in (one, two):
        script.resume(node)
    script.world.power_on(three)
    script.world.start(three)
    for node in (four, five):
        script.resume(node)
    await script.acknowledged(5)


@story()
async def scenario_12_a_disk_that_fails_to_sync_ends_its_broker(script: Script) -> None:
    """After a failed fsync the content of the disk is unknown: a retry that succeeds proves nothing."""
    leader = script.leader()
    script.world.disks.by_host[leader.host].fuse = (3, "error")
    await script.until(lambda: not leader.running, "it ends")
    await script.acknowledged(5)


@story()
async def scenario_12_a_single_sync_that_fails_ends_its_broker(script: Script) -> None:
    """The next one would succeed, without an error for the bytes that the first one lost."""
    leader = script.leader()
    script.world.disks.by_host[leader.host].sync_errno = errno.EIO
    await script.until(lambda: not leader.running, "it ends")
    await script.acknowledged(5)


@story()
async def scenario_12_followers_whose_syncs_fail_for_want_of_room_hold_nothing_more(script: Script) -> None:
    """Quotas, NFS and thin volumes report it at the sync: it is a failed sync, and its bytes must not count."""
    one, other = script.followers()
    script.world.disks.by_host[one.host].sync_errno = errno.ENOSPC
    script.world.disks.by_host[other.host].sync_errno = errno.EDQUOT
    await script.until(lambda: not one.running and not other.running, "they end")
    script.world.start(one)
    script.world.start(other)
    await script.in_sync()
    await script.acknowledged(5)


@story()
async def scenario_12_what_a_sync_failed_to_write_is_lost_with_the_power(script: Script) -> None:
    """The follower's next process finds it in the page cache, and its sync succeeds: that proves nothing."""
    leader, (one, other) = script.leader(), script.followers()
    script.world.disks.by_host[one.host].sync_errno = errno.ENOSPC
    await script.until(lambda: not one.running, "it ends")
    script.hold(leader, other)  # The follower acknowledges everything that it takes for synced from now on.
    script.world.start(one)
    await script.in_sync(leader, one)
    await script.acknowledged(5)
    script.world.lose_power(one)
    script.world.lose_power(leader)
    script.world.replace_disk(leader)  # From here on, only the disk of `one` has the acknowledged records.
    script.world.power_on(one)
    script.world.start(one)
    await script.leads(one)
    script.release(leader, other)
    script.world.power_on(leader)
    script.world.start(leader)
    await script.in_sync()


@story()
async def scenario_12_a_machine_loses_power_in_the_middle_of_a_write(script: Script) -> None:
    """It boots again, and its broker knows that writes may be missing: it truncates them, without help."""
    leader = script.leader()
    boots, scratch = leader.boots, leader.folder / "scratch"
    assert leader.process is not None
    leader.process.context.run(scratch.mkdir)
    for number in range(20):  # Unsynced names: some of them are lost.
        leader.process.context.run((scratch / str(number)).touch)
    script.world.disks.by_host[leader.host].fuse = (3, "power")
    await script.until(lambda: not leader.running, "it loses power")
    assert leader.boots == boots + 1
    script.world.power_on(leader)
    script.world.start(leader)
    await script.until(lambda: leader.broker is not None and leader.broker._data_dir.power_lost, "it knows")
    await script.until(lambda: leader.broker is not None and not leader.broker._data_dir.power_lost, "it opened all")
    await script.in_sync()


@story(min_insync_replicas=1)
async def scenario_14_without_followers_nobody_unclean_leads(script: Script) -> None:
    """All followers are cut off, the ISR shrinks to the leader, the leader dies: unavailable, by default."""
    leader, others = script.leader(), script.followers()
    for other in others:
        script.isolate(other, script.world.brokers)
    await script.in_sync(leader)
    await script.acknowledged(3)
    script.world.kill(leader)
    for other in others:
        script.mend(other)
    await script.until(lambda: script.state().leader == -1, "nobody leads")
    before = script.count()
    script.world.start(leader)
    await script.until(lambda: script.count() > before, "it goes on with the one that has everything")


@story(partitions=2)
async def scenario_16_everything_is_killed_at_once_and_starts_in_any_order(script: Script) -> None:
    """A cold start: every broker restarts, and no log is taken for an orphan."""
    for node in script.world.nodes.values():
        script.world.kill(node)
    await _start_in_any_order(script)


@story(partitions=2)
async def scenario_16_everything_loses_power_at_once_and_starts_in_any_order(script: Script) -> None:
    """The same, with synced writes only."""
    for node in script.world.nodes.values():
        script.world.lose_power(node)
    await _start_in_any_order(script)


async def _start_in_any_order(script: Script) -> None:
    world = script.world
    for node in world.dice.sample(list(world.nodes.values()), len(world.nodes)):
        world.power_on(node)
        world.start(node)
        await script.until(lambda node=node: node.running, "it runs")
