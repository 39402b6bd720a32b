"""Commits of offsets whose topic was deleted and created again: they do not move the group in the new topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client.core.epochs_read import EpochsRead
from raftlog.client.group_commits import GroupCommits
from raftlog.client.metrics import GroupCounters
from raftlog.client.offsets import OffsetAndMetadata
from raftlog.client.recreated_topics import require_present
from raftlog.errors import ErrorCode, NotFoundError, StaleRouteError
from raftlog.model import TopicPartition
from raftlog.runtime import Tasks
from raftlog.wire.codec import decode_json, encode_json
from raftlog.wire.errors import WireError
from raftlog.wire.groups import CommitOffset, OffsetCommitRequest, OffsetResult, OffsetResults, commit_message
from raftlog.wire.metadata import COMMITS_BY_TOPIC_ID
from raftlog.wire.transactions import TransactionOffsetsBody

OLD, NEW = "0" * 32, "f" * 32
COUNT = 20


async def fill(url: str, topic: str, count: int) -> None:
    async with Admin(url) as admin, Producer(url) as producer:
        await admin.create_topic(topic, partitions=1, replication_factor=3)
        await producer.send_many(topic, [b"%d" % number for number in range(count)])


async def create_again(url: str, topic: str, count: int) -> None:
    """Delete the topic and create it again; its new records are as many."""
    async with Admin(url) as admin:
        await admin.delete_topic(topic)
    await fill(url, topic, count)


@pytest.fixture
async def url(shared_cluster: LocalCluster, topic_name: str) -> str:
    """Return where a cluster is that has `COUNT` records in the topic's partition 0."""
    await fill(shared_cluster.bootstrap, topic_name, COUNT)
    return shared_cluster.bootstrap


@pytest.fixture
async def reader(url: str, topic_name: str) -> AsyncIterator[Consumer]:
    """Return a member that has read the first 15 records, and has committed nothing."""
    consumer = Consumer(
        url, topic_name, group_id=topic_name, auto_offset_reset="earliest", enable_auto_commit=False, security=None
    )
    async with consumer:
        assert len(await consumer.fetch(max_records=15, max_wait_ms=10_000)) == 15
        yield consumer


async def first_of_next_member(url: str, group: str) -> int:
    """Return where the group's next member begins."""
    async with Consumer(url, group, group_id=group, auto_offset_reset="earliest") as consumer:
        return (await consumer.fetch(max_records=1, max_wait_ms=20_000))[0].offset


@pytest.mark.cluster
@pytest.mark.parametrize("how", ["positions", "given", "given with metadata"])
async def test_a_commit_is_refused_and_the_consumer_begins_again(url: str, topic_name: str, reader: Consumer, how: str):
    await create_again(url, topic_name, COUNT)
    given: Any = {"positions": None, "given": 15, "given with metadata": OffsetAndMetadata(offset=15, metadata="m")}[
        how
    ]
    with pytest.raises(NotFoundError, match="deleted and created again") as refused:
        await reader.commit(given if given is None else {(topic_name, 0): given})
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
    assert not refused.value.retriable
    assert await reader.committed((topic_name, 0)) == {(topic_name, 0): None}

    async with asyncio.timeout(30):
        while not (records := await reader.fetch()):
            pass
    assert records[0].offset == 0, "it goes on in the new topic by auto_offset_reset"
    await reader.commit()
    await reader.commit({(topic_name, 0): 2})
    await reader.close()
    assert await first_of_next_member(url, topic_name) == 2


@pytest.mark.cluster
async def test_a_late_commit_of_old_records_does_not_count_for_the_new_topic(
    url: str, topic_name: str, reader: Consumer
):
    """The application may commit what it got from the old topic after the consumer has moved on to the new one."""
    await create_again(url, topic_name, 0)
    async with asyncio.timeout(30):
        while reader.position(topic_name, 0) != 0:
            assert all(record.offset >= 15 for record in await reader.fetch(max_wait_ms=50))
    with pytest.raises(NotFoundError, match="deleted and created again"):
        await reader.commit({(topic_name, 0): 15})
    await reader.commit()
    found = (await reader.committed())[TopicPartition(topic_name, 0)]
    assert found is not None
    assert found.offset == 0


