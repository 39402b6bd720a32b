"""Offline check of every file in a partition's folder (`raftlog storage check`). Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from raftlog.errors import CorruptBatchError, DamagedDataError, StorageError
from raftlog.model import Offset
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.storage.batch_scan import Read, ends_amid_batch, scan_batches, sound_batch_after
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.cleaner import STATE_FILE
from raftlog.partition.storage.epochs import EpochTable, read_epochs
from raftlog.partition.storage.files import NEW_SUFFIX, read_file, read_json
from raftlog.partition.storage.index import SUFFIX as INDEX_SUFFIX
from raftlog.partition.storage.index import decode_index, read_facts
from raftlog.partition.storage.log_files import KEPT_PRODUCERS_SUFFIX, PRODUCERS_SUFFIX
from raftlog.partition.storage.producer_snapshots import decode_producers
from raftlog.partition.storage.recovery import segment_bases
from raftlog.partition.storage.scrub import STATE_FILE as SCRUB_FILE
from raftlog.partition.storage.segment import SUFFIX, segment_path
from raftlog.partition.storage.segment_replacement import CLEANED_SUFFIX
from raftlog.partition.storage.transaction_index import SUFFIX as ABORTED_SUFFIX
from raftlog.partition.storage.transaction_index import AbortedEntry, entry_of, read_aborted
from raftlog.record.batch import BatchHeader
from raftlog.record.control import parse_marker

Severity = Literal["damage", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a file. A `note` is fixed by the next start."""

    path: str
    severity: Severity
    what: str


