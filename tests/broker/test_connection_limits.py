"""Unused connections: a listener bounds them, in all and for each address, and the broker continues."""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest

from raftlog import Admin, Producer
from raftlog.cli.launcher import Launcher
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import OverloadedError
from raftlog.serving.connections import ConnectionLimits

FEW_FILES = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))
os.execv({sys.executable!r}, [{sys.executable!r}, "-m", "raftlog", "server", "start", *sys.argv[1:]])
"""


async def test_connections_are_counted_in_all_and_by_address(caplog: pytest.LogCaptureFixture):
    limits = ConnectionLimits("public", total=3, per_address=2)
    limits.enter("a")
    limits.enter("a")
    with caplog.at_level(logging.WARNING), pytest.raises(OverloadedError, match="a has 2 connections to this node"):
        limits.enter("a")
    limits.enter("b")
    with pytest.raises(OverloadedError, match="this node has 3 connections, the most allowed is 3"):
        limits.enter("c")
    limits.leave("a")
    limits.enter("c")
    assert (limits.size, limits.refused) == (3, 2)
    for address in "abc":
        limits.leave(address)
    assert (limits.size, dict(limits._from)) == (0, {})
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1


async def test_a_few_addresses_leave_room_for_others():
    """Two addresses used to take every connection."""
    limits, taken = ConnectionLimits("public", total=1_000, per_address=800), Counter[str]()

    def take_all(address: str) -> None:
        while True:
            limits.enter(address)
            taken[address] += 1

    for address in "abcd":
        with pytest.raises(OverloadedError, match="as many as are left for all others"):
            take_all(address)
    assert taken == {"a": 500, "b": 250, "c": 125, "d": 63}
    for number in range(60):
        limits.enter(f"another-{number}")
    for address, count in taken.items():  # They get their connections again once others are closed.
        for _ in range(count):
            limits.leave(address)
    for _ in range(400):
        limits.enter("d")


async def test_many_refusals_are_one_line_of_the_log(caplog: pytest.LogCaptureFixture):
    limits = ConnectionLimits("public", total=0, per_address=1)
    with caplog.at_level(logging.WARNING):
        for _ in range(10_000):
            with pytest.raises(OverloadedError):
                limits.enter("a")
    assert [record.message for record in caplog.records] == [
        (
            "public listener: 1 connections refused, the last one because this node has 0 connections, the most "
            "allowed is 0"
        )
    ]


@pytest.mark.cluster
@pytest.mark.timeout(120)
async def test_idle_connections_take_no_brokers_files(tmp_path: Path, topic_name: str):
    """More connections than the process may have files; then topics are created, which need files of their own."""
    launcher = Launcher((sys.executable, "-c", FEW_FILES))
    with (
        LocalCluster(tmp_path, port=0, controllers=1, brokers=1, launcher=launcher) as cluster,
        ExitStack() as held,
    ):
        node = cluster.node("broker-1")
        assert node.public is not None
        strangers = []
        for number in range(600):
            strangers.append(held.enter_context(socket.create_connection(node.public[:2], timeout=5)))
            if number % 2:  # Half of them begin a request that aiohttp reads.
                strangers[-1].sendall(b"GET /v1/topics HTTP/1.1\r\nX-Never: ends")
        assert refused(strangers, at_least=550) >= 550

        honest = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
        async with aiohttp.ClientSession(connector=honest) as session:
            for number in range(20):
                body = {"topic": f"{topic_name}-{number}", "partitions": 3, "replication_factor": 1}
                async with session.post(f"http://{node.public}/v1/topics", json=body) as answer:
                    assert answer.status == 201, await answer.text()
        held.close()
        async with Producer(cluster.bootstrap) as producer:
            sent = await asyncio.gather(*(producer.send(f"{topic_name}-{number}", b"x") for number in range(20)))
        assert len(sent) == 20
        assert cluster.running() == cluster.names
        log = (tmp_path / "broker-1" / "log.txt").read_text()
        assert len(log) < 100_000
        assert "connections refused" in log


def refused(connections: list[socket.socket], *, at_least: int) -> int:
    """Wait until so many connections were answered 503, or closed, and return how many were."""
    waiting, count, deadline = set(connections), 0, time.monotonic() + 20
    poll = select.poll()
    by_descriptor = {connection.fileno(): connection for connection in waiting}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    while count < at_least and time.monotonic() < deadline:
        for descriptor, _ in poll.poll(100):
            poll.unregister(descriptor)
            try:
                said = by_descriptor[descriptor].recv(1_000)
            except OSError:
                said = b""
            assert not said or said.startswith(b"HTTP/1.1 503 ")
            count += 1
    return count


@pytest.mark.cluster
@pytest.mark.timeout(120)
async def test_one_address_cannot_shut_others_out(tmp_path: Path, topic_name: str):
    extra = {"broker-1": {"broker": {"max_connections_per_address": 20}}}
    with LocalCluster(tmp_path, port=0, controllers=1, brokers=1, extra=extra) as cluster, ExitStack() as held:
        node = cluster.node("broker-1")
        assert node.public is not None
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic(topic_name, replication_factor=1)
        for _ in range(60):
            held.enter_context(socket.create_connection(node.public[:2], timeout=5))
        async with aiohttp.ClientSession() as session:
            with pytest.raises((aiohttp.ClientError, AssertionError)):
                async with session.get(f"http://{node.public}/v1/topics") as answer:
                    assert answer.status == 200
        honest = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
        async with aiohttp.ClientSession(connector=honest) as session:
            records = {"records": [{"value": "from elsewhere"}]}
            async with session.post(f"http://{node.public}/v1/topics/{topic_name}/records", json=records) as answer:
                assert answer.status == 200, await answer.text()
