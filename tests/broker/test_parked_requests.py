"""Requests that wait inside a broker: bounded, and removed when their client hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from broker_support import Http, Reply, http_to

from raftlog.broker.http import MAX_FETCHED_PARTITIONS, WIDE_FETCH, ParkedFetches
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import OverloadedError
from raftlog.wire import media
from raftlog.wire.codec import encode_frame
from raftlog.wire.data import MAX_REQUEST_PARTITIONS, ProducePartition, ProduceRequest

pytestmark = pytest.mark.cluster
WAIT = "max_wait_ms=25000"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker that serves four requests at once: three of them may wait for records."""
    planned = LocalCluster(Path(tmp_path_factory.mktemp("parked")), controllers=1, brokers=1, port=0)
    planned.configure("broker-1", broker={"max_inflight_requests": 4})
    with planned as running:
        yield running


async def park(http: Http, topic: str, count: int) -> tuple[list[asyncio.Task[Reply]], Reply]:
    """Park fetches at the log's end until one is refused; return them, and the refusal."""
    path = f"/v1/topics/{topic}/partitions/0/records?offset=0&{WAIT}"
    tasks = {asyncio.create_task(http("GET", path)) for _ in range(count + 1)}
    async with asyncio.timeout(10):
        done, parked = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    (refused,) = done
    return list(parked), refused.result()


async def test_waiting_fetches_leave_room_for_producers(cluster: LocalCluster, topic_name: str):
    async with http_to(cluster.public_url("broker-1")) as http:
        await http.create(topic_name, replication_factor=1)
        parked, refused = await park(http, topic_name, 3)
        assert (refused.status, refused.code) == (429, "THROTTLING_QUOTA_EXCEEDED")
        assert "3 fetches are waiting" in refused.message
        at_once = await http("GET", f"/v1/topics/{topic_name}/partitions/0/records?offset=0")
        assert at_once.status == 200
        assert (await http.produce(topic_name, "x")).status == 200
        async with asyncio.timeout(10):
            replies = await asyncio.gather(*parked)

    assert [[record["value"] for record in reply.json["records"]] for reply in replies] == [["x"]] * 3


async def test_who_hangs_up_waits_no_longer(cluster: LocalCluster, topic_name: str):
    async with http_to(cluster.public_url("broker-1")) as http:
        await http.create(topic_name, replication_factor=1)
        parked, _ = await park(http, topic_name, 3)
        for task in parked:
            task.cancel()
        await asyncio.gather(*parked, return_exceptions=True)
        path = f"/v1/topics/{topic_name}/partitions/0/records?offset=0&max_wait_ms=1"
        async with asyncio.timeout(10):  # Far less than they would have waited.
            while (await http("GET", path)).status != 200:
                await asyncio.sleep(0.01)


def test_wide_fetches_name_a_bounded_number_of_partitions_in_all():
    """64 of 10,000 partitions took 480 MB, and Python's collector 340 ms to walk through."""
    parked = ParkedFetches(max_requests=1_000)
    with ExitStack() as stack:
        for number in range(MAX_FETCHED_PARTITIONS // MAX_REQUEST_PARTITIONS):
            stack.enter_context(parked.waiting(number % 2, MAX_REQUEST_PARTITIONS))
        for wait_ms in (0, 1_000):
            with pytest.raises(OverloadedError, match=r"160,000 partitions in all.*this one has 129"):
                stack.enter_context(parked.waiting(wait_ms, WIDE_FETCH + 1))
        stack.enter_context(parked.waiting(1_000, WIDE_FETCH))
    with parked.waiting(1_000, MAX_REQUEST_PARTITIONS):
        assert (parked.count, parked.partitions) == (1, MAX_REQUEST_PARTITIONS)
    assert (parked.count, parked.partitions) == (0, 0)


async def test_a_request_names_no_more_partitions_than_are_served(cluster: LocalCluster, topic_name: str):
    many = MAX_REQUEST_PARTITIONS + 1
    async with http_to(cluster.public_url("broker-1")) as http:
        named = [{"topic": topic_name, "partition": 0, "offset": 0}] * many
        fetch = await http("POST", "/v1/fetch", json={"partitions": named})
        head = ProduceRequest(partitions=(ProducePartition(topic=topic_name, partition=0, length=0),) * many)
        body = b"".join(bytes(piece) for piece in encode_frame(head))
        produce = await http("POST", "/v1/produce", data=body, headers={"Content-Type": media.FRAME})

    assert [reply.code for reply in (fetch, produce)] == ["INVALID_REQUEST"] * 2
    assert f"expected at most {MAX_REQUEST_PARTITIONS}, received {many}" in fetch.message