@contextmanager
def reading(path: Path) -> Iterator[tuple[Read, int]]:
    """Open a file read-only; yield its read function and its size.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield lambda length, position: os.pread(descriptor, length, position), os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def check_partition(folder: Path, on_bytes: Callable[[int], None] = lambda _: None) -> list[Finding]:
    """Check one partition's folder.

    Args:
        on_bytes: called with the number of segment bytes read.
    """
    check = _PartitionCheck(folder, on_bytes)
    try:
        check.run()
    except OSError as error:
        check.damage(folder, f"cannot be read: {error.strerror or error}")
    return check.findings


class _PartitionCheck:
    def __init__(self, folder: Path, on_bytes: Callable[[int], None]) -> None:
        self.findings: list[Finding] = []
        self._folder = folder
        self._on_bytes = on_bytes
        self._checkpoint = Checkpoint()
        self._epochs: EpochTable | None = None
        self._end: Offset = 0

    def damage(self, path: Path, what: str) -> None:
        self.findings.append(Finding(str(path), "damage", what))

    def note(self, path: Path, what: str) -> None:
        self.findings.append(Finding(str(path), "note", what))

    def run(self) -> None:
        try:
            self._checkpoint = Checkpoint.load(self._folder)
        except StorageError as error:
            self.damage(self._folder / "checkpoint.json", error.message)
        try:
            read_epochs(self._folder)
            self._epochs = EpochTable(self._folder)
        except DamagedDataError as error:
            self.damage(self._folder / "leader-epochs.json", f"{error.message}; it is built again from the log")
        except StorageError as error:
            self.damage(self._folder / "leader-epochs.json", error.message)
        names = sorted(os.listdir(self._folder))
        if self._checkpoint.restarts:
            start = self._checkpoint.log_start_offset
            self.note(
                self._folder, f"the log is empty, and starts over at offset {start}: the next start removes files"
            )
            return
        bases = segment_bases(names)
        self._end = bases[0] if bases else self._checkpoint.log_start_offset
        for base in bases:
            self._check_segment(base, is_last=base == bases[-1])
        if self._end < self._checkpoint.recovery_point:
            point = self._checkpoint.recovery_point
            self.damage(self._folder, f"ends at offset {self._end}, everything below {point} was on disk once")
        self._check_others(names)

    def _check_segment(self, base: Offset, *, is_last: bool) -> None:
        path = segment_path(self._folder, base)
        if base < self._end:
            self.note(path, "lies inside the segment before it, which compaction has put in its place")
            self._on_bytes(os.stat(path).st_size)
            return
        positions, aborted = dict[int, Offset](), list[AbortedEntry | None]()
        with reading(path) as (read, size):
            if base != self._end and not (size == 0 or base < self._checkpoint.log_start_offset):
                self.damage(path, f"starts at offset {base}, the segment before it ends at {self._end}")
                self._end = base
            sound_bytes = 0
            try:
                for position, header in scan_batches(read, 0, size, verify=True, name=path.name):
                    positions[position] = header.base_offset
                    self._check_batch(path, header)
                    if header.is_control:
                        aborted.append(entry_of(header, parse_marker(header, read(header.batch_length, position))))
                    sound_bytes, self._end = position + header.batch_length, header.next_offset
                    self._on_bytes(header.batch_length)
            except CorruptBatchError as error:
                torn = is_last and ends_amid_batch(read, sound_bytes, size)
                self._unsound(path, read, size, error.message, torn=torn)
        self._check_index(path, positions, size)
        self._check_aborted(path, [entry for entry in aborted if entry is not None])

    def _check_batch(self, path: Path, header: BatchHeader) -> None:
        if header.base_offset != self._end:
            self.damage(path, f"holds offset {header.base_offset} where {self._end} should be")
        first = max(
            header.base_offset, self._checkpoint.log_start_offset
        )  # Below the log start, epochs are no longer stored.
        if self._epochs is None or header.next_offset <= first:
            return
        if (expected := self._epochs.epoch_at(first)) != header.leader_epoch:
            self.damage(path, f"offset {first} is of epoch {header.leader_epoch}, leader-epochs.json says {expected}")

    def _unsound(self, path: Path, read: Read, size: int, why: str, *, torn: bool) -> None:
        sound = sound_batch_after(read, 0, size, min_offset=self._end)
        if self._end < self._checkpoint.recovery_point or sound is not None or not torn:
            self.damage(path, f"is damaged at offset {self._end}: {why}")
        else:
            self.note(path, f"has a torn tail after offset {self._end}, which the next start cuts: {why}")
        self._on_bytes(size)

    def _check_index(self, path: Path, positions: dict[int, Offset], size: int) -> None:
        index_path = path.with_suffix(INDEX_SUFFIX)
        content = read_file(index_path)
        if content is None:
            return
        if (read := decode_index(content)) is None:
            self.damage(index_path, "is damaged; it is built again from the log")
            return
        facts, index = read
        if facts.size > size:
            self.damage(index_path, f"speaks of {facts.size} bytes, the segment has {size}")
        wrong = [at for at, offset in zip(index.positions, index.offsets, strict=True) if positions.get(at) != offset]
        if wrong and not any(finding.path == str(path) for finding in self.findings):
            self.damage(index_path, f"names byte {wrong[0]}, where no such batch begins")

    def _check_aborted(self, path: Path, found: list[AbortedEntry]) -> None:
        facts = read_facts(path.with_suffix(INDEX_SUFFIX))
        if facts is None:
            return  # The index is built again, and this one with it.
        expected = [entry for entry in found if entry.last_offset < facts.next_offset]
        if facts.aborted and read_aborted(path, facts.base_offset, facts.size, facts.aborted) != expected:
            self.damage(path.with_suffix(ABORTED_SUFFIX), "is missing or damaged; it is built again from the log")
        elif facts.aborted != len(expected):
            self.damage(path.with_suffix(INDEX_SUFFIX), f"counts {facts.aborted} aborted, there are {len(expected)}")

    def _check_others(self, names: list[str]) -> None:
        for name in names:
            path = self._folder / name
            if name.endswith(NEW_SUFFIX):
                self.note(path, "is left of a write that did not end; it is replaced at the next one")
            elif name.endswith(CLEANED_SUFFIX):
                self.note(path, "is left of a compaction that did not end; the next start removes it")
            elif name == STATE_FILE:
                self._check_json(path, "the whole log is compacted again")
            elif name == SCRUB_FILE:
                self._check_json(path, "the scrubber starts over")
            elif name.endswith((PRODUCERS_SUFFIX, KEPT_PRODUCERS_SUFFIX)):
                self._check_producers(path)
            elif name.endswith((INDEX_SUFFIX, ABORTED_SUFFIX)) and path.with_suffix(SUFFIX).name not in names:
                self.note(path, "belongs to no segment")

    def _check_json(self, path: Path, consequence: str) -> None:
        try:
            read_json(path)
        except StorageError as error:
            self.damage(path, f"{error.message}; {consequence}")

    def _check_producers(self, path: Path) -> None:
        offset = int(path.stem) if path.stem.isdecimal() else -1
        if not decode_producers(read_file(path) or b"", offset, ProducerStates()):
            self.damage(path, "is damaged; it is built again from the log")
        elif offset > self._end:
            self.note(path, f"lies beyond the log end offset {self._end}; the next start removes it")
