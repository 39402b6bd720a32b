"""Reading a whole topic by one URL on a real cluster: every form, ranges, tails, and what ends a read early."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from broker_support import Http, http_to

import raftlog
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster
PARTITIONS, COUNT = 3, 3_000


@pytest.fixture
async def http(shared_cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(shared_cluster.public_url("broker-2")) as http:
        yield http


@pytest.fixture
async def topic(http: Http, shared_cluster: LocalCluster, topic_name: str) -> str:
    """Return a topic of 3 partitions, led by different brokers, with 1,000 records each."""
    await http.create(topic_name, partitions=PARTITIONS)
    async with raftlog.Producer(shared_cluster.bootstrap) as producer:
        await asyncio.gather(
            *(
                producer.send(topic_name, b'{"n": %d}' % number, partition=number % PARTITIONS)
                for number in range(COUNT)
            )
        )
    return topic_name


def path_of(topic: str, query: str = "") -> str:
    return f"/v1/topics/{topic}/records?{query}"


async def lines_of(http: Http, topic: str, query: str = "") -> list[dict[str, Any]]:
    reply = await http("GET", path_of(topic, query))
    assert reply.status == 200, reply.body
    return [orjson.loads(line) for line in reply.body.splitlines()]


async def test_a_whole_topic_in_every_form(http: Http, topic: str):
    lines = await lines_of(http, topic)
    as_json = (await http("GET", path_of(topic, "format=json"))).json
    as_csv = (await http("GET", path_of(topic, "format=csv"))).body.decode()
    arrow = pa.ipc.open_stream((await http("GET", path_of(topic, "format=arrow"))).body).read_all()
    parquet = pq.read_table(pa.py_buffer((await http("GET", path_of(topic, "format=parquet"))).body))

    expected = [(partition, offset) for partition in range(PARTITIONS) for offset in range(COUNT // PARTITIONS)]
    assert [(line["partition"], line["offset"]) for line in lines] == expected
    assert lines[5]["value"] == '{"n": 15}'
    assert as_json == lines
    assert [row["value"] for row in csv.DictReader(io.StringIO(as_csv))] == [line["value"] for line in lines]
    for table in (arrow, parquet):
        assert table.column("offset").to_pylist() == [offset for _, offset in expected]
        assert table.column("partition").to_pylist() == [partition for partition, _ in expected]
        assert [value.decode() for value in table.column("value").to_pylist()] == [line["value"] for line in lines]


async def test_parts_of_a_topic(http: Http, topic: str):
    some = await lines_of(http, topic, "partitions=2,0-1&from=0:990,2:995&until=0:992,1:2&columns=partition,offset")
    assert [(line["partition"], line["offset"]) for line in some] == [
        *((2, offset) for offset in range(995, 1_000)),
        (0, 990),
        (0, 991),
        (1, 0),
        (1, 1),
    ]
    assert list(some[0]) == ["partition", "offset"]
    assert len(await lines_of(http, topic, "max_records=1500")) == 1_500
    assert await lines_of(http, topic, "from=2100-01-01T00:00:00Z") == []
    assert len(await lines_of(http, topic, "from=2001-01-01T00:00:00Z")) == COUNT
    reply = await http("GET", path_of(topic, "until=0:3"))
    assert reply.headers["Raftlog-From"] == "0:0,1:0,2:0"
    assert reply.headers["Raftlog-Until"] == "0:3,1:1000,2:1000"


async def test_records_of_one_key(http: Http, topic_name: str):
    await http.create(topic_name)
    for key in ("a", "b", "a", None):
        await http.produce(topic_name, "x", key=key)
    assert [line["offset"] for line in await lines_of(http, topic_name, "key=a")] == [0, 2]
    assert await lines_of(http, topic_name, "key=c") == []


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("*/*", "application/x-ndjson"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "application/json"),
        ("application/json;q=0.5, text/csv;q=0.9", "text/csv"),
        ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream"),
        ("application/json;q=0, */*", "application/x-ndjson"),
    ],
)
async def test_accept_with_weights(http: Http, topic: str, accept: str, form: str):
    reply = await http("GET", path_of(topic, "max_records=1"), headers={"Accept": accept})
    assert reply.headers["Content-Type"].split(";")[0] == form


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_compressed_answers(http: Http, topic: str, coding: str):
    plain = await http("GET", path_of(topic))
    url = http.url + path_of(topic)
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(url, headers={"Accept-Encoding": f"br, {coding};q=0.5"}) as response,
    ):
        body = await response.read()
    assert response.headers["Content-Encoding"] == coding
    assert len(body) < len(plain.body) / 3
    assert pa.CompressedInputStream(pa.BufferReader(body), coding).read() == plain.body


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("format=xml", 400, "format: expected one of ndjson, json, arrow, csv, parquet, events, received 'xml'"),
        ("columns=offset,vlaue", 400, "vlaue"),
        ("columns=", 400, "column"),
        ("format=events&columns=offset,vlaue", 400, "vlaue"),
        ("format=events&columns=offset,offset", 400, "each once"),
        ("partitions=7", 404, "partitions: the topic has partitions 0 to 2, received 7"),
        ("partitions=2-1", 400, "partitions: expected numbers and spans"),
        ("partitions=0-999999999", 400, "partitions: expected at most 10000"),
        ("partitions=0-4999,0-4999,0", 400, "partitions: expected at most 10000"),
        ("partitions=²", 400, "partitions: expected numbers and spans"),
        ("from=yesterday", 400, "from: expected earliest, latest, a time in ISO 8601"),
        ("from=1700000000000", 400, "from: expected earliest, latest, a time in ISO 8601"),
        ("from=0:5,0:6", 400, "from: expected each partition once"),
        ("from=9:5", 404, "from: the topic has partitions 0 to 2, received 9"),
        ("from=0:5000", 416, "partition 0: offsets 0 to 1000 can be read, received 5000"),
        ("until=0:99999999999999999999", 400, "until: expected each partition once"),
        ("max_records=0", 400, "max_records: expected a number from 1"),
        ("follow=yes", 400, "follow: expected true or false"),
        ("follow=true&until=latest", 400, "there is no end"),
        ("follow=true&format=parquet", 400, "parquet has an end"),
        ("isolation=dirty", 400, "isolation: expected read_uncommitted or read_committed"),
        ("offset=3", 400, "unknown name 'offset'"),
        ("columns=key&columns=value", 400, "columns is repeated (key, value)"),
        ("partitions=0&partitions=1", 400, "partitions is repeated (0, 1)"),
    ],
)
async def test_what_cannot_be_meant_is_refused(http: Http, topic: str, query: str, status: int, says: str):
    reply = await http("GET", path_of(topic, query))
    assert (reply.status, says in reply.message) == (status, True), reply.body


async def test_a_topic_that_does_not_exist(http: Http):
    reply = await http("GET", path_of("nowhere"))
    assert (reply.status, reply.code) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


async def test_a_tail_tells_records_as_they_come(http: Http, topic: str, shared_cluster: LocalCluster):
    async with (
        asyncio.timeout(30),
        aiohttp.ClientSession() as session,
        session.get(http.url + path_of(topic, "follow=true&from=latest")) as response,
        raftlog.Producer(shared_cluster.bootstrap) as producer,
    ):
        for partition in (2, 0, 1):
            await producer.send(topic, b"news", partition=partition)
            told = orjson.loads(await response.content.readline())
            assert (told["partition"], told["offset"], told["value"]) == (partition, 1_000, "news")


async def test_server_sent_events_go_on_where_they_ended(http: Http, topic: str):
    accept = {"Accept": "text/event-stream"}
    query = "follow=true&partitions=0,1&from=0:998,1:999"

    async def events(count: int, **more: str) -> list[tuple[str, dict[str, Any]]]:
        found = []
        async with (
            asyncio.timeout(30),
            aiohttp.ClientSession() as session,
            session.get(http.url + path_of(topic, query), headers={**accept, **more}) as response,
        ):
            while len(found) < count:
                line = (await response.content.readline()).decode()
                if line.startswith("id: "):
                    data = (await response.content.readline()).decode()
                    found.append((line[4:].strip(), orjson.loads(data.removeprefix("data: "))))
        return found

    everything = await events(3)
    assert {(told["partition"], told["offset"]) for _, told in everything} == {(0, 998), (0, 999), (1, 999)}
    rest = await events(2, **{"Last-Event-ID": everything[0][0]})
    assert all(told in [told for _, told in everything[1:]] for _, told in rest)


async def test_lazy_readers_of_parquet_get_what_they_ask_for(http: Http, topic: str):
    path = path_of(topic, "format=parquet&from=0:10,1:0,2:500&until=0:900,1:1000,2:501")
    whole, head = await http("GET", path), await http("HEAD", path)
    size = len(whole.body)
    assert (head.status, head.headers["Content-Length"], head.headers["Accept-Ranges"]) == (200, str(size), "bytes")
    assert whole.headers["ETag"] == head.headers["ETag"]
    for text, first, last in (
        ("bytes=-8", size - 8, size - 1),
        ("bytes=0-3", 0, 3),
        ("bytes=5-", 5, size - 1),
        (f"bytes={size // 3}-{size // 2}", size // 3, size // 2),
        ("bytes=0-99999999999", 0, size - 1),
    ):
        part = await http("GET", path, headers={"Range": text})
        assert (part.status, part.headers["Content-Range"]) == (206, f"bytes {first}-{last}/{size}")
        assert part.body == whole.body[first : last + 1]
    beyond = await http("GET", path, headers={"Range": f"bytes={size}-"})
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, f"bytes */{size}")
    changed = await http("GET", path, headers={"Range": "bytes=0-3", "If-Range": '"another"'})
    assert (changed.status, changed.body) == (200, whole.body)


@pytest.mark.parametrize("form", ["parquet", "ndjson", "csv"])
async def test_a_download_of_a_fixed_range_resumes_at_any_broker(
    http: Http, topic: str, form: str, shared_cluster: LocalCluster
):
    """A reader that was cut off has asked for the whole file only."""
    path = path_of(topic, f"format={form}&from=0:10,1:0,2:500&until=0:900,1:1000,2:501")
    plain = {"Accept-Encoding": "identity"}
    whole = await http("GET", path, headers=plain)
    assert whole.headers["Accept-Ranges"] == "bytes"
    async with http_to(shared_cluster.public_url("broker-1")) as another:
        for broker in (http, another):
            rest = {**plain, "Range": "bytes=1000-", "If-Range": whole.headers["ETag"]}
            part = await broker("GET", path, headers=rest)
            assert (part.status, part.headers["ETag"]) == (206, whole.headers["ETag"])
            assert part.body == whole.body[1000:]


async def test_a_topic_that_a_dynamic_default_compacts_has_no_byte_ranges(
    http: Http, topic: str, shared_cluster: LocalCluster
):
    path = path_of(topic, "format=parquet&from=0:0,1:0,2:0&until=0:5,1:5,2:5")

    async def until_ranges_are(given: bool) -> None:
        async with asyncio.timeout(10):
            while ("Accept-Ranges" in (await http("HEAD", path)).headers) is not given:
                await asyncio.sleep(0.02)

    await until_ranges_are(True)
    async with raftlog.Admin(shared_cluster.bootstrap) as admin:
        await admin.alter_broker_configs({"cleanup_policy": "compact"})
        try:
            await until_ranges_are(False)
            assert (await http("GET", path, headers={"Range": "bytes=0-3"})).status == 200
        finally:
            await admin.alter_broker_configs({"cleanup_policy": None})
    await until_ranges_are(True)


@pytest.mark.parametrize("form", ["parquet", "ndjson", "csv"])
async def test_a_file_without_a_fixed_end_only_grows(http: Http, topic: str, form: str):
    path, plain = path_of(topic, f"format={form}"), {"Accept-Encoding": "identity"}
    unknown = await http("GET", path, headers={**plain, "Range": "bytes=5-9"})
    assert (unknown.status, "Accept-Ranges" in unknown.headers) == (200, False)
    first = await http("HEAD", path, headers=plain)
    size = int(first.headers["Content-Length"])
    some = {**plain, "Range": f"bytes=100-{size // 2}"}
    before = await http("GET", path, headers=some)
    await http.produce(topic, *(f"new {number}" for number in range(100)))
    second = await http("HEAD", path, headers=plain)
    after = await http("GET", path, headers=some)
    last = await http("GET", path, headers={**plain, "Range": "bytes=-20"})
    whole = await http("GET", path, headers={**plain, "Range": "bytes=0-"})

    assert (before.status, after.status, whole.status) == (206, 206, 206)
    assert before.body == after.body == whole.body[100 : size // 2 + 1]
    assert int(second.headers["Content-Length"]) == len(whole.body) > size
    assert last.body == whole.body[-20:]
    assert second.headers["ETag"] != first.headers["ETag"]
    if form == "parquet":
        assert pq.read_table(pa.py_buffer(whole.body)).num_rows == COUNT + 100
    else:
        assert whole.body.count(b"\n") == COUNT + 100 + (form == "csv")


async def test_a_file_whose_beginning_is_deleted_is_not_given_in_parts(http: Http, topic: str):
    path = path_of(topic, "format=parquet&partitions=0")
    assert "Content-Length" in (await http("HEAD", path)).headers
    deleted = await http("POST", f"/v1/topics/{topic}/partitions/0/delete-records", json={"before_offset": 10})
    assert deleted.status == 200, deleted.body
    assert "Content-Length" not in (await http("HEAD", path)).headers
    part = await http("GET", path, headers={"Range": "bytes=-8"})
    assert (part.status, pq.read_table(pa.py_buffer(part.body)).num_rows) == (200, COUNT // PARTITIONS - 10)


async def test_head_says_what_get_would(http: Http, topic: str):
    reply = await http("HEAD", path_of(topic, "format=arrow"))
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["Content-Type"] == "application/vnd.apache.arrow.stream"


async def test_one_partition_says_whether_there_is_more(http: Http, topic: str):
    path = f"/v1/topics/{topic}/partitions/0/records?offset="
    first, last = await http("GET", f"{path}0&max_bytes=1"), await http("GET", f"{path}999")
    assert (last.headers["Raftlog-More"], last.json["more"]) == ("false", False)
    assert first.headers["Raftlog-More"] == ("true" if first.json["next_offset"] < 1_000 else "false")
    assert first.json["more"] is (first.json["next_offset"] < 1_000)


async def test_transactions_that_were_aborted_are_left_out(http: Http, topic_name: str, shared_cluster: LocalCluster):
    await http.create(topic_name)
    async with raftlog.Producer(shared_cluster.bootstrap, transactional_id=topic_name) as producer:
        async with producer.transaction():
            await producer.send(topic_name, b"kept")
        with suppress(RuntimeError):
            async with producer.transaction():
                await producer.send(topic_name, b"aborted")
                raise RuntimeError("on purpose")
    committed = await lines_of(http, topic_name, "isolation=read_committed")
    assert [line["value"] for line in committed] == ["kept"]
    assert await lines_of(http, topic_name, "") == committed
    assert len(await lines_of(http, topic_name, "isolation=read_uncommitted")) == 2


async def test_a_topic_that_is_deleted_ends_its_tail(http: Http, topic: str):
    async with (
        asyncio.timeout(30),
        aiohttp.ClientSession() as session,
        session.get(http.url + path_of(topic, "follow=true&from=latest")) as response,
    ):
        assert (await http("DELETE", f"/v1/topics/{topic}")).status < 300
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_readers_beyond_the_limit_are_told_so(tmp_path: Path, topic_name: str):
    planned = LocalCluster(tmp_path, controllers=1, brokers=1, port=0)
    planned.configure("broker-1", broker={"max_streams": 4})
    with planned as cluster:
        async with http_to(cluster.public_url("broker-1")) as http, aiohttp.ClientSession() as session:
            await http.create(topic_name, replication_factor=1)
            url = http.url + path_of(topic_name, "follow=true")
            tails = [await session.get(url) for _ in range(2)]
            refused = await http("GET", path_of(topic_name))
            assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
            assert "reads 2 topics by URL already" in refused.message
            await http.produce(topic_name, "x")
            for tail in tails:
                tail.close()
            # Their next words find nobody; then there is room again.
            async with asyncio.timeout(30):
                while (await http("GET", path_of(topic_name))).status == 429:
                    await http.produce(topic_name, "x")


async def test_pages_of_allowed_sites_may_read_and_change_nothing(tmp_path: Path, topic_name: str):
    planned = LocalCluster(tmp_path, controllers=1, brokers=1, port=0)
    planned.configure("broker-1", listeners={"cors_origins": ["https://app.example.org"]})
    page = {"Origin": "https://app.example.org", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
    with planned as cluster:
        async with http_to(cluster.public_url("broker-1")) as http:
            await http.create(topic_name, replication_factor=1)
            await http.produce(topic_name, "x")
            path = path_of(topic_name)
            read = await http("GET", path, headers=page)
            asked = await http("OPTIONS", path, headers={**page, "Access-Control-Request-Method": "GET"})
            wrong = await http("GET", path_of(topic_name, "format=xml"), headers=page)
            stranger = await http("GET", path, headers={**page, "Origin": "https://evil.example.org"})
            records = {"records": [{"value": "y"}]}
            changes = [
                await http("POST", path, json=records, headers=page),
                await http("DELETE", f"/v1/topics/{topic_name}", headers=page),
                await http("GET", "/v1/topics", headers=page),
                await http("OPTIONS", "/v1/topics", headers=page),
            ]
            assert await http.end(topic_name) == 1

    assert (read.status, orjson.loads(read.body)["value"]) == (200, "x")
    for reply in (read, asked, wrong):
        assert reply.headers["Access-Control-Allow-Origin"] == "https://app.example.org"
    assert (asked.status, wrong.status, stranger.status, stranger.code) == (204, 400, 403, "FOREIGN_ORIGIN")
    assert [reply.status for reply in changes] == [403] * 4
    assert all("Access-Control-Allow-Origin" not in reply.headers for reply in (stranger, *changes))
