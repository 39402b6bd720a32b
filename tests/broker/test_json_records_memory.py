"""What records sent as JSON take while a batch is built of them: a request of 2 MB took 711 MB."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from raftlog.broker.json_records import record_from_json
from raftlog.cli.import_rows import Mapped
from raftlog.wire.data import JsonRecord

COUNT = 2_000
MOST_BYTES = 300
"""For one number with its name. orjson's own result has 4,097 bytes."""


def kept_by(make: Callable[[], Any]) -> float:
    """Return the bytes that the result takes."""
    tracemalloc.start()
    try:
        result = make()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del result
    return taken


@pytest.mark.parametrize(
    "record",
    [
        JsonRecord(value=1, headers={str(number): number for number in range(COUNT)}),
        JsonRecord(value=1, headers=tuple({"key": "n", "value": [number]} for number in range(COUNT))),
    ],
    ids=["headers by name", "headers in a list"],
)
def test_headers_that_are_numbers_take_little(record: JsonRecord):
    assert kept_by(lambda: record_from_json(record, number=0, now_us=0)) < COUNT * MOST_BYTES


def test_values_that_are_numbers_take_little():
    records = [JsonRecord(value=number, key={"id": number}) for number in range(COUNT)]
    made = kept_by(lambda: [record_from_json(one, number=0, now_us=0) for one in records])
    assert made < COUNT * 2 * MOST_BYTES


@pytest.mark.parametrize("value", [None, "amount"])
def test_imported_rows_take_little(value: str | None):
    """They wait in the producer's buffer, which counts the bytes of their values."""
    mapping = Mapped(value=value, key=None, timestamp=None, partition=None, headers={})
    made = kept_by(lambda: [mapping.record({"amount": number}) for number in range(COUNT)])
    assert made < COUNT * 2 * MOST_BYTES
