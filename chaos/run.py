"""What a scenario works with: a cluster under load, its watch and its history."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from chaos.cluster import ChaosCluster
from chaos.history import Fault, History
from chaos.options import Options
from chaos.site import BrokenPromiseError, Site
from chaos.watch import Watch
from chaos.workload import Workload

LEADER_WITHIN_S = 30.0
LOAD_WITHIN_S = 120.0


@dataclass(slots=True)
class Run:
    """What a scenario works with. `figures` go into the report."""

    cluster: ChaosCluster
    workload: Workload
    watch: Watch
    site: Site
    history: History
    topic: str
    options: Options
    dice: random.Random
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def brokers(self) -> list[str]:
        return self.cluster.nodes.brokers

    async def warm_up(self, count: int = 100) -> None:
        """Wait until records are acknowledged, and check that no connection bypasses its proxy."""
        await self.load(count)
        if bypasses := self.cluster.bypasses():
            raise BrokenPromiseError(f"connections bypass the proxies: {bypasses}")

    async def load(self, count: int) -> None:
        """Wait until so many more records are acknowledged. A machine that is too slow does not break a promise.

        Raises:
            TimeoutError: it is too slow.
        """
        try:
            await self.workload.acknowledged.more(count, within_s=LOAD_WITHIN_S)
        except TimeoutError:
            raise TimeoutError(f"{count} records were not acknowledged within {LOAD_WITHIN_S:g} s") from None

    async def until_acknowledged(self, figure: str) -> None:
        """Wait until every partition acknowledges new records; note the milliseconds that took."""
        try:
            seconds = await self.workload.acknowledged.everywhere(within_s=LEADER_WITHIN_S)
        except TimeoutError:
            raise BrokenPromiseError(
                f"{figure}: not every partition acknowledged within {LEADER_WITHIN_S:g} s"
            ) from None
        self.figures[figure] = round(seconds * 1000)

    @contextmanager
    def fault(self, kind: str, target: str, *nodes: str) -> Iterator[Fault]:
        """Note a fault that lasts as long as the block."""
        fault = Fault(kind=kind, target=target, nodes=nodes, begun_ns=time.monotonic_ns())
        self.history.faults.append(fault)
        self.history.note(f"{kind} x {target}: {' '.join(nodes)}")
        try:
            yield fault
        finally:
            fault.ended_ns = time.monotonic_ns()
            self.history.note(f"end of {kind} x {target}")
