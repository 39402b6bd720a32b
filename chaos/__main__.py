"""`make chaos [SCENARIO=name]`: runs scenarios one after another; the last line is one JSON object.

SEED seeds every random choice. DURATION is the length of `controllers`, `groups` and `swarm` in seconds. KILLS is the
number of kills in `failover`. LOAD is the number of bulk records a second beside the checked keys. With SECURE=1
every node requires TLS, certificates and access rules. With HOURS, `swarm` repeats for that long, each time with the
next seed. See docs/explanation/chaos.md.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from chaos.capabilities import Capabilities, probe
from chaos.controllers import run_controllers
from chaos.groups import run_groups
from chaos.options import Options
from chaos.report import write
from chaos.runner import Outcome, run_scenario
from chaos.scenarios import SCENARIOS

BUILD = Path("build") / "chaos"
LONG_SWARM_S = 900.0
Runner: TypeAlias = Callable[[Path, Options], Awaitable[Outcome]]

RUNNERS: dict[str, Runner] = {name: partial(run_scenario, name) for name in SCENARIOS} | {
    "controllers": run_controllers,
    "groups": run_groups,
}


def main() -> int:
    """Run the named scenarios, or all."""
    names = sys.argv[1:] or list(RUNNERS)
    if unknown := [name for name in names if name not in RUNNERS]:
        sys.stderr.write(f"no scenario is named {unknown[0]!r}; scenarios: {', '.join(RUNNERS)}\n")
        return 2
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell ignores SIGINT for background jobs.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    capabilities = probe(BUILD / "probe")
    for warning in capabilities.warnings:
        sys.stderr.write(f"{warning}\n")
    options, outcomes = Options.of(os.environ, capabilities), list[Outcome]()
    for folder, name, asked in _plan(names, options):
        sys.stderr.write(f"scenario {name}, seed {asked.seed}: history and logs in {BUILD / folder}\n")
        outcomes.append(asyncio.run(_run(RUNNERS[name], BUILD / folder, asked)))
        report = outcomes[-1].report
        sys.stderr.write(f"  {_verdict(report)}: {orjson.dumps(report).decode()}\n")
        summary = _write(outcomes, capabilities)  # After each scenario, so that it can be read meanwhile.
    sys.stdout.write(orjson.dumps(summary).decode() + "\n")
    return 0 if summary["ok"] else 1


def _plan(names: Sequence[str], options: Options) -> Iterator[tuple[str, str, Options]]:
    """Yield each scenario with its folder; then, for HOURS, one swarm after another, each on a new cluster."""
    until = time.monotonic() + 3600 * options.hours
    for name in names:
        yield name, name, options
    seed = options.seed
    while time.monotonic() < until:
        seed += 1
        duration_s = min(LONG_SWARM_S, max(60.0, until - time.monotonic()))
        yield f"swarm-{seed}", "swarm", replace(options, seed=seed, duration_s=duration_s)


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
