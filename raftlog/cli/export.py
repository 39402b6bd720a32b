"""`raftlog export`: a topic, or a part of it, as files."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from raftlog.cli.connecting import security_in_use
from raftlog.cli.export_files import SUFFIXES, ExportFolder, NewFile
from raftlog.cli.interruptions import interruptible
from raftlog.cli.progress import progress
from raftlog.cli.remote import bootstrap_option, complete_topics, require_topic
from raftlog.cli.shared import plural, print_json_line, run
from raftlog.cli.terminal import printable
from raftlog.cli.times import a_time_or_an_end
from raftlog.client.span_reader import SpanReader
from raftlog.client.spans import Bound, Selection, Span, selection
from raftlog.model import Isolation, Offset, TopicPartition
from raftlog.record.formats import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 8
"""Partitions written concurrently."""
RECORDS_PER_FILE = 1_000_000
_FORM_OF = {suffix: form for form, suffix in SUFFIXES.items()} | {".jsonl": "ndjson"}


def _a_bound(context: click.Context, parameter: click.Parameter, text: str) -> Bound:  # noqa: ARG001
    return cast("Bound", a_time_or_an_end(text))


def _numbers(context: click.Context, parameter: click.Parameter, text: str | None) -> list[int] | None:
    if text is None:
        return None
    if not all(part.strip().isdecimal() for part in text.split(",")):
        raise click.BadParameter(f"expected numbers such as 0,2,5, received {text!r}", context, parameter)
    return [int(part) for part in text.split(",")]


def _names(context: click.Context, parameter: click.Parameter, text: str | None) -> list[str]:
    names = list(COLUMNS) if text is None else [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in COLUMNS]:
        raise click.BadParameter(f"there are {', '.join(COLUMNS)}, received {unknown[0]!r}", context, parameter)
    if len(set(names)) < len(names):
        raise click.BadParameter(f"each column once, received {text!r}", context, parameter)
    return names


@click.command("export")
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--to", "target", required=True, type=click.Path(path_type=Path), help="A file, by its suffix, or a folder."
)
@click.option("--format", "form", type=click.Choice([*SUFFIXES]), help="Default: by the file's suffix, or parquet.")
@click.option("--partitions", metavar="N[,N]", callback=_numbers, help="Only these. Default: all.")
@click.option("--from", "start", default="earliest", metavar="TIME", callback=_a_bound, help="earliest, or a time.")
@click.option("--until", "end", default="latest", metavar="TIME", callback=_a_bound, help="latest (now), or a time.")
@click.option("--columns", metavar="NAME[,NAME]", callback=_names, help=f"Default: {','.join(COLUMNS)}.")
@click.option("--records-per-file", type=click.IntRange(min=1), help=f"In a folder. Default: {RECORDS_PER_FILE}.")
@click.option("--accept-gaps", is_flag=True, help="In a folder, go on after records deleted before their export.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@click.option(
    "--isolation", type=click.Choice(["read_committed", "read_uncommitted"]), default="read_committed",
    show_default=True,
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print a summary as one line of JSON.")
@bootstrap_option
def command(
    topic: str,
    *,
    target: Path,
    form: str | None,
    partitions: list[int] | None,
    start: Bound,
    end: Bound,
    columns: list[str],
    records_per_file: int | None,
    accept_gaps: bool,
    overwrite: bool,
    isolation: Isolation,
    as_json: bool,
    bootstrap: list[str],
) -> None:
    """Write the records of TOPIC that there are now to a file or a folder.

    A folder gets files TOPIC-PARTITION-FROM-TO.parquet, with the records from offset FROM to before TO. The same
    command again goes on behind the last of them, after an interruption as well as for records that came since. A file
    has its name once it is whole: what has another name (.NAME.new) may be deleted.
    """
    wanted = selection(topic, partitions, start, end, isolation)
    is_file = target.suffix in _FORM_OF and not target.is_dir()
    chosen = form or (_FORM_OF[target.suffix] if is_file else "parquet")
    of_folders = ["--records-per-file"] * (records_per_file is not None) + ["--accept-gaps"] * accept_gaps
    if without_effect := of_folders if is_file else ["--overwrite"] * overwrite:
        raise click.UsageError(f"{without_effect[0]} has no effect: {target} is a {'file' if is_file else 'folder'}")
    if is_file and target.exists() and not overwrite:
        raise click.UsageError(f"{target} exists; name another file, or pass --overwrite")
    writing: _Writing
    if is_file:
        writing = _OneFile(target, chosen, columns)
    else:
        folder = ExportFolder(target, topic, chosen, {"columns": columns, "isolation": isolation})
        writing = _Parts(folder, chosen, columns, records_per_file or RECORDS_PER_FILE, accept_gaps=accept_gaps)
    sys.exit(run(_Export(wanted, writing, as_json=as_json).run(bootstrap)))


class _Export:
    """One run of the command."""

    def __init__(self, wanted: Selection, writing: _Writing, *, as_json: bool) -> None:
        self._wanted = wanted
        self._writing = writing
        self._as_json = as_json
        self._offsets_read = 0

    async def run(self, bootstrap: list[str]) -> int:
        await require_topic(bootstrap, self._wanted.topic)
        begun = time.monotonic()
        work = asyncio.create_task(self._work(bootstrap))
        with interruptible(work.cancel):
            await asyncio.wait({work})
        error = None if work.cancelled() else work.exception()
        self._report(time.monotonic() - begun, whole=self._writing.is_complete)
        if error is not None:
            raise error
        return 0 if self._writing.is_complete else 1

    async def _work(self, bootstrap: list[str]) -> None:
        try:
            async with SpanReader(
                bootstrap, isolation=self._wanted.isolation, at_once=AT_ONCE, security=security_in_use()
            ) as reader:
                spans = self._writing.begin(await reader.plan(self._wanted))
                await reader.begin(spans)
                total = sum(span.end - span.start for span in spans)
                with progress("offsets", lambda: self._offsets_read, total=total):
                    await self._copy(reader, spans)
        finally:
            await self._writing.close()

    async def _copy(self, reader: SpanReader, spans: Sequence[Span]) -> None:
        at = {span.partition: span.start for span in spans}
        async for partition, table, position in reader.tables():
            await self._writing.add(
                partition, table.select(["offset", "timestamp", "key", "value", "headers"]), position
            )
            self._offsets_read += position - at[partition]
            at[partition] = position
        await self._writing.finish()

    def _report(self, seconds: float, *, whole: bool) -> None:
        files = self._writing.files
        count, size = self._writing.records, sum(path.stat().st_size for path in files)
        if self._as_json:
            told = {
                "topic": self._wanted.topic, "records": count, "bytes": size,
                "files": [printable(path) for path in files], "seconds": round(seconds, 3),
                "records_per_s": round(count / max(seconds, 1e-9)), "complete": whole,
            }  # fmt: skip
            print_json_line(told)
            return
        click.echo(f"{plural(count, 'record')} in {plural(len(files), 'file')}, {size:,} bytes", err=True)
        if not whole:
            click.echo(f"not complete: {self._writing.advice}", err=True)


class _Writing:
    """The output of an export. One write runs in a worker thread while the next records are fetched."""

    advice = ""

    def __init__(self, form: str, columns: Sequence[str]) -> None:
        self.form = form
        self.columns = columns
        self.files: list[Path] = []
        """The complete files."""
        self.records = 0
        """Records in complete files."""
        self.is_complete = False
        self._under_way: asyncio.Task[None] | None = None

    async def add(self, partition: TopicPartition, rows: pa.Table, position: Offset) -> None:
        """Write rows; `position` is the next offset to read after them."""
        await self.settled()
        self._under_way = asyncio.create_task(asyncio.to_thread(self.write, partition, rows, position))

    async def settled(self) -> None:
        if self._under_way is not None:
            await asyncio.shield(self._under_way)
            self._under_way = None

    async def finish(self) -> None:
        await self.settled()
        self._under_way = asyncio.create_task(asyncio.to_thread(self._complete))
        await self.settled()

    def _complete(self) -> None:
        self.end()
        self.is_complete = True

    async def close(self) -> None:
        """Wait for the current write, and drop incomplete files."""
        if self._under_way is not None:
            await asyncio.wait({self._under_way})
        self.drop()

    def begin(self, spans: list[Span]) -> list[Span]:
        raise NotImplementedError

    def write(self, partition: TopicPartition, rows: pa.Table, position: Offset) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def drop(self) -> None:
        raise NotImplementedError


class _OneFile(_Writing):
    """One file with all partitions. Each partition's records are in order; partitions are interleaved."""

    advice = "no file was written"

    def __init__(self, path: Path, form: str, columns: Sequence[str]) -> None:
        super().__init__(form, columns)
        self._path = path
        self._file: NewFile | None = None

    def begin(self, spans: list[Span]) -> list[Span]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = NewFile(self._path.parent, f"{self._path.name}.{os.getpid()}", self.form, self.columns)
        return spans

    def write(self, partition: TopicPartition, rows: pa.Table, position: Offset) -> None:  # noqa: ARG002
        assert self._file is not None
        self._file.add(partition, rows)

    def end(self) -> None:
        assert self._file is not None
        self.files.append(self._file.finish(self._path.name))
        self.records, self._file = self._file.records, None

    def drop(self) -> None:
        if self._file is not None:
            self._file.drop()


