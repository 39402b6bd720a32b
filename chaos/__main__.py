"""`make chaos [SCENARIO=name]`: runs scenarios one after another; the last line is one JSON object."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import orjson

from chaos.runner import run_scenario
from chaos.scenarios import SCENARIOS

BUILD = Path("build") / "chaos"


def main() -> int:
    """Run the scenario that was named, or all."""
    names = sys.argv[1:] or list(SCENARIOS)
    if unknown := [name for name in names if name not in SCENARIOS]:
        sys.stderr.write(f"no scenario is named {unknown[0]!r}; scenarios: {', '.join(SCENARIOS)}\n")
        return 2
    reports = []
    for name in names:
        sys.stderr.write(f"scenario {name}: history and logs in {BUILD / name}\n")
        report = asyncio.run(run_scenario(name, BUILD / name))
        sys.stderr.write(f"  {'ok' if report['ok'] else 'BROKEN'}: {orjson.dumps(report).decode()}\n")
        reports.append(report)
    summary = {"ok": all(report["ok"] for report in reports), "scenarios": reports}
    sys.stdout.write(orjson.dumps(summary).decode() + "\n")
    return 0 if summary["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
