"""A log with transactions of several producers, and the right answers, computed the slow way."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from raftlog.model import AbortedTransaction
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import Marker, NewRecord, build_batch, build_marker, parse_header, stamp


@dataclass
class TransactionalLog:
    """Appends as a leader does. `aborted` and `values` are the right answers for readers of committed records."""

    log: PartitionLog
    random: random.Random
    states: ProducerStates = field(default_factory=ProducerStates)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    decided: dict[int, bool] = field(default_factory=dict)
    """Whether the record at an offset is committed, if that is decided."""
    written: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    _open: dict[int, list[int]] = field(default_factory=dict)
    _epochs: dict[int, int] = field(default_factory=dict)
    _sequences: dict[int, int] = field(default_factory=dict)

    def send(self, producer: int, count: int = 1, *, transactional: bool = True, leader_epoch: int = 0) -> None:
        offset, draw = self.log.log_end_offset, self.random
        new = [NewRecord(f"v{draw.random()}".encode(), f"k{draw.randint(0, 9)}".encode(), 1_000) for _ in range(count)]
        sequence = self._sequences.get(producer, 0)
        epoch = self._epochs.get(producer, 0)
        built = build_batch(
            new, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
        )
        assert self.states.check(parse_header(built)) is None
        stamp(built, base_offset=offset, leader_epoch=leader_epoch)
        self.log.append(built)
        self.states.on_appended(parse_header(built))
        self._sequences[producer] = sequence + count
        for number, record in enumerate(new):
            self.written[offset + number] = (record.key or b"", record.value or b"")
            if transactional:
                self._open.setdefault(producer, []).append(offset + number)
            else:
                self.decided[offset + number] = True

    def end(self, producer: int, *, committed: bool, leader_epoch: int = 0) -> None:
        offset, transactions = self.log.log_end_offset, self.states.transactions
        marker = Marker(
            committed=committed,
            coordinator_epoch=0,
            first_offset=transactions.ongoing.get(producer, -1),
            stable_offset=transactions.stable_offset_after(producer, offset),
        )
        self._epochs[producer] = self._epochs.get(producer, 0) + 1
        self._sequences[producer] = 0
        built = build_marker(marker, producer_id=producer, producer_epoch=self._epochs[producer], timestamp_us=1_000)
        stamp(built, base_offset=offset, leader_epoch=leader_epoch)
        self.log.append(built)
        self.states.on_appended(parse_header(built), marker=marker)
        mine = self._open.pop(producer, [])
        self.decided |= dict.fromkeys(mine, committed)
        if mine and not committed:
            ends = AbortedTransaction(producer_id=producer, first_offset=mine[0], last_offset=offset)
            self.aborted.append(ends)

    def step(self) -> None:
        """Do one random operation of a leader."""
        draw, producer = self.random, self.random.randint(1, 4)
        kind = draw.choices(["send", "end", "plain", "roll"], [6, 3, 2, 0.3])[0]
        if kind == "send":
            self.send(producer, draw.randint(1, 4))
        elif kind == "plain":
            self.send(10 + producer, draw.randint(1, 3), transactional=False)
        elif kind == "end":
            self.end(producer, committed=draw.random() < 0.5)
        else:
            self.log.roll()

    @property
    def stable(self) -> int:
        return self.states.transactions.last_stable_offset(self.log.log_end_offset)

    def check_index(self) -> None:
        """Compare the log's answers about decided ranges with the operations."""
        start = self.log.log_start_offset
        for _ in range(5):
            low = self.random.randint(start, max(start, self.stable))
            high = self.random.randint(low, max(low, self.stable))
            expected = [a for a in self.aborted if a.first_offset < high and low <= a.last_offset]
            assert self.log.aborted_transactions(low, high) == expected
