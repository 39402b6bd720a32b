"""Draws faults from a seed, injects them into a cluster, and undoes them. Each step goes into the history.

One round is one or two cells of the matrix for some seconds. Then everything is healed, the cluster becomes healthy,
and some seconds pass without faults. The draw depends on the seed alone; which broker is "the leader" is looked up when
the fault begins, and noted.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.capabilities import Capabilities
from chaos.faults import FAULTS, Cell, cells
from chaos.history import Fault, History
from chaos.site import BrokenPromiseError, Site
from chaos.topology import CLIENT

PAIRED_FAULTS = 0.35
MIN_S, MAX_S = 0.5, 3.0
MAX_CALM_S = 1.5
MAX_BROKEN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The cells of one round, their duration, and the duration of the pause afterwards."""

    cells: tuple[Cell, ...]
    seconds: float
    calm_s: float
    seed: str
    """Seeds the other choices: the partition, the delay, the bit."""

    def __str__(self) -> str:
        return f"{' and '.join(map(str, self.cells))} for {self.seconds:.1f} s"


class Schedule:
    """Rounds as a pure function of the seed. Faults that a machine cannot inject are drawn too, and skipped later."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._dice = random.Random(seed)
        self._number = 0

    def sweep(self) -> Iterator[Round]:
        """Yield every cell of the matrix once, alone, in an order that the seed decides."""
        whole = cells()
        self._dice.shuffle(whole)
        for cell in whole:
            yield self._round((cell,))

    def swarm(self) -> Iterator[Round]:
        """Yield rounds without end.

        Each ten rounds draw from a few kinds of faults only, which change from ten to ten.
        """
        whole = cells()
        while True:
            kinds = set(self._dice.sample(list(FAULTS), self._dice.randint(2, len(FAULTS))))
            among = [cell for cell in whole if cell.fault in kinds]
            for _ in range(10):
                yield self._round(self._some(among))

    def _some(self, among: Sequence[Cell]) -> tuple[Cell, ...]:
        first = self._dice.choice(among)
        partners = [cell for cell in among if cell.fault != first.fault and not FAULTS[cell.fault].alone]
        if FAULTS[first.fault].alone or not partners or self._dice.random() >= PAIRED_FAULTS:
            return (first,)
        return first, self._dice.choice(partners)

    def _round(self, chosen: tuple[Cell, ...]) -> Round:
        self._number += 1
        return Round(
            cells=chosen,
            seconds=self._dice.uniform(MIN_S, MAX_S),
            calm_s=self._dice.uniform(0, MAX_CALM_S),
            seed=f"{self._seed} {self._number}",
        )


class Nemesis:
    """Injects the faults of rounds into a site."""

    def __init__(self, site: Site, history: History, capabilities: Capabilities) -> None:
        self._site, self._history, self._capabilities = site, history, capabilities

    async def run(self, rounds: Iterator[Round], *, until: float = float("inf")) -> None:
        """Run rounds, one after another, until the monotonic clock shows `until`.

        A broken promise does not end the run, for the next rounds may find more; `MAX_BROKEN` of them do.

        Raises:
            BrokenPromiseError: the cluster did not become healthy after these rounds.
        """
        broken = list[str]()
        for number, drawn in enumerate(rounds, 1):
            if time.monotonic() >= until or len(broken) == MAX_BROKEN:
                break
            started = time.monotonic()
            try:
                await self.round(drawn)
            except BrokenPromiseError as error:
                broken.append(f"round {number}, {drawn}: {error}")
                self._history.note(f"BROKEN: {broken[-1]}")
            fate = f"BROKEN: {broken[-1]}" if broken and broken[-1].startswith(f"round {number},") else "well again"
            sys.stderr.write(f"  round {number}: {drawn}; {fate}; {time.monotonic() - started:.1f} s in all\n")
        if broken:
            raise BrokenPromiseError("\n".join(broken))

    async def round(self, drawn: Round) -> None:
        """Run one round, up to and including the pause without faults."""
        dice, began = random.Random(drawn.seed), list[Fault]()
        self._history.note(f"round: {drawn}")
        try:
            for cell in drawn.cells:
                began.append(await self._begin(cell, dice))
            if all(fault.skipped for fault in began):
                return
            await asyncio.sleep(drawn.seconds)
            self._site.require_alive({node for fault in began for node in fault.nodes if _is_down(fault)})
        finally:
            try:
                await self._site.heal()
            finally:
                for fault in began:
                    fault.ended_ns = time.monotonic_ns()
        try:
            back_ms = await self._site.until_well()
        except BrokenPromiseError as error:
            for fault in began:
                fault.broken = str(error)
            raise
        for fault in began:
            fault.back_ms = back_ms
        await asyncio.sleep(drawn.calm_s)

    async def _begin(self, cell: Cell, dice: random.Random) -> Fault:
        kind, now = FAULTS[cell.fault], time.monotonic_ns()
        if not self._capabilities.has(kind.needs):
            assert kind.needs is not None
            why = self._capabilities.missing[kind.needs]
            fault = Fault(kind=cell.fault, target=cell.target, nodes=(), begun_ns=now, ended_ns=now, skipped=why)
            self._history.faults.append(fault)
            return fault
        nodes = choose(self._site, cell.target, dice)
        fault = Fault(kind=cell.fault, target=cell.target, nodes=nodes, begun_ns=now)
        self._history.faults.append(fault)
        if kind.ends_processes:
            self._site.may_end.update(nodes)
        fault.detail = await kind.begin(self._site, nodes, dice)
        self._history.note(f"{cell}: {' '.join(nodes)} {fault.detail}")
        return fault


def choose(site: Site, target: str, dice: random.Random) -> tuple[str, ...]:
    """Return the nodes that a target's name refers to now."""
    brokers, controllers = site.cluster.nodes.brokers, site.cluster.nodes.controllers
    partition = dice.choice(sorted(site.watch.replicas) or [0])
    leader = site.watch.leader(partition) or dice.choice(brokers)
    active = site.watch.active_controller or dice.choice(controllers)
    one_broker, one_controller, last = dice.choice(brokers), dice.choice(controllers), dice.random()
    match target:
        case "follower":
            return (dice.choice([name for name in brokers if name != leader]),)
        case "leader":
            return (leader,)
        case "controller":
            return (active,)
        case "leader and controller":
            return (leader, active)
        case "minority":
            return (one_broker, one_controller)
        case "N-1":
            replicas = [f"broker-{replica}" for replica in site.watch.replicas.get(partition, ())] or list(brokers)
            spared = replicas[int(last * len(replicas))]
            return tuple(name for name in replicas if name != spared)
        case "all":
            return tuple(site.cluster.nodes.names)
        case "clients":
            return (CLIENT,)
        case _:
            raise ValueError(f"no such target: {target!r}")


def _is_down(fault: Fault) -> bool:
    return fault.kind in {"SIGKILL", "SIGTERM", "power cut", "bit flip", "truncated file"}
