"""The metadata quorum's figures, by name: three voters, real processes, loopback, every fsync done."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.quorum_commits import commit_ms, commits_per_s, fdatasync_ms
from benchmarks.quorum_failover import broker_failover_ms, controller_failover_ms
from benchmarks.quorum_size import many_partitions
from benchmarks.quorum_topics import create_1000_partitions_ms
from benchmarks.report import Effort, Figure

Measure = Callable[[Effort], list[Figure]]

FIGURES: dict[str, Measure] = {
    "commit": lambda effort: [fdatasync_ms(), commit_ms(effort)],
    "rate": lambda effort: [commits_per_s(effort)],
    "failover": lambda effort: [controller_failover_ms(effort)],
    "broker": broker_failover_ms,
    "create": create_1000_partitions_ms,
    "size": many_partitions,
}
