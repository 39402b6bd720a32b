"""`raftlog consume`: prints each record as a line."""

from __future__ import annotations

import asyncio
import io
import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import accumulate
from typing import BinaryIO

import click

from raftlog.cli.connecting import security_in_use
from raftlog.cli.interruptions import cancel_this, interruptible
from raftlog.cli.output import Output
from raftlog.cli.record_lines import render_json, render_value
from raftlog.cli.remote import bootstrap_option, complete_topics, isolation_option, require_topic
from raftlog.cli.shared import FiniteRange, run
from raftlog.cli.terminal import bytes_on_terminal
from raftlog.cli.times import a_time
from raftlog.client import Consumer
from raftlog.client.consumer import Reset, Start
from raftlog.errors import NotFoundError
from raftlog.model import Isolation
from raftlog.record import Record
from raftlog.wire.metadata import TopicInfo

POLL_MS = 1_000
"""The longest wait of one fetch, after which a closed pipe is noticed."""


@click.command("consume")
@click.argument("topic", shell_complete=complete_topics)
@click.option("--from-beginning", is_flag=True, help="Start at the first record there is. Default: only new records.")
@click.option("--offset", type=click.IntRange(min=0), help="Start here; of --partition, unless there is only one.")
@click.option(
    "--since",
    type=a_time,
    metavar="TIME",
    help="Start at a time: ISO 8601 (local time without a zone), ms since 1970, or 90s, 5m, 2h, 1d ago.",
)
@click.option("--partition", type=click.IntRange(min=0), help="Only this one. Default: all.")
@click.option("--group", help="Read as a member of this group: share its partitions, continue at its commits.")
@click.option("--max-records", type=click.IntRange(min=1), help="Stop after so many.")
@click.option("--timeout", type=FiniteRange(min=0), metavar="SECONDS", help="Stop after this long without records.")
@click.option("--format", "format_", type=click.Choice(["value", "json"]), default="value", show_default=True)
@isolation_option
@bootstrap_option
def command(
    topic: str,
    *,
    from_beginning: bool,
    offset: int | None,
    since: datetime | None,
    partition: int | None,
    group: str | None,
    max_records: int | None,
    timeout: float | None,
    format_: str,
    isolation: Isolation,
    bootstrap: list[str],
) -> None:
    """Print the records of TOPIC, one a line, until Ctrl-C, --max-records or --timeout.

    With --group what was printed is committed, each few seconds and at the end; --from-beginning and the default say
    where a group begins that has committed nothing yet.

    With --format json a line is an object: topic, partition, offset, timestamp, key, value, headers.
    """
    if sum([from_beginning, offset is not None, since is not None]) > 1:
        raise click.UsageError("--from-beginning, --offset and --since exclude each other")
    if group is not None and (offset, since, partition) != (None, None, None):
        raise click.UsageError("--group starts at its commits: not with --offset, --since or --partition")
    start: Start = "earliest" if from_beginning else "latest"
    if since is not None:
        start = since
    printer = _Printer(sys.stdout.buffer, render_json if format_ == "json" else render_value, max_records)
    if group is not None:
        reset: Reset = "earliest" if from_beginning else "latest"
        run(_consume_in_group(bootstrap, topic, group, reset, isolation, printer, timeout))
        return
    run(_consume(bootstrap, topic, partition, start, offset, isolation, printer, timeout))


async def _consume(
    bootstrap: list[str],
    topic: str,
    partition: int | None,
    start: Start,
    offset: int | None,
    isolation: Isolation,
    printer: _Printer,
    timeout_s: float | None,
) -> None:
    partitions = _partitions(await require_topic(bootstrap, topic), partition, offset)
    with interruptible(cancel_this()), suppress(asyncio.CancelledError), printer.quiet_when_closed():
        async with Consumer(
            bootstrap, topic, partitions=partitions, start=start, isolation=isolation, security=security_in_use()
        ) as consumer:
            if offset is not None and partitions is not None:
                await consumer.seek(topic, partitions[0], offset)
            await _print_all(consumer, printer, timeout_s)


