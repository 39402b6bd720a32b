"""Read a topic, or a part of it, as one table in one call: for notebooks and scripts.

A read ends where the topic ended at the call. It runs in its own thread, so it also works beside a running event loop
(Jupyter). It returns all selected records, or raises.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from raftlog.blocking.facade import Facade
from raftlog.client.options import require_at_least
from raftlog.client.security import Security
from raftlog.client.span_reader import SpanReader
from raftlog.client.spans import Bound, Selection, Span, selection
from raftlog.errors import ConfigError
from raftlog.model import Isolation, Offset, TopicPartition

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_DEFAULT_BOOTSTRAP = "http://127.0.0.1:9400"


def read_arrow(
    topic: str,
    *,
    bootstrap: str | Sequence[str] | None = None,
    partitions: Iterable[int] | None = None,
    start: Bound = "earliest",
    end: Bound = "latest",
    columns: Sequence[str] | None = None,
    max_records: int | None = None,
    isolation: Isolation = "read_committed",
    timeout_ms: int = 30_000,
    security: Security | None = None,
) -> pa.Table:
    """Return the records of a topic as a pyarrow Table, by partition and offset.

    Args:
        topic: the topic's name.
        bootstrap: URLs of one or more brokers; None: those of RAFTLOG_BOOTSTRAP, or http://127.0.0.1:9400.
        partitions: only these partitions; None: all that exist now.
        start: `earliest`, `latest`, a datetime, a timedelta ago, an offset (if one partition is read), or offsets by
            partition, such as `{0: 1500, 1: 1498}` (the other partitions from their first record).
        end: the same; the record at `end` is not read. A time ends each partition before its first record at or after
            that time.
        columns: of topic, partition, offset, timestamp, key, value, headers; None: all.
        max_records: the most records to read: the first ones by partition and offset; None: all.
        isolation: `read_committed` ends at the last stable offset and leaves aborted records out; `read_uncommitted`
            ends at the high watermark.
        timeout_ms: how long to wait for the next record; then RetriableError is raised.
        security: TLS files and credentials; None: those of the environment (`raftlog.Security.from_environment`).

    Raises:
        NotFoundError: the topic or a partition does not exist.
        OffsetOutOfRangeError: an offset is not in the log, or records were deleted while they were read.
        RetriableError: no broker answered in time.
        ConfigError: an argument is wrong.
    """
    wanted = selection(topic, partitions, start, end, isolation)
    names = _checked_columns(columns)
    if max_records is not None:
        require_at_least(0, max_records=max_records)
    # With max_records, one partition at a time: later ones may not be needed.
    with _Tables(bootstrap, wanted, timeout_ms, security, at_once=256 if max_records is None else 1) as tables:
        return tables.read(tables.plan(wanted), names, max_records)


def read_pandas(
    topic: str,
    *,
    bootstrap: str | Sequence[str] | None = None,
    partitions: Iterable[int] | None = None,
    start: Bound = "earliest",
    end: Bound = "latest",
    columns: Sequence[str] | None = None,
    max_records: int | None = None,
    isolation: Isolation = "read_committed",
    timeout_ms: int = 30_000,
    security: Security | None = None,
) -> pd.DataFrame:
    """Return the records of a topic as a pandas DataFrame, by partition and offset. Bytes stay bytes.

    Args:
        topic: the topic's name.
        bootstrap: URLs of one or more brokers; None: those of RAFTLOG_BOOTSTRAP, or http://127.0.0.1:9400.
        partitions: only these partitions; None: all that exist now.
        start: `earliest`, `latest`, a datetime, a timedelta ago, an offset (if one partition is read), or offsets by
            partition, such as `{0: 1500, 1: 1498}` (the other partitions from their first record).
        end: the same; the record at `end` is not read. A time ends each partition before its first record at or after
            that time.
        columns: of topic, partition, offset, timestamp, key, value, headers; None: all.
        max_records: the most records to read: the first ones by partition and offset; None: all.
        isolation: `read_committed` ends at the last stable offset and leaves aborted records out; `read_uncommitted`
            ends at the high watermark.
        timeout_ms: how long to wait for the next record; then RetriableError is raised.
        security: TLS files and credentials; None: those of the environment (`raftlog.Security.from_environment`).

    Raises:
        NotFoundError: the topic or a partition does not exist.
        OffsetOutOfRangeError: an offset is not in the log, or records were deleted while they were read.
        RetriableError: no broker answered in time.
        ConfigError: an argument is wrong.
        ModuleNotFoundError: pandas is not installed.
    """
    _require("pandas", "read_pandas")
    table = read_arrow(
        topic,
        bootstrap=bootstrap,
        partitions=partitions,
        start=start,
        end=end,
        columns=columns,
        max_records=max_records,
        isolation=isolation,
        timeout_ms=timeout_ms,
        security=security,
    )
    return table.to_pandas()


def scan_polars(
    topic: str,
    *,
    bootstrap: str | Sequence[str] | None = None,
    partitions: Iterable[int] | None = None,
    start: Bound = "earliest",
    end: Bound = "latest",
    isolation: Isolation = "read_committed",
    timeout_ms: int = 30_000,
    security: Security | None = None,
) -> pl.LazyFrame:
    """Return a polars LazyFrame over the records of a topic.

    The range of offsets is fixed by this call, so each `collect` reads the same records. Records are read batch by
    batch, as polars asks for them, by partition and offset. Columns that a query does not use are dropped at once; rows
    that it filters out are dropped batch by batch. What fails while a query runs is raised by `collect`.

    Args:
        topic: the topic's name.
        bootstrap: URLs of one or more brokers; None: those of RAFTLOG_BOOTSTRAP, or http://127.0.0.1:9400.
        partitions: only these partitions; None: all that exist now.
        start: `earliest`, `latest`, a datetime, a timedelta ago, an offset (if one partition is read), or offsets by
            partition, such as `{0: 1500, 1: 1498}` (the other partitions from their first record).
        end: the same; the record at `end` is not read. A time ends each partition before its first record at or after
            that time.
        isolation: `read_committed` ends at the last stable offset and leaves aborted records out; `read_uncommitted`
            ends at the high watermark.
        timeout_ms: how long to wait for the next record; then RetriableError is raised.
        security: TLS files and credentials; None: those of the environment (`raftlog.Security.from_environment`).

    Raises:
        NotFoundError: the topic or a partition does not exist.
        OffsetOutOfRangeError: an offset is not in the log, or records were deleted while they were read.
        RetriableError: no broker answered in time.
        ConfigError: an argument is wrong.
        ModuleNotFoundError: polars is not installed.
    """
    polars = _require("polars", "scan_polars")
    from polars.io.plugins import register_io_source  # noqa: PLC0415  (only now is it known to be there)

    wanted = selection(topic, partitions, start, end, isolation)
    with _Tables(bootstrap, wanted, timeout_ms, security) as tables:
        spans = tables.plan(wanted)

    def source(
        names: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        projected = list(COLUMNS) if names is None else names
        needed = [*projected, *(() if predicate is None else predicate.meta.root_names())]
        with _Tables(bootstrap, wanted, timeout_ms, security, at_once=1) as reading:
            for table in reading.each(spans, n_rows):
                for rows in _in_batches(table.select(list(dict.fromkeys(needed))), batch_size):
                    frame = polars.from_arrow(rows)
                    yield (frame if predicate is None else frame.filter(predicate)).select(projected)

    return register_io_source(source, schema=_polars_schema(polars), is_pure=True)


class _Tables(Facade[SpanReader]):
    """A blocking `SpanReader`, which plans and reads spans."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None,
        wanted: Selection,
        timeout_ms: int,
        security: Security | None,
        *,
        at_once: int = 256,
    ) -> None:
        where = os.environ.get("RAFTLOG_BOOTSTRAP") or _DEFAULT_BOOTSTRAP if bootstrap is None else bootstrap
        isolation = wanted.isolation
        super().__init__(
            lambda: SpanReader(where, isolation=isolation, timeout_ms=timeout_ms, at_once=at_once, security=security)
        )

    def plan(self, wanted: Selection) -> list[Span]:
        return self._run(self._client.plan, wanted)

    def parts(self, spans: Sequence[Span]) -> Iterator[tuple[TopicPartition, pa.Table, Offset]]:
        """Yield tables of single partitions as they arrive."""
        self._run(self._client.begin, spans)
        while (part := self._run(self._client.next)) is not None:
            yield part

    def each(self, spans: Sequence[Span], max_records: int | None) -> Iterator[pa.Table]:
        """Yield tables as they arrive, of at most `max_records` rows in all."""
        left = max_records
        for _, table, _ in self.parts(spans) if left != 0 else ():
            taken = table if left is None else table.slice(0, left)
            yield taken
            if left is not None and (left := left - taken.num_rows) == 0:
                return

    def read(self, spans: Sequence[Span], names: Sequence[str], max_records: int | None) -> pa.Table:
        """Return everything as one table, by partition and offset."""
        import pyarrow as pa  # noqa: PLC0415  (the module is imported without it)

        from raftlog.record.tables import TABLE_SCHEMA  # noqa: PLC0415

        found: dict[int, list[pa.Table]] = {span.partition.partition: [] for span in spans}
        for table in self.each(spans, max_records):
            if table.num_rows:
                kept = table.select(names) if "value" in names else _copied(table.select(names))
                found[table.column("partition")[0].as_py()].append(kept)
        tables = [table for number in sorted(found) for table in found[number]]
        return pa.concat_tables(tables) if tables else TABLE_SCHEMA.empty_table().select(names)


