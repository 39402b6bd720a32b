"""The metadata quorum's figures, by name."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.quorum_commits import commit_ms, commits_per_s, fdatasync_ms
from benchmarks.report import Figure

Measure = Callable[[bool], list[Figure]]

FIGURES: dict[str, Measure] = {
    "commit": lambda quick: [fdatasync_ms(), commit_ms(quick=quick)],
    "rate": lambda quick: [commits_per_s(quick=quick)],
}
