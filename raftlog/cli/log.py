"""`raftlog log`: prints the contents of a log's files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import click

from raftlog.cli.shared import json_option, plural, print_json_line, print_table
from raftlog.errors import CorruptBatchError
from raftlog.partition.storage.batch_scan import scan_batches
from raftlog.partition.storage.fsck import reading
from raftlog.partition.storage.recovery import segment_bases
from raftlog.partition.storage.segment import segment_path
from raftlog.record.batch import ATTRIBUTE_COMPRESSION, BatchHeader
from raftlog.record.reading import read_records

_COMPRESSION = ("none", "lz4", "zstd", "?")
_COLUMNS = ("BYTE", "OFFSET", "LAST", "RECORDS", "BYTES", "EPOCH", "PRODUCER", "SEQUENCE", "CODEC", "NEWEST")
_RECORD_COLUMNS = ("OFFSET", "TIMESTAMP", "KEY", "VALUE", "HEADERS")

Found = tuple[Path, int, BatchHeader, bytes]


@click.group("log")
def command() -> None:
    """Look into the files of a log."""


@command.command("dump")
@click.argument("path", metavar="PATH", type=click.Path(exists=True, path_type=Path))
@click.option("--records", is_flag=True, help="Print records instead of batches.")
@click.option("--from-offset", type=click.IntRange(min=0), default=0, help="Skip batches that end before it.")
@click.option("--limit", type=click.IntRange(min=1), default=1_000, show_default=True, help="Print this many at most.")
@json_option
@click.pass_context
def dump(context: click.Context, path: Path, records: bool, from_offset: int, limit: int, as_json: bool) -> None:
    """Print PATH: one segment (*.log), or a partition's folder. Both checksums of each batch are verified.

    With --json: one line for each. Stops at the first damage, says where it is, and ends with exit code 1.
    """
    damage: list[str] = []
    found = _batches(path, from_offset, damage)
    rows: Iterator[dict[str, Any]] = (
        (record for batch in found for record in _records(batch, from_offset)) if records else map(_batch, found)
    )
    shown = islice(rows, limit)
    if as_json:
        for row in shown:
            print_json_line(row)
    else:
        print_table(_RECORD_COLUMNS if records else _COLUMNS, [_cells(row) for row in shown], empty="no batches")
    if not damage and next(rows, None) is not None:
        click.echo(f"stopped after {plural(limit, 'line')}; continue with --from-offset, or raise --limit", err=True)
    if damage:
        click.echo(f"Error: {damage[0]}", err=True)
        context.exit(1)


def _batches(path: Path, from_offset: int, damage: list[str]) -> Iterator[Found]:
    segments = [path]
    if path.is_dir():
        segments = [segment_path(path, base) for base in segment_bases(file.name for file in path.iterdir())]
    for segment in segments:
        with reading(segment) as (read, size):
            position = 0
            try:
                for position, header in scan_batches(read, 0, size, verify=True, name=segment.name):
                    if header.last_offset >= from_offset:
                        yield segment, position, header, read(header.batch_length, position)
            except CorruptBatchError as error:
                damage.append(f"{segment}, after the batch at byte {position}: {error.message}")
                return


def _batch(found: Found) -> dict[str, Any]:
    segment, position, header, _ = found
    return {"segment": segment.name, "position": position, "last_offset": header.last_offset, **header._asdict()}


def _records(found: Found, from_offset: int) -> Iterator[dict[str, Any]]:
    _, _, header, batch = found
    for record in read_records(batch, topic="", partition=0, from_offset=max(from_offset, header.base_offset)):
        yield {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[name, _text(value)] for name, value in record.headers],
        }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def _cells(row: dict[str, Any]) -> list[object]:
    if "value" in row:
        headers = " ".join(f"{name}={value}" for name, value in row["headers"])
        return [row["offset"], _time(row["timestamp"]), row["key"], row["value"], headers]
    producer = f"{row['producer_id']}/{row['producer_epoch']}" if row["producer_id"] >= 0 else "-"
    named = [row[name] for name in ("position", "base_offset", "last_offset", "record_count", "batch_length")]
    sequence = row["base_sequence"] if row["base_sequence"] >= 0 else "-"
    codec = _COMPRESSION[row["attributes"] & ATTRIBUTE_COMPRESSION]
    return [*named, row["leader_epoch"], producer, sequence, codec, _time(row["max_timestamp"])]


def _time(timestamp_us: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_us / 1e6, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(timestamp_us)
