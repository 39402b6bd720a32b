"""One member of a consumer group, a process of its own: it reads, commits, and logs what it did and received.

Usage: python -m chaos.group_member '{"name": ..., "bootstrap": [...], ...}' (the fields of `Orders`). At SIGTERM it
leaves the group and exits; it may also be killed or stopped. Each line goes to the operating system before the next
step.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

import raftlog
from chaos.history import Outcome
from raftlog.cli.processes import die_with_parent
from raftlog.errors import FencedError, RaftlogError
from raftlog.model import TopicPartition

MAX_RECORDS = 40
LONGEST_WORK_S = 0.02
POLL_MS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The arguments of one member."""

    name: str
    bootstrap: list[str]
    dial: dict[str, str]
    topic: str
    group: str
    automatic: bool
    """The client commits by itself; otherwise the application does."""
    seed: int
    session_timeout_ms: int
    parent_pid: int
    """The member exits when this process exits."""
    file: str


class Member:
    """One process. After a permanent error it continues as a new consumer, as under a supervisor."""

    def __init__(self, orders: Orders, file: BinaryIO) -> None:
        self._orders, self._file = orders, file
        self._dice = random.Random(orders.seed)
        self._life = self._number = 0
        self._stopping = False
        self._polled_ns = 0
        self._next: dict[int, int] = {}
        """By owned partition, the first offset that it has not processed."""
        self._committed: dict[int, int] = {}
        """By partition, the last acknowledged commit."""
        self._commits: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Stop after this poll."""
        self._stopping = True

    async def run(self) -> None:
        """Consume until stopped."""
        while not self._stopping:
            self._life += 1
            self._next.clear()
            try:
                await self._live()
            except RaftlogError as error:
                self._failed(error)
                await asyncio.sleep(self._dice.uniform(0.05, 0.5))

    def _failed(self, error: RaftlogError) -> None:
        """Log why a life ended."""
        print(f"life {self._life}: {error.code}: {error.message}", file=sys.stderr, flush=True)

    async def _live(self) -> None:
        orders = self._orders
        async with raftlog.Consumer(
            orders.bootstrap,
            orders.topic,
            group_id=orders.group,
            auto_offset_reset="earliest",
            enable_auto_commit=orders.automatic,
            auto_commit_interval_ms=300,
            session_timeout_ms=orders.session_timeout_ms,
            max_poll_interval_ms=10_000,
            request_timeout_ms=5_000,
            on_assigned=lambda partitions: self._began(consumer, partitions),
            on_revoked=lambda partitions: self._give_up(consumer, partitions),
            on_lost=self._ended,
            dial=orders.dial,
        ) as consumer:
            try:
                while not self._stopping:
                    await self._poll(consumer)
            finally:
                await asyncio.gather(*self._commits, return_exceptions=True)

    async def _poll(self, consumer: raftlog.Consumer) -> None:
        self._polled_ns = time.monotonic_ns()
        records = await consumer.fetch(max_records=self._dice.randint(1, MAX_RECORDS), max_wait_ms=POLL_MS)
        if records:
            await asyncio.sleep(self._dice.uniform(0, LONGEST_WORK_S))
            self._processed(records)
            await self._maybe_commit(consumer, records[0].partition)
        elif not self._orders.automatic:  # Idle: commit, so that nothing stays uncommitted for long.
            behind = (number for number, offset in self._next.items() if self._committed.get(number) != offset)
            if (partition := next(behind, None)) is not None:
                await self._commit(consumer, partition)

    def _began(self, consumer: raftlog.Consumer, partitions: Iterable[TopicPartition]) -> None:
        for topic, partition in partitions:
            self._next[partition] = self._committed[partition] = consumer.position(topic, partition)
            self._write(
                "began",
                process=f"{self._orders.name}/{self._life}",
                partition=partition,
                offset=self._next[partition],
                polled_ns=self._polled_ns,
                began_ns=time.monotonic_ns(),
                automatic=self._orders.automatic,
            )

    async def _give_up(self, consumer: raftlog.Consumer, partitions: list[TopicPartition]) -> None:
        if not self._orders.automatic and self._dice.random() < 0.7:
            for _, partition in partitions:
                await self._commit(consumer, partition)
        self._ended(partitions)

    def _ended(self, partitions: Iterable[TopicPartition]) -> None:
        for _, partition in partitions:
            del self._next[partition]
            self._write("ended", partition=partition, at_ns=time.monotonic_ns())

    def _processed(self, records: list[raftlog.Record]) -> None:
        """Log runs of consecutive offsets; an answer is of one partition."""
        first = last = records[0].offset
        partition = records[0].partition
        for record in [*records[1:], None]:
            if record is not None and record.offset == last + 1:
                last = record.offset
                continue
            self._write("processed", partition=partition, first=first, last=last, at_ns=time.monotonic_ns())
            if record is not None:
                first = last = record.offset
        self._next[partition] = last + 1

    async def _maybe_commit(self, consumer: raftlog.Consumer, partition: int) -> None:
        draw = self._dice.random()
        if self._orders.automatic or draw > 0.8:
            return
        commit = asyncio.create_task(self._commit(consumer, partition))
        self._commits.add(commit)
        commit.add_done_callback(self._commits.discard)
        if draw < 0.6:
            await commit  # Otherwise it completes while more is read; `commit_nowait` keeps the order.
        else:
            await asyncio.sleep(0)

    async def _commit(self, consumer: raftlog.Consumer, partition: int) -> None:
        self._number += 1
        number, offset = self._number, self._next[partition]
        epoch = consumer.group_metadata.member_epoch
        self._write("commit", number=number, partition=partition, offset=offset, at_ns=time.monotonic_ns())
        outcome: Outcome = "ok"
        reason = ""
        try:
            await consumer.commit_nowait({(self._orders.topic, partition): offset})
            self._committed[partition] = offset
        except FencedError as error:
            outcome, reason = "fail", f"{error.code}: {error.message}"
        except RaftlogError as error:
            outcome, reason = "info", f"{error.code}: {error.message}"
        if consumer.group_metadata.member_epoch != epoch:
            epoch = -1
        self._write("committed", number=number, at_ns=time.monotonic_ns(), outcome=outcome, epoch=epoch, error=reason)

    def _write(self, kind: str, **what: Any) -> None:
        self._file.write(orjson.dumps({"kind": kind, **what}, option=orjson.OPT_APPEND_NEWLINE))
        self._file.flush()


async def main(orders: Orders, file: BinaryIO) -> None:
    """Run one member until SIGTERM."""
    member = Member(orders, file)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, member.stop)
    await member.run()


if __name__ == "__main__":
    told = Orders(**orjson.loads(sys.argv[1]))
    die_with_parent(told.parent_pid)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # Until `main` handles it: the file tells that this is set.
    with Path(told.file).open("ab") as opened:
        asyncio.run(main(told, opened))
