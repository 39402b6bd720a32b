"""The metadata quorum's figures, by name: three voters, real processes, loopback, every fsync done."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.quorum_commits import commit_ms, commits_per_s, fdatasync_ms
from benchmarks.quorum_failover import broker_failover_ms, controller_failover_ms
from benchmarks.quorum_topics import create_1000_partitions_ms
from benchmarks.report import Figure

Measure = Callable[[bool], list[Figure]]

FIGURES: dict[str, Measure] = {
    "commit": lambda quick: [fdatasync_ms(), commit_ms(quick=quick)],
    "rate": lambda quick: [commits_per_s(quick=quick)],
    "controller": lambda quick: [controller_failover_ms(quick=quick)],
    "broker": lambda quick: broker_failover_ms(quick=quick),
    "create": lambda quick: create_1000_partitions_ms(quick=quick),
}
