"""`make chaos [SCENARIO=name]`: runs scenarios one after another; the last line is one JSON object.

`controllers` and `groups` go on for DURATION seconds (60) with faults drawn from SEED (1).
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import orjson

from chaos import controllers, groups
from chaos.runner import run_scenario
from chaos.scenarios import SCENARIOS

BUILD = Path("build") / "chaos"
STORMS = {controllers.NAME: controllers.run_controllers, groups.NAME: groups.run_groups}
"""Faults drawn from a seed, for as long as one likes."""
NAMES = [*SCENARIOS, *STORMS]
DEFAULT_DURATION_S = 60
DEFAULT_SEED = 1


def main() -> int:
    """Run the scenario that was named, or all."""
    names = sys.argv[1:] or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        sys.stderr.write(f"no scenario is named {unknown[0]!r}; scenarios: {', '.join(NAMES)}\n")
        return 2
    reports = []
    for name in names:
        sys.stderr.write(f"scenario {name}: history and logs in {BUILD / name}\n")
        report = asyncio.run(_run(name))
        sys.stderr.write(f"  {'ok' if report['ok'] else 'BROKEN'}: {orjson.dumps(report).decode()}\n")
        reports.append(report)
    summary = {"ok": all(report["ok"] for report in reports), "scenarios": reports}
    sys.stdout.write(orjson.dumps(summary).decode() + "\n")
    return 0 if summary["ok"] else 1


async def _run(name: str) -> dict[str, Any]:
    if name not in STORMS:
        return await run_scenario(name, BUILD / name)
    seed, duration = os.environ.get("SEED") or DEFAULT_SEED, os.environ.get("DURATION") or DEFAULT_DURATION_S
    return await STORMS[name](BUILD / name, seed=int(seed), duration_s=float(duration))


if __name__ == "__main__":
    sys.exit(main())
