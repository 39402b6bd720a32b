"""Processes that are killed, paused or restarted, and machines without power or with wrong clocks."""

from __future__ import annotations

import asyncio

from simulation.cluster.faults.hands import Hands, fault, later_fault


@fault
def kill(hands: Hands) -> None:
    """SIGKILL."""
    node = hands.somebody()
    if hands.may_go_down(node):
        hands.world.kill(node)
        hands.restart_later(node)


@fault
def power_loss(hands: Hands) -> None:
    """Unsynced writes may be lost."""
    node = hands.somebody()
    if hands.may_go_down(node):
        hands.world.lose_power(node)
        hands.restart_later(node)


@fault
def blackout(hands: Hands) -> None:
    """Every process is killed."""
    if hands.dice.random() < 0.5:
        return
    power = hands.dice.random() < 0.5
    for node in hands.world.nodes.values():
        if node.running:
            (hands.world.lose_power if power else hands.world.kill)(node)
        hands.restart_later(node)


@fault
def lose_several(hands: Hands) -> None:
    """A minority of the brokers goes down, or all but one; sometimes the active controller too."""
    brokers = hands.world.brokers
    victims = hands.dice.sample(brokers, hands.dice.choice((2, len(brokers) - 1)))
    if hands.dice.random() < 0.3 and (active := hands.active()) is not None:
        victims.append(active)
    power = hands.dice.random() < 0.5
    for node in victims:
        if node.running:
            (hands.world.lose_power if power else hands.world.kill)(node)
            hands.restart_later(node)


@fault
def pause(hands: Hands) -> None:
    """SIGSTOP, and SIGCONT some time later."""
    node = hands.somebody()
    process = node.process
    if process is None or not process.alive or process.paused:
        return
    hands.note(f"pause {node.name}")
    process.paused = True

    def resume() -> None:
        if process.alive:
            hands.note(f"resume {node.name}")
            hands.world.loop.resume(process)

    hands.later(resume)


@fault
def stop_in_order(hands: Hands) -> None:
    """SIGTERM."""
    node = hands.somebody()
    if hands.may_go_down(node):
        hands.note(f"stop {node.name}")
        node.stop()
        hands.restart_later(node)


@fault
def rolling_restart(hands: Hands) -> None:
    """One broker after another shuts down in order, and starts again."""
    pause_s = hands.dice.uniform(0.3, 2.0)

    async def roll() -> None:
        for node in hands.world.brokers:
            if node.running:
                hands.note(f"stop {node.name}")
                node.stop()
                await asyncio.sleep(pause_s)
                hands.restart(node)
                await asyncio.sleep(pause_s)

    hands.start(asyncio.ensure_future(roll()))


@fault
def clock(hands: Hands) -> None:
    """The wall clock jumps."""
    node = hands.anybody()
    if node.process is not None:
        node.process.wall_skew_us = int(hands.dice.uniform(-3600, 3600) * 1e6)
        hands.note(f"clock of {node.name} jumps by {node.process.wall_skew_us // 1_000_000} s")


@later_fault
def brief_run(hands: Hands) -> None:
    """A broker is killed and started, and stops in order before or while it opens its logs; often power fails then."""
    node = hands.dice.choice(hands.world.brokers)
    if not hands.may_go_down(node):
        return
    run_s, fails = hands.dice.choice((0.0, 0.01, 0.05, 0.3)), hands.dice.random() < 0.5
    hands.world.kill(node)

    async def run() -> None:
        hands.restart(node)
        await asyncio.sleep(run_s)
        hands.note(f"stop {node.name}")
        node.stop()
        await asyncio.sleep(1.0)
        if fails and not node.running:
            hands.world.lose_power(node)
        hands.restart_later(node)

    hands.start(asyncio.ensure_future(run()))
