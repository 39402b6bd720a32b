"""Counts every record that a reader of the bulk load received, and judges the counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.bulk import SAMPLE, BulkResult, Numbers, Sent, Sighting, numbers_of

Counts = npt.NDArray[np.uint8]
_FIRST_SIZE = 1 << 16


class Tally:
    """How often each record of each life was received, and whether offsets were consecutive."""

    def __init__(self) -> None:
        self.read = self.foreign = 0
        self.jumps: list[tuple[int, int]] = []
        """By partition, offsets that were read next and differ from the expected ones."""
        self.positions: dict[int, int] = {}
        """By partition, the expected offset of the next record."""
        self.sample: list[Sighting] = []
        self._seen: dict[int, Counts] = {}

    def take(self, table: pa.Table, now_ns: int) -> None:
        """Count what a fetch returned: columns partition, offset and value."""
        if not table.num_rows:
            return
        lives, numbers, foreign = numbers_of(table.column("value"))
        partitions = table.column("partition").to_numpy().astype(np.int64)
        offsets = table.column("offset").to_numpy().astype(np.int64)
        self.read += table.num_rows
        self.foreign += foreign
        self._count(lives, numbers)
        self._follow(partitions, offsets)
        for row in np.flatnonzero((numbers % SAMPLE == 0) & (lives >= 0)):
            self.sample.append(
                Sighting(
                    life=int(lives[row]),
                    number=int(numbers[row]),
                    partition=int(partitions[row]),
                    offset=int(offsets[row]),
                    seen_ns=now_ns,
                )
            )

    def seen(self, life: int, upto: int) -> Counts:
        """Return how often each of the first `upto` records of a life was received."""
        counts = self._seen.get(life, np.empty(0, dtype=np.uint8))
        return np.pad(counts, (0, max(0, upto - len(counts))))[:upto]

    def beyond(self, life: int, upto: int) -> int:
        """Return how many records of a life were received that are not among its first `upto`."""
        return int(self._seen.get(life, np.empty(0, dtype=np.uint8))[upto:].sum())

    @property
    def lives(self) -> list[int]:
        return list(self._seen)

    def _count(self, lives: Numbers, numbers: Numbers) -> None:
        for life in np.unique(lives[lives >= 0]):
            mine = numbers[lives == life]
            counts = self._room(int(life), int(mine.max()) + 1)
            np.add.at(counts, mine, 1)

    def _room(self, life: int, size: int) -> Counts:
        counts = self._seen.get(life, np.zeros(_FIRST_SIZE, dtype=np.uint8))
        if size > len(counts):
            counts = np.pad(counts, (0, max(size, 2 * len(counts)) - len(counts)))
        self._seen[life] = counts
        return counts

    def _follow(self, partitions: Numbers, offsets: Numbers) -> None:
        for partition in np.unique(partitions):
            mine = offsets[partitions == partition]
            expected = self.positions.get(int(partition), int(mine[0]))
            places = np.flatnonzero(np.diff(mine, prepend=expected - 1) != 1)
            self.jumps += [(int(partition), int(mine[place])) for place in places]
            self.positions[int(partition)] = int(mine[-1]) + 1


def judge(
    sent: Iterable[Sent], tail: Tally, final: Tally, *, log_starts: Mapping[int, int], problems: list[str]
) -> BulkResult:
    """Compare the sent records with those that the tailing reader and the final reader received.

    The tailing reader must have received every acknowledged record once. The final reader receives only what retention
    has left. It may skip to the current log start offset: retention goes on while it reads.
    """
    sampled, unknown, acknowledged, sizes = list[Sent](), 0, dict[int, Counts](), dict[int, int]()
    for one in sent:
        upto = one.first + one.count
        sizes[one.life] = max(sizes.get(one.life, 0), upto)
        marks = acknowledged.get(one.life, np.zeros(_FIRST_SIZE, dtype=np.uint8))
        if upto > len(marks):
            marks = np.pad(marks, (0, max(upto, 2 * len(marks)) - len(marks)))
        marks[one.first : upto] = one.ok
        acknowledged[one.life] = marks
        unknown += 0 if one.ok else one.count
        if one.sample or (not one.ok and any(number % SAMPLE == 0 for number in range(one.first, upto))):
            sampled.append(one)
    lost = repeated = foreign = 0
    for life, size in sizes.items():
        seen, owed = tail.seen(life, size), acknowledged[life][:size]
        lost += int(((owed == 1) & (seen == 0)).sum())
        repeated += int((seen > 1).sum()) + int((final.seen(life, size) > 1).sum())
    for reader in (tail, final):
        foreign += reader.foreign + sum(reader.beyond(life, sizes.get(life, 0)) for life in reader.lives)
    return BulkResult(
        acknowledged=sum(int(marks.sum()) for marks in acknowledged.values()),
        unknown=unknown,
        read=tail.read,
        lost=lost,
        repeated=repeated,
        foreign=foreign,
        gaps=len(tail.jumps) + sum(offset > log_starts.get(partition, 0) for partition, offset in final.jumps),
        problems=problems,
        sent=sampled,
        tail=tail.sample,
        final=final.sample,
        log_starts={str(partition): offset for partition, offset in log_starts.items()},
    )
