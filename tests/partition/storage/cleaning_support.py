"""Logs with keys, a model of their content, and compaction without an event loop."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from storage_support import headers

from raftlog.config import TopicConfig
from raftlog.partition.core.ages import are_apart
from raftlog.partition.core.compaction import CleaningRules, cleanable_end
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.storage.cleaner import CleanerState, CleaningPass, Moved
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import (
    AbortedBatches,
    NewRecord,
    Record,
    build_batch,
    iter_batches,
    parse_header,
    read_records,
    stamp,
)

DAY_MS = 86_400_000


def open_compacted(folder: Path, *, power_lost: bool = False, **config: object) -> PartitionLog:
    settings = {"cleanup_policy": "compact", "segment_bytes": 4096, **config}
    return PartitionLog.open(folder, TopicConfig().with_overrides(settings), power_lost=power_lost)


def append(log: PartitionLog, *records: tuple[str | None, str | None], epoch: int = 0, **batch: object) -> None:
    """Append one batch of (key, value)."""
    offset = log.log_end_offset
    new = [
        NewRecord(None if value is None else value.encode(), None if key is None else key.encode(), 1_000 + offset + n)
        for n, (key, value) in enumerate(records)
    ]
    built = build_batch(new, **batch)  # type: ignore[arg-type]
    stamp(built, base_offset=offset, leader_epoch=epoch)
    log.append(built)


def records(log: PartitionLog) -> list[Record]:
    """Read everything, as a consumer does."""
    position, found = log.log_start_offset, []
    while data := log.read(position, 1 << 16, limit_offset=log.log_end_offset):
        found += read_records(data, topic="t", partition=0, from_offset=position)
        position = max(header.next_offset for header, _ in iter_batches(data))
    assert position == log.log_end_offset
    return found


def producers_of(log: PartitionLog) -> ProducerStates:
    """Return the log's producer states."""
    states = ProducerStates()
    for header, marker in log.scan():
        states.on_appended(header, marker=marker)
    return states


def pairs(log: PartitionLog) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {record.offset: (record.key, record.value) for record in records(log)}


def clean(
    log: PartitionLog,
    state: CleanerState | None = None,
    *,
    now_s: int = 1_000,
    high_watermark: int | None = None,
    replicated_below: int = 1 << 62,
    delete_retention_ms: int = DAY_MS,
    dedupe_buffer_bytes: int = 1 << 20,
    producer_batches: frozenset[int] | None = None,
) -> CleanerState:
    """Run one whole pass as the broker's cleaner does; the log has been synced."""
    state = state or CleanerState(log.folder, log.log_end_offset)
    limit = log.log_end_offset if high_watermark is None else high_watermark
    cuts = log.cuts
    end = cleanable_end(log.segments, limit, now_s * 1_000_000, log.config)
    segments = [segment for segment in log.segments[:-1] if log.log_start_offset < segment.next_offset <= end]
    if not segments:
        return state
    rules = CleaningRules(
        now_s=now_s,
        delete_retention_ms=delete_retention_ms,
        replicated_below=replicated_below,
        producer_batches=producers_of(log).remembered_offsets() if producer_batches is None else producer_batches,
        aborted=AbortedBatches(log.aborted_transactions(segments[0].base_offset, end)),
    )
    work = CleaningPass(
        log.folder,
        segments,
        cleaned_below=state.cleaned_below,
        rules=rules,
        segment_bytes=log.config.segment_bytes,
        dedupe_buffer_bytes=dedupe_buffer_bytes,
        is_apart=partial(are_apart, config=log.config),
    )
    for step in work.steps():
        if not isinstance(step, Moved) and not log.swap(step.replaced, step.fresh, cuts=cuts):
            step.discard()
            return state
    state.finished(work.last.end_offset, work.oldest_tombstone_s)
    return state


@dataclass
class Model:
    """Everything that was ever appended to one log, and a check of compaction's promises."""

    log: PartitionLog
    random: random.Random
    history: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    _sequences: dict[int, int] = field(default_factory=dict)
    _epoch: int = 0

    def append_batch(self) -> None:
        draw = self.random
        self._epoch += draw.random() < 0.05
        new: list[tuple[str | None, str | None]] = []
        for _ in range(draw.randint(1, 6)):
            key = None if draw.random() < 0.03 else f"k{draw.randint(0, 9)}"
            new.append((key, None if draw.random() < 0.2 else f"v{draw.random()}".ljust(draw.randint(1, 200))))
        offset, producer = self.log.log_end_offset, draw.choice([-1, 1, 2, 3])
        identity = {}
        if producer >= 0:
            sequence = self._sequences.get(producer, 0)
            identity = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            self._sequences[producer] = sequence + len(new)
        compression = draw.choice([None, None, "lz4", "zstd"])
        append(self.log, *new, epoch=self._epoch, compression=compression, **identity)
        for n, (key, value) in enumerate(new):
            self.history[offset + n] = (key and key.encode(), None if value is None else value.encode())  # type: ignore[assignment]

    def fill(self, batches: int) -> None:
        for _ in range(batches):
            self.append_batch()
            if self.random.random() < 0.02:
                self.log.roll()
        self.log.fsync()
        self.log.checkpoint(self.log.log_end_offset)

    def reopen(self) -> None:
        self.log.close()
        self.log = PartitionLog.open(self.log.folder, self.log.config)

    def check(self, *, untouched_from: int | None = None) -> None:
        """Check every promise.

        Args:
            untouched_from: from there on, nothing may be missing.
        """
        found = pairs(self.log)
        assert self.log.log_end_offset == len(self.history)
        assert all(self.history[offset] == pair for offset, pair in found.items())
        last: dict[bytes, int] = {}
        for offset, (key, _) in self.history.items():
            if key is None:
                assert offset in found, f"the record at {offset} has no key"
            else:
                last[key] = offset
        for key, offset in last.items():
            older = [at for at, pair in found.items() if pair[0] == key and at < offset]
            if self.history[offset][1] is not None:
                assert offset in found, f"the last record of {key!r}, at {offset}, is gone"
            elif offset not in found:
                assert not older, f"{key!r} was deleted at {offset} and came back: {older}"
        if untouched_from is not None:
            assert all(at in found for at in range(untouched_from, self.log.log_end_offset))
        self._check_headers()

    def _check_headers(self) -> None:
        expected, epoch = self.log.segments[0].base_offset, -1
        for header in headers(self.log):
            assert (header.base_offset, header.leader_epoch >= epoch) == (expected, True)
            assert self.log.epochs.epoch_at(header.base_offset) == header.leader_epoch
            assert self.log.epochs.epoch_at(header.last_offset) == header.leader_epoch
            expected, epoch = header.next_offset, header.leader_epoch
        assert expected == self.log.log_end_offset
        producers = ProducerStates(headers(self.log))
        for producer, sequence in self._sequences.items():
            next_one = build_batch([NewRecord(b"x")], producer_id=producer, producer_epoch=0, base_sequence=sequence)
            assert producers.check(parse_header(next_one)) is None