class _Parts(_Writing):
    """A folder of files, each with an offset range of one partition."""

    advice = "these files are complete; run the same command again to continue after them"

    def __init__(
        self, folder: ExportFolder, form: str, columns: Sequence[str], records_per_file: int, *, accept_gaps: bool
    ) -> None:
        super().__init__(form, columns)
        self._folder = folder
        self._per_file = records_per_file
        self._accept_gaps = accept_gaps
        self._open: dict[TopicPartition, NewFile] = {}
        self._starts: dict[TopicPartition, Offset] = {}
        self._ends: dict[TopicPartition, Offset] = {}
        self._lock: int | None = None

    def begin(self, spans: list[Span]) -> list[Span]:
        self._lock = self._folder.open(spans[0].topic_id)
        rest = self._folder.rest(spans, accept_gaps=self._accept_gaps)
        self._starts = {span.partition: span.start for span in rest}
        self._ends = {span.partition: span.end for span in rest}
        return rest

    def write(self, partition: TopicPartition, rows: pa.Table, position: Offset) -> None:
        while rows.num_rows:
            part = self._open.get(partition)
            if part is None:
                name = f"{partition}-{self._starts[partition]}"
                part = self._open[partition] = NewFile(self._folder.path, name, self.form, self.columns)
            taken = rows.slice(0, self._per_file - part.records)
            rows = rows.slice(taken.num_rows)
            part.add(partition, taken)
            if part.records == self._per_file:
                end = taken.column("offset")[-1].as_py() + 1
                self._finish_part(partition, end if rows.num_rows else position)
        if position == self._ends[partition] and partition in self._open:
            self._finish_part(partition, position)

    def _finish_part(self, partition: TopicPartition, end: Offset) -> None:
        part = self._open[partition]
        self.files.append(part.finish(self._folder.name(partition, self._starts[partition], end)))
        self.records += part.records
        self._starts[partition] = end
        del self._open[partition]

    def end(self) -> None:
        assert not self._open

    def drop(self) -> None:
        for part in self._open.values():
            part.drop()
        if self._lock is not None:
            os.close(self._lock)
