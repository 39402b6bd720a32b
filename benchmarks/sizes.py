"""Records of 10 B and of 1 MB, end to end: the cost of a record, and of a byte."""

from __future__ import annotations

from benchmarks.loads import loaded
from benchmarks.report import Effort, Figure

_SIZES = {"10B": 10, "10KB": 10 << 10, "1MB": 1 << 20}


def sizes(effort: Effort) -> list[Figure]:
    """One partition, three replicas, acks=all, not synced; the notes contain MB/s and the cost of a megabyte."""
    with loaded(effort) as load:
        return [load.throughput(name, work="produce", record_bytes=size) for name, size in _SIZES.items()]


FIGURES = {"sizes": sizes}