@pytest.mark.cluster
async def test_an_offset_of_a_transaction_is_refused(url: str, topic_name: str, reader: Consumer):
    output = f"{topic_name}-output"
    await fill(url, output, 0)
    async with Producer(url, transactional_id=topic_name) as producer:
        await create_again(url, topic_name, COUNT)
        with pytest.raises(NotFoundError, match="deleted and created again") as refused:  # noqa: PT012
            async with producer.transaction() as transaction:
                await producer.send(output, b"1")
                await transaction.send_offsets({(topic_name, 0): 15}, reader.group_metadata)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert await reader.committed((topic_name, 0)) == {(topic_name, 0): None}
        async with asyncio.timeout(30):
            while not (records := await reader.fetch(max_records=3)):
                pass
        assert records[0].offset == 0
        async with producer.transaction() as transaction:
            await producer.send(output, b"2")
            await transaction.send_offsets({(topic_name, 0): 3}, reader.group_metadata)
    await reader.close()
    assert await first_of_next_member(url, topic_name) == 3


@pytest.mark.cluster
async def test_a_seek_within_the_deleted_topic_does_not_read_the_new_one_from_there(
    url: str, topic_name: str, reader: Consumer
):
    """A pause keeps the position, and also to which topic it belongs."""
    await create_again(url, topic_name, COUNT)
    with pytest.raises(NotFoundError):
        await reader.commit()
    reader.pause()
    reader.resume()
    async with asyncio.timeout(30):
        while not (records := await reader.fetch()):
            pass
    assert records[0].offset == 0


class Coordinator:
    """Has metadata that is behind for a while; it knows the topic with the id `OLD`, then with `NEW`."""

    key = "g"

    def __init__(self) -> None:
        self.knows = [OLD]
        self.asked: list[CommitOffset] = []

    async def persist(self, *_: Any, message: Any, **__: Any) -> OffsetResults:
        known = self.knows.pop(0) if len(self.knows) > 1 else self.knows[0]
        self.asked += (offsets := message().offsets)
        results = []
        for one in offsets:
            refused = StaleRouteError("not known", code=ErrorCode.UNKNOWN_TOPIC_ID)
            error = WireError.of(refused) if one.topic_id not in ("", known) else None
            results.append(OffsetResult(topic=one.topic, partition=one.partition, error=error))
        return OffsetResults(offsets=tuple(results))


class Metadata:
    """A connection whose brokers know the topic with these ids, one after another; None: they do not know it."""

    def __init__(self, *ids: str | None) -> None:
        self.feature_level = COMMITS_BY_TOPIC_ID
        self.ids = list(ids)
        self.refreshed: list[list[str]] = []

    def forget_leader_of(self, _: object) -> None: ...

    async def refresh(self, topics: list[str]) -> None:
        if topics:
            self.refreshed.append(topics)
            if len(self.ids) > 1:
                self.ids.pop(0)

    def cached_topic(self, _: str) -> SimpleNamespace | None:
        return None if self.ids[0] is None else SimpleNamespace(topic_id=self.ids[0])


def commits_of(coordinator: Coordinator, metadata: Metadata) -> tuple[GroupCommits, list[TopicPartition]]:
    """Return the commits of a member that reads the topic with the id `NEW`, and what it no longer returns."""
    dropped: list[TopicPartition] = []
    reader = SimpleNamespace(
        positions={},
        epochs={},
        epochs_read=EpochsRead(),
        connection=metadata,
        drop_recreated=dropped.append,
        fetcher=SimpleNamespace(topic_id=lambda _: NEW),
    )
    membership = SimpleNamespace(phase="member", member_id="m", epoch=3, error=None, joins=1)
    made = GroupCommits(
        cast("Any", SimpleNamespace(membership=membership, link=coordinator)),
        cast("Any", reader),
        GroupCounters(),
        timeout_ms=300,
        tasks=Tasks("commits"),
    )
    return made, dropped


