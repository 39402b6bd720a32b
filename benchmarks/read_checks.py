"""The cost of finding and checking batches on a disk for a read: CPU time per MB, by size of batch."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.report import Bound, Effort, Figure
from raftlog.config import TopicConfig
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import NewRecord, build_batch, stamp

_RECORDS = (1, 16, 256, 1_000)
"""Records of 1 KB in a batch."""
_READ_BYTES = 4 << 20


def _sample(log: PartitionLog, *, check_crcs: bool) -> float:
    started = time.thread_time()
    found = log.find_verified(0, _READ_BYTES, limit_offset=log.log_end_offset, check_crcs=check_crcs)
    assert not found.problem
    return (time.thread_time() - started) * 1e6 / (len(found.data) / (1 << 20))


def checksums(effort: Effort) -> list[Figure]:
    """Measure reads of about 4 MB before the kernel sends them: with readers that check batches, and that do not."""
    figures = []
    for records in _RECORDS:
        batch = build_batch([NewRecord(b"x" * 1_000, timestamp=1)] * records)
        with tempfile.TemporaryDirectory() as folder:
            log = PartitionLog.open(Path(folder) / "p", TopicConfig())
            while log.size_bytes < _READ_BYTES:
                stamp(batch, base_offset=log.log_end_offset, leader_epoch=0)
                log.append(batch)
            for check_crcs, verb, most in ((True, "check", 200.0), (False, "find", 50.0)):
                samples = [_sample(log, check_crcs=check_crcs) for _ in range(effort.pick(50, quick=5))]
                bounds = (Bound(statistic="min", at_most=most),) if records >= 256 else ()
                name = f"{verb}_{len(batch) >> 10}_kb_batches_us_per_mb"
                figures.append(Figure(name=name, samples=samples, bounds=bounds))
            log.close()
    return figures


FIGURES = {"checksums": checksums}
