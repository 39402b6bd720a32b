"""Readers under chaos: one tails every partition, one queries their ends, and in the end some read everything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import raftlog
from chaos.history import End, History, Read, extra_of
from raftlog.client.consumer import OutOfRange
from raftlog.errors import CorruptBatchError, RaftlogError
from raftlog.model import TopicPartition

REQUEST_TIMEOUT_MS = 2_000
TAILED_WITHIN_S = 30.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Readers:
    """Lives of readers of one topic; each logs its records under its process' name."""

    bootstrap: list[str]
    dial: Mapping[str, str]
    topic: str
    partitions: int
    history: History

    async def tail(self, process: str) -> None:
        """Read every new record. After an error another life continues at this one's position."""
        positions: dict[tuple[str, int], int] = {}
        for read in reversed(self.history.reads):
            positions.setdefault((self.topic, read.partition), read.offset + 1)
            if len(positions) == self.partitions:
                break
        try:
            async with raftlog.Consumer(self.bootstrap, self.topic, start="earliest", dial=self.dial) as consumer:
                for (topic, partition), offset in positions.items():
                    await consumer.seek(topic, partition, offset)
                async for record in consumer:
                    self.history.reads.append(seen(process, record))
        except RaftlogError as error:
            self._failed(process, error)
            await asyncio.sleep(0.2)

    async def watch_ends(self, process: str) -> None:
        """Query the partitions' ends again and again. A life that gets no answer at first is followed by another."""
        with suppress(RaftlogError):
            async with raftlog.Consumer(
                self.bootstrap, self.topic, dial=self.dial, request_timeout_ms=REQUEST_TIMEOUT_MS
            ) as consumer:
                while True:
                    with suppress(RaftlogError):
                        self._note_ends(process, await consumer.end_offsets())
                    await asyncio.sleep(0.5)
        await asyncio.sleep(0.5)

    def _note_ends(self, process: str, ends: Mapping[TopicPartition, int]) -> None:
        now = time.monotonic_ns()
        self.history.ends.extend(
            End(process=process, partition=partition, offset=offset, completed_ns=now)
            for (_, partition), offset in ends.items()
        )

    def _failed(self, process: str, error: RaftlogError) -> None:
        self.history.note(f"{process}: {error.code.value} {error}")
        if isinstance(error, CorruptBatchError):
            self.history.corruptions.append(f"{process}: {error}")


async def until_read_to_the_end(
    history: History, bootstrap: list[str], topic: str, tails: Mapping[str, asyncio.Task[None]]
) -> None:
    """Wait until each tail has read every partition to its present end, or one of them has failed.

    Raises:
        TimeoutError: one has not; the message names the partitions.
    """
    late = ["the ends are unknown"]
    try:
        async with asyncio.timeout(TAILED_WITHIN_S):
            async with raftlog.Consumer(bootstrap, topic) as consumer:
                ends = {partition: end for (_, partition), end in (await consumer.end_offsets()).items()}
            while (late := unread(history.reads, ends, tails)) and not any(task.done() for task in tails.values()):
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise TimeoutError(f"not read to the end within {TAILED_WITHIN_S:g} s: {'; '.join(late)}") from None


def unread(reads: Iterable[Read], ends: Mapping[int, int], tails: Iterable[str]) -> list[str]:
    """Return which tails, in none of their lives, have read which partitions to their ends."""
    reached = {(tail, partition): 0 for tail in tails for partition in ends}
    for read in reads:
        place = read.process.partition("/")[0], read.partition
        if place in reached:
            reached[place] = max(reached[place], read.offset + 1)
    return [
        f"{tail} has read partition {partition} to {offset} of {ends[partition]}"
        for (tail, partition), offset in reached.items()
        if offset < ends[partition]
    ]


def has_read_to(consumer: raftlog.Consumer | None, ends: Mapping[TopicPartition, int]) -> bool:
    """Return whether a consumer's positions are at some partitions' ends."""
    return consumer is not None and all(consumer.position(*partition) >= end for partition, end in ends.items())


async def read_everything(
    history: History, *, bootstrap: list[str], topic: str, process: str = "final", on_out_of_range: OutOfRange = "error"
) -> None:
    """Read the topic with a new client, directly from the brokers, from its start to its end.

    Args:
        on_out_of_range: other than "error" where records may be removed: then the history keeps the log start offsets.
    """
    async with raftlog.Consumer(bootstrap, topic, start="earliest", on_out_of_range=on_out_of_range) as consumer:
        ends = await consumer.end_offsets()
        while any(consumer.position(*partition) < end for partition, end in ends.items()):
            history.final_reads.extend(seen(process, record) for record in await consumer.fetch())
        if on_out_of_range != "error":
            starts = await consumer.beginning_offsets()
            history.log_starts.update({partition.partition: offset for partition, offset in starts.items()})


def seen(process: str, record: raftlog.Record) -> Read:
    """Return the history's entry for a record."""
    return Read(
        process=process,
        partition=record.partition,
        offset=record.offset,
        value=(record.value or b"").decode(),
        completed_ns=time.monotonic_ns(),
        extra=extra_of(record.key, record.timestamp, record.headers),
    )
