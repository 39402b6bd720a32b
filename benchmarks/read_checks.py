"""What it costs to check both checksums of everything that is read from a disk: CPU time per MB, by size of batch."""

from __future__ import annotations

import time

from benchmarks.report import Bound, Effort, Figure
from raftlog.record import NewRecord, build_batch, sound_length

_RECORDS = (1, 16, 256, 1_000)
"""Records of 1 KB in a batch."""
_READ_BYTES = 4 << 20


def _sample(content: bytes) -> float:
    started = time.process_time()
    assert sound_length(content) == len(content)
    return (time.process_time() - started) * 1e6 / (len(content) / (1 << 20))


def checksums(effort: Effort) -> list[Figure]:
    """Measure reads of about 4 MB."""
    figures = []
    for records in _RECORDS:
        batch = bytes(build_batch([NewRecord(b"x" * 1_000, timestamp=1)] * records))
        content = batch * max(1, _READ_BYTES // len(batch))
        samples = [_sample(content) for _ in range(effort.pick(50, quick=5))]
        bounds = (Bound(statistic="min", at_most=200.0),) if records >= 256 else ()
        figures.append(Figure(name=f"check_{len(batch) >> 10}_kb_batches_us_per_mb", samples=samples, bounds=bounds))
    return figures


FIGURES = {"checksums": checksums}
