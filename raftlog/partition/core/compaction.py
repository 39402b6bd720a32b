"""Rules of compacting one log: which part, when, and which records of each batch are kept. No IO.

A pass collects the last offset of each key in the dirty part (`LastOffsets`), then walks over the log from its start
and removes every record that a later record of its key replaces (`Compactor`). The rules:

- Offsets never change, and every offset stays in exactly one batch: see `raftlog/record/compacted.py`.
- Batches that identify a producer's last sequences are kept, without records if all were removed.
- A tombstone is removed `delete_retention_ms` after the pass that removed the earlier records of its key, and only once
  every assigned replica has stored it. A replica that missed the tombstone would keep the deleted record.
- Records of aborted transactions are removed, whatever their key. A marker is kept while a record of its transaction
  is, or while it identifies its producer; after that it is removed like a tombstone. A replica that stored the records
  and missed the marker would treat the transaction as open for ever.
- Compaction stops at the last stable offset, so the outcome of every transaction below is known.
- Records without a key (from before the topic was compacted) are kept, unless they were aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from raftlog.config import TopicConfig
from raftlog.model import LeaderEpoch, Offset, ProducerId
from raftlog.partition.core.ages import Written, believed_us
from raftlog.record.arrow import COMPACTED_SCHEMA, SCHEMA
from raftlog.record.batch import BatchHeader, Buffer
from raftlog.record.compacted import MAX_OFFSET_DELTA, build_filler, is_filler, keep_header, keep_marker, keep_rows
from raftlog.record.control import NOTHING_ABORTED, AbortedBatches
from raftlog.record.reading import to_arrow

KEY_OVERHEAD_BYTES = 150
"""Approximate size of a dict entry without the key's own bytes."""
_KEY, _VALUE, _DELTA = SCHEMA.get_field_index("key"), SCHEMA.get_field_index("value"), len(SCHEMA)


class SegmentInfo(Written, Protocol):
    """The properties of a segment that the rules use."""

    base_offset: Offset
    next_offset: Offset
    size: int
    max_timestamp: int
    first_timestamp: int | None


def cleanable_end(segments: Sequence[SegmentInfo], limit_offset: Offset, now_us: int, config: TopicConfig) -> Offset:
    """Return the end of the compactable part: whole segments, none active or within `min_compaction_lag_ms`."""
    youngest = now_us - config.min_compaction_lag_ms * 1000
    end = segments[0].base_offset
    for segment in segments[:-1]:
        lags = config.min_compaction_lag_ms > 0
        too_young = lags and believed_us(segment.max_timestamp, segment, now_us, config) > youngest
        if segment.next_offset > limit_offset or too_young:
            break
        end = segment.next_offset
    return end


def has_waited_too_long(segment: SegmentInfo, now_us: int, config: TopicConfig) -> bool:
    """Return whether a dirty segment is past `max_compaction_lag_ms`: it is compacted whatever the dirty ratio."""
    if config.max_compaction_lag_ms < 0 or segment.first_timestamp is None:
        return False
    first_us = believed_us(segment.first_timestamp, segment, now_us, config)
    return first_us < now_us - config.max_compaction_lag_ms * 1000


