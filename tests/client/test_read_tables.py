"""`read_arrow`, `read_pandas` and `scan_polars` on a real cluster: all of a topic at once, or an error."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import polars as pl
import pytest

import raftlog
from raftlog import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client.span_reader import SpanReader
from raftlog.client.spans import Selection
from raftlog.errors import ConfigError, NotFoundError, OffsetOutOfRangeError, RetriableError, UnreachableError

pytestmark = pytest.mark.cluster
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def url(shared_cluster: LocalCluster) -> str:
    return shared_cluster.bootstrap


@pytest.fixture
async def topic(url: str, topic_name: str) -> str:
    """Return a topic of two partitions: 0 has the values 0 to 9, a second each from 1,000 s on, 1 has one record."""
    await create(url, topic_name)
    async with Producer(url) as producer:
        for number in range(10):
            await producer.send(
                topic_name, f"{number}".encode(), partition=0, timestamp=EPOCH + timedelta(seconds=1_000 + number)
            )
        await producer.send(
            topic_name,
            None,
            key=b"\xff",
            headers={"h": b"1", "n": None},
            partition=1,
            timestamp=EPOCH + timedelta(microseconds=5),
        )
    return topic_name


async def create(url: str, topic: str, partitions: int = 2) -> None:
    async with Admin(url) as admin:
        await admin.create_topic(
            topic, partitions=partitions, replication_factor=3, configs={"retention_ms": -1, "retention_bytes": -1}
        )


def values(topic: str, **options: object) -> list[bytes | None]:
    return raftlog.read_arrow(topic, **options).column("value").to_pylist()  # type: ignore[arg-type]


async def test_all_of_a_topic_by_partition_and_offset(url: str, topic: str):
    table = raftlog.read_arrow(topic, bootstrap=url)
    rows = table.to_pylist()

    assert table.column_names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert [(row["partition"], row["offset"]) for row in rows] == [*((0, n) for n in range(10)), (1, 0)]
    assert rows[3]["value"] == b"3"
    assert rows[3]["timestamp"] == datetime(1970, 1, 1, 0, 16, 43, tzinfo=UTC)
    assert rows[10] == {
        "topic": topic, "partition": 1, "offset": 0, "timestamp": datetime(1970, 1, 1, microsecond=5, tzinfo=UTC),
        "key": b"\xff", "value": None, "headers": [{"key": "h", "value": b"1"}, {"key": "n", "value": None}],
    }  # fmt: skip


async def test_a_part_of_a_topic(url: str, topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAFTLOG_BOOTSTRAP", url)
    at = datetime(1970, 1, 1, 0, 16, 45, tzinfo=UTC)

    assert values(topic, partitions=[0], start=8) == [b"8", b"9"]
    assert values(topic, start={0: 8}, end={1: 0}) == [b"8", b"9"]
    assert values(topic, start=at, partitions=[0]) == [b"5", b"6", b"7", b"8", b"9"]
    assert values(topic, end=at, partitions=[0]) == [b"0", b"1", b"2", b"3", b"4"]
    assert values(topic, start=timedelta(hours=1)) == []
    assert values(topic, start="latest") == []
    assert values(topic, partitions=[0], start=6, end=3) == []
    assert values(topic, max_records=3) == [b"0", b"1", b"2"]
    assert values(topic, max_records=0) == []
    few = raftlog.read_arrow(topic, columns=["offset", "partition"], max_records=11)
    assert few.column_names == ["offset", "partition"]
    assert few.num_rows == 11


async def test_a_topic_without_records(url: str, topic_name: str):
    await create(url, topic_name)
    table = raftlog.read_arrow(topic_name, bootstrap=url)
    assert (table.num_rows, len(table.schema)) == (0, 7)
    assert raftlog.scan_polars(topic_name, bootstrap=url).collect().shape == (0, 7)


async def test_what_was_aborted_is_left_out_and_what_is_undecided_not_waited_for(url: str, topic_name: str):
    await create(url, topic_name, partitions=1)
    async with Producer(url, transactional_id=topic_name) as producer:
        async with producer.transaction():
            await producer.send(topic_name, b"counts")
        with suppress(ZeroDivisionError):
            async with producer.transaction():
                await producer.send(topic_name, b"aborted")
                raise ZeroDivisionError
        async with producer.transaction():
            await producer.send(topic_name, b"undecided")
            read = values(topic_name, bootstrap=url)
            all_of_it = values(topic_name, bootstrap=url, isolation="read_uncommitted")

    assert read == [b"counts"]
    assert all_of_it == [b"counts", b"aborted", b"undecided"]


async def test_pandas_keeps_bytes(url: str, topic: str):
    frame = raftlog.read_pandas(topic, bootstrap=url)
    assert frame.shape == (11, 7)
    assert frame["value"].tolist() == [*(f"{number}".encode() for number in range(10)), None]
    assert str(frame["timestamp"].dtype) == "datetime64[us, UTC]"


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
async def test_polars_reads_what_a_query_needs(url: str, topic: str, engine: str):
    lazy = raftlog.scan_polars(topic, bootstrap=url)

    def collected(query: pl.LazyFrame) -> list[object]:
        return query.collect(engine=engine).to_series().to_list()  # type: ignore[call-overload]

    assert dict(lazy.collect_schema()) == dict(lazy.collect().schema)
    assert collected(lazy.filter(pl.col("offset") >= 8).select("value")) == [b"8", b"9"]
    assert collected(lazy.select("offset").head(3)) == [0, 1, 2]
    assert collected(lazy.filter(pl.col("partition") == 1).select("headers")) == [
        [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    ]
    assert collected(lazy.select(pl.len())) == [11]
    joined = lazy.join(lazy, on=["partition", "offset"]).select("value")
    assert len(collected(joined)) == 11


async def test_a_lazy_frame_sees_the_same_records_each_time(url: str, topic: str):
    lazy = raftlog.scan_polars(topic, bootstrap=url)
    async with Producer(url) as producer:
        await producer.send(topic, b"later", partition=0)
    assert lazy.collect().height == 11
    assert raftlog.scan_polars(topic, bootstrap=url).collect().height == 12


async def test_records_that_are_deleted_meanwhile_are_an_error(url: str, topic: str):
    lazy = raftlog.scan_polars(topic, bootstrap=url)
    async with SpanReader(url) as reader, Admin(url) as admin:
        spans = await reader.plan(Selection(topic))
        await admin.delete_records(topic, 0, before=4)
        await reader.begin(spans)
        with pytest.raises(OffsetOutOfRangeError, match="records were deleted while they were read"):
            await drained(reader)
    with pytest.raises(OffsetOutOfRangeError, match="records were deleted while they were read"):
        lazy.collect()
    assert values(topic, bootstrap=url, partitions=[0], start="earliest")[0] == b"4"
    with pytest.raises(OffsetOutOfRangeError, match=r"start: topic-\w+-0 can be read from offset 4 to 10, received 3"):
        raftlog.read_arrow(topic, bootstrap=url, partitions=[0], start=3)


async def test_a_topic_that_is_deleted_meanwhile_is_an_error(url: str, topic: str):
    async with SpanReader(url, at_once=1) as reader, Admin(url) as admin:
        spans = await reader.plan(Selection(topic))
        await reader.begin(spans)
        assert await reader.next() is not None  # Of partition 0; the other has not been asked for.
        await admin.delete_topic(topic)
        with pytest.raises((NotFoundError, OffsetOutOfRangeError)):
            await drained(reader)
        await create(url, topic)
        with pytest.raises(OffsetOutOfRangeError, match="was deleted and recreated"):
            await begun_again(url, spans)


async def begun_again(url: str, spans: list[object]) -> None:
    async with SpanReader(url) as reader:
        await reader.begin(spans)  # type: ignore[arg-type]


async def drained(reader: SpanReader) -> None:
    while await reader.next() is not None:
        pass


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"partitions": [2]}, NotFoundError, "has partitions 0 to 1, received 2"),
        ({"partitions": []}, ConfigError, "partitions: expected whole numbers"),
        ({"start": 3}, ConfigError, "start: 2 partitions of .* are read, and an offset is of one"),
        ({"start": {5: 3}}, ConfigError, "start: partition 5 of .* is not read"),
        ({"start": "soon"}, ConfigError, "start: expected earliest, latest, a datetime"),
        ({"end": 1.5}, ConfigError, "end: expected earliest, latest, a datetime"),
        ({"end": {0: 11}}, OffsetOutOfRangeError, "end: .*-0 can be read from offset 0 to 10, received 11"),
        ({"columns": ["valeu"]}, ConfigError, "columns: there are topic, .*; received 'valeu'"),
        ({"columns": []}, ConfigError, "columns: expected at least one"),
        ({"max_records": -1}, ConfigError, "max_records"),
        ({"isolation": "none"}, ConfigError, "isolation"),
    ],
)
async def test_mistakes(url: str, topic: str, options: dict[str, object], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        raftlog.read_arrow(topic, bootstrap=url, **options)  # type: ignore[arg-type]


async def test_a_topic_that_does_not_exist(url: str):
    for read in (raftlog.read_arrow, raftlog.read_pandas, raftlog.scan_polars):
        with pytest.raises(NotFoundError, match="there is no topic 'nowhere'"):
            read("nowhere", bootstrap=url)


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    for package, read in (("pandas", raftlog.read_pandas), ("polars", raftlog.scan_polars)):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ModuleNotFoundError, match=f"install it with: pip install {package}"):
            read("topic", bootstrap="http://127.0.0.1:1")


def test_nobody_answers(free_ports):
    with pytest.raises(RetriableError, match="no broker answered within 300 ms"):
        raftlog.read_arrow("topic", bootstrap=f"http://127.0.0.1:{free_ports(1)[0]}", timeout_ms=300)


def test_a_server_that_accepts_and_does_not_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=f"no broker answered within 300 ms at {url}"):
            raftlog.read_arrow("topic", bootstrap=url, timeout_ms=300)


@pytest.mark.parametrize(
    "body", [b"<html>no</html>", b'{"error":{"code":"NOT_FOUND","message":"GET /v1/metadata: Not Found"}}']
)
def test_another_server_answers(body: bytes):
    """A controller, too, says in raftlog's own form that it does not know the path: that is no missing topic."""

    class Stranger(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            with pytest.raises(
                ConfigError, match=rf"bootstrap: the server at {url} is not a broker's public listener .* answered"
            ):
                raftlog.read_arrow("topic", bootstrap=url, timeout_ms=2_000)
        finally:
            server.shutdown()


def test_ctrl_c_ends_a_call_that_waits():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        program = f"import raftlog; raftlog.read_arrow('t', bootstrap='http://127.0.0.1:{silent.getsockname()[1]}')"
        with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as process:
            asking, _ = silent.accept()
            asked = time.monotonic()
            process.send_signal(signal.SIGINT)
            with asking:
                _, stderr = process.communicate(timeout=60)
    assert stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert time.monotonic() - asked < 3  # The attempt itself would have lasted so long.


async def test_a_child_process_reads_on_its_own(url: str, topic: str):
    program = f"""
import os, raftlog
read = lambda: raftlog.read_arrow({topic!r}, bootstrap={url!r}).num_rows
first = read()
child = os.fork()
if child == 0:
    os._exit(read())
print(first, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), read())
"""
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", program]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=60, env=os.environ, check=True
    )
    assert done.stdout.split() == ["11", "11", "11"], done.stderr
