"""Requests about groups with as many entries as a body has space for: refused before any work with them."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_support import http_to

from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster
from raftlog.coordinator.group.classic_protocols import MAX_OWNED
from raftlog.coordinator.group.offsets import MAX_OFFSETS
from tests.broker.stall_support import require_no_stall_each_time

pytestmark = pytest.mark.cluster
BODY_BYTES = 2_000_000
NUMBERS = ",".join(["1"] * (BODY_BYTES // 2))
DIFFERENT = ",".join(map(str, range(280_000)))
NAMES = ",".join(f'"{number}"' for number in range(BODY_BYTES // 9))
OFFSETS = ",".join(f'{{"topic":"{number}","partition":0,"offset":0}}' for number in range(BODY_BYTES // 45))
EMPTY = ",".join(f'{{"topic":"{number}","partitions":[]}}' for number in range(BODY_BYTES // 35))
MEMBER = '"member_id":"m","member_epoch":1'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with LocalCluster(tmp_path_factory.mktemp("groups"), controllers=1, brokers=1, port=0) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.find_coordinator("group", "g")
        yield cluster


async def post(cluster: LocalCluster, path: str, body: str) -> tuple[int, str]:
    async with http_to(cluster.bootstrap) as http:
        while True:
            reply = await http(
                "POST", path, data=io.BytesIO(body.encode()), headers={"Content-Type": "application/json"}
            )
            if reply.status != 503:  # The coordinator is loading.
                return reply.status, reply.body.decode()


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/offsets/fetch", f'{{"partitions":[{{"topic":"t","partitions":[{NUMBERS}]}}]}}', "10000 partitions"),
        ("/offsets/fetch", f'{{"partitions":[{{"topic":"t","partitions":[{DIFFERENT}]}}]}}', "10000 partitions"),
        ("/offsets/fetch", f'{{"partitions":[{EMPTY}]}}', "10000 partitions"),
        ("/offsets/delete", f'{{"partitions":[{{"topic":"t","partitions":[{DIFFERENT}]}}]}}', "10000 partitions"),
        ("/offsets/delete", f'{{"partitions":[{EMPTY}]}}', "10000 partitions"),
        ("/offsets", f'{{"offsets":[{OFFSETS}]}}', "10000 partitions"),
        (
            "/heartbeat",
            f'{{{MEMBER},"owned":[{{"topic":"t","partitions":[{DIFFERENT}]}}]}}',
            f"owned: expected at most {MAX_OWNED}",
        ),
        ("/heartbeat", f'{{{MEMBER},"topics":[{NAMES}]}}', "topics: expected at most 10000"),
    ],
    ids=["fetch", "fetch different", "fetch empty", "delete", "delete empty", "commit", "owned", "topics"],
)
def test_what_has_too_many_entries_is_refused_before_any_work(
    cluster: LocalCluster, stall_file: Path, path: str, body: str, says: str
):
    def send() -> None:
        status, message = asyncio.run(post(cluster, f"/v1/groups/g{path}", body))
        assert status == 400, message
        assert says in message

    require_no_stall_each_time(stall_file, send)


def test_as_many_entries_as_allowed_hold_no_event_loop(cluster: LocalCluster, stall_file: Path):
    numbers = ",".join(map(str, range(MAX_OFFSETS)))
    owned = ",".join(map(str, range(MAX_OWNED)))
    names = ",".join(f'"{number}"' for number in range(10_000))
    for path, body, expected in (
        ("/offsets/fetch", f'{{"partitions":[{{"topic":"t","partitions":[{numbers}]}}]}}', 200),
        ("/heartbeat", f'{{{MEMBER},"owned":[{{"topic":"t","partitions":[{owned}]}}]}}', 409),
        ("/heartbeat", f'{{{MEMBER},"topics":[{names}]}}', 409),
    ):

        def send(path: str = path, body: str = body, expected: int = expected) -> None:
            assert asyncio.run(post(cluster, f"/v1/groups/g{path}", body))[0] == expected

        require_no_stall_each_time(stall_file, send)
