"""Output formats of a topic read: rows of `READ_SCHEMA` rendered as one stream of bytes. No IO.

The stream of an encoder is the result of `begin`, then of each `write`, then of `end`. The caller decides how many rows
are rendered at once, and so the memory used. A few megabytes suit every format. The first encoder of a format loads
pyarrow and the format's module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from raftlog.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog.record.batch import Buffer

FORMATS: tuple[str, ...] = ("arrow", "ndjson", "json", "csv", "parquet")
COLUMNS: tuple[str, ...] = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""Every column, in the default order."""

_MODULE_OF = {
    "arrow": "arrow_stream",
    "ndjson": "json_lines",
    "json": "json_array",
    "csv": "csv_lines",
    "parquet": "parquet_file",
}


class Encoder(Protocol):
    """Renders one stream. Not thread-safe."""

    media_type: str

    def begin(self) -> bytes:
        """Return the bytes before all rows."""

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> Buffer:
        """Return rows of `READ_SCHEMA`, all of one partition, as bytes of the stream.

        Parquet: the rows of one call are one row group, whose bytes do not depend on its position.
        """

    def end(self) -> bytes:
        """Return the bytes after all rows."""


def encoder(form: str, columns: Sequence[str] = COLUMNS) -> Encoder:
    """Return a new encoder.

    Raises:
        InvalidRequestError: the format or a column does not exist, a column is named twice, or none is named.
    """
    if form not in FORMATS:
        raise InvalidRequestError(f"format: {_expected(form, FORMATS)}")
    require_columns(columns)
    make: Callable[[tuple[str, ...]], Encoder] = import_module(f"raftlog.record.formats.{_MODULE_OF[form]}").Encoder
    return make(tuple(columns))


def require_columns(columns: Sequence[str]) -> None:
    """Raise unless these are names of `COLUMNS`, each once.

    Raises:
        InvalidRequestError: a column does not exist, a column is named twice, or none is named.
    """
    for column in columns:
        if column not in COLUMNS:
            raise InvalidRequestError(f"columns: {_expected(column, COLUMNS)}")
    if not columns or len(set(columns)) < len(columns):
        raise InvalidRequestError(
            f"columns: expected one or more of {', '.join(COLUMNS)}, each once, received "
            f"{', '.join(columns) or 'none'}; leave the parameter out to get all of them"
        )


def _expected(received: str, allowed: tuple[str, ...]) -> str:
    near = get_close_matches(received.lower(), allowed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"expected one of {', '.join(allowed)}, received {received[:60]!r}{hint}"
