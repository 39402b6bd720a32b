"""The sink's options and columns, and the conversion of rows to record batches. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias
from uuid import NAMESPACE_URL, uuid5

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from pyspark_raftlog import task_traces
from pyspark_raftlog.option_names import KNOWN_OPTIONS, SINK_OPTIONS, RawOptions
from pyspark_raftlog.options import ConnectionOptions, credentials_of
from pyspark_raftlog.parsing import (
    parse_assign,
    parse_batch_id,
    parse_bootstrap,
    parse_client_id,
    parse_compression,
    parse_count,
    parse_dial,
    parse_size,
    parse_subscribe,
)
from raftlog.errors import ConfigError
from raftlog.model import TopicPartition
from raftlog.record.arrow import SCHEMA
from raftlog.record.headers import HEADERS_TYPE
from raftlog.record.model import Compression
from raftlog.record.partitioner import partition_for_key
from raftlog.traceparent import TRACEPARENT
from raftlog.wire.transactions import SET_SEPARATOR

BATCH_BYTES = 512 << 10
"""The largest uncompressed record batch; a single larger record has its own batch."""
MAX_ID_BYTES = 220
"""The most bytes of a transactional id: a broker accepts 249, of which the suffix of a task attempt needs some."""
Guarantee: TypeAlias = Literal["exactly-once", "at-least-once"]
SINK_COLUMNS = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
}
LOG_COLUMNS = ("offset", "timestamp", "timestampType")
"""The columns that the log assigns to a stored record."""
Routed: TypeAlias = tuple[TopicPartition, pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(ConnectionOptions):
    """The options of a write."""

    topic: str | None = None
    """Overrides the column `topic`."""
    table: tuple[str, ...] = ()
    """The topics of the target table or view; empty: any topic."""
    is_table: bool = False
    """Whether the rows have a source's columns, some of which the log assigns."""
    guarantee: Guarantee = "exactly-once"
    transactional_id: str | None = None
    """None: a name derived from the query."""
    batch_id: int | None = None
    """The number of the micro-batch to which a batch write in `foreachBatch` belongs; None: the thread's, if any."""
    transaction_timeout_ms: int = 600_000
    """How long a job may take from its first row to its commit."""
    compression: Compression | None = None
    batch_bytes: int = BATCH_BYTES

    @property
    def batch_set_id(self) -> str | None:
        """The set of a batch write's transactions: writes to several topics in one micro-batch need different ids.

        With topics from the column `topic` only, all writes of a micro-batch have one id: of several, one counts.
        None without a `transactional_id`.

        Raises:
            ConfigError: the id is too long.
        """
        if self.transactional_id is None:
            return None
        name = f"{self.transactional_id}/{self.topic or ','.join(self.table) or '*'}"
        if self.topic is None and len(name.encode()) > MAX_ID_BYTES:
            name = f"{self.transactional_id}/{uuid5(NAMESPACE_URL, name).hex}"
        if len(name.encode()) > MAX_ID_BYTES:
            raise ConfigError(
                f"option 'transactionalId': expected at most {MAX_ID_BYTES} bytes together with the topic's name, "
                f"received {self.transactional_id!r:.80}"
            )
        return name

    @property
    def earlier_batch_set_id(self) -> str:
        """The `batch_set_id` of earlier versions, where all tables had one; empty: the same."""
        return f"{self.transactional_id}/*" if self.transactional_id and self.table and self.topic is None else ""

    def without_batch_id(self) -> SinkOptions:
        """Return these options.

        Raises:
            ConfigError: they have a `batch_id`, which is for one batch write.
        """
        if self.batch_id is not None:
            raise ConfigError(
                f"option 'batchId' is for a batch write in foreachBatch, received {self.batch_id}: leave it out in "
                "writeStream, whose sink reads the number of each micro-batch, and in a table, which has many writes"
            )
        return self


