"""Messages that arrive late, or never: answers, second copies, earlier incarnations, and records of earlier epochs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

from telling import story

from raftlog.record.batch import HEADER_BYTES
from simulation.cluster.nodes import Node
from simulation.cluster.rotting import rot_apart
from simulation.cluster.script import Script


async def _leaves(script: Script, node: Node) -> None:
    """Cut a follower off from the brokers, not from the controllers: it leaves the ISR, and may rejoin at once."""
    script.isolate(node, script.world.brokers)
    await script.until(lambda: node.node_id not in script.state().isr, f"{node.name} left the ISR")
    await script.acknowledged(3)  # The leader knows of the change.


async def _proposes_late(script: Script, leader: Node, one: Node) -> Callable[[], None]:
    """Have a leader propose a follower's return, on a connection that stalls; return the end of the stall.

    Its connections to the other controllers, and new ones, work: it keeps its session.
    """
    await _leaves(script, one)
    script.hold(leader, script.world.controllers)
    script.mend(one)
    await script.until(
        lambda: (r := script.replica(leader)) is not None and r.core is not None and r.core.pending_isr is not None,
        "a change is proposed",
    )
    await script.pass_time(0.01)
    end_stall = script.stall(leader, script.active())
    script.release(leader, script.world.controllers)
    return end_stall


@story(min_insync_replicas=1)
async def scenario_2_a_leader_lacks_the_epoch_that_a_follower_ends_in(script: Script) -> None:
    """KIP-279: C led alone from offset n; B, which leads now, has more of the epoch before. Both ends count."""
    first = script.leader()
    second, third = script.followers()
    script.hold(first, second)
    await script.pass_time(0.3)  # The third holds a tail that the second never gets.
    script.isolate(second, [third])
    script.world.kill(first)
    await script.until(lambda: script.state().leader == second.node_id, "the second leads")
    await script.leads(second)
    replica = script.replica(second)
    assert replica is not None
    before = replica.log.log_end_offset
    await script.until(lambda: replica.log.log_end_offset > before, "it writes what nobody gets")
    script.isolate(second)
    await script.until(lambda: script.state().leader == third.node_id, "the third leads")
    await script.acknowledged(2)
    script.release(first, second)
    script.mend(second)
    script.world.start(first)
    await script.in_sync()


@story(broker_session_timeout_ms=20_000, producers_per_partition=3)
async def scenario_6_an_addition_stands_whose_answer_is_lost(script: Script) -> None:
    """The controller has accepted it, and the answer is lost: the new member counts until newer metadata comes."""
    leader, (one, _) = script.leader(), script.followers()
    await _leaves(script, one)
    script.hold(script.world.controllers, leader)
    script.mend(one)
    await script.until(lambda: one.node_id in script.state().isr, "it joined")
    script.hold(one, leader)
    await script.pass_time(14.0)  # The leader times out, and repeats its request several times.
    script.release(one, leader)
    script.release(script.world.controllers, leader)
    await script.in_sync()


@story(broker_session_timeout_ms=20_000)
async def scenario_6_a_second_copy_of_a_change_arrives_when_it_is_no_longer_true(script: Script) -> None:
    """It is a compare-and-swap on the partition epoch: a repeated request takes effect once."""
    leader, (one, _) = script.leader(), script.followers()
    end_stall = await _proposes_late(script, leader, one)
    await script.until(lambda: one.node_id in script.state().isr, "the second copy was accepted")
    await _leaves(script, one)
    end_stall()
    await script.pass_time(1.0)
    script.mend(one)


@story(broker_session_timeout_ms=2_500)  # The follower is fenced before the leader's first request times out.
async def scenario_6_a_copy_of_a_change_arrives_after_its_refusal(script: Script) -> None:
    """A refusal does not cover the first copy, which is still in flight: a new partition epoch fences it."""
    leader, (one, _) = script.leader(), script.followers()
    end_stall = await _proposes_late(script, leader, one)
    script.isolate(one)
    await script.until(lambda: script.world.newest_image().brokers[one.node_id].fenced, "it is fenced")
    await script.pass_time(3.5)  # The second copy is refused.
    for controller in script.world.controllers:
        script.release(one, controller)
        script.release(controller, one)
    await script.until(lambda: not script.world.newest_image().brokers[one.node_id].fenced, "it may join")
    await script.acknowledged(3)
    end_stall()
    await script.pass_time(1.0)
    script.mend(one)


@story()
async def scenario_7_a_wiped_broker_does_not_count_by_a_fetch_of_its_past(script: Script) -> None:
    """KIP-903: a request from before it lost its disk arrives after its present request."""
    leader, (one, _) = script.leader(), script.followers()
    net, link = script.world.net, (one.host, leader.host)
    await script.hush()  # Its earlier records are still all records.
    script.world.kill(one)
    net.slow[link] = 0.4
    script.world.start(one)
    await script.until(lambda: any(t.out and t.out.queue for t in net.transports.across(link)), "it fetches")
    end_stall = script.stall(one, leader)
    script.world.lose_power(one)
    script.world.replace_disk(one)
    net.slow = {link[::-1]: 0.4}  # Its requests are far ahead of its records.
    script.world.power_on(one)
    script.world.start(one)

    def has_asked() -> bool:
        replica = script.replica(leader)
        known = replica.core.followers.get(one.node_id) if replica and replica.core else None
        return known is not None and one.broker is not None and known.broker_epoch == one.broker.lifecycle.broker_epoch

    await script.until(has_asked, "its new incarnation fetches")
    end_stall()
    await script.pass_time(1.0)
    net.slow.clear()
    script.speak()
    await script.in_sync()


@story()
async def scenario_19_a_follower_finds_what_has_changed_on_its_leaders_disk(script: Script) -> None:
    """Its leader has checked headers only. At its follower's request it checks all, repairs the batch, and leads on."""
    leader, (one, other) = script.leader(), script.followers()
    await script.acknowledged(20)
    script.world.lose_power(one)
    script.world.replace_disk(one)
    await script.in_sync(leader, other)
    replica = script.replica(leader)
    assert replica is not None
    (first, _), (second, _), (third, _) = islice(replica.log.scan(), 3)
    at = first.batch_length + second.batch_length + (HEADER_BYTES + third.batch_length) // 2
    script.world.disks.flip(leader.host, replica.log.segments[0].path, at)
    leader.rotten = True
    script.world.power_on(one)
    script.world.start(one)
    await script.in_sync()
    if script.state().leader != leader.node_id:
        script.world.watch.fail(f"{leader.name} gave way because of one batch, which another replica has intact")


