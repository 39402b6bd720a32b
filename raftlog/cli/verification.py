"""Numbered records, and the check that a partition has each once and in order. Pure.

A producer numbers its records of each partition from 0, so any reader can check a partition by itself. The value of a
record is `PRODUCER:NUMBER:`, filled up with letters to the requested size.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from raftlog.errors import InvalidRequestError
from raftlog.model import Offset
from raftlog.record import Record
from raftlog.wire.codec import decode_plain

Kind = Literal["missing", "duplicated", "out_of_order", "offset_backwards", "failed_but_read"]
_VALUE = re.compile(rb"([\w.-]{1,100}):(\d{1,18}):x*", re.ASCII)
_PRODUCER = re.compile(r"[\w.-]{1,100}", re.ASCII)


class Source(NamedTuple):
    """One sequence of numbers: a producer's records in a partition."""

    producer: str
    partition: int


class Violation(NamedTuple):
    """A violation in a partition; `first` and `last` are numbers of the producer."""

    kind: Kind
    source: Source
    first: int
    last: int
    offset: Offset


def encode_value(producer: str, number: int, size: int) -> bytes:
    """Return the value of a record, of at least `size` bytes."""
    return f"{producer}:{number}:".encode().ljust(size, b"x")


def is_producer_name(text: str) -> bool:
    """Return whether a producer's name can be decoded from a value."""
    return _PRODUCER.fullmatch(text) is not None


def decode_value(value: bytes | None) -> tuple[str, int] | None:
    """Return the producer and the number; None: not a numbered record."""
    match = _VALUE.fullmatch(value or b"")
    return (match[1].decode(), int(match[2])) if match else None


@dataclass(slots=True)
class Produced:
    """The outcomes that producers have printed."""

    last_acknowledged: dict[Source, int] = field(default_factory=dict)
    failed: defaultdict[Source, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Numbers that are not in the log."""
    unknown: defaultdict[Source, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Numbers that may be in the log."""

    @classmethod
    def read(cls, lines: Iterable[bytes]) -> Produced:
        """Parse the output of `raftlog verify produce`, of one producer or several.

        Raises:
            InvalidRequestError: a line is not part of its output; the message has the line's number.
        """
        produced = cls()
        for number, line in enumerate(lines, 1):
            try:
                produced._note(decode_plain(line))
            except (InvalidRequestError, LookupError, TypeError, AttributeError) as error:
                raise InvalidRequestError(f"line {number} is not from raftlog verify produce: {error!r}") from None
        return produced

    def _note(self, line: Mapping[str, Any]) -> None:
        event = line["event"]
        if event not in ("acknowledged", "failed", "unknown"):
            return
        source, number = Source(line["producer"], line["partition"]), line["number"]
        if event == "acknowledged":
            self.last_acknowledged[source] = max(number, self.last_acknowledged.get(source, -1))
        else:
            (self.failed if event == "failed" else self.unknown)[source].add(number)


class _Sequence:
    """The numbers that were read of one source."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.skipped: list[range] = []

    def take_skipped(self, number: int) -> bool:
        """Remove a number from the skipped ones; return whether it was one."""
        for at, gap in enumerate(self.skipped):
            if number in gap:
                parts = (range(gap.start, number), range(number + 1, gap.stop))
                self.skipped[at : at + 1] = [part for part in parts if part]
                return True
        return False


class Checker:
    """Checks records, which must be passed in the order of reading within each partition."""

    def __init__(self, produced: Produced | None = None) -> None:
        self._produced = produced or Produced()
        self._sequences: dict[Source, _Sequence] = {}
        self._offsets: dict[int, Offset] = {}
        self._complete: dict[int, bool] = {}
        self.records = 0
        self.foreign = 0
        """Records without a number."""
        self._missing_before = 0
        self.duplicated = self.out_of_order = self.offset_backwards = self.failed_but_read = 0

    def begin(self, partition: int, *, complete: bool) -> None:
        """Begin a partition; `complete`: it is read from its start, so that numbers begin at 0."""
        self._complete[partition] = complete

    def leave(self, partition: int) -> None:
        """Note that another member may read a partition: it may continue anywhere. Its violations stay."""
        self._complete.pop(partition, None)
        self._offsets.pop(partition, None)
        for source in [source for source in self._sequences if source.partition == partition]:
            self._missing_before += self._missing_of(source, self._sequences.pop(source))

    def read(self, record: Record) -> Iterator[Violation]:
        """Yield the violations that a record shows."""
        partition, offset = record.partition, record.offset
        decoded = decode_value(record.value)
        self.records += decoded is not None
        if decoded is None:
            self.foreign += 1
            return
        source, number = Source(decoded[0], partition), decoded[1]
        if offset <= self._offsets.get(partition, -1):
            self.offset_backwards += 1
            yield Violation("offset_backwards", source, number, number, offset)
            return
        self._complete.setdefault(partition, offset == 0)
        self._offsets[partition] = offset
        if number in self._produced.failed.get(source, ()):
            self.failed_but_read += 1
            yield Violation("failed_but_read", source, number, number, offset)
        yield from self._number(source, number, offset)

    def _number(self, source: Source, number: int, offset: Offset) -> Iterator[Violation]:
        sequence = self._sequences.get(source)
        if sequence is None:
            first = 0 if self._complete[source.partition] else number
            sequence = self._sequences[source] = _Sequence(first)
        if number < sequence.expected:
            late = sequence.take_skipped(number)
            self.out_of_order += late
            self.duplicated += not late
            yield Violation("out_of_order" if late else "duplicated", source, number, number, offset)
            return
        if number > sequence.expected:
            gap = range(sequence.expected, number)
            sequence.skipped.append(gap)
            for part in self._unexcused(source, gap):
                yield Violation("missing", source, part.start, part.stop - 1, offset)
        sequence.expected = number + 1

    def _unexcused(self, source: Source, gap: range) -> Iterator[range]:
        """Yield the parts of a gap that the producer did not report as failed or unknown."""
        excused = self._produced.failed.get(source, set()) | self._produced.unknown.get(source, set())
        at = gap.start
        for number in sorted(number for number in excused if number in gap):
            if at < number:
                yield range(at, number)
            at = number + 1
        if at < gap.stop:
            yield range(at, gap.stop)

    @property
    def missing(self) -> int:
        """Return how many numbers were skipped and did not come since, without those that may be absent."""
        return self._missing_before + sum(self._missing_of(*read) for read in self._sequences.items())

    def _missing_of(self, source: Source, sequence: _Sequence) -> int:
        return sum(len(part) for gap in sequence.skipped for part in self._unexcused(source, gap))

    def unread(self) -> Iterator[Violation]:
        """Yield the acknowledged numbers that were not read at the end of each source."""
        for source, last in self._produced.last_acknowledged.items():
            sequence = self._sequences.get(source)
            start = 0 if sequence is None else sequence.expected
            for part in self._unexcused(source, range(start, last + 1)):
                yield Violation("missing", source, part.start, part.stop - 1, -1)

    @property
    def violations(self) -> dict[str, int]:
        """Return the number of violations of each kind."""
        return {
            "missing": self.missing,
            "duplicated": self.duplicated,
            "out_of_order": self.out_of_order,
            "offset_backwards": self.offset_backwards,
            "failed_but_read": self.failed_but_read,
        }