def parse_sink_options(raw: Mapping[str, str], *, overwrite: bool) -> SinkOptions:
    """Validate every option of a write.

    Raises:
        ConfigError: an option is invalid, or the mode overwrites a topic.
    """
    if overwrite:
        raise ConfigError("a topic cannot be overwritten: use mode('append'), or delete and create the topic")
    # Spark passes its own options to the sink, and a table is also a source.
    given = RawOptions(raw, SINK_OPTIONS, passed_over=(*KNOWN_OPTIONS, "checkpointLocation"))
    guarantee: Guarantee = given.take("guarantee", _guarantee, "exactly-once")
    for name in ("transactionalId", "transactionTimeoutMs", "batchId"):
        if guarantee == "at-least-once" and given.has(name):
            raise ConfigError(
                f"option {name!r} has no meaning with guarantee 'at-least-once', which has no transactions"
            )
    if given.has("batchId") and not given.has("transactionalId"):
        raise ConfigError("option 'batchId' needs the option 'transactionalId': the name under which this sink commits")
    return SinkOptions(
        bootstrap=given.required("bootstrap", parse_bootstrap),
        dial=given.take("dial", parse_dial, {}),
        credentials=credentials_of(given),
        topic=given.take("topic", str, None),
        table=_table(given),
        is_table=any(given.has(name) for name in ("subscribe", "subscribePattern", "assign")),
        guarantee=guarantee,
        transactional_id=given.take("transactionalId", _transactional_id, None),
        batch_id=given.take("batchId", parse_batch_id, None),
        transaction_timeout_ms=given.take("transactionTimeoutMs", parse_count, 600_000),
        timeout_ms=given.take("timeoutMs", parse_count, 120_000),
        client_id=given.take("clientId", parse_client_id, ""),
        traceparent=given.take("traceparent", task_traces.parse_option, ""),
        compression=given.take("compression", parse_compression, None),
        batch_bytes=given.take("batchBytes", parse_size, BATCH_BYTES),
    )


def _table(given: RawOptions) -> tuple[str, ...]:
    """Return the topics that a table reads: writes are restricted to them."""
    if given.has("assign"):
        return tuple(sorted({partition.topic for partition in given.required("assign", parse_assign).partitions}))
    return given.required("subscribe", parse_subscribe).topics if given.has("subscribe") else ()


def _guarantee(text: str) -> Guarantee:
    match text.strip().lower():
        case "exactly-once":
            return "exactly-once"
        case "at-least-once":
            return "at-least-once"
    raise ValueError("expected exactly-once or at-least-once")


def _transactional_id(text: str) -> str:
    if not text or SET_SEPARATOR in text:
        raise ValueError(f"expected a name without {SET_SEPARATOR!r}")
    return text


def sink_columns(schema: StructType, options: SinkOptions) -> dict[str, str]:
    """Map the sink's columns to their names in the frame. Other columns are ignored, as by Kafka's sink.

    Raises:
        ConfigError: `value` is missing, there is no topic, or a type is wrong.
    """
    columns: dict[str, str] = {}
    if options.is_table:
        columns = {name: name for name in LOG_COLUMNS if name in schema.names}
    for item in schema.fields:
        name, kind = item.name.lower(), item.dataType.simpleString()
        if name not in SINK_COLUMNS:
            continue
        if kind not in SINK_COLUMNS[name]:
            raise ConfigError(f"column {item.name!r} is {kind}; the sink takes {' or '.join(SINK_COLUMNS[name])}")
        if (other := columns.setdefault(name, item.name)) != item.name or schema.names.count(other) > 1:
            raise ConfigError(f"columns {other!r} and {item.name!r} are both the {name!r} of the record: drop one")
    if "value" not in columns:
        raise ConfigError(f"the sink needs a column 'value', received {', '.join(schema.names)}")
    if options.topic is None and "topic" not in columns and len(options.table) != 1:
        raise ConfigError("no topic: set the option 'topic', or add a column 'topic'")
    return columns


