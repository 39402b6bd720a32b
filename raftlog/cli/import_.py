"""`raftlog import`: sends the rows of files as records of a topic."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from raftlog.cli.connecting import security_in_use
from raftlog.cli.import_files import FORMS, Row, chunks_of, columns_of, form_of
from raftlog.cli.import_rows import Mapped, Restored
from raftlog.cli.interruptions import interruptible
from raftlog.cli.producer_options import compression_option
from raftlog.cli.progress import progress
from raftlog.cli.remote import admin, bootstrap_option, complete_topics, require_topic
from raftlog.cli.shared import plural, print_json_line, run
from raftlog.cli.terminal import printable
from raftlog.client import OffsetAndMetadata, Producer
from raftlog.errors import InvalidRequestError, OverloadedError, RaftlogError
from raftlog.model import TopicPartition
from raftlog.record.model import Compression


def _headers(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    headers = {}
    for value in values:
        name, equals, column = value.partition("=")
        if not equals or not name or not column or name in headers:
            raise click.BadParameter(f"expected NAME=COLUMN, each name once, received {value!r}", context, parameter)
        headers[name] = column
    return headers


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--topic", required=True, shell_complete=complete_topics, help="It must exist.")
@click.option("--format", "form", type=click.Choice(sorted({*FORMS.values()})), help="Default: by each file's suffix.")
@click.option("--key", metavar="COLUMN", help="The records' key.")
@click.option("--value", metavar="COLUMN", help="Their value. Default: all other columns, as one JSON object.")
@click.option("--timestamp", metavar="COLUMN", help="Their time: a time, ISO 8601 or ms since 1970. Default: now.")
@click.option("--partition", metavar="COLUMN", help="Their partition. Default: by the key.")
@click.option("--header", "headers", metavar="NAME=COLUMN", multiple=True, callback=_headers, help="May be repeated.")
@click.option("--skip-rows", type=click.IntRange(min=0), default=0, help="Skip this many rows of the first file.")
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Each row exactly once, however often the command is repeated, at least once a week.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a summary as one line of JSON.")
@compression_option
@bootstrap_option
def command(
    files: tuple[Path, ...],
    *,
    topic: str,
    form: str | None,
    key: str | None,
    value: str | None,
    timestamp: str | None,
    partition: str | None,
    headers: dict[str, str],
    skip_rows: int,
    transactional_id: str | None,
    as_json: bool,
    compression: Compression | None,
    bootstrap: list[str],
) -> None:
    """Send each row of FILES to a topic as a record.

    Files that `raftlog export` has written are known by their columns: each record becomes what it was, in its
    partition, and gets another offset. Of other files name the columns of key, value, time and headers.

    Says at the end how many rows were acknowledged, and how to go on after an interruption. With --transactional-id the
    position in each file is kept in the cluster, with the records: the same command goes on where the last one ended.
    """
    if skip_rows and transactional_id is not None:
        raise click.UsageError("--skip-rows: with --transactional-id the cluster knows how many rows are done")
    mapped = Mapped(value=value, key=key, timestamp=timestamp, partition=partition, headers=headers)
    sources = [_Source(path, form or form_of(path), mapped) for path in files]
    if len({source.path.name for source in sources}) < len(sources) and transactional_id is not None:
        raise click.UsageError("--transactional-id: positions are kept by file name, and two files have the same")
    work = _Import(sources, topic, skip_rows, transactional_id, as_json=as_json)
    sys.exit(run(work.run(bootstrap, compression)))


class _Source:
    """One file, and the mapping of its rows to records.

    Raises:
        UsageError: the file is a pipe, or lacks a column of the options.
    """

    def __init__(self, path: Path, form: str, mapped: Mapped) -> None:
        if not path.is_file():  # What was read of a pipe, to know its columns, would be missing.
            raise click.UsageError(
                f"{path} is a pipe or a device, and is read more than once: write it to a file first"
            )
        self.path = path
        self.done = 0
        """Acknowledged rows, without a gap from the first."""
        self.whole = False
        self._form = form
        columns, named = columns_of(path, form), mapped.named()
        if missing := [column for column in named if column not in columns and columns]:
            raise click.UsageError(f"{path} has no column {missing[0]!r}; it has {', '.join(columns)}")
        self._make: Mapped | Restored = Restored() if not named and Restored.fits(columns) else mapped

    def chunks(self, skip: int) -> Iterator[list[Row]]:
        """Return the rows after the first `skip`.

        Raises:
            UsageError: the file has fewer rows.
        """
        for rows in chunks_of(self.path, self._form):
            if skip < len(rows):
                yield rows[skip:]
            skip = max(0, skip - len(rows))
        if skip:
            raise click.UsageError(f"{self.path} has {skip} rows fewer than are to be skipped")

    def send(self, producer: Producer, topic: str, row: Row, number: int) -> Awaitable[object]:
        try:
            record = self._make.record(row)
            return producer.send_nowait(
                topic,
                record.value,
                key=record.key,
                headers=record.headers,
                partition=record.partition,
                timestamp=record.timestamp,
            )
        except OverloadedError:
            raise
        except RaftlogError as error:
            raise InvalidRequestError(f"{self.path}, row {number}: {error.message}", code=error.code) from None


class _Import:
    """One run of the command."""

    def __init__(
        self, sources: Sequence[_Source], topic: str, skip_rows: int, transactional_id: str | None, *, as_json: bool
    ) -> None:
        self._sources = sources
        self._topic = topic
        self._skip_rows = skip_rows
        self._transactional_id = transactional_id
        self._as_json = as_json
        self._acknowledged = 0

    async def run(self, bootstrap: list[str], compression: Compression | None) -> int:
        await require_topic(bootstrap, self._topic)
        begun = time.monotonic()
        work = asyncio.create_task(self._work(bootstrap, compression))
        with interruptible(work.cancel), progress("rows", lambda: self._acknowledged):
            await asyncio.wait({work})
        error = None if work.cancelled() else work.exception()
        self._report(time.monotonic() - begun)
        if error is not None:
            raise error
        return 0 if all(source.whole for source in self._sources) else 1

    async def _work(self, bootstrap: list[str], compression: Compression | None) -> None:
        options: dict[str, Any] = {} if self._transactional_id is None else {"transactional_id": self._transactional_id}
        async with Producer(bootstrap, compression=compression, security=security_in_use(), **options) as producer:
            if self._transactional_id is not None:
                await producer.init_transactions()
                await self._find_positions(bootstrap)
            else:
                self._sources[0].done = self._skip_rows
            for source in self._sources:
                if self._transactional_id is not None:
                    await self._keep_position(producer, source)
                await self._import(producer, source)
                source.whole = True

    async def _find_positions(self, bootstrap: list[str]) -> None:
        async with admin(bootstrap) as asking:
            for source in self._sources:
                offsets = await asking.group_offsets(self._group(source))
                source.done = offsets.get(TopicPartition(self._topic, 0), 0)

    async def _keep_position(self, producer: Producer, source: _Source) -> None:
        """Commit a position again: without a commit it expires after `group.offsets_retention_ms`."""
        if source.done:
            async with producer.transaction() as transaction:
                await transaction.send_offsets({(self._topic, 0): source.done}, self._group(source))

    def _group(self, source: _Source) -> str:
        return f"import.{self._transactional_id}.{source.path.name}"

    async def _import(self, producer: Producer, source: _Source) -> None:
        chunks = source.chunks(source.done)
        while (rows := await asyncio.to_thread(next, chunks, None)) is not None:
            if self._transactional_id is None:
                await self._send(producer, source, rows)
            else:
                async with producer.transaction() as transaction:
                    await self._send(producer, source, rows)
                    position: dict[tuple[str, int], int | OffsetAndMetadata] = {}
                    position[self._topic, 0] = source.done + len(rows)
                    await transaction.send_offsets(position, self._group(source))
            source.done += len(rows)
            self._acknowledged += len(rows)

    async def _send(self, producer: Producer, source: _Source, rows: list[Row]) -> None:
        """Send rows, and wait until each is acknowledged."""
        sent: list[Awaitable[object]] = []
        awaited = 0
        for number, row in enumerate(rows, source.done + 1):
            while True:
                try:
                    sent.append(source.send(producer, self._topic, row, number))
                    break
                except OverloadedError:
                    if awaited == len(sent):
                        raise
                    await sent[awaited]
                    awaited += 1
        await asyncio.gather(*sent[awaited:])

    def _report(self, seconds: float) -> None:
        if self._as_json:
            files = [{"file": printable(s.path), "rows": s.done, "whole": s.whole} for s in self._sources]
            told = {"rows": self._acknowledged, "seconds": round(seconds, 3), "files": files}
            print_json_line(told)
        click.echo(f"{plural(self._acknowledged, 'row')} acknowledged in {seconds:.1f} s", err=True)
        unfinished = next((source for source in self._sources if not source.whole), None)
        if unfinished is None:
            return
        later = [str(source.path) for source in self._sources if not source.whole]
        if self._transactional_id is not None:
            click.echo("not everything was imported: run the same command again to continue", err=True)
        else:
            click.echo(
                f"not everything was imported: continue with --skip-rows {unfinished.done} {' '.join(later)}; a few "
                "rows after that may be in the topic already",
                err=True,
            )