@story(producers_per_partition=2)
async def scenario_20_every_disk_is_damaged_and_each_batch_is_whole_on_one(script: Script) -> None:
    """Alagappan et al., FAST '18: whole copies were dropped for one bad batch each, until none was readable."""
    world = script.world
    await script.acknowledged(20)
    await script.until(
        lambda: all(replica.log.recovery_point > 10 for _, replica in world.watch.replicas()), "checkpoints"
    )
    assert rot_apart(world, world.dice, 0.5)
    await script.acknowledged(2)
    for node in world.brokers:  # All read their logs when they start again.
        world.kill(node)
    assert rot_apart(world, world.dice, 0.5)
    for node in world.brokers:
        world.start(node)


@story(broker_session_timeout_ms=20_000)
async def scenario_21_a_follower_names_new_partitions_before_its_leader_has_opened_them(script: Script) -> None:
    """The answer, an error, is lost: the follower has another topic meanwhile, and abandons its request."""
    world, leader, one = script.world, script.leader(), script.followers()[0]
    script.hold(world.controllers, leader)  # It receives no metadata.
    world.net.slow[leader.host, one.host] = 0.5
    assert leader.broker is not None
    sessions = leader.broker.replicas.followers.sessions

    def named() -> bool:
        early = world.newest_image().topic("early")
        session = sessions._by_follower.get(one.node_id)
        return bool(early and session and any(key.topic_id == early.topic_id for key in session.partitions))

    async with asyncio.TaskGroup() as creating:
        creating.create_task(script.administer(lambda admin: admin.create_topic("early", partitions=3)))
        await script.until(named, "the follower has named the new partitions")
        creating.create_task(script.administer(lambda admin: admin.create_topic("later", partitions=3)))
        await script.until(lambda: "later" in _topics_of(one), "the follower has the later topic")
        script.release(world.controllers, leader)
        await script.until(lambda: {"early", "later"} <= _topics_of(leader), "its leader has opened both")
        del world.net.slow[leader.host, one.host]
    await script.writes({"early": 3, "later": 3})


def _topics_of(node: Node) -> set[str]:
    return {replica.assignment.topic_partition.topic for replica in node.replicas}
