"""Readers for `raftlog import`: Parquet, Arrow IPC, CSV and NDJSON, some rows at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import orjson

from raftlog.cli import exact_json

if TYPE_CHECKING:
    import pyarrow as pa

Row: TypeAlias = dict[str, Any]
ROWS = 10_000
"""The most rows that are in memory, and sent, at once."""
CHUNK_BYTES = 8 << 20
"""About how many bytes: more only of a larger row."""
FORMS = {".parquet": "parquet", ".arrows": "arrow", ".arrow": "arrow", ".csv": "csv", ".ndjson": "ndjson"}
FORMS |= {".jsonl": "ndjson", ".feather": "arrow", ".ipc": "arrow"}
MAX_LINE_BYTES = 64 << 20
_BLOCK_BYTES = 4 << 20


def form_of(path: Path) -> str:
    """Return the format of a file by its suffix.

    Raises:
        UsageError: the suffix is unknown.
    """
    if path.suffix not in FORMS:
        raise click.UsageError(f"{path}: the suffix is not a known format; pass --format, one of {', '.join(_READERS)}")
    return FORMS[path.suffix]


def columns_of(path: Path, form: str) -> list[str]:
    """Return the names of a file's columns; for NDJSON, those of the first row.

    Raises:
        ClickException: the file is not of this format.
    """
    first = next(chunks_of(path, form), [])
    return list(first[0]) if first else []


def chunks_of(path: Path, form: str) -> Iterator[list[Row]]:
    """Return all rows of a file, in chunks.

    Raises:
        ClickException: the file is not of this format, or damaged.
    """
    import pyarrow as pa  # noqa: PLC0415  (`--help` loads next to nothing)

    try:
        yield from _READERS[form](path)
    except (pa.ArrowException, orjson.JSONDecodeError, csv.Error, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path}: not readable as {form}: {error}") from None


def _parquet(path: Path) -> Iterator[list[Row]]:
    import pyarrow.parquet as pq  # noqa: PLC0415

    with pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        row_bytes = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
        rows = max(1, min(ROWS, CHUNK_BYTES // max(1, row_bytes)))
        for batch in file.iter_batches(batch_size=rows, use_threads=False):
            yield from _chunks(batch)


def _arrow(path: Path) -> Iterator[list[Row]]:
    import pyarrow as pa  # noqa: PLC0415

    with pa.OSFile(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        batches: Iterator[pa.RecordBatch]
        if is_file:
            opened = pa.ipc.open_file(file)
            batches = (opened.get_batch(number) for number in range(opened.num_record_batches))
        else:
            batches = iter(pa.ipc.open_stream(file))
        for batch in batches:
            yield from _chunks(batch)


def _chunks(batch: pa.RecordBatch) -> Iterator[list[Row]]:
    """Return the rows of a batch, some at a time."""
    # Not by the size of each slice: that counts a dictionary, and all texts of string views, as a whole.
    step = max(1, min(ROWS, CHUNK_BYTES * batch.num_rows // max(1, batch.nbytes)))
    for start in range(0, batch.num_rows, step):
        yield _rows(batch.slice(start, step))


def _rows(batch: pa.RecordBatch) -> list[Row]:
    """Return rows as Python values; times are truncated to microseconds.

    Raises:
        ArrowInvalid: two columns have one name, or Python has no such value.
    """
    import pyarrow as pa  # noqa: PLC0415

    names = batch.schema.names
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise pa.ArrowInvalid(f"two columns have the name {twice[0]!r}: rename one of them")
    columns = [_values(name, column) for name, column in zip(names, batch.columns, strict=True)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(name: str, column: pa.Array) -> list[Any]:
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_time64(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.time64("us") if pa.types.is_time64(kind) else pa.duration("us"), safe=False)
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError) as error:  # A time before the year 1, or after 9999.
        raise pa.ArrowInvalid(f"column {name!r} of type {kind}: {error}") from None


def _csv(path: Path) -> Iterator[list[Row]]:
    """Read RFC 4180: an empty field is null, and an empty text is two quotation marks."""
    import pyarrow as pa  # noqa: PLC0415

    with path.open(newline="", encoding="utf-8-sig") as file:
        names = next(filter(None, csv.reader(file)), [])
    if not names and path.stat().st_size:
        raise click.ClickException(f"{path}: has no line with the names of columns")
    done, block_bytes = 0, _BLOCK_BYTES
    while names:
        again = done  # Counted here, since Arrow's own option to skip rows counts blank lines, too.
        try:
            for batch in _csv_batches(path, names, block_bytes):
                rows = batch.slice(min(again, batch.num_rows))
                again -= batch.num_rows - rows.num_rows
                yield from _chunks(rows)
                done += rows.num_rows
            return
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error) or block_bytes >= MAX_LINE_BYTES:
                raise
            block_bytes *= 4  # A row must fit into a block.


def _csv_batches(path: Path, names: list[str], block_bytes: int) -> Iterator[pa.RecordBatch]:
    """Return the rows, with text or null in each column."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv as pacsv  # noqa: PLC0415

    reading = pacsv.open_csv(
        path,
        read_options=pacsv.ReadOptions(use_threads=False, block_size=block_bytes),
        parse_options=pacsv.ParseOptions(newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    with reading:
        yield from reading


def _ndjson(path: Path) -> Iterator[list[Row]]:
    rows: list[Row] = []
    size = 0
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
            if line.isspace():
                continue
            try:
                row = exact_json.loads(line)
            except orjson.JSONDecodeError as error:
                raise click.ClickException(f"{path}, line {number}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise click.ClickException(f"{path}, line {number}: expected an object, received {line[:60]!r}")
            rows.append(row)
            size += len(line)
            if len(rows) == ROWS or size >= CHUNK_BYTES:
                yield rows
                rows, size = [], 0
    if rows:
        yield rows


_READERS = {"parquet": _parquet, "arrow": _arrow, "csv": _csv, "ndjson": _ndjson}
