"""Scenarios: what is done to a cluster under load. Each is a story of faults; the checker judges what clients saw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from chaos.cluster import ChaosCluster
from chaos.history import History
from chaos.topology import CLIENT
from chaos.workload import Workload

LEADER_WITHIN_S = 30.0
FULL_ISR_WITHIN_S = 60.0


class BrokenPromiseError(Exception):
    """Something that must happen within a bound did not, or something happened that never may."""


@dataclass(slots=True)
class Run:
    """What a scenario works with. `figures` go into the report."""

    cluster: ChaosCluster
    workload: Workload
    history: History
    topic: str
    figures: dict[str, float] = field(default_factory=dict)

    async def until_acknowledged(self, figure: str) -> None:
        """Wait until every partition acknowledges new records, and note how long that took, in ms."""
        try:
            seconds = await self.workload.acknowledged_everywhere(within_s=LEADER_WITHIN_S)
        except TimeoutError:
            raise BrokenPromiseError(
                f"{figure}: not every partition acknowledged within {LEADER_WITHIN_S:g} s"
            ) from None
        self.figures[figure] = round(seconds * 1000)

    async def until_in_sync(self) -> None:
        """Wait until every replica is in sync again."""
        try:
            await self.cluster.wait_full_isr(self.topic, within_s=FULL_ISR_WITHIN_S)
        except TimeoutError as error:
            raise BrokenPromiseError(str(error)) from None


async def isolate_leader_then_kill_all_but_one(run: Run) -> None:
    """Cut a leader off from all nodes (clients still reach it), heal; then kill N-1 replicas at once, restart."""
    cluster, history = run.cluster, run.history
    await run.workload.more_acknowledged(200, within_s=30)
    if bypasses := cluster.bypasses():
        raise BrokenPromiseError(f"connections bypass the proxies: {bypasses}")

    leader = await cluster.leader_of(run.topic, 0)
    history.note(f"isolate {leader}")
    cluster.links.isolate(leader, spare=frozenset({CLIENT}))
    await run.until_acknowledged("isolated_leader_replaced_ms")
    history.note("heal")
    cluster.links.heal()
    await run.until_in_sync()
    await run.workload.more_acknowledged(200, within_s=30)

    survivor = await cluster.leader_of(run.topic, 1)
    victims = [name for name in cluster.nodes.brokers if name != survivor]
    history.note(f"kill {victims}")
    await cluster.kill(*victims)
    history.note(f"restart {victims}")
    await cluster.restart(*victims)
    await run.until_acknowledged("back_after_restart_ms")
    await run.until_in_sync()


async def kill_each_process(run: Run) -> None:
    """Kill each process of the cluster in turn, the leader and the active controller among them, and restart it."""
    for name in run.cluster.nodes.names:
        run.history.note(f"kill {name}")
        await run.cluster.kill(name)
        await run.until_acknowledged(f"after_{name}_ms")
        run.history.note(f"restart {name}")
        await run.cluster.restart(name)
        await run.until_in_sync()
        await run.workload.more_acknowledged(50, within_s=30)


SCENARIOS: dict[str, Callable[[Run], Awaitable[None]]] = {
    "isolate-leader": isolate_leader_then_kill_all_but_one,
    "kill-each": kill_each_process,
}
