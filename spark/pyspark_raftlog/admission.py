"""The lower and upper limits of a stream's micro-batches.

Brokers do not report how many bytes lie between two offsets. `maxBytesPerTrigger` is therefore estimated from the first
record batch of each partition's backlog, which is exact if all records have the same size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.offsets import Positions, limit_bytes, limit_offsets
from pyspark_raftlog.options import SourceOptions
from raftlog.errors import RaftlogError
from raftlog.model import Offset, TopicPartition
from raftlog.record.batch import iter_batches
from raftlog.runtime import Clock, SystemClock, concurrently

NO_LIMIT = 2**63 - 1
GUESSED_RECORD_BYTES = 1024.0
"""The assumed size of a record that could not be fetched."""


@dataclass
class Admission:
    """The limits of one stream."""

    options: SourceOptions
    clock: Clock = field(default_factory=SystemClock)
    _let_through_ms: float | None = None
    """When the last micro-batch was admitted; the first one is never held back."""

    def hold_back_ms(self, start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]) -> int:
        """Return how much longer a small micro-batch waits for more records; 0: admit it now."""
        least = self.options.min_offsets_per_trigger
        if least is None:
            return 0
        now_ms = self.clock.monotonic_ms()
        since_ms = self.options.max_trigger_delay_ms if self._let_through_ms is None else now_ms - self._let_through_ms
        waiting = sum(max(0, end[key] - start.get(key, 0)) for key in end)
        left_ms = self.options.max_trigger_delay_ms - since_ms
        if waiting < least and left_ms > 0:
            return max(1, int(left_ms))
        if waiting:
            self._let_through_ms = now_ms
        return 0

    async def limit(self, cluster: Cluster, start: Positions, end: Positions) -> Positions:
        """Move `end` back to the upper limit of a micro-batch."""
        if self.options.max_bytes_per_trigger is not None:
            backlog = [key for key in end if end[key] > start[key]]
            sizes = await concurrently([self._record_bytes(cluster, key, start[key]) for key in backlog])
            by_partition = dict(zip(backlog, sizes, strict=True))
            end = limit_bytes(start, end, self.options.max_bytes_per_trigger, by_partition)
        if self.options.max_offsets_per_trigger is not None:
            end = limit_offsets(start, end, self.options.max_offsets_per_trigger)
        return end

    async def _record_bytes(self, cluster: Cluster, partition: TopicPartition, offset: Offset) -> float:
        try:
            _, data = await cluster.fetch(partition, offset, topic_id="", max_bytes=1, max_wait_ms=0)
            headers = [header for header, _ in iter_batches(data)]
        except RaftlogError:  # The micro-batch's own fetch meets and handles the same error.
            return GUESSED_RECORD_BYTES
        offsets = sum(header.next_offset - header.base_offset for header in headers)
        return sum(header.batch_length for header in headers) / offsets if offsets else GUESSED_RECORD_BYTES