def _copied(table: pa.Table) -> pa.Table:
    """Return a table with copied buffers: a column of a batch keeps the whole batch, including values, in memory."""
    import pyarrow as pa  # noqa: PLC0415

    columns = [pa.concat_arrays([*column.chunks, column.slice(0, 0).combine_chunks()]) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _in_batches(table: pa.Table, batch_size: int | None) -> Iterator[pa.Table]:
    step = batch_size or max(1, table.num_rows)
    for begin in range(0, table.num_rows, step):
        yield table.slice(begin, step)


def _checked_columns(columns: Sequence[str] | None) -> list[str]:
    names = list(COLUMNS) if columns is None else [columns] if isinstance(columns, str) else list(columns)
    if unknown := [name for name in names if name not in COLUMNS]:
        raise ConfigError(f"columns: there are {', '.join(COLUMNS)}; received {unknown[0]!r}")
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"columns: expected at least one, each once, received {columns!r}")
    return names


def _polars_schema(polars: Any) -> dict[str, Any]:
    headers = polars.List(polars.Struct({"key": polars.String, "value": polars.Binary}))
    types = (
        polars.String, polars.Int32, polars.Int64, polars.Datetime("us", "UTC"), polars.Binary, polars.Binary, headers,
    )  # fmt: skip
    return dict(zip(COLUMNS, types, strict=True))


def _require(package: str, function: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(
            f"raftlog.{function} needs {package}, which is not installed; install it with: pip install {package}",
            name=package,
        ) from None
