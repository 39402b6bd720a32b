"""Parquet: row groups as they are written, then the footer. At most one row group and the footer are in memory.

The settings were measured with records of 100 bytes:

- zstd at level 1 is nearly as fast as lz4, and halves the size of data with patterns.
- Offsets and times are delta-encoded, with statistics, so that readers can skip row groups. Keys and values have no
  statistics: they would copy values and are of no use.
- Values are plain: DELTA_LENGTH_BYTE_ARRAY takes a fifth longer to write and as long to read.
- Constant columns have a dictionary; for keys and values it costs more than it saves.
- Pages are buffered before Python receives them: a callback for each page would wait for the GIL.

The bytes of a row group depend on its rows and on pyarrow's version, not on its position, so that another process can
render them again. The footer grows by about a kilobyte for each row group, so row groups should hold megabytes.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from raftlog.record.formats.named import NamedColumns
from raftlog.record.formats.pieces import whole

RENDERING = f"2-{pa.__version__}"
"""Equal values produce equal bytes: compared before a response of another process is continued."""

_ALIKE = ("topic", "partition")
_GROWING = ("offset", "timestamp")
_GATHERED_BYTES = 256 << 10
_ENCODINGS = {
    "offset": "DELTA_BINARY_PACKED",
    "timestamp": "DELTA_BINARY_PACKED",
}


class Encoder:
    """See `raftlog.record.formats.Encoder`. Rows of one call are one row group."""

    media_type = "application/vnd.apache.parquet"

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._named = NamedColumns(columns)
        self._sink = _Sink()
        self._pages = pa.BufferedOutputStream(pa.PythonFile(self._sink, mode="w"), _GATHERED_BYTES)
        self._writer = pq.ParquetWriter(
            self._pages,
            self._named.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in _ALIKE if name in columns],
            write_statistics=[name for name in _GROWING if name in columns],
            column_encoding={name: kind for name, kind in _ENCODINGS.items() if name in columns} or None,
        )

    def begin(self) -> bytes:
        return self._taken()

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> bytes:
        if not rows.num_rows:
            return b""
        # As one array, because pages end where arrays do.
        named = pa.Table.from_batches([self._named.of(topic, partition, whole(rows))])
        self._writer.write_table(named, row_group_size=named.num_rows)
        return self._taken()

    def end(self) -> bytes:
        self._writer.close()
        return self._taken()

    def _taken(self) -> bytes:
        self._pages.flush()
        return self._sink.taken()


class _Sink:
    """A file object that collects what is written."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0

    def write(self, data: bytes) -> int:
        self._parts.append(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Do nothing: everything is in memory."""

    def close(self) -> None:
        """Do nothing: `taken` may still be called."""

    def taken(self) -> bytes:
        """Return the bytes written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)
