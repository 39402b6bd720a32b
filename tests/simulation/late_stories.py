"""What arrives late, or never: answers, second copies, words of earlier incarnations, and tails of earlier epochs."""

from __future__ import annotations

from telling import story

from simulation.cluster.nodes import Node
from simulation.cluster.script import Script


async def _leaves(script: Script, node: Node) -> None:
    script.isolate(node)
    await script.until(lambda: node.node_id not in script.state().isr, "it left the ISR")


async def _proposes(script: Script, leader: Node) -> None:
    await script.until(
        lambda: (r := script.replica(leader)) is not None and r.core is not None and r.core.pending_isr is not None,
        "a change is proposed",
    )


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


@story()
async def scenario_6_an_addition_stands_whose_answer_is_lost(script: Script) -> None:
    """The controller has accepted it, and the leader never hears: who joined counts until newer metadata says no."""
    leader, (one, _) = script.leader(), script.followers()
    script.isolate(one, script.world.brokers)
    await script.until(lambda: one.node_id not in script.state().isr, "it left the ISR")
    await script.acknowledged(3)  # The leader has heard that.
    script.hold(script.world.controllers, leader)
    script.mend(one)
    await script.until(lambda: one.node_id in script.state().isr, "it joined")
    script.hold(one, leader)
    await script.pass_time(3.4)  # The leader has given up on an answer, and is not fenced yet.
    script.release(one, leader)
    script.release(script.world.controllers, leader)
    await script.in_sync()


@story()
async def scenario_6_a_second_copy_of_a_change_arrives_when_it_is_no_longer_true(script: Script) -> None:
    """It is a compare-and-swap on the partition epoch: what was asked twice happens once."""
    leader, (one, _) = script.leader(), script.followers()
    await _leaves(script, one)
    end_stall = script.stall(leader, script.world.controllers)
    script.mend(one)
    await _proposes(script, leader)
    await script.until(lambda: one.node_id in script.state().isr, "its second copy was accepted")
    await _leaves(script, one)
    await script.acknowledged(3)
    end_stall()
    await script.pass_time(1.0)
    script.mend(one)


@story()
async def scenario_7_a_wiped_broker_does_not_count_by_a_fetch_of_its_past(script: Script) -> None:
    """KIP-903: what it said before it lost its disk arrives after what it says now."""
    leader, (one, _) = script.leader(), script.followers()
    await script.pass_time(1.0)
    end_stall = script.stall(one, leader)
    await script.pass_time(0.6)  # A fetch is under way.
    script.world.lose_power(one)
    script.world.replace_disk(one)
    script.world.power_on(one)
    script.world.start(one)
    await script.until(lambda: one.broker is not None and script.replica(one) is not None, "it is back")
    script.hold(leader, one)
    await script.pass_time(0.3)
    end_stall()
    await script.pass_time(1.0)
    script.release(leader, one)
    await script.in_sync()