def at(*partitions: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition("t", one): OffsetAndMetadata(offset=5, topic_id=NEW) for one in partitions}


async def test_a_coordinator_that_is_behind_is_asked_again():
    coordinator, metadata = Coordinator(), Metadata(NEW)
    coordinator.knows = [OLD, OLD, NEW]
    commits, dropped = commits_of(coordinator, metadata)
    await commits.commit(at(0) | {TopicPartition("u", 0): OffsetAndMetadata(offset=1)})
    assert [one.topic for one in coordinator.asked] == ["t", "u", "t", "t"], "what is committed is not sent again"
    assert dropped == []


async def test_a_coordinator_that_stays_behind_ends_the_commit_in_time():
    commits, dropped = commits_of(Coordinator(), Metadata(NEW))
    with pytest.raises(StaleRouteError):
        await commits.commit(at(0))
    assert dropped == []


async def test_many_partitions_of_a_recreated_topic_take_one_request_for_metadata():
    metadata = Metadata(NEW, "a" * 32)
    commits, dropped = commits_of(Coordinator(), metadata)
    with pytest.raises(NotFoundError, match="now it has the id aaaa"):
        await commits.commit(at(*range(1_000)))
    assert metadata.refreshed == [["t"]]
    assert len(dropped) == 1_000


async def test_a_commit_of_a_topic_that_was_deleted_is_refused():
    commits, _ = commits_of(Coordinator(), Metadata(None))
    with pytest.raises(NotFoundError, match=r"which was deleted$"):
        await commits.commit(at(0))


async def test_a_coordinator_that_refuses_an_id_it_was_not_sent_is_not_asked_for_ever():
    class Liar(Coordinator):
        async def persist(self, *_: Any, message: Any, **__: Any) -> OffsetResults:
            error = WireError.of(StaleRouteError("?", code=ErrorCode.UNKNOWN_TOPIC_ID))
            return OffsetResults(offsets=(OffsetResult(topic="t", partition=0, error=error),))

    commits, _ = commits_of(Liar(), Metadata(NEW))
    with pytest.raises(StaleRouteError):
        await commits.commit({TopicPartition("t", 0): OffsetAndMetadata(offset=5)})


async def test_committed_offsets_of_another_topic_than_the_metadata_has_are_not_begun_at():
    metadata = Metadata(OLD, OLD, NEW)
    await require_present(cast("Any", metadata), {"t": NEW})
    assert len(metadata.refreshed) == 2
    with pytest.raises(StaleRouteError, match="not yet or no longer"):
        await require_present(cast("Any", Metadata(OLD)), {"t": NEW})


@pytest.mark.parametrize("level", [1, COMMITS_BY_TOPIC_ID - 1, COMMITS_BY_TOPIC_ID])
def test_brokers_of_earlier_versions_get_no_topic_ids(level: int):
    offset = CommitOffset(topic="t", partition=0, offset=5, metadata="m", leader_epoch=2, topic_id=NEW)
    requests: list[OffsetCommitRequest | TransactionOffsetsBody] = [
        OffsetCommitRequest(offsets=(offset,), member_id="m", member_epoch=3),
        TransactionOffsetsBody(group_id="g", producer_id=1, producer_epoch=0, offsets=(offset,), member_id="m"),
    ]
    for request in requests:
        sent = encode_json(commit_message(request, level))
        assert (b"topic_id" in sent) is (level >= COMMITS_BY_TOPIC_ID)
        read = decode_json(type(request), sent)
        assert [one.topic_id for one in read.offsets] == [NEW if level >= COMMITS_BY_TOPIC_ID else ""]
        assert (read.member_id, read.offsets[0].offset, read.offsets[0].metadata) == ("m", 5, "m")