async def _consume_in_group(
    bootstrap: list[str],
    topic: str,
    group: str,
    reset: Reset,
    isolation: Isolation,
    printer: _Printer,
    timeout_s: float | None,
) -> None:
    await require_topic(bootstrap, topic)
    with interruptible(cancel_this()), suppress(asyncio.CancelledError), printer.quiet_when_closed():
        async with Consumer(
            bootstrap, topic, group_id=group, auto_offset_reset=reset, isolation=isolation, security=security_in_use()
        ) as consumer:
            with suppress(asyncio.CancelledError):
                await _print_all(consumer, printer, timeout_s)
            # Ctrl-C arrives while the pipe is full: what it has not taken must not be committed.
            if (record := printer.unprinted) is not None:
                await consumer.seek(record.topic, record.partition, record.offset)


async def _print_all(consumer: Consumer, printer: _Printer, timeout_s: float | None) -> None:
    quiet_since = time.monotonic()
    while printer.wanted and not printer.closed():
        wait_ms = POLL_MS
        if timeout_s is not None:
            wait_ms = min(POLL_MS, int(1000 * (quiet_since + timeout_s - time.monotonic())))
            if wait_ms <= 0:
                return
        records = await consumer.fetch(max_records=printer.left, max_wait_ms=wait_ms)
        if records:
            await printer.print(records)
            quiet_since = time.monotonic()


def _partitions(topic: TopicInfo, partition: int | None, offset: int | None) -> list[int] | None:
    """Return the partitions to read; None: all, also those that are added later.

    Raises:
        NotFoundError: the partition does not exist.
        click.UsageError: an offset without a partition, in a topic of several.
    """
    count = len(topic.partitions)
    if partition is not None:
        if partition >= count:
            raise NotFoundError(f"topic {topic.topic!r} has the partitions 0 to {count - 1}, received {partition}")
        return [partition]
    if offset is not None:
        if count > 1:
            raise click.UsageError(f"--offset needs --partition: {topic.topic} has {count} partitions")
        return [0]
    return None


class _Printer:
    """Writes up to `max_records` records."""

    def __init__(self, out: BinaryIO, render: Callable[[Record], bytes], max_records: int | None) -> None:
        self._out = out
        self._output = Output(out)
        self._render = render
        self._terminal = out.isatty()
        self.left = max_records
        """How many more records to print; None: all."""
        self.unprinted: Record | None = None
        """The first record of the last `print` whose line is not written in full."""

    @property
    def wanted(self) -> bool:
        return self.left is None or self.left > 0

    async def print(self, records: Sequence[Record]) -> None:
        """Write a line for each record. After a cancellation, `unprinted` says how far it came."""
        chosen = records if self.left is None else records[: self.left]
        if self.left is not None:
            self.left -= len(chosen)
        lines = list(map(self._line, chosen))
        begin = self._output.written
        try:
            await self._output.write(b"".join(lines))
        finally:
            written = self._output.written - begin
            ends = accumulate(map(len, lines))
            self.unprinted = next((r for r, end in zip(chosen, ends, strict=True) if end > written), None)

    def _line(self, record: Record) -> bytes:
        line = self._render(record)
        return bytes_on_terminal(line, json=self._render is render_json) if self._terminal else line

    @contextmanager
    def quiet_when_closed(self) -> Iterator[None]:
        """Stop at a broken pipe, and keep the interpreter from reporting it again at exit."""
        try:
            yield
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._out.fileno())
            os.close(nowhere)

    def closed(self) -> bool:
        """Return whether the reader of the pipe has exited (`| head`), without a write."""
        try:
            descriptor = self._out.fileno()
        except io.UnsupportedOperation:
            return False
        poller = select.poll()
        poller.register(descriptor, 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in poller.poll(0))
