"""Numbered records, and the check that a partition holds each once and in order. Pure.

A producer numbers what it sends to each partition from 0 on, so every partition can be checked by itself, by whoever
reads it. The value of a record is `PRODUCER:NUMBER:`, and letters up to the size that was asked for.
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
    """Where numbers count."""

    producer: str
    partition: int


class Violation(NamedTuple):
    """What is wrong with a partition; `first` and `last` are numbers of the producer."""

    kind: Kind
    source: Source
    first: int
    last: int
    offset: Offset


def encode_value(producer: str, number: int, size: int) -> bytes:
    """Return the value of a record, of at least `size` bytes."""
    return f"{producer}:{number}:".encode().ljust(size, b"x")


def is_producer_name(text: str) -> bool:
    """Tell whether a name can be read back from a value."""
    return _PRODUCER.fullmatch(text) is not None


def decode_value(value: bytes | None) -> tuple[str, int] | None:
    """Return the producer and the number; None of a record that is not one of ours."""
    match = _VALUE.fullmatch(value or b"")
    return (match[1].decode(), int(match[2])) if match else None


@dataclass(slots=True)
class Produced:
    """What producers said of their records."""

    last_acknowledged: dict[Source, int] = field(default_factory=dict)
    failed: defaultdict[Source, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Surely not in the log."""
    unknown: defaultdict[Source, set[int]] = field(default_factory=lambda: defaultdict(set))
    """May or may not be."""

    @classmethod
    def read(cls, lines: Iterable[bytes]) -> Produced:
        """Read what `raftlog verify produce` printed, of one producer or several.

        Raises:
            InvalidRequestError: a line is none of its lines; the message says which.
        """
        produced = cls()
        for number, line in enumerate(lines, 1):
            try:
                produced._note(decode_plain(line))
            except (InvalidRequestError, LookupError, TypeError, AttributeError) as error:
                raise InvalidRequestError(f"line {number} is no line of raftlog verify produce: {error!r}") from None
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
    """What was read of one source."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.skipped: list[range] = []

    def take_skipped(self, number: int) -> bool:
        """Tell whether a number was skipped before, and note that it has come."""
        for at, gap in enumerate(self.skipped):
            if number in gap:
                parts = (range(gap.start, number), range(number + 1, gap.stop))
                self.skipped[at : at + 1] = [part for part in parts if part]
                return True
        return False


class Checker:
    """Feed it every record that is read, partition by partition in the order of reading."""

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
        """Say whether a partition is read from its very start, so that numbers begin at 0; else offset 0 says so."""
        self._complete[partition] = complete

    def leave(self, partition: int) -> None:
        """Note that others may read a partition: it may go on anywhere. What was wrong with it stays."""
        self._complete.pop(partition, None)
        self._offsets.pop(partition, None)
        for source in [source for source in self._sequences if source.partition == partition]:
            self._missing_before += self._missing_of(source, self._sequences.pop(source))

    def read(self, record: Record) -> Iterator[Violation]:
        """Yield what a record shows to be wrong."""
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
        """Yield the parts of a gap that the producer has not said to be failed or unknown."""
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
        """How many numbers were skipped and have not come since, but for those that may be absent."""
        return self._missing_before + sum(self._missing_of(*read) for read in self._sequences.items())

    def _missing_of(self, source: Source, sequence: _Sequence) -> int:
        return sum(len(part) for gap in sequence.skipped for part in self._unexcused(source, gap))

    def unread(self) -> Iterator[Violation]:
        """Yield what was acknowledged and has not been read yet, at the end of each source."""
        for source, last in self._produced.last_acknowledged.items():
            sequence = self._sequences.get(source)
            start = 0 if sequence is None else sequence.expected
            for part in self._unexcused(source, range(start, last + 1)):
                yield Violation("missing", source, part.start, part.stop - 1, -1)

    @property
    def violations(self) -> dict[str, int]:
        """Return how many there are of each kind."""
        return {
            "missing": self.missing,
            "duplicated": self.duplicated,
            "out_of_order": self.out_of_order,
            "offset_backwards": self.offset_backwards,
            "failed_but_read": self.failed_but_read,
        }
