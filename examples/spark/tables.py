"""Copy a database's tables to topics and topics to tables: any DB-API 2.0 database (here SQLite).

    python examples/spark/tables.py shop.db orders --mode incrementing --column id
    python examples/spark/tables.py shop.db orders --mode timestamp+incrementing --column changed --column id

Each run copies the rows that are new since the run before, and exits; run it from cron or a loop. Rows and the position
after them go into one transaction, so after a run that was killed each row is in the topic once; read the topic with
`read_committed`, which is Spark's default. The modes define which rows are new:

    bulk                     every row, each time
    incrementing             rows whose `column`, an ever growing number, is larger than before
    timestamp                rows whose `column`, the time of their last change, is later than before
    timestamp+incrementing   the same, but a second column orders rows of the same time: none is missed

Rows are written in the order of these columns, as JSON, with `key` as the record's key. A transaction of the database
that commits late with an early timestamp would be missed, as by every query of a table: `delay_s` waits for it.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from raftlog.blocking import Admin, Consumer, Producer

Mode = Literal["bulk", "incrementing", "timestamp", "timestamp+incrementing"]
POSITIONS = "table-positions"
ROWS_AT_ONCE = 1_000


class Connection(Protocol):
    """The methods that are used of a DB-API 2.0 connection."""

    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """A table to copy.

    Args:
        query: a table's name, or any `select` in parentheses.
        columns: they order new rows: none for bulk, one, or for timestamp+incrementing the time and the number.
        key: the column that becomes the record's key.
        now: the database's expression for now, `delay_s` ago; rows that are later wait.
    """

    name: str
    connect: Callable[[], Connection]
    query: str
    mode: Mode = "incrementing"
    columns: Sequence[str] = ("id",)
    key: str | None = None
    delay_s: int = 0
    now: str = "datetime('now', '-{delay_s} seconds')"
    mark: str = "?"
    """How the database's driver marks parameters: `?` or `%s`."""

    def __post_init__(self) -> None:
        wanted = {"bulk": 0, "timestamp+incrementing": 2}.get(self.mode, 1)
        if self.mode != "bulk" and len(self.columns) != wanted:
            raise ValueError(f"mode {self.mode} goes by {wanted} column(s), received {list(self.columns)}")

    def statement(self, position: Sequence[Any] | None) -> tuple[str, list[Any]]:
        """Return the query for new rows, and its parameters."""
        text, values, conditions = f"select * from {self.query} as source", [], []  # noqa: S608 -- the user's own query
        if self.mode == "bulk":
            return text, values
        order = ", ".join(self.columns)
        if position is not None:
            marks = ", ".join(self.mark for _ in self.columns)
            conditions.append(f"({order}) > ({marks})")
            values += position
        if self.mode.startswith("timestamp") and self.delay_s:
            conditions.append(f"{self.columns[0]} <= " + self.now.format(delay_s=self.delay_s))
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"{text}{where} order by {order}", values

    def rows(self, position: Sequence[Any] | None) -> Iterator[list[dict[str, Any]]]:
        """Yield new rows, chunk by chunk."""
        connection = self.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(*self.statement(position))
            names = [column[0] for column in cursor.description]
            while piece := cursor.fetchmany(ROWS_AT_ONCE):
                yield [dict(zip(names, row, strict=True)) for row in piece]
        finally:
            connection.close()

    def position_after(self, row: dict[str, Any]) -> list[Any] | None:
        return None if self.mode == "bulk" else [row[column] for column in self.columns]


def copy_new_rows(bootstrap: str, source: TableSource, topic: str) -> int:
    """Write the new rows of a table to a topic; return how many.

    Only one run per source may work: a second one that begins fences the first.
    """
    with Admin(bootstrap) as admin:
        admin.create_topic(POSITIONS, partitions=1, configs={"cleanup_policy": "compact"}, if_not_exists=True)
    copied = 0
    with Producer(bootstrap, transactional_id=f"table-{source.name}") as producer:
        producer.init_transactions()  # What a run before this one had under way is decided, and can be read, by now.
        position = read_position(bootstrap, source.name)
        with closing(source.rows(position)) as pieces:
            for rows in pieces:
                with producer.transaction():
                    send_rows(producer, source, topic, rows)
                copied += len(rows)
    return copied


def send_rows(producer: Producer, source: TableSource, topic: str, rows: list[dict[str, Any]]) -> None:
    """Send rows, and the position after them; all of it is acknowledged at the end."""
    sent = []
    for row in rows:
        key = None if source.key is None else str(row[source.key]).encode()
        sent.append(producer.send_nowait(topic, json.dumps(row, default=str).encode(), key=key))
    after = json.dumps(source.position_after(rows[-1])).encode()
    sent.append(producer.send_nowait(POSITIONS, after, key=source.name.encode()))
    for future in sent:
        future.result()


def read_position(bootstrap: str, name: str) -> list[Any] | None:
    """Return the committed position: the last committed record of the source in a compacted topic."""
    position = None
    with Consumer(bootstrap, POSITIONS, start="earliest", isolation="read_committed") as consumer:
        ends = consumer.end_offsets()
        while any(consumer.position(*partition) < end for partition, end in ends.items()):
            for record in consumer.fetch():
                if record.key == name.encode():
                    position = json.loads(record.value or b"null")
    return position


@dataclass
class TableSink:
    """Writes a stream's rows into a table: pass it to `foreachBatch`.

    Rows with the same key replace each other, so a batch that Spark repeats changes nothing: each row is there once.
    The frame needs the columns of the table, one row for each key in a batch.
    """

    connect: Callable[[], Connection]
    table: str
    columns: Sequence[str]
    key: str
    mark: str = "?"
    statement: str = field(init=False)

    def __post_init__(self) -> None:
        names, marks = ", ".join(self.columns), ", ".join(self.mark for _ in self.columns)
        changes = ", ".join(f"{name} = excluded.{name}" for name in self.columns if name != self.key)
        self.statement = (
            f"insert into {self.table} ({names}) values ({marks}) on conflict ({self.key}) do update set {changes}"  # noqa: S608
        )

    def __call__(self, frame: Any, _batch_id: int) -> None:
        """Write one batch in one transaction of the database."""
        connection = self.connect()
        try:
            rows = frame.select(*self.columns).toLocalIterator()
            connection.cursor().executemany(self.statement, (tuple(row) for row in rows))
            connection.commit()
        finally:
            connection.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run once, with the command line's arguments if none are given."""
    parser = argparse.ArgumentParser(description="Copy the new rows of a SQLite table to a topic of the same name.")
    parser.add_argument("database")
    parser.add_argument("table")
    parser.add_argument("--mode", default="incrementing", choices=get_args(Mode))
    parser.add_argument(
        "--column",
        action="append",
        help="the column that orders new rows (id); twice for timestamp+incrementing, time first. The last is the key",
    )
    parser.add_argument("--bootstrap", default="http://127.0.0.1:9400")
    given = parser.parse_args(arguments)
    columns = given.column or ["id"]
    try:
        source = TableSource(
            name=f"{given.database}/{given.table}",
            connect=lambda: sqlite3.connect(given.database),
            query=given.table,
            mode=given.mode,
            columns=columns,
            key=None if given.mode == "bulk" else columns[-1],
        )
    except ValueError as error:
        parser.error(str(error))
    print(f"copied {copy_new_rows(given.bootstrap, source, given.table)} rows")


if __name__ == "__main__":
    main()
