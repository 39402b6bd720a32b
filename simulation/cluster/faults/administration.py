"""What operators do at any time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import raftlog
from raftlog.errors import RaftlogError
from simulation.cluster.faults.hands import Hands, fault, later_fault
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


@later_fault
def reassign_any(hands: Hands) -> None:
    """Move a partition of any topic, or cancel a move that is under way. Coordinators, transactions, keys move too."""
    image = hands.world.newest_image()
    states = sorted((topic.topic, number, state) for topic, number, state in image.partitions())
    moving = [one for one in states if one[2].adding or one[2].removing]
    if moving and hands.dice.random() < 0.3:
        topic, number, _ = hands.dice.choice(moving)
        target = None
    else:
        topic, number, state = hands.dice.choice(states)
        target = hands.dice.sample(range(1, len(hands.world.brokers) + 1), len({*state.replicas} - {*state.adding}))
    _administer(
        hands,
        f"reassign {topic}-{number} to {target}",
        lambda admin: admin.reassign_partitions({(topic, number): target}),
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
