"""`make sim [SEEDS=n] [SEED=s]`: many schedules, or one; the last line is one JSON object."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import track

from simulation.raft import SafetyViolationError, simulate

DEFAULT_SEEDS = 1_000
BUILD = Path("build") / "sim"


def main() -> int:
    """Run the seeds that the environment names; exit 1 if one of them breaks a promise."""
    logging.disable(logging.CRITICAL)
    one = os.environ.get("SEED", "")
    seeds = range(int(one), int(one) + 1) if one else range(int(os.environ.get("SEEDS") or DEFAULT_SEEDS))
    started, broken = time.perf_counter(), list[dict[str, Any]]()
    acknowledged = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in track(seeds, description="schedules", console=Console(stderr=True)):
            try:
                acknowledged += simulate(seed, Path(folder) / "world").acknowledged
            except SafetyViolationError as violation:
                broken.append({"seed": seed, "violation": str(violation)})
    report = {
        "ok": not broken and acknowledged > 0,
        "schedules": len(seeds),
        "acknowledged": acknowledged,
        "broken": broken,
        "seconds": round(time.perf_counter() - started, 1),
    }
    BUILD.mkdir(parents=True, exist_ok=True)
    line = orjson.dumps(report)
    (BUILD / "report.json").write_bytes(line + b"\n")
    sys.stdout.write(line.decode() + "\n")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
