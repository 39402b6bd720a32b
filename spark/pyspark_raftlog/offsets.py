"""Planning of the offsets that a query reads. Pure, no IO.

A batch query resolves start and end once, then cuts each partition's range [start, end) into tasks; a stream does so
for each batch (`checkpoint`). Offsets may have gaps; a range counts offsets, which bounds its records.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

from pyspark_raftlog.parsing import AtTime, Position, PositionSpec
from raftlog.errors import ConfigError, OffsetOutOfRangeError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from raftlog.wire.data import EpochStart

_start_offset = attrgetter("start_offset")
Positions: TypeAlias = dict[TopicPartition, Offset]
Epochs: TypeAlias = dict[TopicPartition, LeaderEpoch]
"""For each offset of a position, the leader epoch of the record before it, where known. Another one there tells that
the log was truncated, and has grown again."""
EpochStarts: TypeAlias = tuple[EpochStart, ...]
MOST_STARTS = 10
"""Epochs of each partition in a position: leaders change rarely."""


class LogEnds(NamedTuple):
    """The readable part of a partition: [log start offset, end).

    The end is the high watermark, or for readers of committed records the last stable offset.
    """

    log_start_offset: Offset
    end: Offset
    undecided: int = 0
    """Offsets from the end up to the high watermark, which an open transaction holds back."""
    epochs: tuple[EpochStart, ...] = ()
    """The log's latest leader epochs; empty: unknown."""

    def next_end(self, position: Offset) -> Offset:
        """Return the next end of a reader at `position`; a position beyond the end, in an open transaction, stays."""
        return position if self.end < position <= self.end + self.undecided else self.end

    def reaching(self, offset: Offset | None) -> LogEnds:
        """Return these ends with the readable part up to `offset`, where a record was found since; None: nowhere."""
        if offset is None or offset <= self.end:
            return self
        undecided = self.end + self.undecided - offset
        # Records above the high watermark of then may be of a later epoch.
        return self._replace(end=offset, undecided=max(0, undecided), epochs=self.epochs if undecided >= 0 else ())

    def epoch_before(self, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch of the record before an offset; -1: unknown, or there is none."""
        at = bisect_right(self.epochs, offset - 1, key=_start_offset)
        return self.epochs[at - 1].leader_epoch if at and offset <= self.end + self.undecided else NO_LEADER_EPOCH

    def was_truncated(self, offset: Offset, epoch: LeaderEpoch) -> bool:
        """Return whether the record before an offset is not the one that was read, of this leader epoch (-1: any)."""
        return epoch != NO_LEADER_EPOCH and self.epoch_before(offset) not in (NO_LEADER_EPOCH, epoch)

    def epochs_before(self, offset: Offset) -> EpochStarts:
        """Return the latest leader epochs of the records before an offset; empty: unknown, or there are none."""
        if offset > self.end + self.undecided:
            return ()
        return tuple(each for each in self.epochs if each.start_offset < offset)[-MOST_STARTS:]

    def agreed(self, offset: Offset, epoch: LeaderEpoch, read: EpochStarts = ()) -> Offset:
        """Return where a reader goes on that has read up to `offset`, and a last record of `epoch` (-1: unknown).

        Args:
            read: the latest leader epochs of what was read; empty: unknown. Without them, the records that an older log
                has after the true point of agreement cannot be told from those that were read.
        """
        later = (each.start_offset for each in self.epochs if each.leader_epoch > epoch != NO_LEADER_EPOCH)
        inside = min(offset, next(later, offset), self._shared_end(offset, read))
        return min(inside, self.next_end(inside))

    def _shared_end(self, offset: Offset, read: EpochStarts) -> Offset:
        """Return where the latest epoch ends that both logs have: two logs that share an epoch agree up to its end."""
        if not read or not self.epochs:
            return offset
        ends, read_ends = _epoch_ends(self.epochs, offset), _epoch_ends(read, offset)
        shared = max(ends.keys() & read_ends.keys(), default=None)
        return read[0].start_offset if shared is None else min(ends[shared], read_ends[shared])


def _epoch_ends(epochs: EpochStarts, end: Offset) -> dict[LeaderEpoch, Offset]:
    following = [each.start_offset for each in epochs[1:]]
    return {each.leader_epoch: stop for each, stop in zip(epochs, [*following, end], strict=True)}


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of one partition."""

    topic: str
    partition: int
    start: Offset
    end: Offset
    last_epoch: LeaderEpoch = NO_LEADER_EPOCH
    """No record of the range, as it was planned, is of a later leader epoch; -1: unknown."""

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


# Positions: from the user's option to one offset per partition.


def expand(spec: PositionSpec, partitions: Sequence[TopicPartition], *, option: str) -> dict[TopicPartition, Position]:
    """Return each partition's position.

    Raises:
        ConfigError: the option has positions by partition, and not for exactly the partitions to read.
    """
    if not isinstance(spec, Mapping):
        return dict.fromkeys(partitions, spec)
    missing = sorted(set(partitions) - set(spec))
    surplus = sorted(set(spec) - set(partitions))
    if missing or surplus:
        raise ConfigError(
            f"{option} must name exactly the partitions that are read; missing: {_listed(missing)}, "
            f"not read: {_listed(surplus)}"
        )
    return {partition: spec[partition] for partition in partitions}


def _listed(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "none"


def starting_offsets(
    positions: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, LogEnds],
    found: Mapping[TopicPartition, Offset | None],
    *,
    without_match: Literal["error", "latest"],
) -> Positions:
    """Resolve positions to offsets.

    Args:
        found: for each position that is a time, the first offset at or after it; None: there is none.

    Raises:
        ConfigError: no record is late enough, and `without_match` is "error".
    """
    offsets: Positions = {}
    for partition, position in positions.items():
        if isinstance(position, AtTime) and found[partition] is None and without_match == "error":
            raise ConfigError(
                f"{partition} has no record at or after {position.timestamp_ms} ms since 1970; choose an earlier time, "
                "or set startingOffsetsByTimestampStrategy=latest to begin at the end"
            )
        offsets[partition] = _to_offset(position, ends[partition], found.get(partition))
    return offsets


def ending_offsets(
    positions: Mapping[TopicPartition, Position],
    ends: Mapping[TopicPartition, LogEnds],
    found: Mapping[TopicPartition, Offset | None],
) -> Positions:
    """Resolve positions to offsets; a time later than every record means the end."""
    return {
        partition: _to_offset(position, ends[partition], found.get(partition))
        for partition, position in positions.items()
    }


def _to_offset(position: Position, ends: LogEnds, found: Offset | None) -> Offset:
    if position == "earliest":
        return ends.log_start_offset
    if position == "latest":
        return ends.end
    if isinstance(position, AtTime):
        return ends.end if found is None else found
    return position


def require_readable(partition: TopicPartition, offset: Offset, ends: LogEnds, *, fail_on_data_loss: bool) -> Offset:
    """Return `offset`, or the nearest readable offset if loss is allowed.

    Raises:
        OffsetOutOfRangeError: `offset` is outside of the log, and loss is not allowed. Beyond the end nothing is lost,
            so the message advises another offset.
    """
    inside = min(max(offset, ends.log_start_offset), ends.next_end(offset))
    if inside < offset and fail_on_data_loss:
        first, end = ends.log_start_offset, ends.end
        what = f"expected an offset up to the end of the log, {end}, received {offset}: it is not written yet"
        raise OffsetOutOfRangeError(f"{partition}: {what}. Name an offset from {first} to {end}, or latest.")
    if inside != offset and fail_on_data_loss:
        raise data_loss(partition, f"offset {offset} was requested, the log has [{ends[0]}, {ends[1]})")
    return inside


def data_loss(partition: TopicPartition, what: str) -> OffsetOutOfRangeError:
    """Return the error for records that may be lost, with advice how to continue without them."""
    return OffsetOutOfRangeError(
        f"{partition}: {what}. Records may have been deleted by retention or lost by an unclean election, or the topic "
        "was recreated. To skip what is missing, set the option failOnDataLoss to false."
    )


# Ranges: from offsets to Spark tasks.


def ranges_between(
    start: Mapping[TopicPartition, Offset],
    end: Mapping[TopicPartition, Offset],
    epochs: Mapping[TopicPartition, LeaderEpoch] = {},
) -> list[OffsetRange]:
    """Return the nonempty ranges from `start` to `end`; a partition that only `end` has is new and begins at 0.

    Args:
        epochs: of `end`, where known.
    """
    return [
        OffsetRange(*partition, start.get(partition, 0), end[partition], epochs.get(partition, NO_LEADER_EPOCH))
        for partition in sorted(end)
        if start.get(partition, 0) < end[partition]
    ]


def split_ranges(
    ranges: Sequence[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Cut ranges so that each holds at most `max_records` offsets and there are at least `min_partitions`.

    Fewer only if there are fewer offsets. The range whose pieces are largest is cut further first.
    """
    pieces = [1 if max_records is None else -(-item.size // max_records) for item in ranges]
    wanted = min(min_partitions or 0, sum(item.size for item in ranges))
    largest = [(-item.size / count, i) for i, (item, count) in enumerate(zip(ranges, pieces, strict=True))]
    heapq.heapify(largest)
    for _ in range(wanted - sum(pieces)):
        _, i = heapq.heappop(largest)
        pieces[i] += 1
        heapq.heappush(largest, (-ranges[i].size / pieces[i], i))
    return [piece for item, count in zip(ranges, pieces, strict=True) for piece in _cut(item, count)]


def _cut(item: OffsetRange, count: int) -> Iterable[OffsetRange]:
    bounds = [item.start + i * item.size // count for i in range(count + 1)]
    return (replace(item, start=start, end=end) for start, end in itertools.pairwise(bounds))


def share_ranges(ranges: Sequence[OffsetRange], max_tasks: int | None = None) -> list[tuple[OffsetRange, ...]]:
    """Return one task for each range, or `max_tasks` tasks of about equal size if there are more ranges.

    Ranges stay in order and are cut only at the boundary of two tasks, and not for less than a tenth of a task.
    """
    if max_tasks is None or len(ranges) <= max_tasks:
        return [(item,) for item in ranges]
    rest, left = deque(ranges), sum(item.size for item in ranges)
    tasks: list[tuple[OffsetRange, ...]] = []
    for others in reversed(range(max_tasks)):
        task = _filled(rest, left - left * others // (others + 1), is_last=not others)
        left -= sum(item.size for item in task)
        tasks.append(tuple(task))
    return [task for task in tasks if task]


def _filled(rest: deque[OffsetRange], share: int, *, is_last: bool) -> list[OffsetRange]:
    """Take about `share` offsets from the front of `rest`."""
    task: list[OffsetRange] = []
    slack, room = share // 10, share
    while rest and (is_last or room > slack):
        item = rest.popleft()
        if not is_last and item.size > room + slack:
            middle = item.start + room
            rest.appendleft(replace(item, start=middle))
            item = replace(item, end=middle)
        task.append(item)
        room -= item.size
    return task


def limit_offsets(
    start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset], limit: int
) -> Positions:
    """Move `end` back so that at most `limit` offsets remain, each partition in proportion to its backlog.

    The rest after rounding down goes to the largest remainders, so exactly `limit` offsets remain if that many exist.
    """
    backlog = {partition: max(0, end[partition] - start[partition]) for partition in end}
    total = sum(backlog.values())
    if total <= limit:
        return dict(end)
    shares = {partition: limit * size // total for partition, size in backlog.items()}
    by_remainder = sorted(backlog, key=lambda partition: (-(limit * backlog[partition] % total), partition))
    for partition in by_remainder[: limit - sum(shares.values())]:
        shares[partition] += 1
    return {partition: min(start[partition] + share, end[partition]) for partition, share in shares.items()}


def limit_bytes(
    start: Mapping[TopicPartition, Offset],
    end: Mapping[TopicPartition, Offset],
    limit: int,
    record_bytes: Mapping[TopicPartition, float],
) -> Positions:
    """Move `end` back so that about `limit` bytes remain, each partition in proportion to its backlog.

    Args:
        record_bytes: the estimated bytes of a record, for each partition with a backlog.
    """
    total = sum((end[key] - start[key]) * record_bytes[key] for key in end if end[key] > start[key])
    if total <= limit:
        return dict(end)
    backlog = sum(max(0, end[key] - start[key]) for key in end)
    return limit_offsets(start, end, max(1, int(backlog * limit / total)))
