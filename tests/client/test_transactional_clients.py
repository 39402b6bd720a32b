"""Transactions on a real cluster: everything or nothing, across partitions, topics, time-outs and zombies."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pyarrow as pa
import pytest

import raftlog
from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import (
    ConfigError,
    ErrorCode,
    FencedError,
    InvalidRequestError,
    TransactionAbortedError,
    UnknownOutcomeError,
)
from raftlog.model import Isolation

pytestmark = pytest.mark.cluster


@pytest.fixture
def url(shared_cluster: LocalCluster) -> str:
    return shared_cluster.bootstrap


@pytest.fixture
def name() -> str:
    return f"id-{uuid.uuid4().hex[:8]}"


async def create(url: str, topic: str, partitions: int = 1) -> None:
    async with Admin(url) as admin:
        await admin.create_topic(topic, partitions=partitions, replication_factor=3)


async def read(url: str, *topics: str, isolation: Isolation = "read_committed") -> list[str]:
    """Read to the end, as isolation has it; partitions one after another."""
    async with Consumer(url, *topics, start="earliest", isolation=isolation) as consumer:
        found = []
        for partition, end in (await consumer.end_offsets()).items():
            while consumer.position(*partition) < end:
                found += await consumer.fetch()
        return sorted((record.value or b"").decode() for record in found)


async def decided(url: str, topic: str, expected: list[str]) -> None:
    """Wait until readers of committed records find `expected`: markers follow a commit."""
    async with asyncio.timeout(10):
        while await read(url, topic) != expected:
            await asyncio.sleep(0.02)


async def test_a_transaction_counts_as_a_whole_or_not_at_all(url: str, topic_name: str, name: str):
    other = f"{topic_name}-b"
    await create(url, topic_name, 3)
    await create(url, other)
    async with Producer(url, transactional_id=name) as producer:
        async with producer.transaction():
            for partition in range(3):
                await producer.send(topic_name, b"one", partition=partition)
            producer.send_nowait(other, b"one")
            assert await read(url, topic_name, other) == []
            assert await read(url, topic_name, isolation="read_uncommitted") == ["one"] * 3
        with pytest.raises(RuntimeError, match="out of paper"):  # noqa: PT012
            async with producer.transaction():
                await producer.send(topic_name, b"two", partition=0)
                raise RuntimeError("out of paper")
        async with producer.transaction():
            await producer.send_many(topic_name, [b"three"] * 5)

    await decided(url, topic_name, ["one"] * 3 + ["three"] * 5)
    await decided(url, other, ["one"])
    assert "two" in await read(url, topic_name, isolation="read_uncommitted")


async def test_every_form_of_reading_leaves_out_what_was_aborted(url: str, topic_name: str, name: str):
    import aiohttp  # noqa: PLC0415

    await create(url, topic_name)
    async with Producer(url, transactional_id=name) as producer:
        async with producer.transaction():
            await producer.send(topic_name, b"good")
        with pytest.raises(ValueError, match="bad"):  # noqa: PT012
            async with producer.transaction():
                await producer.send(topic_name, b"bad")
                raise ValueError("bad")
        async with producer.transaction():
            await producer.send(topic_name, b"better")
    await decided(url, topic_name, ["better", "good"])

    async with Consumer(url, topic_name, start="earliest", isolation="read_committed") as consumer:
        tables = []
        while consumer.position(topic_name, 0) < 6:
            tables.append(await consumer.fetch_arrow())
    assert pa.concat_tables(tables).column("offset").to_pylist() == [0, 4]

    base = f"{url.split(',', maxsplit=1)[0]}/v1/topics/{topic_name}/partitions/0/records?offset=0&isolation="
    async with aiohttp.ClientSession() as session:

        async def get(isolation: str, accept: str) -> tuple[bytes, str]:
            async with session.get(base + isolation, headers={"Accept": accept}) as response:
                assert response.status == 200, await response.text()
                return await response.read(), response.headers["Raftlog-Next-Offset"]

        for isolation, offsets in (("read_committed", [0, 4]), ("read_uncommitted", [0, 2, 4])):
            stream, following = await get(isolation, "application/vnd.apache.arrow.stream")
            assert pa.ipc.open_stream(stream).read_all().column("offset").to_pylist() == offsets
            lines, _ = await get(isolation, "application/x-ndjson")
            assert lines.count(b"\n") == len(offsets)
            raw, _ = await get(isolation, "application/vnd.raftlog.batches")
            found = raftlog.record.read_records(raw, topic="t", partition=0)  # type: ignore[attr-defined]
            assert ([record.offset for record in found], following) == (offsets, "6")
        refused = await session.get(base + "read_half")
        assert (await refused.json())["error"]["code"] == "INVALID_REQUEST"


async def test_a_second_producer_fences_the_first_and_aborts_what_it_left(url: str, topic_name: str, name: str):
    await create(url, topic_name)
    async with Producer(url, transactional_id=name) as zombie, Producer(url, transactional_id=name) as heir:
        with pytest.raises(FencedError) as fenced:  # noqa: PT012
            async with zombie.transaction():
                await zombie.send(topic_name, b"left behind")
                async with heir.transaction():
                    await heir.send(topic_name, b"inherited")
                await asyncio.sleep(0)
        assert fenced.value.code is ErrorCode.PRODUCER_FENCED
        with pytest.raises(FencedError, match="close this one"):
            async with zombie.transaction():
                pass
        async with heir.transaction():
            await heir.send(topic_name, b"and more")
    await decided(url, topic_name, ["and more", "inherited"])


async def test_who_takes_an_id_over_reads_what_was_committed_under_it(url: str, topic_name: str, name: str):
    await create(url, topic_name, partitions=8)
    expected = []
    for turn in range(8):
        async with Producer(url, transactional_id=name) as before, Producer(url, transactional_id=name) as heir:
            async with before.transaction():
                for partition in range(8):
                    before.send_nowait(topic_name, f"{turn}-{partition}".encode(), partition=partition)
                    expected.append(f"{turn}-{partition}")
            left = before.transaction()
            await left.__aenter__()
            await before.send(topic_name, b"left behind")
            first, second = await asyncio.gather(
                heir.init_transactions(), heir.init_transactions(), return_exceptions=True
            )

            assert (first, type(second)) == (None, RuntimeError)  # Nobody takes half of it for all.
            assert await read(url, topic_name) == sorted(expected)
            with pytest.raises(FencedError, match="close this one"):
                await left.__aexit__(None, None, None)
            with pytest.raises(FencedError, match="close this one"):
                await before.init_transactions()
            async with heir.transaction():
                heir.send_nowait(topic_name, b"inherited")
                await heir.init_transactions()  # It has the id: nothing changes.
            expected.append("inherited")


async def test_a_commit_that_another_producer_followed_before_it_was_answered_is_unknown(
    url: str, topic_name: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    """It counts here: "fenced, so nothing of it counts" would have it written once more. Seed 269 of the simulation."""
    await create(url, topic_name)
    async with Producer(url, transactional_id=name) as first, Producer(url, transactional_id=name) as second:
        assert first._gate.transactions is not None
        link = first._gate.transactions._link
        call = link.call

        async def lose_the_answer(*question: Any, **options: Any) -> object:
            monkeypatch.setattr(link, "call", call)
            await call(*question, **options)
            async with second.transaction():
                await second.send(topic_name, b"second")
            raise UnknownOutcomeError("the answer was lost")

        with pytest.raises(UnknownOutcomeError, match="before another producer took over"):  # noqa: PT012
            async with first.transaction():
                await first.send(topic_name, b"first")
                monkeypatch.setattr(link, "call", lose_the_answer)
        with pytest.raises(FencedError, match="close this one"):
            async with first.transaction():
                pass
    await decided(url, topic_name, ["first", "second"])


async def test_a_commit_that_is_refused_after_an_attempt_without_an_answer_is_unknown(
    url: str, topic_name: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    """The attempt has committed. "Aborted, run it again" would have it written once more."""
    await create(url, topic_name)
    async with Producer(url, transactional_id=name) as producer:
        assert producer._gate.transactions is not None
        link = producer._gate.transactions._link
        call = link.call

        async def refuse(*_: Any, **options: Any) -> object:
            monkeypatch.setattr(link, "call", call)
            raise InvalidRequestError("refused", code=ErrorCode.INVALID_TXN_STATE)

        async def lose_the_answer(*question: Any, **options: Any) -> object:
            monkeypatch.setattr(link, "call", refuse)
            await call(*question, **options)
            raise UnknownOutcomeError("the answer was lost")

        with pytest.raises(UnknownOutcomeError, match=r"may be committed or not.*refused"):  # noqa: PT012
            async with producer.transaction():
                await producer.send(topic_name, b"first")
                monkeypatch.setattr(link, "call", lose_the_answer)
        async with producer.transaction():
            await producer.send(topic_name, b"second")
    await decided(url, topic_name, ["first", "second"])


async def test_a_transaction_that_takes_too_long_is_aborted_and_the_producer_goes_on(
    url: str, topic_name: str, name: str
):
    await create(url, topic_name)
    async with Producer(url, transactional_id=name, transaction_timeout_ms=300) as producer:
        with pytest.raises(TransactionAbortedError, match="run it again"):  # noqa: PT012
            async with producer.transaction():
                await producer.send(topic_name, b"slow")
                while await read(url, topic_name) == [] and await stable(url, topic_name) < 2:
                    await asyncio.sleep(0.05)
        async with producer.transaction():
            await producer.send(topic_name, b"fast")
    await decided(url, topic_name, ["fast"])


async def stable(url: str, topic: str) -> int:
    async with Consumer(url, topic, isolation="read_committed") as consumer:
        return (await consumer.end_offsets())[raftlog.TopicPartition(topic, 0)]


async def test_a_record_that_cannot_be_stored_aborts_its_transaction(url: str, topic_name: str, name: str):
    await create(url, topic_name)
    async with Producer(url, transactional_id=name) as producer:
        with pytest.raises(TransactionAbortedError, match="max_message_bytes"):  # noqa: PT012
            async with producer.transaction():
                producer.send_nowait(topic_name, b"fine")
                producer.send_nowait(topic_name, bytes(9 << 20))
        with pytest.raises(TransactionAbortedError):
            async with producer.transaction():
                producer.send_nowait(f"{topic_name}-missing", b"nowhere")
        with pytest.raises(InvalidRequestError, match="has partitions 0 to 0"):
            async with producer.transaction():
                await producer.send(topic_name, b"outside", partition=3)
        async with producer.transaction():
            await producer.send(topic_name, b"stored")
    await decided(url, topic_name, ["stored"])


async def test_transactions_are_used_as_they_must_be(url: str, topic_name: str, name: str):
    await create(url, topic_name)
    async with Producer(url) as plain:
        with pytest.raises(ConfigError, match="transactional_id"):
            plain.transaction()
        with pytest.raises(ConfigError, match="transactional_id"):
            await plain.init_transactions()
    with pytest.raises(ConfigError, match="needs acks='all'"):
        Producer(url, transactional_id=name, acks=1)
    with pytest.raises(ConfigError, match="isolation"):
        Consumer(url, topic_name, isolation="half")  # type: ignore[arg-type]
    async with Producer(url, transactional_id=name) as producer:
        with pytest.raises(RuntimeError, match="within 'async with"):
            await producer.send(topic_name, b"outside")
        async with producer.transaction():
            await producer.send(topic_name, b"x")
            with pytest.raises(RuntimeError, match="one transaction at a time"):
                async with producer.transaction():
                    pass
        async with producer.transaction():
            pass  # Nothing was sent: nothing is asked.
    async with Producer(url, transactional_id=name, transaction_timeout_ms=10**9) as producer:
        with pytest.raises(InvalidRequestError, match="transaction_max_timeout_ms"):
            async with producer.transaction():
                pass
    await decided(url, topic_name, ["x"])


async def test_a_cancelled_or_abandoned_transaction_is_aborted(url: str, topic_name: str, name: str):
    await create(url, topic_name)
    async with Producer(url, transactional_id=name) as producer:
        with pytest.raises(TimeoutError):  # noqa: PT012
            async with asyncio.timeout(0.5), producer.transaction():
                await producer.send(topic_name, b"cancelled")
                await asyncio.Event().wait()
        async with producer.transaction():
            await producer.send(topic_name, b"kept")
        await producer.transaction().__aenter__()
        await producer.send(topic_name, b"abandoned")
    async with asyncio.timeout(10):
        while await stable(url, topic_name) < 6:
            await asyncio.sleep(0.02)
    assert await read(url, topic_name) == ["kept"]


@pytest.mark.parametrize("flush", [True, False])
@pytest.mark.parametrize("has_sent", [True, False])
async def test_a_close_within_the_block_is_no_commit(url: str, topic_name: str, name: str, flush: bool, has_sent: bool):
    """The application drops the record's outcome, so the end of the block has to tell of it."""
    await create(url, topic_name)
    producer = Producer(url, transactional_id=name, linger_ms=60_000)
    with pytest.raises(TransactionAbortedError, match="closed before the block had committed"):  # noqa: PT012
        async with producer.transaction():
            if has_sent:
                producer.send_nowait(topic_name, b"sent")
                await producer.flush()
            producer.send_nowait(topic_name, b"dropped")
            await producer.close(flush=flush)
    if flush:
        assert await read(url, topic_name) == []


async def test_a_close_while_the_block_commits_leaves_no_part_of_it(url: str, topic_name: str, name: str):
    await create(url, topic_name)
    producer = Producer(url, transactional_id=name, linger_ms=60_000, batch_bytes=1_000, max_in_flight=1)
    async with producer.transaction():
        producer.send_nowait(topic_name, b"whole")

    async def run() -> list[str]:
        async with producer.transaction():
            sent = [producer.send_nowait(topic_name, b"%03d" % number * 100) for number in range(40)]
        return [str(await each) for each in sent]

    running = asyncio.ensure_future(run())
    while not producer.metrics().records_acknowledged > 1:
        await asyncio.sleep(0)
    await producer.close()
    with pytest.raises(TransactionAbortedError, match="the producer was closed"):
        await running
    await decided(url, topic_name, ["whole"])
