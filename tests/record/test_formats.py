"""Properties of all output formats: requests, lazy imports, and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from format_rows import GOLDEN_ROWS, many_rows, rendered, together

from raftlog.errors import InvalidRequestError
from raftlog.record.formats import COLUMNS, FORMATS, encoder, pieces

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("form", ["ndjson", "json", "csv"])
def test_text_stays_as_it_is_between_versions(form: str):
    path = GOLDEN / f"formats.{form}"
    if os.environ.get("REWRITE"):
        path.write_bytes(rendered(form, GOLDEN_ROWS))
    assert rendered(form, GOLDEN_ROWS) == path.read_bytes()


@pytest.mark.parametrize(
    ("form", "columns", "said"),
    [
        (
            "cvs",
            COLUMNS,
            "format: expected one of arrow, ndjson, json, csv, parquet, received 'cvs'; did you mean 'csv'?",
        ),
        ("CSV", COLUMNS, "received 'CSV'; did you mean 'csv'?"),
        ("", COLUMNS, "received ''"),
        ("x" * 10_000, COLUMNS, f"received '{'x' * 60}'"),
        (
            "json",
            ("offset", "vlaue"),
            "columns: expected one of topic, partition, offset, timestamp, key, value, headers, ",
        ),
        ("json", ("offset", "vlaue"), "received 'vlaue'; did you mean 'value'?"),
        ("json", ("key_encoding",), "received 'key_encoding'"),
        ("json", ("key", "offset", "key"), "each once, received key, offset, key"),
        ("json", (), "received none"),
    ],
)
def test_what_does_not_exist_is_refused_by_name(form: str, columns: tuple[str, ...], said: str):
    with pytest.raises(InvalidRequestError) as refused:
        encoder(form, columns)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("form", FORMATS)
def test_a_stream_may_have_no_rows_and_no_rows_add_nothing(form: str):
    rows = many_rows(3)
    empty = rows.slice(3)
    assert rendered(form, empty, pa.Table.from_batches([], rows.schema), empty) == rendered(form)
    assert rendered(form, empty, rows, empty, rows, empty) == rendered(form, rows, rows)


@pytest.mark.parametrize("form", FORMATS)
def test_it_does_not_matter_in_how_many_arrays_rows_are(form: str):
    rows = together([GOLDEN_ROWS, many_rows(20_000)])
    parts = [rows.slice(0, 1), rows.slice(1, 2), rows.slice(3, 1), rows.slice(4, 9_999), rows.slice(10_003)]
    assert rendered(form, pa.Table.from_batches(parts)) == rendered(form, rows)


@pytest.mark.parametrize("form", FORMATS)
def test_it_does_not_matter_how_many_values_are_converted_at_once(form: str, monkeypatch: pytest.MonkeyPatch):
    at_once = rendered(form, GOLDEN_ROWS)
    monkeypatch.setattr(pieces, "VALUES_AT_ONCE", 2)
    assert rendered(form, GOLDEN_ROWS) == at_once


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("value", [b"x" * 100, b'"' * 30 + b"x" * 70, b"\xff" * 100], ids=["plain", "quotes", "bytes"])
def test_memory_is_a_small_multiple_of_what_is_read_and_written(form: str, value: bytes):
    rows = many_rows(80_000, value)
    made = encoder(form)
    made.begin()
    made.write("events", 3, rows.slice(0, 10))  # What is loaded once is no part of it.
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        written = len(made.write("events", 3, rows))  # What is written lies in the pool, and must not outlive it.
        peak = tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert peak < 3 * max(rows.nbytes, written)


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_kept_of_what_was_written(form: str):
    made = encoder(form)
    made.begin()
    made.write("events", 3, many_rows(8_000))
    before, kept = pa.total_allocated_bytes(), []
    tracemalloc.start()
    try:
        for number in range(20):
            made.write("events", 3, many_rows(8_000, b"%100d" % number))
            kept.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - before)
    finally:
        tracemalloc.stop()
    assert kept[-1] - kept[0] < 100_000


LOADED = "; print(*{name.partition('.')[0] for name in sys.modules})"


def loaded_by(code: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys; {code}{LOADED}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return set(done.stdout.split())


def test_formats_are_named_without_arrow():
    assert not loaded_by("import raftlog.record.formats") & {"pyarrow", "numpy", "pandas"}


@pytest.mark.parametrize("form", FORMATS)
def test_an_encoder_is_made_without_pandas(form: str):
    assert "pandas" not in loaded_by(f"from raftlog.record.formats import encoder; encoder('{form}').begin()")


@pytest.mark.parametrize("form", FORMATS)
def test_brokers_which_have_neither_numpy_nor_pandas_can_render(form: str):
    folder = str(Path(__file__).parent)
    loaded = loaded_by(
        "from raftlog.broker import node; node.keep_pyarrow_small(); from raftlog.record import formats; "
        f"sys.path.append({folder!r}); import format_rows; format_rows.rendered('{form}', format_rows.GOLDEN_ROWS)"
    )
    assert not loaded & {"numpy", "pandas"}
