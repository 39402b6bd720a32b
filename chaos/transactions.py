"""Transactions under faults: a workload, its history, and its checks (Jepsen's Kafka workload).

Each transaction writes one to four unique values to random partitions, then commits, or aborts on purpose. Outcomes:
`ok` (committed), `fail` (aborted, for certain), `info` (unknown). Readers read committed records only.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import raftlog
from chaos.checker import Anomaly
from chaos.history import Outcome


@dataclass(slots=True, kw_only=True)
class Transaction:
    """One transaction: its values with their partitions, and its outcome."""

    process: str
    number: int
    asked_ns: int = 0
    """The time just before the client began it."""
    begun_ns: int = 0
    """The time when it had begun: from then on it has its producer epoch."""
    writes: list[tuple[int, str]] = field(default_factory=list)
    outcome: Outcome = "info"
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRead:
    """One record that a reader of committed records received."""

    process: str
    partition: int
    offset: int
    value: str


@dataclass(slots=True, kw_only=True)
class TransactionHistory:
    """All transactions, in the order in which they began, and all reads."""

    transactions: list[Transaction] = field(default_factory=list)
    reads: list[CommittedRead] = field(default_factory=list)
    final_reads: list[CommittedRead] = field(default_factory=list)


def check_transactions(history: TransactionHistory) -> list[Anomaly]:
    """Return every broken promise. A history without a commit or without final reads is invalid: it proves nothing."""
    if not history.final_reads or not any(one.outcome == "ok" for one in history.transactions):
        return [Anomaly("invalid", "no transaction was committed, or there are no final reads")]
    found = list(_of_single_reads(history))
    seen = {read.value for read in history.final_reads}
    for transaction in history.transactions:
        found += _of_transaction(transaction, seen)
    return [*found, *_skips(history), *_zombies(history)]


def _of_transaction(transaction: Transaction, seen: set[str]) -> Iterable[Anomaly]:
    values = [value for _, value in transaction.writes]
    there = [value for value in values if value in seen]
    name = f"transaction {transaction.number} of {transaction.process} ({transaction.outcome})"
    if transaction.outcome == "ok" and len(there) < len(values):
        yield Anomaly("lost", f"{name}: {sorted(set(values) - seen)} are missing")
    elif there and len(there) < len(values):
        yield Anomaly("torn transaction", f"{name}: only {there} of {values} were read")


def _of_single_reads(history: TransactionHistory) -> Iterable[Anomaly]:
    writers = {value: one for one in history.transactions for _, value in one.writes}
    places: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for read in [*history.reads, *history.final_reads]:
        places[read.value].add((read.partition, read.offset))
        writer = writers.get(read.value)
        if writer is None:
            yield Anomaly("phantom", f"{read.value} was read by {read.process}, and was never sent")
        elif writer.outcome == "fail":
            yield Anomaly("aborted read", f"{read.value} was read by {read.process}; its transaction was aborted")
    for value, found in places.items():
        if len(found) > 1:
            yield Anomaly("duplicate", f"{value} is at {sorted(found)}")
    final = {read.value for read in history.final_reads}
    for read in history.reads:
        if read.value not in final:
            yield Anomaly("lost", f"{read.value} was read as committed by {read.process}, and is missing")


def _skips(history: TransactionHistory) -> Iterable[Anomaly]:
    """Find readers that did not receive all committed records, once and in order, up to where they came."""
    final: dict[int, list[int]] = defaultdict(list)
    for read in history.final_reads:
        final[read.partition].append(read.offset)
    seen: dict[tuple[str, int], list[int]] = defaultdict(list)
    for read in history.reads:
        seen[read.process, read.partition].append(read.offset)
    for (process, partition), offsets in seen.items():
        for expected, offset in zip(final[partition], offsets, strict=False):
            if offset != expected:
                kind = "skip" if offset > expected else "nonmonotonic poll"
                yield Anomaly(kind, f"partition {partition}: {process} was to read {expected} next, and got {offset}")
                break


def _zombies(history: TransactionHistory) -> Iterable[Anomaly]:
    """Find records of a process, `<name>/<life>`, above those of one whose first transaction fenced it.

    The numbers of two lives do not show which came first: an answer may be late. But a transaction that had begun
    before another process requested its first epoch has an earlier epoch than every transaction of that process.
    """
    writers = {value: one for one in history.transactions for _, value in one.writes}
    first_asked_ns: dict[str, int] = {}
    for one in history.transactions:
        first_asked_ns[one.process] = min(one.asked_ns, first_asked_ns.get(one.process, one.asked_ns))
    reads: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for read in history.final_reads:
        if read.value in writers:
            reads[writers[read.value].process.partition("/")[0], read.partition].append((read.offset, read.value))
    for (name, _), found in reads.items():
        newest_ns = 0
        for _, value in sorted(found):
            writer = writers[value]
            if writer.begun_ns < newest_ns:
                yield Anomaly("zombie", f"{value} is above what a later life of {name} wrote")
            newest_ns = max(newest_ns, first_asked_ns[writer.process])


class TransactionClients:
    """Producers with transactional ids, each of which lives several lives, and readers of committed records."""

    def __init__(
        self, history: TransactionHistory, bootstrap: Sequence[str], dice: random.Random, *, topic: str, partitions: int
    ) -> None:
        self.history = history
        self.stopping = False
        self.reading: raftlog.Consumer | None = None
        """The tail's consumer."""
        self._bootstrap = list(bootstrap)
        self._dice = dice
        self._topic = topic
        self._partitions = partitions

    def producer(self, name: str, *, timeout_ms: int = 3_000) -> raftlog.Producer:
        """Return a producer whose transactional id is `name`."""
        return raftlog.Producer(
            self._bootstrap,
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            linger_ms=0,
            delivery_timeout_ms=8_000,
            request_timeout_ms=2_000,
        )

    async def live(self, name: str, pause_s: float) -> None:
        """Produce until stopped; one life after another, without a notice to the earlier ones."""
        life, zombies = 0, list[asyncio.Task[None]]()
        while not self.stopping:
            zombies.append(asyncio.ensure_future(self.one_life(name, life, pause_s)))
            life += 1
            deadline = asyncio.get_running_loop().time() + self._dice.uniform(0.5, 8)
            while not self.stopping and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(0.1)
        await asyncio.gather(*zombies)

    async def one_life(self, name: str, life: int, pause_s: float, *, make: Callable[[str], Any] | None = None) -> None:
        """Produce as one process, until stopped or fenced by the next one.

        Args:
            make: makes another producer than raftlog's own, with the same methods.
        """
        number = 0
        async with (make or self.producer)(name) as producer:
            while not self.stopping:
                transaction = Transaction(process=f"{name}/{life}", number=number)
                number += 1
                await self.run(producer, transaction)
                if transaction.error == "PRODUCER_FENCED":
                    return
                await asyncio.sleep(self._dice.uniform(0, 2 * pause_s))

    async def run(self, producer: raftlog.Producer, transaction: Transaction) -> None:
        """Run one transaction, and note its outcome."""
        self.history.transactions.append(transaction)
        transaction.asked_ns = time.monotonic_ns()
        give_up = self._dice.random() < 0.25
        try:
            async with producer.transaction():
                transaction.begun_ns = time.monotonic_ns()
                for index in range(self._dice.randint(1, 4)):
                    value = f"{transaction.process}-{transaction.number}-{index}"
                    partition = self._dice.randrange(self._partitions)
                    transaction.writes.append((partition, value))
                    await producer.send(self._topic, value.encode(), partition=partition)
                if give_up:
                    raise _GivenUpError
        except _GivenUpError:
            transaction.outcome = "fail"
        except raftlog.UnknownOutcomeError as error:
            # After a send of unknown outcome it aborts; after the commit the outcome stays unknown.
            transaction.outcome, transaction.error = "info", error.code.value
        except raftlog.RaftlogError as error:
            transaction.outcome, transaction.error = "fail", error.code.value
        else:
            transaction.outcome = "ok"

    async def tail(self, name: str) -> None:
        """Read committed records without end."""
        async with raftlog.Consumer(
            self._bootstrap, self._topic, start="earliest", isolation="read_committed"
        ) as consumer:
            self.reading = consumer
            async for record in consumer:
                self.history.reads.append(_seen(name, record))

    async def read_everything(self) -> None:
        """Read the topic to its end, once every transaction is decided."""
        async with raftlog.Consumer(
            self._bootstrap, self._topic, start="earliest", isolation="read_committed"
        ) as consumer:
            ends = await consumer.end_offsets()
            while any(consumer.position(*partition) < end for partition, end in ends.items()):
                self.history.final_reads += [_seen("final", record) for record in await consumer.fetch()]


class _GivenUpError(Exception):
    """The workload aborts on purpose."""


def _seen(process: str, record: raftlog.Record) -> CommittedRead:
    value = (record.value or b"").decode()
    return CommittedRead(process=process, partition=record.partition, offset=record.offset, value=value)