@dataclass
class Router:
    """Chooses the partition of rows: the column `partition`, the key's hash, or round robin."""

    columns: dict[str, str]
    topic: str | None
    partitions: Mapping[str, int]
    """The partition count of each topic seen so far."""
    turn: int = 0
    table: tuple[str, ...] = ()
    """See `SinkOptions.table`."""
    traceparent: str = ""
    """The header of rows without a column `headers`; empty: they have none."""

    def topics_of(self, rows: pa.RecordBatch) -> list[str]:
        """Return the target topics of rows.

        Raises:
            ConfigError: a row has no topic, or one that is not the table's, or sets a column that the log assigns.
        """
        self._require_unset(rows)
        if self.topic is not None:
            return [self.topic]
        if "topic" not in self.columns:
            return [self.table[0]]
        topics = pc.unique(self._topic_column(rows)).to_pylist()
        if None in topics:
            raise ConfigError("column 'topic' holds null, and the option 'topic' is not set")
        if self.table and (foreign := sorted(set(topics) - set(self.table))):
            raise ConfigError(
                f"column 'topic' holds {foreign[0]!r}, and this table is of {', '.join(self.table)}: leave the "
                "column out, name one of these, or write to a table of that topic"
            )
        return sorted(topics)

    def _require_unset(self, rows: pa.RecordBatch) -> None:
        """Raise for rows of a table with a column that the log assigns, as rows from `SELECT *` of a topic have."""
        if found := [name for name in LOG_COLUMNS if name in self.columns and rows.column(name).null_count < len(rows)]:
            raise ConfigError(
                f"column {found[0]!r} is filled in by the log: leave it out of INSERT, and list the other columns, "
                "for example flights (key, value)"
            )

    def _topic_column(self, rows: pa.RecordBatch) -> pa.Array:
        """Return each row's topic; in a table of one topic, null means that topic."""
        column = rows.column(self.columns["topic"])
        return column.fill_null(self.table[0]) if len(self.table) == 1 and column.null_count else column

    def route(self, rows: pa.RecordBatch, *, now_us: int) -> Iterator[Routed]:
        """Yield the rows of each partition, in order, in the log's schema."""
        topics = self.topics_of(rows)
        for topic in topics:
            mine = rows if len(topics) == 1 else rows.filter(pc.equal(self._topic_column(rows), topic))
            targets = self._partitions_of(mine, topic)
            records = self._records(mine, now_us)
            for number in pc.unique(targets).to_pylist():
                yield TopicPartition(topic, number), records.filter(pc.equal(targets, number))

    def _partitions_of(self, rows: pa.RecordBatch, topic: str) -> pa.Array:
        count = self.partitions[topic]
        if "partition" not in self.columns:
            return self._by_key(rows, count)
        targets = rows.column(self.columns["partition"])
        if targets.null_count < len(targets) and not 0 <= pc.min(targets).as_py() <= pc.max(targets).as_py() < count:
            raise ConfigError(f"column 'partition' must hold 0 to {count - 1} for topic {topic!r}, or null: by the key")
        return pc.coalesce(targets, self._by_key(rows, count)) if targets.null_count else targets

    def _by_key(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        self.turn += 1
        keyless = pa.scalar(self.turn % count, pa.int32())
        if "key" not in self.columns:
            return pa.repeat(keyless, rows.num_rows)
        keys = _binary(rows.column(self.columns["key"])).dictionary_encode()
        by_key = pa.array([partition_for_key(key, count) for key in keys.dictionary.to_pylist()], pa.int32())
        return by_key.take(keys.indices).fill_null(keyless)

    def _records(self, rows: pa.RecordBatch, now_us: int) -> pa.RecordBatch:
        def column(name: str, kind: pa.DataType) -> pa.Array:
            if name not in self.columns:
                return pa.nulls(rows.num_rows, kind)
            return rows.column(self.columns[name]).cast(kind)

        stamps = pa.repeat(pa.scalar(now_us, pa.int64()), rows.num_rows).view(SCHEMA.field("timestamp").type)
        if "headers" in self.columns:
            _require_header_keys(rows.column(self.columns["headers"]))
        is_traced = self.traceparent and "headers" not in self.columns
        headers = _traced(self.traceparent, rows.num_rows) if is_traced else column("headers", HEADERS_TYPE)
        columns = [stamps, column("key", pa.binary()), column("value", pa.binary()), headers]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _traced(traceparent: str, count: int) -> pa.Array:
    """Return the headers of rows that belong to a span."""
    entry = [pa.repeat(TRACEPARENT, count), pa.repeat(pa.scalar(traceparent.encode()), count)]
    entries = pa.StructArray.from_arrays(entry, fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), entries, type=HEADERS_TYPE)


def _require_header_keys(headers: pa.ListArray) -> None:
    listed = headers.flatten()
    if listed.null_count or listed.field("key").null_count:
        raise ConfigError("column 'headers' holds null for a header, or for its key: a header has a key, filter it out")


def _binary(column: pa.Array) -> pa.Array:
    return column.cast(pa.binary())


def cut(rows: pa.RecordBatch, limit_bytes: int = BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield pieces of at most `limit_bytes`, or of one row."""
    if rows.nbytes <= limit_bytes or rows.num_rows == 1:
        yield rows
        return
    half = rows.num_rows // 2
    yield from cut(rows.slice(0, half), limit_bytes)
    yield from cut(rows.slice(half), limit_bytes)
