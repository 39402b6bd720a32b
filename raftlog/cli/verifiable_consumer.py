"""`raftlog verify consume`: reads and checks numbered records."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from raftlog.cli.connecting import security_in_use
from raftlog.cli.interruptions import interruptible
from raftlog.cli.json_lines import JsonLines
from raftlog.cli.remote import require_topic
from raftlog.cli.shared import describe_error
from raftlog.cli.verification import Checker, Produced, Violation
from raftlog.client import Consumer
from raftlog.errors import RaftlogError
from raftlog.model import Isolation, TopicPartition
from raftlog.record import Record

POLL_MS = 500
MAX_VIOLATIONS_SHOWN = 1_000


class Verification:
    """One run of `raftlog verify consume`."""

    def __init__(self, topic: str, produced: Produced | None, records: int | None, timeout_s: float | None) -> None:
        self._topic = topic
        self._produced = produced
        self._records = records
        self._timeout_s = timeout_s
        self._checker = Checker(produced)
        self._shown = 0
        self._stopping = asyncio.Event()
        self._out = JsonLines(sys.stdout.buffer, on_closed=self._stopping.set)

    async def run(self, bootstrap: list[str], group: str | None, isolation: Isolation) -> int:
        """Read and check; return the exit code."""
        await require_topic(bootstrap, self._topic)
        if group is None:
            consumer = Consumer(
                bootstrap, self._topic, start="earliest", isolation=isolation, security=security_in_use()
            )
        else:
            consumer = self._member(bootstrap, group, isolation)
        with interruptible(self._stopping.set):
            async with consumer:
                if group is None:
                    for partition, start in (await consumer.beginning_offsets()).items():
                        self._checker.begin(partition.partition, complete=start == 0)
                complete = await self._read_all(consumer, commit=group is not None)
        return self._report(complete)

    def _member(self, bootstrap: list[str], group: str, isolation: Isolation) -> Consumer:
        def on_rebalance(event: str, partitions: Sequence[TopicPartition]) -> None:
            for partition in partitions:
                self._checker.leave(partition.partition)
            self._out.write(event, partitions=sorted(partition.partition for partition in partitions))

        return Consumer(
            bootstrap,
            self._topic,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation=isolation,
            security=security_in_use(),
            on_assigned=lambda partitions: on_rebalance("assigned", partitions),
            on_revoked=lambda partitions: on_rebalance("revoked", partitions),
            on_lost=lambda partitions: on_rebalance("lost", partitions),
        )

    async def _read_all(self, consumer: Consumer, *, commit: bool) -> bool:
        """Read to the end; return whether all expected records came."""
        unbounded = self._records is None and self._produced is None
        quiet_since = time.monotonic()
        while not self._all_read():
            if self._stopping.is_set():
                return unbounded
            if self._timeout_s is not None and time.monotonic() - quiet_since >= self._timeout_s:
                return unbounded
            left = None if self._records is None else self._records - self._checker.records
            records = await consumer.fetch(max_records=left, max_wait_ms=POLL_MS)
            if records:
                quiet_since = time.monotonic()
                self._check(records)
                if commit:
                    await self._commit(consumer, records[-1])
        return True

    def _all_read(self) -> bool:
        if self._records is not None:
            return self._checker.records >= self._records
        return self._produced is not None and next(self._checker.unread(), None) is None

    def _check(self, records: Sequence[Record]) -> None:
        for partition, found in groupby(records, key=attrgetter("partition")):
            chunk = list(found)
            first, last = chunk[0].offset, chunk[-1].offset
            self._out.write("read", partition=partition, first_offset=first, last_offset=last, records=len(chunk))
        for record in records:
            for violation in self._checker.read(record):
                self._print_violation(violation)

    async def _commit(self, consumer: Consumer, last: Record) -> None:
        where = {"partition": last.partition, "offset": last.offset + 1}
        try:
            await consumer.commit()
        except RaftlogError as error:  # The group continues at the previous commit: at least once.
            self._out.write("commit_failed", **where, error=describe_error(error))
        else:
            self._out.write("committed", **where)

    def _print_violation(self, violation: Violation) -> None:
        self._shown += 1
        if self._shown <= MAX_VIOLATIONS_SHOWN:
            producer, partition = violation.source
            named = {"producer": producer, "partition": partition, "offset": violation.offset}
            self._out.write("violation", kind=violation.kind, **named, first=violation.first, last=violation.last)

    def _report(self, complete: bool) -> int:
        counts = self._checker.violations
        for violation in () if self._stopping.is_set() else self._checker.unread():
            counts["missing"] += violation.last - violation.first + 1
            self._print_violation(violation)
        ok = complete and not any(counts.values())
        records, foreign = self._checker.records, self._checker.foreign
        self._out.write(
            "summary", ok=ok, topic=self._topic, records=records, foreign=foreign, complete=complete, **counts
        )
        self._out.finish()
        return 0 if ok else 1
