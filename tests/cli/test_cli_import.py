"""`raftlog import` on a real cluster: files of every kind, what export wrote, and imports that end early and go on."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import raftlog
from raftlog.blocking import Admin, Producer
from raftlog.cli import import_files
from raftlog.cli.import_rows import Mapped, Restored
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.main import cli
from raftlog.client import transactions
from raftlog.errors import InvalidRequestError

cluster = pytest.mark.cluster
KEPT = {"retention_ms": -1}
"""The topics' configs: retention would delete a record of 1970 that is alone in its segment."""


@pytest.fixture
def topic(shared_cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RAFTLOG_BOOTSTRAP", shared_cluster.bootstrap)
    with Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(topic_name, partitions=2, configs=KEPT)
    return topic_name


def invoke(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(cli, [command, *map(str, arguments)])


def rows_of(topic: str) -> list[dict[str, Any]]:
    return raftlog.read_arrow(topic).drop_columns(["topic", "offset"]).to_pylist()


def visible_rows(topic: str, count: int) -> list[dict[str, Any]]:
    """Return all rows, once `count` are visible: the markers of the last transaction may be in progress."""
    deadline = time.monotonic() + 20
    while len(rows := rows_of(topic)) < count:
        assert time.monotonic() < deadline, len(rows)
    return rows


def numbers_of(topic: str, count: int) -> list[int]:
    return sorted(json.loads(row["value"])["n"] for row in visible_rows(topic, count))


@cluster
@pytest.mark.parametrize("suffix", ["parquet", "arrows", "csv", "ndjson"])
def test_what_export_wrote_is_restored(topic: str, shared_cluster: LocalCluster, tmp_path: Path, suffix: str):
    copy = f"{topic}-copy"
    with Admin(shared_cluster.bootstrap) as admin, Producer(shared_cluster.bootstrap) as producer:
        admin.create_topic(copy, partitions=2, configs=KEPT)
        at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
        producer.send(topic, b'text, "quoted"\r\n\xc3\xa9', key=b"k", headers=[("h", b"1"), ("h", None)], timestamp=at)
        producer.send(topic, b"\xff\x00", key=b"", partition=1, timestamp=datetime(1970, 1, 1, tzinfo=UTC))
        producer.send(topic, None, key=b"\xfe", headers={"raw": b"\xff"}, partition=0)
        producer.send(topic, b"", partition=1)
    file = tmp_path / f"all.{suffix}"
    assert invoke("export", topic, "--to", file).exit_code == 0
    result = invoke("import", file, "--topic", copy, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 4

    before, after = rows_of(topic), visible_rows(copy, 4)
    if suffix in ("csv", "ndjson"):  # They have milliseconds.
        for row in before:
            row["timestamp"] = row["timestamp"].replace(microsecond=row["timestamp"].microsecond // 1000 * 1000)
    for row in (*before, *after):
        row["headers"] = row["headers"] or []
    assert after == before


@cluster
def test_columns_of_other_files_become_what_was_asked_for(topic: str, tmp_path: Path):
    table = pa.table(
        {
            "id": [1, 2],
            "name": ["ann", None],
            "at": pa.array(
                [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)], pa.timestamp("ns", "UTC")
            ),
            "part": [1, 0],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    pa.feather.write_feather(table, tmp_path / "t.feather", compression="uncompressed")
    options = ["--key", "id", "--timestamp", "at", "--partition", "part", "--header", "who=name"]
    for file in ("t.parquet", "t.feather"):
        result = invoke("import", tmp_path / file, "--topic", topic, *options)
        assert result.exit_code == 0, result.output
    rows = visible_rows(topic, 4)
    assert [(row["partition"], row["key"], row["value"]) for row in rows] == [(0, b"2", b"{}")] * 2 + [
        (1, b"1", b"{}")
    ] * 2
    assert rows[2]["headers"] == [{"key": "who", "value": b"ann"}]
    assert rows[0]["headers"] == [{"key": "who", "value": None}]
    assert rows[0]["timestamp"] == datetime(2026, 1, 2, tzinfo=UTC)


@cluster
def test_rows_without_a_value_column_become_json(topic: str, tmp_path: Path):
    file = tmp_path / "t.csv"
    file.write_text('id,name,note\r\n1,"a, ""b""",\r\n2,,""\r\n')
    assert invoke("import", file, "--topic", topic, "--key", "id").exit_code == 0
    found = {row["key"]: json.loads(row["value"]) for row in visible_rows(topic, 2)}
    assert found == {b"1": {"name": 'a, "b"', "note": None}, b"2": {"name": None, "note": ""}}


@cluster
def test_an_import_that_ends_early_says_how_to_go_on(topic: str, tmp_path: Path):
    file = tmp_path / "t.ndjson"
    good = "".join(f'{{"n": {number}}}\n' for number in range(25_000))
    file.write_text(good + "{broken\n")
    result = invoke("import", file, "--topic", topic)
    assert result.exit_code == 1
    assert "line 25001: not JSON" in result.stderr
    assert f"continue with --skip-rows 20000 {file}" in result.stderr
    file.write_text(good)
    assert invoke("import", file, "--topic", topic, "--skip-rows", 20_000).exit_code == 0
    assert numbers_of(topic, 25_000) == [*range(25_000)]


@cluster
def test_with_a_transactional_id_each_row_is_there_once(topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "t.ndjson"
    file.write_text("".join(f'{{"n": {number}}}\n' for number in range(25_000)))
    arguments = ["import", file, "--topic", topic, "--transactional-id", f"import-{topic}"]
    send, calls = transactions.Transaction.send_offsets, []

    async def failing(self: Any, *offsets: Any) -> None:
        calls.append(offsets)
        if len(calls) == 2:
            raise InvalidRequestError("on purpose")
        await send(self, *offsets)

    monkeypatch.setattr(transactions.Transaction, "send_offsets", failing)
    first = invoke(*arguments)
    assert first.exit_code == 1
    assert "run the same command again to continue" in first.stderr
    assert numbers_of(topic, 10_000) == [*range(10_000)]
    for told in (15_000, 0):
        again = invoke(*arguments, "--json")
        assert (again.exit_code, json.loads(again.stdout)["rows"]) == (0, told), again.output
        assert numbers_of(topic, 25_000) == [*range(25_000)]
    positions = [offsets[0][topic, 0] for offsets in calls]
    assert positions[-1] == 25_000, "a run that finds nothing new commits the position again: it does not expire"


@cluster
@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"key": "2", "value": "b", "comment": "x"}, "row 2: its columns are not those of `raftlog export`"),
        ({"key": "2", "text": "y"}, "it has 'text'"),
        ({"key": "2"}, "it has no 'value'"),
    ],
)
def test_a_row_unlike_the_first_is_refused(topic: str, tmp_path: Path, row: dict[str, str], says: str):
    """Its other columns were dropped, and without a value it was a tombstone."""
    file = tmp_path / "t.ndjson"
    file.write_text(f'{{"key": "1", "value": "a"}}\n{json.dumps(row)}\n')
    result = invoke("import", file, "--topic", topic)
    assert result.exit_code == 1
    assert says in result.stderr


@cluster
@pytest.mark.parametrize(
    ("name", "content", "arguments", "says"),
    [
        ("t.csv", "a,b\n1,2\n", ["--key", "c"], "has no column 'c'; it has a, b"),
        ("t.txt", "a,b\n1,2\n", [], "the suffix is not a known format"),
        ("t.parquet", "no parquet", [], "not readable as parquet"),
        ("t.csv", "a,b\n1\n", [], "not readable as csv"),
        ("t.ndjson", "[1]\n", [], "line 1: expected an object"),
        ("t.csv", "a,b\n1,x\n", ["--partition", "b"], "row 1: column b: expected a partition's number, received 'x'"),
        ("t.csv", "a,b\n1,soon\n", ["--timestamp", "b"], "row 1: column b: expected a time"),
        ("t.csv", "a\n1\n", ["--header", "x"], "expected NAME=COLUMN"),
        ("t.csv", "a\n1\n", ["--skip-rows", "2"], "has 1 rows fewer than are to be skipped"),
        (
            "t.csv",
            "a\n1\n",
            ["--skip-rows", "1", "--transactional-id", "x"],
            "the cluster knows how many rows are done",
        ),
        ("t.csv", "a,b\n1,9\n", ["--partition", "b"], "partition"),
    ],
)
def test_what_cannot_be_imported_is_told(
    topic: str, tmp_path: Path, name: str, content: str, arguments: list[str], says: str
):
    (tmp_path / name).write_text(content)
    result = invoke("import", tmp_path / name, "--topic", topic, *arguments)
    assert result.exit_code in (1, 2)
    assert says in result.stderr
    assert rows_of(topic) == []


def test_rows_of_csv_may_be_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Records of 8 MB, and of more as base64, are larger than the blocks in which a file is read."""
    monkeypatch.setattr(import_files, "_BLOCK_BYTES", 1_000)
    path = tmp_path / "large.csv"
    values = ["small", "x" * 900, 'a "quoted"\r\nline' * 200, None, "", "y" * 50_000, "last", "z" * 3_000]
    with path.open("w", newline="") as file:
        file.write("n,value\r\n")
        for number, value in enumerate(values):
            quoted = "" if value is None else '"' + value.replace('"', '""') + '"'
            file.write(f"{number},{quoted}\r\n")
    rows = [row for chunk in import_files.chunks_of(path, "csv") for row in chunk]
    assert [(int(row["n"]), row["value"]) for row in rows] == list(enumerate(values))


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "ndjson"])
def test_large_rows_are_few_at_once(tmp_path: Path, form: str):
    """All rows up to 10,000 were in memory at once, and with a transactional id in one transaction."""
    path, size = tmp_path / "large", 1 << 20
    values = [f"{number:{size}}" for number in range(50)]
    table = pa.table({"value": values})
    if form == "parquet":
        pq.write_table(table, path)
    elif form == "arrow":
        pa.feather.write_feather(table, path, compression="uncompressed")
    elif form == "csv":
        path.write_text("value\n" + "\n".join(values) + "\n")
    else:
        path.write_text("".join(f'{{"value": "{value}"}}\n' for value in values))
    chunks = list(import_files.chunks_of(path, form))
    assert [int(row["value"]) for chunk in chunks for row in chunk] == list(range(50))
    assert max(map(len, chunks)) <= import_files.CHUNK_BYTES // size + 1


def test_a_large_dictionary_does_not_make_chunks_of_single_rows(tmp_path: Path):
    """The size of a slice counts the whole dictionary, so a batch was halved until each row was a transaction."""
    texts = pa.array([f"{number}".ljust(900_000, "x") for number in range(10)])
    column = pa.DictionaryArray.from_arrays(pa.array([number % 10 for number in range(5_000)], pa.int32()), texts)
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(path, pa.schema([("value", column.type)])) as file:
        file.write(pa.record_batch([column], names=["value"]))
    chunks = [len(chunk) for chunk in import_files.chunks_of(path, "arrow")]
    assert sum(chunks) == 5_000
    assert len(chunks) == 2


def test_blank_lines_before_a_large_row_repeat_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The file is read again with larger blocks, behind the rows that were read."""
    monkeypatch.setattr(import_files, "_BLOCK_BYTES", 100)
    path = tmp_path / "blank.csv"
    path.write_text("n,value\n" + "\n".join(f"{n},x\n" for n in range(30)) + f"30,{'y' * 500}\n31,z\n")
    rows = [row for chunk in import_files.chunks_of(path, "csv") for row in chunk]
    assert [int(row["n"]) for row in rows] == list(range(32))


@pytest.mark.parametrize("blank", ["\n", "\r\n\r\n", "\ufeff\n"])
def test_blank_lines_before_the_names_of_columns_are_skipped(tmp_path: Path, blank: str):
    """The import succeeded, with no row."""
    path = tmp_path / "t.csv"
    path.write_text(f"{blank}a,b\n1,2\n", newline="")
    assert list(import_files.chunks_of(path, "csv")) == [[{"a": "1", "b": "2"}]]


def test_a_csv_file_without_columns_is_refused_unless_it_is_empty(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("")
    assert list(import_files.chunks_of(path, "csv")) == []
    path.write_text("\n\n")
    result = invoke("import", path, "--topic", "t")
    assert result.exit_code == 1
    assert "has no line with the names of columns" in result.stderr


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.arrows"])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, name: str):
    """One of them would be missing in the records."""
    table = pa.Table.from_arrays([pa.array(["1"]), pa.array(["2"])], names=["a", "a"])
    if name == "a.csv":
        (tmp_path / name).write_text("a,a\n1,2\n")
    elif name == "a.parquet":
        pq.write_table(table, tmp_path / name)
    else:
        with pa.ipc.new_stream(tmp_path / name, table.schema) as stream:
            stream.write_table(table)
    result = invoke("import", tmp_path / name, "--topic", "t")
    assert result.exit_code == 1
    assert "two columns have the name 'a': rename one of them" in result.stderr


def test_a_pipe_is_refused():
    """Its first rows were read to know the columns, and were missing in the topic."""
    out, into = os.pipe()
    os.write(into, b'{"n": 1}\n')
    os.close(into)
    result = invoke("import", f"/dev/fd/{out}", "--format", "ndjson", "--topic", "t")
    os.close(out)
    assert result.exit_code == 2
    assert "is a pipe or a device, and is read more than once: write it to a file first" in result.stderr


def test_times_are_truncated_and_durations_are_seconds(tmp_path: Path):
    table = pa.table(
        {
            "at": pa.array([1_001], pa.timestamp("ns", "UTC")),
            "daily": pa.array([1_001], pa.time64("ns")),
            "took": pa.array([1_500_000_001], pa.duration("ns")),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    (row,) = next(import_files.chunks_of(tmp_path / "t.parquet", "parquet"))
    mapped = Mapped(value=None, key=None, timestamp=None, partition=None, headers={})
    assert json.loads(mapped.record(row).value or b"") == {
        "at": "1970-01-01T00:00:00.000001+00:00",
        "daily": "00:00:00.000001",
        "took": 1.5,
    }


def test_a_time_that_python_has_not_is_named(tmp_path: Path):
    pq.write_table(pa.table({"at": pa.array([2**62], pa.timestamp("us"))}), tmp_path / "t.parquet")
    result = invoke("import", tmp_path / "t.parquet", "--topic", "t")
    assert result.exit_code == 1
    assert "column 'at' of type timestamp[us]" in result.stderr


def test_values_that_json_has_not_are_text():
    mapped = Mapped(value=None, key="k", timestamp=None, partition=None, headers={})
    row = {"k": 1.5, "d": datetime(2026, 1, 1, tzinfo=UTC), "b": b"\xff", "t": b"x", "l": [b"y", None]}
    record = mapped.record(row)
    assert record.key == b"1.5"
    assert json.loads(record.value or b"") == {
        "d": "2026-01-01T00:00:00+00:00",
        "b": "/w==",
        "t": "x",
        "l": ["y", None],
    }


def test_numbers_of_ndjson_keep_their_digits(tmp_path: Path):
    """Two ids became one key: a double has about 16 digits."""
    ids = ["18446744073709551617", "18446744073709551618", "-9223372036854775809", "9223372036854775807"]
    ids += ["0.12345678901234567", "12345678901234567890.5", "1.5", "0.30000000000000004"]
    (tmp_path / "t.ndjson").write_text("".join(f'{{"id": {each}, "in": [{each}, "{each}"]}}\n' for each in ids))
    mapped = Mapped(value=None, key="id", timestamp=None, partition=None, headers={})
    (rows,) = import_files.chunks_of(tmp_path / "t.ndjson", "ndjson")
    records = [mapped.record(row) for row in rows]
    assert [record.key for record in records] == [each.encode() for each in ids]
    assert [record.value for record in records] == [f'{{"in":[{each},"{each}"]}}'.encode() for each in ids]
    with pytest.raises(InvalidRequestError, match=r"column id: expected a time, .* received 18446744073709551617$"):
        Mapped(value=None, key=None, timestamp="id", partition=None, headers={}).record(rows[0])


@pytest.mark.parametrize(
    "row",
    [
        {"value": "x", "value_encoding": "rot13"},
        {"value": "***", "value_encoding": "base64"},
        {"value": 5},
        {"value": "x", "headers": "[{]"},
        {"value": "x", "headers": [{"value": "no key"}]},
        {"value": "x", "timestamp": 1e300},
        {"value": "x", "timestamp": True},
        {"value": "x", "timestamp": 10**18},
        {"value": "x", "partition": -1},
        {"value": "x", "partition": 1.0},
    ],
)
def test_rows_that_export_cannot_have_written_are_refused(row: dict[str, Any]):
    with pytest.raises(InvalidRequestError, match="column "):
        Restored.record(row)
