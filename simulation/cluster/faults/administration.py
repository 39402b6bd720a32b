"""What operators do at any time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import raftlog
from raftlog.errors import RaftlogError
from simulation.cluster.faults.hands import Hands, fault
from simulation.cluster.loop import Process
from simulation.cluster.workload import TOPIC

HOST = "10.0.4.1"


def _administer(hands: Hands, what: str, ask: Callable[[raftlog.Admin], Awaitable[Any]]) -> None:
    hands.note(what)

    async def work() -> None:
        try:
            async with raftlog.Admin(hands.world.bootstrap) as admin:
                await ask(admin)
        except RaftlogError as error:
            hands.note(f"  refused: {error.code.value}")

    hands.start(hands.world.loop.create_task(work(), context=Process("admin", HOST).context))


@fault
def reassign(hands: Hands) -> None:
    """Move a partition to other replicas, in another order, or cancel that."""
    brokers = range(1, len(hands.world.brokers) + 1)
    partition = hands.dice.randrange(hands.world.settings.partitions)
    replicas = hands.dice.sample(brokers, hands.world.settings.replicas)
    target = None if hands.dice.random() < 0.2 else replicas
    _administer(
        hands,
        f"reassign {partition} to {target}",
        lambda admin: admin.reassign_partitions({(TOPIC, partition): target}),
    )


@fault
def elect(hands: Hands) -> None:
    """Elect preferred leaders."""
    _administer(hands, "elect preferred leaders", lambda admin: admin.elect_leaders())


@fault
def alter(hands: Hands) -> None:
    """Require more or fewer replicas in sync."""
    value = hands.dice.choice((1, 2))
    _administer(
        hands,
        f"min_insync_replicas={value}",
        lambda admin: admin.alter_topic(TOPIC, configs={"min_insync_replicas": value}),
    )
