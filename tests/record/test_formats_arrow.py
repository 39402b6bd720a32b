"""Arrow streams and Parquet files keep Arrow's types; Parquet's row groups can be rendered again."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from format_rows import GOLDEN_ROWS, many_rows, rendered, some_rows, together
from hypothesis import given
from hypothesis import strategies as st

from raftlog.record import READ_SCHEMA, TABLE_SCHEMA
from raftlog.record.formats import COLUMNS, encoder

READERS = {
    "arrow": lambda data: pa.ipc.open_stream(data).read_all(),
    "parquet": lambda data: pq.ParquetFile(io.BytesIO(data)).read(use_threads=False),
}


def row_group_bytes(
    topic: str, partition: int, rows: pa.RecordBatch | pa.Table, columns: tuple[str, ...] = COLUMNS
) -> bytes:
    """Return the bytes of a row group, as another encoder with these columns writes the rows."""
    made = encoder("parquet", columns)
    made.begin()
    return made.write(topic, partition, rows)


def named(*parts: pa.RecordBatch) -> pa.Table:
    table = pa.Table.from_batches(parts, READ_SCHEMA)
    arrays = [pa.repeat("events", len(table)), pa.repeat(pa.scalar(3, pa.int32()), len(table)), *table.columns]
    return pa.Table.from_arrays(arrays, schema=TABLE_SCHEMA)


@pytest.mark.parametrize("form", READERS)
@given(parts=st.lists(some_rows(), max_size=4))
def test_rows_come_back_as_they_were(form: str, parts: list[pa.RecordBatch]):
    read = READERS[form](rendered(form, *parts))
    assert read.schema.names == TABLE_SCHEMA.names
    assert read.to_pylist() == named(*parts).to_pylist()


def test_a_stream_has_the_schema_of_the_clients_tables():
    read = READERS["arrow"](rendered("arrow", GOLDEN_ROWS))
    assert read.schema.equals(TABLE_SCHEMA)
    assert read.equals(named(GOLDEN_ROWS))


def test_rows_of_one_call_are_one_batch_of_a_stream():
    rows = pa.Table.from_batches([many_rows(5), many_rows(7)])
    reader = pa.ipc.open_stream(rendered("arrow", rows, many_rows(2)))
    assert [batch.num_rows for batch in reader] == [12, 2]


@pytest.mark.parametrize("form", READERS)
def test_columns_are_those_asked_for_in_their_order(form: str):
    for columns in (("value", "partition"), ("headers",), ("offset", "topic", "timestamp")):
        read = READERS[form](rendered(form, GOLDEN_ROWS, columns=columns))
        assert read.to_pylist() == named(GOLDEN_ROWS).select(list(columns)).to_pylist()


@pytest.mark.parametrize("form", READERS)
def test_each_call_names_its_topic_and_partition(form: str):
    made = encoder(form, ("topic", "partition"))
    data = made.begin()
    for topic, partition, count in (("first", 0, 2), ("second", 0, 1), ("second", 1, 3), ("first", 0, 1)):
        data += made.write(topic, partition, many_rows(count))
    read = READERS[form](data + made.end()).to_pylist()
    found = [(row["topic"], row["partition"]) for row in read]
    assert found == [("first", 0)] * 2 + [("second", 0)] + [("second", 1)] * 3 + [("first", 0)]


class TestParquet:
    def test_a_call_that_holds_rows_is_one_row_group_and_stands_where_the_footer_says(self):
        made = encoder("parquet")
        parts = [made.begin()]
        counts = [1, 8_000, 0, 70_000, 3]
        parts += [made.write("events", 3, many_rows(count, b"%d" % count)) for count in counts]
        data = b"".join([*parts, made.end()])
        footer = pq.read_metadata(io.BytesIO(data))
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        assert parts[0] == b"PAR1"
        assert parts[3] == b""
        assert [group.num_rows for group in groups] == [1, 8_000, 70_000, 3]
        at = len(parts[0])
        for group, part in zip(groups, [part for part in parts[1:] if part], strict=True):
            assert self._span(group) == (at, at + len(part))
            at += len(part)

    @staticmethod
    def _span(group: pq.RowGroupMetaData) -> tuple[int, int]:
        chunks = [group.column(number) for number in range(group.num_columns)]
        starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
        ends = [start + chunk.total_compressed_size for start, chunk in zip(starts, chunks, strict=True)]
        assert starts[1:] == ends[:-1]
        return starts[0], ends[-1]

    @given(st.lists(some_rows(min_size=1), min_size=1, max_size=4), st.permutations(COLUMNS), st.integers(1, 7))
    def test_row_groups_can_be_made_again_from_their_rows(self, parts, columns, count):
        columns = tuple(columns[:count])
        made = encoder("parquet", columns)
        made.begin()
        for number, rows in enumerate(parts):
            assert made.write("events", number, rows) == row_group_bytes("events", number, rows, columns)

    @pytest.mark.parametrize("size", [10, 100, 10_000])
    def test_how_rows_lie_in_memory_changes_no_byte(self, size: int):
        rows = together([GOLDEN_ROWS, many_rows(2_000_000 // size, b"v" * size)])
        wanted = row_group_bytes("events", 3, rows)
        third = len(rows) // 3
        chunked = pa.Table.from_batches([rows.slice(0, third), rows.slice(third, 1), rows.slice(third + 1)])
        within = together([many_rows(5), rows, many_rows(5)]).slice(5, len(rows))
        assert row_group_bytes("events", 3, chunked) == wanted
        assert row_group_bytes("events", 3, within) == wanted
        assert row_group_bytes("events", 3, within.slice(0, third)) == row_group_bytes(
            "events", 3, rows.slice(0, third)
        )

    def test_nulls_that_are_marked_in_other_ways_change_no_byte(self):
        rows = many_rows(3_000)
        everything = pa.array([True] * len(rows))
        marked = pa.Array.from_buffers(
            pa.binary(), 3_000, [everything.buffers()[1], *rows.column("value").buffers()[1:]]
        )
        assert row_group_bytes("events", 3, rows.set_column(3, READ_SCHEMA.field("value"), marked)) == row_group_bytes(
            "events", 3, rows
        )

    def test_what_was_written_before_changes_no_byte(self):
        rows = many_rows(8_000, b"again")
        made = encoder("parquet")
        made.begin()
        for topic, count in (("other", 50_000), ("events", 1)):
            made.write(topic, 0, many_rows(count))
        assert made.write("events", 3, rows) == row_group_bytes("events", 3, rows)

    def test_offsets_and_times_have_statistics_and_values_have_none(self):
        data = rendered("parquet", many_rows(10), many_rows(10, first=10))
        group = pq.read_metadata(io.BytesIO(data)).row_group(1)
        chunks = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
        assert (chunks["offset"].statistics.min, chunks["offset"].statistics.max) == (10, 19)
        assert chunks["timestamp"].statistics.has_min_max
        assert not chunks["value"].is_stats_set
        assert not chunks["key"].is_stats_set

    def test_readers_skip_row_groups_by_offset(self):
        data = rendered("parquet", many_rows(10), many_rows(10, first=10))
        read = pq.read_table(io.BytesIO(data), filters=[("offset", ">=", 15)], use_threads=False)
        assert read["offset"].to_pylist() == [15, 16, 17, 18, 19]

    def test_one_that_is_given_up_leaves_nothing(self):
        before = pa.total_allocated_bytes()
        for _ in range(20):
            made = encoder("parquet")
            made.begin()
            made.write("events", 3, many_rows(8_000))
            del made
        assert pa.total_allocated_bytes() - before < 1_000_000
