"""Runs one scenario: cluster, load, faults, final reads, verdict, report."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson

import raftlog
from chaos.checker import check
from chaos.cluster import ChaosCluster
from chaos.history import History
from chaos.scenarios import SCENARIOS, BrokenPromiseError, Run
from chaos.workload import Workload, read_everything

TOPIC = "chaos"
PARTITIONS = 3


async def run_scenario(name: str, folder: Path) -> dict[str, Any]:
    """Run a scenario in a fresh `folder`; return its report, which is also kept there with the history."""
    shutil.rmtree(folder, ignore_errors=True)
    history, figures = History(), {}
    broken = ""
    async with ChaosCluster(folder / "cluster") as cluster:
        async with raftlog.Admin(cluster.bootstrap) as admin:
            await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        await cluster.wait_full_isr(TOPIC, within_s=30)
        workload = Workload(
            bootstrap=cluster.bootstrap, dial=cluster.dial, topic=TOPIC, partitions=PARTITIONS, history=history
        )
        try:
            async with workload:
                run = Run(cluster, workload, history, TOPIC)
                figures = run.figures
                await SCENARIOS[name](run)
        except BrokenPromiseError as error:
            broken = str(error)
        cluster.links.heal()
        await read_everything(history, bootstrap=cluster.bootstrap, topic=TOPIC)
    return _report(name, folder, history, figures, broken)


def _report(name: str, folder: Path, history: History, figures: dict[str, float], broken: str) -> dict[str, Any]:
    verdict = check(history)
    kinds = sorted({anomaly.kind for anomaly in verdict.anomalies})
    report = {
        "ok": verdict.ok and not broken,
        "scenario": name,
        "valid": verdict.valid,
        "acknowledged": verdict.acknowledged,
        "unknown": verdict.unknown,
        "failed": verdict.failed,
        "read": verdict.read,
        "anomalies": {kind: verdict.count(kind) for kind in kinds},
        "broken_promise": broken,
        **figures,
    }
    history.save(folder / "history.jsonl")
    details = [f"{anomaly.kind}: {anomaly.detail}" for anomaly in verdict.anomalies]
    (folder / "report.json").write_bytes(
        orjson.dumps({**report, "details": details}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    )
    return report
