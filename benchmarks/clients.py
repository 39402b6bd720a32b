"""1, 10, 100 and 500 producers at once, in one client process, each with connections of its own."""

from __future__ import annotations

from benchmarks.loads import loaded
from benchmarks.report import Effort, Figure

_COUNTS = (1, 10, 100, 500)
_PARTITIONS = 6
_BATCH_BYTES = 64 << 10


def clients(effort: Effort) -> list[Figure]:
    """A topic of six partitions, records of 100 B, acks=all, not synced."""
    options = {"producer": {"batch_bytes": _BATCH_BYTES}}
    with loaded(effort) as load:
        return [
            load.throughput(
                f"clients_{count}", work="produce", partitions=_PARTITIONS, options=options | {"clients": count}
            )
            for count in _COUNTS
        ]


FIGURES = {"clients": clients}
