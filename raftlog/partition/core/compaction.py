"""Compaction of one log, decided: which part, when, and what stays of each batch. No IO.

A pass learns the last offset of each key in the part that is dirty (`LastOffsets`), then walks over the log from its
start and takes out every record that a later one of its key replaces (`Compactor`). The rules:

- Offsets never change, and every offset stays in exactly one batch: see `raftlog/record/compacted.py`.
- Batches by which a producer is recognised stay, if need be without records.
- A tombstone goes `delete_retention_ms` after the pass that removed what was before it, and only once every assigned
  replica holds it: one that came back later would keep the old record, and never hear that it was deleted.
- Records of aborted transactions go, whatever their key. A marker stays while a record of its transaction does, or its
  producer is recognised by it; then, like a tombstone, until its time is up and every assigned replica holds it: one
  that had the records and never heard of their end would wait for it for ever.
- Nothing is done above the last stable offset, so every transaction in question is decided.
- Records without a key (from before the topic was compacted) stay, unless they were aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from raftlog.config import TopicConfig
from raftlog.model import LeaderEpoch, Offset, ProducerId
from raftlog.partition.core.ages import Written, believed_us
from raftlog.record.arrow import COMPACTED_SCHEMA, SCHEMA, to_arrow
from raftlog.record.batch import BatchHeader, Buffer
from raftlog.record.compacted import MAX_OFFSET_DELTA, build_filler, is_filler, keep_header, keep_marker, keep_rows
from raftlog.record.control import NOTHING_ABORTED, AbortedBatches

KEY_OVERHEAD_BYTES = 150
"""What one entry of a dict costs beside the key's own bytes, roughly."""
_KEY, _VALUE, _DELTA = SCHEMA.get_field_index("key"), SCHEMA.get_field_index("value"), len(SCHEMA)


class SegmentInfo(Written, Protocol):
    """What is decided by."""

    base_offset: Offset
    next_offset: Offset
    size: int
    max_timestamp: int
    first_timestamp: int | None


def cleanable_end(segments: Sequence[SegmentInfo], limit_offset: Offset, now_us: int, config: TopicConfig) -> Offset:
    """Return where the part ends that may be compacted: whole segments, never the active one, none too young."""
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
    """Tell whether a dirty segment must be compacted now, whatever the ratio."""
    if config.max_compaction_lag_ms < 0 or segment.first_timestamp is None:
        return False
    first_us = believed_us(segment.first_timestamp, segment, now_us, config)
    return first_us < now_us - config.max_compaction_lag_ms * 1000


@dataclass(frozen=True, slots=True)
class Dirt:
    """How much there is to compact in one log."""

    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Something has waited too long, or tombstones have had their time."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)

    def should_compact(self, config: TopicConfig) -> bool:
        """Tell whether to compact."""
        return self.overdue or (self.dirty_bytes > 0 and self.ratio > config.min_cleanable_dirty_ratio)


def measure(
    segments: Sequence[SegmentInfo], cleaned_below: Offset, end: Offset, now_us: int, config: TopicConfig
) -> Dirt:
    """Measure the part below `end`; what is below `cleaned_below` has been compacted before."""
    cleanable = [segment for segment in segments if segment.next_offset <= end]
    dirty = [segment for segment in cleanable if segment.next_offset > cleaned_below]
    dirty_bytes = sum(segment.size for segment in dirty)
    return Dirt(
        clean_bytes=sum(segment.size for segment in cleanable) - dirty_bytes,
        dirty_bytes=dirty_bytes,
        overdue=any(has_waited_too_long(segment, now_us, config) for segment in dirty),
    )


class LastOffsets:
    """The last offset of each key in [`start_offset`, `end_offset`), within a limit of memory."""

    def __init__(self, start_offset: Offset, limit_bytes: int, aborted: AbortedBatches = NOTHING_ABORTED) -> None:
        self._aborted = aborted
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.of: dict[bytes, Offset] = {}
        self._free_bytes = limit_bytes

    @property
    def is_full(self) -> bool:
        """No more batches should be learnt in this pass."""
        return self._free_bytes <= 0

    def learn(self, header: BatchHeader, batch: Buffer) -> None:
        """Take in a batch that comes after all that were learnt."""
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
    """What one pass goes by."""

    now_s: int
    delete_retention_ms: int
    replicated_below: Offset
    """Every assigned replica holds all records below it: tombstones above must stay."""
    producer_batches: frozenset[Offset] = frozenset()
    """Base offsets of the batches by which producers are recognised."""
    aborted: AbortedBatches = NOTHING_ABORTED


@dataclass(slots=True)
class _Run:
    """Consecutive batches that lost everything: written as one filler."""

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
    """Walks over batches in order: `clean` each, `finish` at the end of a file; write what they return."""

    def __init__(self, last: LastOffsets, rules: CleaningRules) -> None:
        self._last = last
        self._rules = rules
        self._run: _Run | None = None
        self._with_kept_records = set[ProducerId]()
        """Producers of whose present transaction some record was kept."""
        self.changed = False
        """Whether anything differs since this was last set to False."""
        self.oldest_tombstone_s = 0
        """The earliest `cleaned_at_s` that was kept; 0 when no tombstone or marker waits."""

    def clean(self, header: BatchHeader, batch: Buffer) -> bytes:
        """Return what to write for this batch and for those before it that were held back."""
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
        """Return what was held back."""
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
        """Return since when this batch's tombstones, or this marker, have nothing before them here.

        What another replica stamped counts only once this one has removed the older records too.
        """
        if header.cleaned_at_s and header.base_offset < self._last.start_offset:
            return header.cleaned_at_s
        return self._rules.now_s + 1  # Rounded up, so that no tombstone goes too early.

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
