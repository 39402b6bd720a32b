"""The example that copies a database's tables to topics: what counts as new, and that each row counts once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from topic_rows import read_topic

from examples.spark.tables import TableSource, copy_new_rows, main, read_position
from raftlog.blocking import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture
def bootstrap(shared_cluster: LocalCluster) -> str:
    return shared_cluster.bootstrap


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("create table orders (id integer primary key, item text, changed text)")
    yield connection
    connection.close()


def order(shop: sqlite3.Connection, number: int, item: str, changed: str) -> None:
    shop.execute("insert or replace into orders values (?, ?, ?)", (number, item, changed))
    shop.commit()


@pytest.mark.parametrize(
    ("mode", "columns", "query", "runs"),
    [
        ("incrementing", ("id",), "orders", [["a", "b"], ["c"], []]),
        ("timestamp", ("changed",), "orders", [["a", "b"], ["a2", "c"], []]),
        ("timestamp+incrementing", ("changed", "id"), "orders", [["a", "b"], ["a2", "c"], ["d"]]),
        ("bulk", (), "orders", [["a", "b"], ["a2", "b", "c"], ["a2", "b", "c", "d"]]),
        ("incrementing", ("id",), "(select * from orders where item <> 'b')", [["a"], ["c"], []]),
    ],
)
def test_what_is_new_in_a_table_goes_to_a_topic_once(bootstrap, shop, topic_name, mode, columns, query, runs):
    with Admin(bootstrap) as admin:
        admin.create_topic(topic_name, partitions=1)
    path = shop.execute("pragma database_list").fetchone()[2]
    source = TableSource(
        name=topic_name, connect=lambda: sqlite3.connect(path), query=query, mode=mode, columns=columns, key="id"
    )
    found: list[list[str]] = []
    total = 0
    for change in (
        [(1, "a", "09:00"), (2, "b", "09:01")],
        [(1, "a2", "10:00"), (3, "c", "10:01")],
        [(0, "d", "10:01")] if mode == "bulk" else [(4, "d", "10:01")] if "+" in mode else [],
    ):
        for row in change:
            order(shop, *row)
        copied = copy_new_rows(bootstrap, source, topic_name)
        total += copied
        items = [row["item"] for row in read_topic(bootstrap, topic_name, at_least=total)]
        found.append(sorted(items[len(items) - copied :]))

    assert found == [sorted(run) for run in runs]


def test_a_run_that_fails_in_the_middle_leaves_nothing_twice(bootstrap, shop, topic_name, monkeypatch):
    with Admin(bootstrap) as admin:
        admin.create_topic(topic_name, partitions=1)
    path = shop.execute("pragma database_list").fetchone()[2]
    monkeypatch.setattr("examples.spark.tables.ROWS_AT_ONCE", 10)
    for number in range(25):
        order(shop, number, f"item {number}", "09:00")
    source = TableSource(name=topic_name, connect=lambda: sqlite3.connect(path), query="orders")
    broken = TableSource(name=topic_name, connect=lambda: sqlite3.connect(path), query="orders")
    fail_at = iter(range(100))
    object.__setattr__(broken, "position_after", lambda row: [row["id"]] if next(fail_at) < 1 else 1 / 0)

    with pytest.raises(ZeroDivisionError):
        copy_new_rows(bootstrap, broken, topic_name)
    with Producer(bootstrap, transactional_id=f"table-{topic_name}") as producer:
        producer.init_transactions()  # What the run committed can be read from here on.
        assert read_position(bootstrap, topic_name) == [9]
    assert copy_new_rows(bootstrap, source, topic_name) == 15

    assert [row["id"] for row in read_topic(bootstrap, topic_name, at_least=25)] == list(range(25))


def test_the_command_line_knows_every_mode(
    shop: sqlite3.Connection, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    order(shop, 2, "later", "2026-01-02")
    order(shop, 9, "first", "2026-01-01")
    base = [str(tmp_path / "shop.db"), "orders", "--bootstrap", bootstrap]
    with Admin(bootstrap) as admin:
        admin.create_topic("orders", if_not_exists=True)
    both = ["--mode", "timestamp+incrementing", "--column", "changed", "--column", "id"]
    main([*base, *both])
    main([*base, *both])
    assert capsys.readouterr().out == "copied 2 rows\ncopied 0 rows\n"
    with pytest.raises(SystemExit):
        main([*base, "--mode", "timestamp+incrementing", "--column", "changed"])
    assert "goes by 2 column(s), received ['changed']" in capsys.readouterr().err
