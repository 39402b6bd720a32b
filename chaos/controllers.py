"""The scenario `controllers`: faults of the metadata quorum, round after round, while clients change topics.

A round is one or two faults for some seconds, after which everything is healed; the seed decides the faults. After each
healing the quorum must soon accept a change, and every node must become ready. In the end all nodes must agree, and the
checker judges the clients' history.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from chaos.cluster import ChaosCluster
from chaos.history import Outcome as Told
from chaos.metadata_checker import check_metadata
from chaos.metadata_history import CHANGES, MetadataHistory
from chaos.metadata_workload import MetadataClient, MetadataLoad
from chaos.options import Options
from chaos.quorum_nemesis import Nemesis, Schedule
from chaos.referee import Referee
from chaos.report import save
from chaos.runner import Outcome
from chaos.site import BrokenPromiseError
from raftlog.cli.local_cluster import ClusterError

NAME = "controllers"
CLIENTS = 5
DEFAULT_DURATION_S = 60.0
ACCEPTED_WITHIN_S = 30.0
READY_WITHIN_S = 60.0
AGREED_WITHIN_S = 60.0
MAX_CALM_S = 2.0
OUTCOMES: dict[Told, str] = {"ok": "ok", "fail": "refused", "info": "unknown"}


@dataclass(slots=True)
class _Run:
    """One run, and its measurements."""

    seed: int
    duration_s: float
    history: MetadataHistory = field(default_factory=MetadataHistory)
    figures: dict[str, Any] = field(default_factory=dict)
    back_after_ms: list[int] = field(default_factory=list)
    """For each round, the time from healing to the first change that was requested since and accepted."""
    loaded_ns: tuple[int, int] = (0, 0)
    """When the clients began and ended."""

    async def on(self, cluster: ChaosCluster) -> None:
        """Run the clients and the faults; check that all nodes agree in the end."""
        brokers = {name: address for name in cluster.nodes.brokers if (address := cluster.nodes.node(name).health)}
        clients = [
            MetadataClient(f"client-{number}", brokers=brokers, dial=cluster.dial, history=self.history, seed=self.seed)
            for number in range(CLIENTS)
        ]
        referee = Referee(cluster)
        try:
            async with referee:
                await self._storm(cluster, clients, referee)
                offset, digest = await referee.until_all_agree(within_s=AGREED_WITHIN_S)
                self.figures |= {
                    "digest": digest,
                    "digest_offset": offset,
                    "nodes_that_agree": len(cluster.nodes.names),
                }
                for broker in brokers:
                    for local in (False, True):
                        if await clients[0].list_topics(local=local, broker=broker, final=True) is None:
                            raise BrokenPromiseError(f"{broker} does not answer after everything was healed")
        finally:
            sightings = referee.sightings
            self.figures["new_active_controllers"] = sightings.new_active_controllers
            self.figures["controller_epochs"] = len(sightings.epochs)
            self.figures["offsets_compared"] = len(sightings.digests)
            for client in clients:
                await client.close()
        if sightings.diverged:
            raise BrokenPromiseError(f"images diverged: {sightings.diverged[:5]}")

    async def _storm(self, cluster: ChaosCluster, clients: list[MetadataClient], referee: Referee) -> None:
        schedule = Schedule(self.seed, targets=cluster.nodes.controllers, peers=cluster.nodes.brokers)
        nemesis = Nemesis(cluster, schedule, active=referee.active, note=self.history.note)
        calm, started = random.Random(self.seed), time.monotonic()
        self.figures["faults"] = nemesis.counts
        begun_ns = time.monotonic_ns()
        try:
            async with MetadataLoad(clients):
                await self._until_accepted(begun_ns)
                if bypasses := cluster.bypasses():
                    raise BrokenPromiseError(f"connections bypass the proxies: {bypasses}")
                while time.monotonic() - started < self.duration_s:
                    drawn = await nemesis.round()
                    self.back_after_ms.append(await self._until_accepted(time.monotonic_ns()))
                    await nemesis.until_ready(READY_WITHIN_S)
                    await asyncio.sleep(MAX_CALM_S * calm.random())
                    self._say(f"{time.monotonic() - started:5.0f} s, round {len(self.back_after_ms)}: {drawn}")
        finally:
            self.loaded_ns = begun_ns, time.monotonic_ns()

    async def _until_accepted(self, since_ns: int) -> int:
        """Wait until a change that was requested since then is accepted; return the milliseconds that took."""
        looked = 0
        async with asyncio.timeout(ACCEPTED_WITHIN_S):
            while True:
                for operation in self.history.operations[looked:]:
                    looked += 1
                    accepted = operation.outcome == "ok" and operation.action in CHANGES
                    if accepted and operation.invoked_ns > since_ns:
                        return (operation.completed_ns - since_ns) // 1_000_000
                await asyncio.sleep(0.02)

    def _say(self, what: str) -> None:
        counts = Counter(op.outcome for op in self.history.operations if op.action in CHANGES)
        so_far = ", ".join(f"{counts[outcome]} {name}" for outcome, name in OUTCOMES.items())
        sys.stderr.write(f"  {what}; back after {self.back_after_ms[-1]} ms; changes: {so_far}\n")

    def longest_without_accepted_ms(self) -> int:
        """Return the longest time without an accepted change, faults included."""
        begun, ended = self.loaded_ns
        accepted = [op.completed_ns for op in self.history.operations if op.outcome == "ok" and op.action in CHANGES]
        moments = [begun, *sorted(accepted), ended]
        return max((after - before) // 1_000_000 for before, after in pairwise(moments))


async def run_controllers(folder: Path, options: Options) -> Outcome:
    """Run the scenario in a new `folder`, which also keeps the report and the history."""
    shutil.rmtree(folder, ignore_errors=True)
    run, broken = _Run(options.seed, options.duration_s or DEFAULT_DURATION_S), ""
    try:
        async with ChaosCluster(folder / "cluster", command=options.command, secure=options.secure) as cluster:
            await run.on(cluster)
    except (BrokenPromiseError, ClusterError) as error:
        broken = str(error)
    except TimeoutError as error:
        broken = str(error) or f"no change was accepted within {ACCEPTED_WITHIN_S:g} s of healing"
    finally:
        run.history.save(folder / "history.jsonl")
    return Outcome(_report(run, folder, broken))


def _report(run: _Run, folder: Path, broken: str) -> dict[str, Any]:
    verdict = check_metadata(run.history)
    back = run.back_after_ms or [-1]
    report = {
        "ok": verdict.ok and not broken,
        "scenario": NAME,
        "seed": run.seed,
        "seconds": round((run.loaded_ns[1] - run.loaded_ns[0]) / 1e9),
        "valid": verdict.valid,
        "changes": _outcomes(run.history),
        "reads": verdict.read,
        "rounds": len(run.back_after_ms),
        "longest_without_accepted_ms": run.longest_without_accepted_ms(),
        "back_after_healing_ms": {"median": round(statistics.median(back)), "max": max(back)},
        "anomalies": dict(Counter(anomaly.kind for anomaly in verdict.anomalies)),
        "broken_promise": broken,
        **run.figures,
    }
    save(folder, report, verdict.anomalies)
    return report


def _outcomes(history: MetadataHistory) -> dict[str, dict[str, int]]:
    counts = Counter((op.action, op.outcome) for op in history.operations)
    return {action: {name: counts[action, outcome] for outcome, name in OUTCOMES.items()} for action in CHANGES}
