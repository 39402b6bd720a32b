"""CreateTopics, DeleteTopics and CreatePartitions: each topic has its own answer, whatever a client sends."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from admin_support import Asker, asker, codes

from raftlog.wire.kafka.error_codes import KafkaError as K
from raftlog.wire.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from raftlog.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from raftlog.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from raftlog.wire.kafka.writer import ZERO_UUID

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ask(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    folder: Path = tmp_path_factory.mktemp("node")
    async with asker(folder) as found:
        yield found


def topic(name: str, partitions: int = 1, factor: int = 1, assigned: Any = (), **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(ids)) for number, ids in assigned
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


async def create(ask: Asker, *topics: CreatableTopic, **more: Any) -> list[Any]:
    version = more.pop("version", None)
    return (await ask(CreateTopicsRequest(topics=list(topics), timeout_ms=30_000, **more), version)).topics


class TestCreation:
    async def test_a_topic_is_created_with_its_settings(self, ask: Asker):
        (made,) = await create(ask, topic("a", 3, cleanup_policy="delete,compact", retention_ms="1000"))
        assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 3, 1)
        found = ask.context.image.topic("a")
        assert found is not None
        assert made.topic_id.hex() == found.topic_id
        assert found.configs["cleanup_policy"] == "compact,delete"
        described = {config.name: config for config in made.configs}
        assert (described["retention.ms"].value, described["retention.ms"].config_source) == ("1000", 1)
        assert (described["segment.bytes"].value, described["segment.bytes"].config_source) == (str(256 << 20), 5)
        assert described["compression.type"].read_only

    async def test_every_version_is_answered(self, ask: Asker):
        for version in ask.versions("CreateTopics"):
            (made,) = await create(ask, topic(f"v{version}"), version=version)
            assert made.error_code == 0
            (again,) = await create(ask, topic(f"v{version}"), version=version)
            assert again.error_code == K.TOPIC_ALREADY_EXISTS
            assert "exists already" in again.error_message

    async def test_defaults_are_the_clusters(self, ask: Asker):
        (made,) = await create(ask, topic("defaults", -1, -1))
        assert (made.num_partitions, made.replication_factor) == (1, 1)

    async def test_validate_only_creates_nothing(self, ask: Asker):
        planned, refused = await create(ask, topic("planned", 2), topic("planned/", 2), validate_only=True)
        assert (planned.error_code, planned.num_partitions, planned.topic_id) == (0, 2, ZERO_UUID)
        assert refused.error_code == K.INVALID_TOPIC_EXCEPTION
        assert ask.context.image.topic("planned") is None

    async def test_each_topic_has_its_own_answer(self, ask: Asker):
        made = await create(
            ask,
            topic("mixed-1"),
            topic(""),
            topic("x" * 250),
            topic("no/slash"),
            topic("__consumer_offsets"),
            topic("mixed-2", 0),
            topic("mixed-3", -5),
            topic("mixed-4", 1, 2),
            topic("mixed-5", 1, 0),
            topic("mixed-6", retention_ms="soon"),
            topic("mixed-7", retention_hours="1"),
            topic("mixed-8", compression_type="zstd"),
            topic("mixed-9", retention_ms=None),
            topic("mixed-10", min_insync_replicas="2"),
            topic("mixed-11"),
        )
        assert codes(made) == [
            K.NONE,
            K.INVALID_TOPIC_EXCEPTION,
            K.INVALID_TOPIC_EXCEPTION,
            K.INVALID_TOPIC_EXCEPTION,
            K.INVALID_TOPIC_EXCEPTION,
            K.INVALID_PARTITIONS,
            K.INVALID_PARTITIONS,
            K.INVALID_REPLICATION_FACTOR,
            K.INVALID_REPLICATION_FACTOR,
            K.INVALID_CONFIG,
            K.INVALID_CONFIG,
            K.INVALID_CONFIG,
            K.INVALID_CONFIG,
            K.INVALID_CONFIG,
            K.NONE,
        ]
        assert all(one.error_message for one in made if one.error_code)
        assert "set compression.type of the producers" in made[11].error_message

    async def test_a_name_that_is_there_twice_is_refused_and_the_others_are_created(self, ask: Asker):
        made = await create(ask, topic("twice", 1), topic("once"), topic("twice", 2))
        assert codes(made) == [K.INVALID_REQUEST, K.NONE, K.INVALID_REQUEST]
        assert ask.context.image.topic("twice") is None

    @pytest.mark.parametrize(
        ("given", "code"),
        [
            (topic("assigned-1", -1, -1, [(0, [1]), (1, [1])]), K.NONE),
            (topic("assigned-2", 1, -1, [(0, [1])]), K.INVALID_REQUEST),
            (topic("assigned-3", -1, 1, [(0, [1])]), K.INVALID_REQUEST),
            (topic("assigned-4", -1, -1, [(0, [9])]), K.INVALID_REPLICA_ASSIGNMENT),
            (topic("assigned-5", -1, -1, [(0, [1, 1])]), K.INVALID_REPLICA_ASSIGNMENT),
            (topic("assigned-6", -1, -1, [(0, [])]), K.INVALID_REPLICA_ASSIGNMENT),
            (topic("assigned-7", -1, -1, [(1, [1])]), K.INVALID_REPLICA_ASSIGNMENT),
            (topic("assigned-8", -1, -1, [(0, [1]), (0, [1])]), K.INVALID_REPLICA_ASSIGNMENT),
            (topic("assigned-9", -1, -1, [(-1, [1])]), K.INVALID_REPLICA_ASSIGNMENT),
        ],
    )
    async def test_brokers_can_be_assigned(self, ask: Asker, given: CreatableTopic, code: K):
        (made,) = await create(ask, given)
        assert made.error_code == code
        if code is K.NONE:
            assert made.num_partitions == len(given.assignments)

    async def test_30000_topics_in_one_request_are_refused_each_with_a_reason_without_stalling(self, ask: Asker):
        before = len(ask.context.image.topics)
        began = time.perf_counter()
        made = await create(ask, *(topic(f"many-{number}") for number in range(30_000)))
        assert time.perf_counter() - began < 30
        assert {one.error_code for one in made} == {K.POLICY_VIOLATION}
        assert len(made) == 30_000
        assert len(ask.context.image.topics) == before

    async def test_too_many_partitions_in_all_are_refused(self, ask: Asker):
        made = await create(ask, topic("big-1", 6_000), topic("big-2", 6_000))
        assert codes(made) == [K.INVALID_PARTITIONS] * 2
        (made,) = await create(ask, topic("big-3", 2**31 - 1))
        assert made.error_code == K.INVALID_PARTITIONS

    @pytest.mark.parametrize("timeout_ms", [0, -1, 1, -(2**31), 2**31 - 1])
    async def test_any_time_out_is_answered(self, ask: Asker, timeout_ms: int):
        request = CreateTopicsRequest(topics=[topic(f"late{timeout_ms}")], timeout_ms=timeout_ms)
        (made,) = (await ask(request)).topics
        assert made.error_code in (K.NONE, K.REQUEST_TIMED_OUT, K.THROTTLING_QUOTA_EXCEEDED)

    async def test_nothing_is_answered_to_nothing(self, ask: Asker):
        assert await create(ask) == []

    async def test_200_topics_are_created_by_one_request(self, ask: Asker):
        made = await create(ask, *(topic(f"bulk-{number}") for number in range(200)))
        assert set(codes(made)) == {0}
        gone = await delete(ask, *(f"bulk-{number}" for number in range(200)))
        assert set(codes(gone)) == {0}


async def delete(ask: Asker, *names: str | bytes, version: int | None = None) -> list[Any]:
    topics = [DeleteTopicState(topic_id=one) if isinstance(one, bytes) else DeleteTopicState(name=one) for one in names]
    return (await ask(DeleteTopicsRequest(topics=topics, timeout_ms=30_000), version)).responses


class TestDeletion:
    async def test_topics_are_deleted_by_name_in_every_version(self, ask: Asker):
        for version in ask.versions("DeleteTopics"):
            name = f"gone-{version}"
            await create(ask, topic(name))
            topics = [DeleteTopicState(name=name)] if version >= 6 else []
            names = [] if version >= 6 else [name]
            request = DeleteTopicsRequest(topics=topics, topic_names=names, timeout_ms=30_000)
            (gone,) = (await ask(request, version)).responses
            assert (gone.error_code, gone.name) == (0, name)
            (again,) = (await ask(request, version)).responses
            assert again.error_code == K.UNKNOWN_TOPIC_OR_PARTITION
            assert ask.context.image.topic(name) is None

    async def test_a_topic_is_deleted_by_its_id(self, ask: Asker):
        (made,) = await create(ask, topic("by-id"))
        (gone,) = await delete(ask, made.topic_id)
        assert (gone.error_code, gone.name, gone.topic_id) == (0, "by-id", made.topic_id)
        (again,) = await delete(ask, made.topic_id)
        assert (again.error_code, again.name) == (K.UNKNOWN_TOPIC_ID, None)

    async def test_a_topic_created_again_is_not_deleted_by_the_old_id(self, ask: Asker):
        (first,) = await create(ask, topic("again"))
        await delete(ask, "again")
        await create(ask, topic("again"))
        (gone,) = await delete(ask, first.topic_id)
        assert gone.error_code == K.UNKNOWN_TOPIC_ID
        assert ask.context.image.topic("again") is not None

    async def test_each_topic_has_its_own_answer(self, ask: Asker):
        (made,) = await create(ask, topic("kept"))
        await create(ask, topic("lost"))
        topics = [
            DeleteTopicState(),
            DeleteTopicState(name="kept", topic_id=made.topic_id),
            DeleteTopicState(name="lost"),
            DeleteTopicState(name=""),
            DeleteTopicState(name="__consumer_offsets"),
            DeleteTopicState(topic_id=b"\xff" * 16),
        ]
        gone = (await ask(DeleteTopicsRequest(topics=topics, timeout_ms=30_000))).responses
        assert codes(gone) == [
            K.INVALID_REQUEST,
            K.INVALID_REQUEST,
            K.NONE,
            K.UNKNOWN_TOPIC_OR_PARTITION,
            K.INVALID_TOPIC_EXCEPTION,
            K.UNKNOWN_TOPIC_ID,
        ]
        assert ask.context.image.topic("kept") is not None

    async def test_a_topic_named_twice_is_not_deleted(self, ask: Asker):
        (made,) = await create(ask, topic("named-twice"))
        gone = await delete(ask, "named-twice", made.topic_id, "named-twice")
        assert codes(gone) == [K.INVALID_REQUEST] * 3
        assert ask.context.image.topic("named-twice") is not None

    async def test_30000_names_are_refused(self, ask: Asker):
        gone = await delete(ask, *(f"x{number}" for number in range(30_000)))
        assert {one.error_code for one in gone} == {K.POLICY_VIOLATION}


def grown(name: str, count: int, assigned: Any = None) -> CreatePartitionsTopic:
    given = None if assigned is None else [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assigned]
    return CreatePartitionsTopic(name=name, count=count, assignments=given)


class TestPartitions:
    async def test_partitions_are_added_in_every_version(self, ask: Asker):
        await create(ask, topic("grows"))
        for version in ask.versions("CreatePartitions"):
            request = CreatePartitionsRequest(topics=[grown("grows", version + 2)], timeout_ms=30_000)
            assert codes((await ask(request, version)).results) == [0]
        found = ask.context.image.topic("grows")
        assert found is not None
        assert len(found.partitions) == ask.versions("CreatePartitions")[-1] + 2

    @pytest.mark.parametrize(
        ("given", "code"),
        [
            (grown("fixed", 2), K.INVALID_PARTITIONS),
            (grown("fixed", 1), K.INVALID_PARTITIONS),
            (grown("fixed", -1), K.INVALID_PARTITIONS),
            (grown("fixed", 10_001), K.INVALID_PARTITIONS),
            (grown("fixed", 3, [[9]]), K.INVALID_REPLICA_ASSIGNMENT),
            (grown("fixed", 3, [[1], [1]]), K.INVALID_REPLICA_ASSIGNMENT),
            (grown("fixed", 3, []), K.INVALID_REPLICA_ASSIGNMENT),
            (grown("nothing", 3), K.UNKNOWN_TOPIC_OR_PARTITION),
            (grown("", 3), K.UNKNOWN_TOPIC_OR_PARTITION),
            (grown("__consumer_offsets", 99), K.INVALID_TOPIC_EXCEPTION),
        ],
    )
    async def test_other_numbers_are_refused(self, ask: Asker, given: CreatePartitionsTopic, code: K):
        await create(ask, topic("fixed", 2))
        for validate_only in (True, False):
            request = CreatePartitionsRequest(topics=[given], timeout_ms=30_000, validate_only=validate_only)
            (result,) = (await ask(request)).results
            assert result.error_code == code
            assert result.error_message

    async def test_validate_only_adds_nothing_and_one_failure_hinders_no_other(self, ask: Asker):
        await create(ask, topic("checked"))
        given = [grown("checked", 5, [[1]] * 4), grown("absent", 5)]
        request = CreatePartitionsRequest(topics=given, timeout_ms=30_000, validate_only=True)
        assert codes((await ask(request)).results) == [0, K.UNKNOWN_TOPIC_OR_PARTITION]
        found = ask.context.image.topic("checked")
        assert found is not None
        assert len(found.partitions) == 1
        request.validate_only = False
        assert codes((await ask(request)).results) == [0, K.UNKNOWN_TOPIC_OR_PARTITION]
        found = ask.context.image.topic("checked")
        assert found is not None
        assert len(found.partitions) == 5
