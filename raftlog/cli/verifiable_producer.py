"""`raftlog verify produce`: sends numbered records, and prints the outcome of each."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import Any

from raftlog.cli.connecting import security_in_use
from raftlog.cli.interruptions import carry_out
from raftlog.cli.json_lines import JsonLines
from raftlog.cli.outcome_counter import OutcomeCounter
from raftlog.cli.remote import require_topic
from raftlog.cli.shared import describe_error
from raftlog.cli.verification import encode_value
from raftlog.client import Producer
from raftlog.errors import OverloadedError, UnknownOutcomeError
from raftlog.record.model import Compression
from raftlog.wire.data import AcksText

INTERRUPTED_FLUSH_S = 10.0
"""How long an interrupted producer waits for the outcomes of sent records."""
MAX_PENDING = 10_000


async def produce_numbered(
    name: str,
    *,
    bootstrap: list[str],
    topic: str,
    records: int | None,
    rate: float | None,
    record_size: int,
    acks: AcksText,
    compression: Compression | None,
) -> int:
    """Run `raftlog verify produce`; return the exit code."""
    partitions = len((await require_topic(bootstrap, topic)).partitions)
    producer = Producer(bootstrap, acks=acks, compression=compression, security=security_in_use())
    sending = _Numbered(producer, topic, name, partitions, record_size)
    sending.out.write("started", producer=name, topic=topic, partitions=partitions)
    try:
        await carry_out(sending.run(records, rate), sending.stopping, grace_s=INTERRUPTED_FLUSH_S)
    finally:
        await producer.close(flush=False)
        await asyncio.sleep(0)  # Lets callbacks run: records without an outcome are unknown now.
    return sending.report(complete=records is None or sending.sent == records)


class _Numbered:
    """One run of `raftlog verify produce`."""

    def __init__(self, producer: Producer, topic: str, name: str, partitions: int, record_size: int) -> None:
        self._producer = producer
        self._topic = topic
        self._name = name
        self._numbers = [0] * partitions
        self._record_size = record_size
        self._deliveries = OutcomeCounter(max_pending=MAX_PENDING)
        self._began = time.perf_counter()
        self.stopping = asyncio.Event()
        self.out = JsonLines(sys.stdout.buffer, on_closed=self.stopping.set)
        self.sent = 0

    async def run(self, records: int | None, rate: float | None) -> None:
        """Send `records` records, or (None) until it is stopped; a failure does not stop it."""
        while not self.stopping.is_set() and (records is None or self.sent < records):
            if rate is not None:
                await self._sleep_until(self._began + self.sent / rate)
            await self._deliveries.wait_for_room()
            try:
                self._send()
            except OverloadedError:
                if self._deliveries.pending == 0:
                    raise
                await self._deliveries.wait_for_change()
        await self._producer.flush()

    def _send(self) -> None:
        partition = self.sent % len(self._numbers)
        number = self._numbers[partition]
        value = encode_value(self._name, number, self._record_size)
        delivery = self._producer.send_nowait(self._topic, value, partition=partition)
        self._numbers[partition] += 1
        self.sent += 1
        delivery.add_done_callback(lambda done: self._settled(done, partition, number))
        self._deliveries.track(delivery)

    def _settled(self, delivery: Any, partition: int, number: int) -> None:
        named = {"producer": self._name, "partition": partition, "number": number}
        error = asyncio.CancelledError() if delivery.cancelled() else delivery.exception()
        if error is None:
            self.out.write("acknowledged", **named, offset=delivery.result().offset)
            return
        unknown = delivery.cancelled() or isinstance(error, UnknownOutcomeError)
        self.out.write("unknown" if unknown else "failed", **named, error=describe_error(error))

    async def _sleep_until(self, due: float) -> None:
        if (wait := due - time.perf_counter()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), wait)

    def report(self, *, complete: bool) -> int:
        """Print the summary; return the exit code."""
        seconds = time.perf_counter() - self._began
        outcomes = self._deliveries
        unknown = outcomes.unknown + outcomes.pending
        ok = complete and not unknown and not outcomes.failed
        self.out.write(
            "summary",
            ok=ok,
            producer=self._name,
            topic=self._topic,
            sent=self.sent,
            acknowledged=outcomes.acknowledged,
            failed=outcomes.failed,
            unknown=unknown,
            seconds=round(seconds, 3),
            records_per_s=round(outcomes.acknowledged / seconds),
        )
        self.out.finish()
        return 0 if ok else 1