@dataclass(frozen=True, slots=True)
class LogToClean:
    """The clean and dirty bytes of one log."""

    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """A segment is past `max_compaction_lag_ms`, or tombstones are due for removal."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)

    def should_compact(self, config: TopicConfig) -> bool:
        """Return whether to compact."""
        return self.overdue or (self.dirty_bytes > 0 and self.ratio > config.min_cleanable_dirty_ratio)


def measure(
    segments: Sequence[SegmentInfo], cleaned_below: Offset, end: Offset, now_us: int, config: TopicConfig
) -> LogToClean:
    """Measure the part below `end`; records below `cleaned_below` were compacted before."""
    cleanable = [segment for segment in segments if segment.next_offset <= end]
    dirty = [segment for segment in cleanable if segment.next_offset > cleaned_below]
    dirty_bytes = sum(segment.size for segment in dirty)
    return LogToClean(
        clean_bytes=sum(segment.size for segment in cleanable) - dirty_bytes,
        dirty_bytes=dirty_bytes,
        overdue=any(has_waited_too_long(segment, now_us, config) for segment in dirty),
    )


class LastOffsets:
    """The last offset of each key in [`start_offset`, `end_offset`), within a memory limit."""

    def __init__(self, start_offset: Offset, limit_bytes: int, aborted: AbortedBatches = NOTHING_ABORTED) -> None:
        self._aborted = aborted
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.of: dict[bytes, Offset] = {}
        self._free_bytes = limit_bytes

    @property
    def is_full(self) -> bool:
        """Whether the memory limit is reached: no more batches may be added in this pass."""
        return self._free_bytes <= 0

    def learn(self, header: BatchHeader, batch: Buffer) -> None:
        """Add the next batch."""
        self.end_offset = header.next_offset
        if header.is_control or header.is_empty or header in self._aborted:
            return
        rows = to_arrow(header, batch)
        for key, offset in zip(rows.column(_KEY).to_pylist(), _offsets(header, rows), strict=True):
            if key is not None:
                if key not in self.of:
                    self._free_bytes -= KEY_OVERHEAD_BYTES + len(key)
                self.of[key] = offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRules:
    """The parameters of one pass."""

    now_s: int
    delete_retention_ms: int
    replicated_below: Offset
    """Every assigned replica has stored all records below it; tombstones above are kept."""
    producer_batches: frozenset[Offset] = frozenset()
    """Base offsets of the batches that producer state refers to."""
    aborted: AbortedBatches = NOTHING_ABORTED


@dataclass(slots=True)
class _Run:
    """Consecutive batches whose records were all removed: written as one filler batch."""

    base_offset: Offset
    last_offset: Offset
    leader_epoch: LeaderEpoch
    max_timestamp: int

    def takes(self, header: BatchHeader) -> bool:
        span = header.last_offset - self.base_offset
        return header.leader_epoch == self.leader_epoch and span <= MAX_OFFSET_DELTA

    def take(self, header: BatchHeader) -> None:
        self.last_offset = header.last_offset
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)


class Compactor:
    """Compacts batches in order: call `clean` for each, `finish` at the end of a file, and write the results."""

    def __init__(self, last: LastOffsets, rules: CleaningRules) -> None:
        self._last = last
        self._rules = rules
        self._run: _Run | None = None
        self._with_kept_records = set[ProducerId]()
        """Producers with a kept record in the transaction that the pass is in."""
        self.changed = False
        """Whether any output differs from its input since this was last set to False."""
        self.oldest_tombstone_s = 0
        """The earliest `cleaned_at_s` of a kept tombstone or marker; 0 if there is none."""

    def clean(self, header: BatchHeader, batch: Buffer) -> bytes:
        """Return the bytes to write for this batch and for the filler pending before it."""
        if header.base_offset >= self._last.end_offset:
            return self.finish() + bytes(batch)
        if header.is_control:
            return self._clean_marker(header, batch)
        if header.is_empty:
            if header.base_offset in self._rules.producer_batches:
                return self.finish() + bytes(batch)
            return self._drop(header)
        if header in self._rules.aborted:
            return self._drop_rows(header)
        return self._clean_rows(header, batch)

    def finish(self) -> bytes:
        """Return the pending filler batch, if any."""
        run, self._run = self._run, None
        if run is None:
            return b""
        return build_filler(
            run.base_offset, run.last_offset, leader_epoch=run.leader_epoch, max_timestamp=run.max_timestamp
        )

    def _clean_rows(self, header: BatchHeader, batch: Buffer) -> bytes:
        rows = to_arrow(header, batch)
        values, cleaned_at_s = rows.column(_VALUE), self._cleaned_at_s(header)
        keys, nulls = rows.column(_KEY).to_pylist(), values.is_null().to_pylist()
        drop_tombstones = self._may_drop_tombstones(header)
        kept, tombstones = [], 0
        for row, (key, is_null, offset) in enumerate(zip(keys, nulls, _offsets(header, rows), strict=True)):
            if key is not None and self._last.of.get(key, offset) > offset:
                continue
            if key is not None and is_null:
                if drop_tombstones:
                    continue
                tombstones += 1
            kept.append(row)
        if not kept:
            return self._drop_rows(header)
        if header.is_transactional:
            self._with_kept_records.add(header.producer_id)
        stamp = self._note_waiting(cleaned_at_s) if tombstones else 0
        if len(kept) == rows.num_rows and stamp == header.cleaned_at_s:
            return self.finish() + bytes(batch)
        self.changed = True
        return self.finish() + keep_rows(header, _with_deltas(rows, kept), cleaned_at_s=stamp)

    def _clean_marker(self, header: BatchHeader, batch: Buffer) -> bytes:
        holds = header.producer_id in self._with_kept_records
        self._with_kept_records.discard(header.producer_id)
        if holds or header.base_offset in self._rules.producer_batches:
            return self.finish() + bytes(batch)
        if self._may_drop_tombstones(header):
            return self._drop(header)
        stamp = self._note_waiting(self._cleaned_at_s(header))
        if stamp == header.cleaned_at_s:
            return self.finish() + bytes(batch)
        self.changed = True
        return self.finish() + keep_marker(header, batch, cleaned_at_s=stamp)

    def _note_waiting(self, cleaned_at_s: int) -> int:
        self.oldest_tombstone_s = min(self.oldest_tombstone_s or cleaned_at_s, cleaned_at_s)
        return cleaned_at_s

    def _cleaned_at_s(self, header: BatchHeader) -> int:
        """Return when the records before this batch's tombstones, or of this marker's transaction, were removed here.

        The stamp of another replica counts only once this replica has removed the earlier records, too.
        """
        if header.cleaned_at_s and header.base_offset < self._last.start_offset:
            return header.cleaned_at_s
        return self._rules.now_s + 1  # Rounded up, so that no tombstone is removed too early.

    def _may_drop_tombstones(self, header: BatchHeader) -> bool:
        due_ms = header.cleaned_at_s * 1000 + self._rules.delete_retention_ms
        return (
            header.cleaned_at_s > 0
            and header.base_offset < self._last.start_offset
            and header.last_offset < self._rules.replicated_below
            and due_ms <= self._rules.now_s * 1000
        )

    def _drop_rows(self, header: BatchHeader) -> bytes:
        if header.base_offset not in self._rules.producer_batches:
            return self._drop(header)
        self.changed = True
        return self.finish() + keep_header(header)

    def _drop(self, header: BatchHeader) -> bytes:
        if self._run is not None and self._run.takes(header):
            self._run.take(header)
            self.changed = True
            return b""
        written = self.finish()
        self._run = _Run(header.base_offset, header.last_offset, header.leader_epoch, header.max_timestamp)
        self.changed = self.changed or not is_filler(header)
        return written


def _offsets(header: BatchHeader, rows: pa.RecordBatch) -> list[Offset]:
    if header.is_compacted:
        return [header.base_offset + delta for delta in rows.column(_DELTA).to_pylist()]
    return list(range(header.base_offset, header.base_offset + rows.num_rows))


def _with_deltas(rows: pa.RecordBatch, kept: list[int]) -> pa.RecordBatch:
    if not rows.schema.equals(COMPACTED_SCHEMA):
        deltas = pa.array(range(rows.num_rows), pa.int32())
        rows = pa.record_batch([*rows.columns, deltas], schema=COMPACTED_SCHEMA)
    return rows.take(pa.array(kept, pa.int64()))
