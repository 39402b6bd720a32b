"""Acknowledged deletions: deleted records stay deleted at every later leader."""

from __future__ import annotations

import asyncio

from telling import story

from simulation.cluster.loop import Process
from simulation.cluster.script import Script
from simulation.cluster.settings import Removal


def _newest(script: Script) -> int:
    return max(send.offset for send in script.world.history.sends)


def _delete_below(script: Script, offset: int) -> asyncio.Task[None]:
    deletion = script.world.remover.delete_below(0, offset)
    return script.world.loop.create_task(deletion, context=Process("operator", "10.0.5.1").context)


@story(removal=Removal())
async def scenario_17_who_joins_the_isr_has_deleted_what_was_deleted(script: Script) -> None:
    """A follower that was cut off lacks no record.

    It rejoins, and leads before it learns of the deletions meanwhile.
    """
    leader, (one, other) = script.leader(), script.followers()
    await script.acknowledged(10)
    await script.hush()
    script.isolate(one, script.world.brokers)
    await script.in_sync(leader, other)
    _delete_below(script, _newest(script))
    await script.until(lambda: bool(script.world.remover.promised[0]), "everything is deleted for good")
    script.world.net.slow[leader.host, one.host] = 0.4  # Its requests arrive at once.
    script.mend(one)
    await script.until(lambda: one.node_id in script.state().isr, "it joins")
    script.world.kill(leader)
    del script.world.net.slow[leader.host, one.host]
    await script.leads(one)
    script.speak()
    await script.acknowledged(2)
    script.world.start(leader)


@story(removal=Removal())
async def scenario_17_nothing_is_deleted_for_certain_below_min_isr(script: Script) -> None:
    """The last of the ISR deletes, and dies; a replica in the ELR, which was not asked to delete, leads."""
    leader, (one, other) = script.leader(), script.followers()
    await script.acknowledged(10)
    script.isolate(one, script.world.brokers)
    await script.in_sync(leader, other)
    script.isolate(other, script.world.brokers)
    await script.in_sync(leader)
    _delete_below(script, _newest(script) // 2)
    await script.pass_time(1)
    script.world.kill(leader)
    script.mend(one)
    script.mend(other)
    await script.leads(other)
    await script.acknowledged(2)
    script.world.start(leader)
