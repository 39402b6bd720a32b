"""Replicas that move, and get another target meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from telling import story

import raftlog
from simulation.cluster.nodes import Node
from simulation.cluster.script import Script
from simulation.cluster.workload import TOPIC


@story(brokers=4, min_insync_replicas=1, replica_lag_time_max_ms=2_000)
async def scenario_18_a_move_is_not_redirected_away_from_who_is_in_sync(script: Script) -> None:
    """Of the complete replicas only a target of the move is left; then it is removed from the assignment."""
    leader, (one, other) = script.leader(), script.followers()
    (fresh,) = (node for node in script.world.brokers if node not in (leader, one, other))
    await script.acknowledged(5)
    for node in (one, other):
        script.isolate(node, script.world.brokers)
    await script.in_sync(leader)
    await _move(script, [fresh, one, other])
    await script.in_sync(leader, fresh)
    script.world.kill(leader)
    await script.leads(fresh)
    await script.acknowledged(5)
    for target in ([one, other], [leader, one, other], None):
        with suppress(raftlog.InvalidRequestError):
            await _move(script, target)
    script.world.start(leader)
    for node in (one, other):
        script.mend(node)


async def _move(script: Script, target: Sequence[Node] | None) -> None:
    replicas = [node.node_id for node in target] if target is not None else None
    await script.administer(lambda admin: admin.reassign_partitions({(TOPIC, 0): replicas}))
