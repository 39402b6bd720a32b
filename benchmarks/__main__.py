"""`make bench [SUITE=name]`: measure a suite's figures; the last line is one JSON object."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks.report import Figure, conclude, console

SUITES = ("quorum", "fetch_sessions", "read_checks")
"""Each is a module beside this one, whose FIGURES are functions of `quick` that return figures."""
BUILD = Path("build") / "bench"


def main() -> int:
    """Measure what the command line names; exit 1 when a bound is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", nargs="?", choices=SUITES, default=SUITES[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="one figure of the suite; may be repeated")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    measures = importlib.import_module(f"benchmarks.{options.suite}").FIGURES
    names = options.only or list(measures)
    if unknown := [name for name in names if name not in measures]:
        parser.error(f"no figure is named {unknown[0]!r}; figures: {', '.join(measures)}")
    figures: list[Figure] = []
    for name in names:
        console.print(f"[bold]{name}[/bold]")
        figures += measures[name](options.quick)
    return conclude(options.suite, figures, folder=BUILD)


if __name__ == "__main__":
    sys.exit(main())
