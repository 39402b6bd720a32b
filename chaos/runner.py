"""Runs one scenario: cluster, load, faults, final reads, the replicas' logs, verdict, report."""

from __future__ import annotations

import asyncio
import random
import shutil
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import raftlog
from chaos.bulk_load import BulkLoad, BulkLoadError, bulk_load, judge_bulk, settings_for_load
from chaos.checker import check
from chaos.cluster import ChaosCluster
from chaos.disks import DiskError
from chaos.history import Fault, History
from chaos.kafka_clients import read_everything_with_kafka
from chaos.links import LinkError
from chaos.options import Options
from chaos.readers import read_everything
from chaos.replica_logs import read_replicas
from chaos.report import plain, save, section
from chaos.run import Run
from chaos.scenarios import SCENARIOS, Scenario
from chaos.site import BrokenPromiseError, Site
from chaos.watch import Watch
from chaos.workload import Workload
from raftlog.cli.local_cluster import ClusterError
from raftlog.errors import RaftlogError

TOPIC = "chaos"
READ_WITHIN_S = 120.0
FULL_READS = 2
FAILURES = (BrokenPromiseError, BulkLoadError, ClusterError, DiskError, LinkError, RaftlogError, OSError)
MAX_HISTORY = 200_000
"""A history with more operations is not kept as a file."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a scenario.

    Args:
        report: plain data; it always contains `ok`.
        section: its part of the page.
        faults: its entries in the matrix.
    """

    report: dict[str, Any]
    section: str = ""
    faults: list[Fault] = field(default_factory=list)


async def run_scenario(name: str, folder: Path, options: Options | None = None) -> Outcome:
    """Run a scenario in a new `folder`, which also keeps the report and the history."""
    shutil.rmtree(folder, ignore_errors=True)
    options, scenario = options or Options(), SCENARIOS[name]
    if not options.capabilities.has(scenario.needs):
        return _skipped(name, options, scenario)
    history, figures, broken = History(), dict[str, Any](), ""
    cluster = ChaosCluster(
        folder / "cluster",
        brokers=scenario.brokers,
        capabilities=options.capabilities if scenario.disks else None,
        command=options.command,
        secure=options.secure or scenario.secure,
        **(settings_for_load(scenario.brokers) if options.load else {}),
    )
    try:
        async with cluster, _bulk(cluster, folder, scenario, options) as bulk:
            await _run(cluster, scenario, options, history, figures, bulk)
    except (BrokenPromiseError, ClusterError) as error:
        broken = str(error)
    except FAILURES as error:
        broken = f"{type(error).__name__}: {error}"
    return _outcome(folder, history, figures, broken, options)


async def _run(
    cluster: ChaosCluster,
    scenario: Scenario,
    options: Options,
    history: History,
    figures: dict[str, Any],
    bulk: BulkLoad | None,
) -> None:
    async with raftlog.Admin(cluster.bootstrap) as admin:
        await admin.create_topic(
            TOPIC, partitions=scenario.partitions, replication_factor=scenario.brokers, configs=scenario.configs
        )
    await cluster.wait_full_isr(TOPIC, within_s=30)
    workload = Workload(
        bootstrap=cluster.bootstrap,
        dial=cluster.dial,
        topic=TOPIC,
        partitions=scenario.partitions,
        history=history,
        seed=options.seed,
        kinds=scenario.kinds,
    )
    watch = Watch(cluster, TOPIC, history)
    site = Site(cluster, workload, watch, TOPIC, beside=[bulk.topic] if bulk else [])
    dice = random.Random(options.seed)
    failed: list[Exception] = []
    try:
        async with watch, workload, bulk or nullcontext():
            run = Run(cluster, workload, watch, site, history, TOPIC, options, dice, figures)
            await scenario.story(run)
    except FAILURES as error:
        failed.append(error)  # The logs are read nevertheless: they show more.
    for rest in (site.heal, partial(judge_bulk, bulk, figures), partial(_finish, cluster, scenario, history)):
        try:
            await rest()
        except FAILURES as error:
            failed.append(error)
    if failed:
        raise failed[0]  # The others follow from it.


def _bulk(
    cluster: ChaosCluster, folder: Path, scenario: Scenario, options: Options
) -> AbstractAsyncContextManager[BulkLoad | None]:
    return bulk_load(cluster, folder / "bulk", options.load, brokers=scenario.brokers, configs=scenario.configs)


async def _finish(cluster: ChaosCluster, scenario: Scenario, history: History) -> None:
    """Read everything with new clients, stop all processes, and read the replicas' logs."""
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            for number in range(FULL_READS):
                await read_everything(history, bootstrap=cluster.bootstrap, topic=TOPIC, process=f"final-{number}")
            if any(kind.library != "raftlog" for kind in scenario.kinds):
                await read_everything_with_kafka(history, cluster.bootstrap, TOPIC)
            info = await cluster.describe(TOPIC)
    except TimeoutError:
        raise BrokenPromiseError(f"not everything could be read within {READ_WITHIN_S:g} s of healing") from None
    in_sync = {state.partition: {f"broker-{member}" for member in state.isr} for state in info.partitions}
    data_dirs = {name: cluster.data_dir(name) for name in cluster.nodes.brokers}
    try:
        await cluster.stop_nodes()
    finally:
        history.replicas += await asyncio.to_thread(lambda: list(read_replicas(data_dirs, TOPIC, in_sync)))


def _skipped(name: str, options: Options, scenario: Scenario) -> Outcome:
    assert scenario.needs is not None
    return Outcome({"ok": True, "scenario": name, "skipped": options.capabilities.missing[scenario.needs]})


def _outcome(folder: Path, history: History, figures: dict[str, Any], broken: str, options: Options) -> Outcome:
    verdict = check(history)
    report = {**plain(folder.name, history, verdict, broken, figures), "seed": options.seed}
    if len(history.sends) + len(history.reads) < MAX_HISTORY or not report["ok"]:
        history.save(folder / "history.jsonl")
    save(folder, report, verdict.anomalies)
    return Outcome(report, section(report, history, verdict), history.faults)
