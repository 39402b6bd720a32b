"""A broker that hangs keeps its connections open: clients learn from the others that it leads no more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client.connection import Connection
from raftlog.errors import RetriableError, UnknownOutcomeError, UnreachableError
from raftlog.model import Address, TopicPartition

PATIENT_MS = 120_000
HUNG, OTHER = Address("127.0.0.1", 1), Address("127.0.0.1", 2)


@pytest.mark.cluster
async def test_who_writes_and_reads_goes_on_with_the_next_leader_long_before_its_time_is_up(tmp_path: Path):
    with LocalCluster(tmp_path / "c", controllers=1, port=0) as cluster:
        url = cluster.bootstrap
        async with Admin(url) as admin:
            topic = await admin.create_topic("t", partitions=1, replication_factor=3)
        async with (
            Admin(url, timeout_ms=PATIENT_MS) as admin,
            Producer(url, request_timeout_ms=PATIENT_MS, delivery_timeout_ms=PATIENT_MS) as producer,
            Consumer(url, "t", start="earliest", request_timeout_ms=PATIENT_MS) as consumer,
        ):
            await producer.send("t", b"before")
            assert [record.value for record in await consumer.fetch()] == [b"before"]
            hung = f"broker-{topic.partitions[0].leader}"
            cluster.pause(hung)
            try:
                async with asyncio.timeout(PATIENT_MS / 4000):
                    sent = await producer.send("t", b"meanwhile")
                    assert [record.value for record in await consumer.fetch(max_wait_ms=PATIENT_MS)] == [b"meanwhile"]
                    assert await admin.list_offsets("t") is not None
            finally:
                cluster.resume(hung)
        assert sent.offset == 1


@pytest.fixture
async def connection():
    client = Connection([f"http://{HUNG}", f"http://{OTHER}"], timeout_ms=PATIENT_MS)
    yield client
    await client.close()


def led_by(connection: Connection, **leaders: int) -> None:
    """Have the client believe in leaders of partition 0 of some topics."""
    connection._brokers = {1: HUNG, 2: OTHER}
    for topic, leader in leaders.items():
        connection._topics[topic] = SimpleNamespace(partitions=[SimpleNamespace(leader=leader)])  # type: ignore[assignment]


async def given_up(connection: Connection, *topics: str) -> bool:
    """Wait for the hung broker's answer; tell whether that was given up, rather than waited for to its end."""
    try:
        async with connection.while_leading(HUNG, [TopicPartition(topic, 0) for topic in topics], patience_s=0):
            await asyncio.sleep(0.3)
    except UnknownOutcomeError as error:
        assert "no longer leads any of the requested partitions" in str(error)  # noqa: PT017
        return True
    return False


async def test_a_question_is_given_up_once_others_lead_all_that_it_is_about(connection: Connection):
    led_by(connection, moved=2, stays=1, orphan=-1)
    with mock.patch.object(connection, "refresh", mock.AsyncMock(side_effect=RetriableError("nobody answers"))):
        assert await given_up(connection, "moved")
        assert not await given_up(connection, "moved", "stays")
        assert not await given_up(connection, "orphan")
        assert not await given_up(connection)


@pytest.fixture
def asked(connection: Connection):
    """The addresses of the client's requests, in order; those in `silent` do not answer."""
    order = Asked()

    async def call(_: type, __: str, address: Address, *___: Any, **____: Any) -> str:
        order.append(address)
        if address in order.silent:
            raise UnknownOutcomeError("no answer")
        return "answer"

    with mock.patch.object(connection.session, "call", call):
        yield order


class Asked(list[Address]):
    def __init__(self) -> None:
        self.silent = {HUNG}


async def test_who_did_not_answer_is_asked_last(connection: Connection, asked: Asked):
    led_by(connection)
    for _ in range(8):
        assert await connection.ask_any(str, "GET", "/") == "answer"
    assert asked.count(HUNG) <= 1


async def test_of_all_who_did_not_answer_the_last_one_is_asked_last(connection: Connection, asked: Asked):
    """Brokers that were killed and are back must not be taken for worse than the one that hangs now."""
    led_by(connection)
    connection._avoid(OTHER)
    await asyncio.sleep(0.01)
    connection._avoid(HUNG)
    for _ in range(8):
        assert await connection.ask_any(str, "GET", "/") == "answer"
    assert HUNG not in asked


async def test_who_answers_is_asked_in_turn_again(connection: Connection, asked: Asked):
    led_by(connection)
    connection._avoid(HUNG)
    await asyncio.sleep(0.01)
    connection._avoid(OTHER)
    asked.silent = set()
    for _ in range(8):
        assert await connection.ask_any(str, "GET", "/") == "answer"
    assert asked[0] == HUNG
    assert OTHER not in asked


@pytest.mark.parametrize(
    ("method", "error", "beginning"),
    [
        ("POST", UnknownOutcomeError, ""),
        # A read has no outcome to know. No broker has answered yet, so the bootstrap URLs are named.
        ("GET", UnreachableError, "no broker answered within 300 ms at http://127.0.0.1:1 (bootstrap): "),
    ],
)
async def test_when_time_is_up_the_error_says_why_the_attempt_before_failed(
    method: str, error: type[Exception], beginning: str
):
    connection = Connection("http://127.0.0.1:1", timeout_ms=300)
    answers = iter([UnreachableError("cannot connect"), UnknownOutcomeError("no answer within 34 ms")])

    async def call(*_: Any, timeout_ms: int, **__: Any) -> str:
        failure = next(answers)
        if isinstance(failure, UnknownOutcomeError):
            await asyncio.sleep(timeout_ms / 1000)
        raise failure

    with mock.patch.object(connection.session, "call", call), pytest.raises(error) as raised:
        await connection.ask_any(str, method, "/")
    await connection.close()

    assert str(raised.value).startswith(beginning)
    assert str(raised.value).endswith("no answer within 34 ms; before that: cannot connect")
