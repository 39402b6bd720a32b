"""Measure a suite's figures on real processes; the last line is one JSON object. `make bench` runs it."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from pathlib import Path

from benchmarks.calibration import calibrate
from benchmarks.regression import compare, keep
from benchmarks.report import Effort, Figure, conclude, console

SUITES = (
    "quorum",
    "storage",
    "fetch_sessions",
    "read_checks",
    "groups",
    "datapath",
    "client",
    "codec",
    "kafka_records",
    "kafka_clients",
    "append",
    "durability",
    "replication",
    "end_to_end",
    "sizes",
    "partitions",
    "scale",
    "clients",
    "urls",
    "security",
    "traces",
    "trace",
    "bare",
    "pages",
    "attacks",
)
"""Each is a module beside this one, whose FIGURES are functions of an `Effort` that return figures."""
BUILD = Path("build") / "bench"


def main() -> int:
    """Measure the named figures; exit 1 when a bound is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", nargs="?", choices=SUITES, default=SUITES[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="one figure of the suite; may be repeated")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--kills", type=_positive, metavar="N", help="kill so many processes for each figure that does")
    parser.add_argument("--keep", action="store_true", help="later runs are compared with these figures")
    options = parser.parse_args()
    measures = importlib.import_module(f"benchmarks.{options.suite}").FIGURES
    names = options.only or list(measures)
    if unknown := [name for name in names if name not in measures]:
        parser.error(f"no figure is named {unknown[0]!r}; figures: {', '.join(measures)}")
    # An orderly exit stops the processes and removes their data.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    calibration = calibrate()
    effort = Effort(quick=options.quick, kills=options.kills)
    figures: list[Figure] = []
    for name in names:
        console.print(f"[bold]{name}[/bold]")
        figures += measures[name](effort)
    if options.keep:
        console.print(f"kept in {keep(options.suite, figures, calibration)}")
    against = compare(options.suite, figures, calibration)
    return conclude(options.suite, figures, folder=BUILD, more={"calibration": calibration, "against_kept": against})


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main())
