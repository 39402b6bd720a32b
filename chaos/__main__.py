"""`make chaos [SCENARIO=name]`: runs scenarios one after another; the last line is one JSON object.

SEED draws what is drawn; DURATION (seconds) or HOURS is how long `controllers` and `swarm` go on; KILLS, how often
`failover` kills. See docs/chaos.md.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from chaos.capabilities import Capabilities, probe
from chaos.controllers import run_controllers
from chaos.options import Options
from chaos.report import write
from chaos.runner import Outcome, run_scenario
from chaos.scenarios import SCENARIOS

BUILD = Path("build") / "chaos"
Runner: TypeAlias = Callable[[Path, Options], Awaitable[Outcome]]

RUNNERS: dict[str, Runner] = {name: partial(run_scenario, name) for name in SCENARIOS} | {
    "controllers": run_controllers,
}


def main() -> int:
    """Run the scenario that was named, or all."""
    names = sys.argv[1:] or list(RUNNERS)
    if unknown := [name for name in names if name not in RUNNERS]:
        sys.stderr.write(f"no scenario is named {unknown[0]!r}; scenarios: {', '.join(RUNNERS)}\n")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    capabilities = probe(BUILD / "probe")
    for warning in capabilities.warnings:
        sys.stderr.write(f"{warning}\n")
    options, outcomes = Options.of(os.environ, capabilities), list[Outcome]()
    for name in names:
        sys.stderr.write(f"scenario {name}, seed {options.seed}: history and logs in {BUILD / name}\n")
        outcomes.append(asyncio.run(_run(RUNNERS[name], BUILD / name, options)))
        report = outcomes[-1].report
        sys.stderr.write(f"  {_verdict(report)}: {orjson.dumps(report).decode()}\n")
        summary = _write(outcomes, capabilities)  # Each time: what is there by now can be looked at.
    sys.stdout.write(orjson.dumps(summary).decode() + "\n")
    return 0 if summary["ok"] else 1


def _write(outcomes: list[Outcome], capabilities: Capabilities) -> dict[str, Any]:
    reports = [outcome.report for outcome in outcomes]
    summary = {"ok": all(report["ok"] for report in reports), "skipped": capabilities.warnings, "scenarios": reports}
    faults = [fault for outcome in outcomes for fault in outcome.faults]
    page = write(BUILD, [outcome.section for outcome in outcomes], summary, faults)
    sys.stderr.write(f"  the report so far: {page}\n")
    return summary


async def _run(runner: Runner, folder: Path, options: Options) -> Outcome:
    return await runner(folder, options)


def _verdict(report: dict[str, Any]) -> str:
    return "skipped" if report.get("skipped") else "ok" if report["ok"] else "BROKEN"


if __name__ == "__main__":
    sys.exit(main())
