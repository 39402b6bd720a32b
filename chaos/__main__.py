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

from chaos.capabilities import probe
from chaos.controllers import run_controllers
from chaos.options import Options
from chaos.runner import run_scenario
from chaos.scenarios import SCENARIOS

BUILD = Path("build") / "chaos"
Runner: TypeAlias = Callable[[Path, Options], Awaitable[dict[str, Any]]]

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
    options, reports = Options.of(os.environ, capabilities), []
    for name in names:
        sys.stderr.write(f"scenario {name}, seed {options.seed}: history and logs in {BUILD / name}\n")
        report = asyncio.run(_run(RUNNERS[name], BUILD / name, options))
        sys.stderr.write(f"  {_verdict(report)}: {orjson.dumps(report).decode()}\n")
        reports.append(report)
    summary = {"ok": all(report["ok"] for report in reports), "skipped": capabilities.warnings, "scenarios": reports}
    sys.stdout.write(orjson.dumps(summary).decode() + "\n")
    return 0 if summary["ok"] else 1


async def _run(runner: Runner, folder: Path, options: Options) -> dict[str, Any]:
    return await runner(folder, options)


def _verdict(report: dict[str, Any]) -> str:
    return "skipped" if report.get("skipped") else "ok" if report["ok"] else "BROKEN"


if __name__ == "__main__":
    sys.exit(main())
