"""Server-sent events of a topic read: ids, and how much is made at once."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from raftlog.broker.topic_reads import stream_encoders
from raftlog.broker.topic_reads.query import parse, positions_text
from raftlog.broker.topic_reads.stream import TopicStream
from raftlog.broker.topic_reads.stream_encoders import EVENT_ROWS, Events
from raftlog.model import Offset
from raftlog.record import READ_SCHEMA
from raftlog.record.formats import COLUMNS, encoder
from tests.broker.test_topic_stream import Logs, batch_at


def rows_at(offsets: list[int]) -> pa.Table:
    count = len(offsets)
    return pa.table(
        {
            "offset": offsets,
            "timestamp": pa.array(range(count), pa.int64()).cast(READ_SCHEMA.field("timestamp").type),
            "key": pa.nulls(count, pa.binary()),
            "value": [f"{offset}\n\r".encode() for offset in offsets],
            "headers": pa.nulls(count, READ_SCHEMA.field("headers").type),
        },
        schema=READ_SCHEMA,
    )


def one_by_one(positions: dict[int, int], partition: int, rows: pa.Table) -> bytes:
    """Return the events of rows; each id is made again from all positions."""
    lines = bytes(encoder("ndjson", COLUMNS).write("t", partition, rows)).splitlines()
    text = b""
    for offset, line in zip(rows.column("offset").to_pylist(), lines, strict=True):
        positions[partition] = offset + 1
        text += b"id: %s\ndata: %s\n\n" % (positions_text(positions).encode(), line)
    return text


@pytest.mark.parametrize("partitions", [1, 2, 12, 100])
def test_ids_name_the_positions_of_all_partitions_after_each_event(partitions: int):
    dice = random.Random(partitions)
    named = dice.sample(range(1_000), partitions)
    positions = {number: dice.randrange(10**10) for number in named}
    events = Events(positions, COLUMNS)
    for _ in range(50):
        partition, start = dice.choice(named), dice.randrange(10**10)
        rows = rows_at(sorted(dice.sample(range(start, start + 50), dice.randrange(20))))
        assert events.write("t", partition, rows) == one_by_one(positions, partition, rows)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of positions of each text that is made."""
    made: list[int] = []

    def counted(positions: Mapping[int, Offset]) -> str:
        made.append(len(positions))
        return positions_text(positions)

    monkeypatch.setattr(stream_encoders, "positions_text", counted)
    return made


def test_the_positions_of_other_partitions_become_text_once_for_many_rows(texts: list[int]):
    Events(dict.fromkeys(range(100), 10**9), COLUMNS).write("t", 50, rows_at(list(range(EVENT_ROWS))))
    assert sum(texts) <= 100


@pytest.mark.parametrize("follow", ["true", "false"])
async def test_events_are_made_piece_by_piece(texts: list[int], follow: str):
    count = 3 * EVENT_ROWS + 1
    logs = Logs([batch_at(0, *["x"] * count)], *[[]] * 99)
    query = parse({"follow": follow, "max_records": str(count - 1)})
    spans: dict[int, Any] = dict.fromkeys(range(100), (0, None if query.follow else 0))
    spans[0] = (0, None if query.follow else count)
    made: list[int] = []

    class Counted(Events):
        def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> memoryview:
            made.append(rows.num_rows)
            return super().write(topic, partition, rows)

    reading = TopicStream(
        logs,  # type: ignore[arg-type]
        lambda: Counted(dict.fromkeys(spans, 0), COLUMNS),
        query,
        topic="t",
        spans=spans,
        piece_rows=EVENT_ROWS,
    )
    pieces = reading.pieces()
    assert await anext(pieces) == b""
    for number in range(3):
        piece = bytes(await anext(pieces))
        assert piece.count(b"\n\n") == EVENT_ROWS
        assert piece.startswith(b"id: 0:%d,1:0," % (number * EVENT_ROWS + 1))
        assert made == [EVENT_ROWS] * (number + 1)
    assert [piece async for piece in pieces] == [b""]
    assert sum(texts) <= 3 * 100
