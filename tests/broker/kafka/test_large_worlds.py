"""Small requests about thousands of rules, partitions and topics: worker threads and slices do what takes long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from admin_support import Asker, asker, codes

from raftlog.broker.kafka import acls_api, audit, configs_api, dispatch, offsets_api, topic_partitions_api, topics_api
from raftlog.broker.kafka.call import KafkaServices
from raftlog.broker.kafka.dispatch import KafkaDispatch
from raftlog.broker.kafka.handlers import HANDLERS
from raftlog.broker.routes import admin, topics
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import Acl, PartitionState
from raftlog.wire.kafka.error_codes import KafkaError as K
from raftlog.wire.kafka.messages import alter_client_quotas as quotas
from raftlog.wire.kafka.messages import (
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    describe_acls,
    elect_leaders,
)
from raftlog.wire.kafka.messages import incremental_alter_configs as configs
from raftlog.wire.kafka.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from raftlog.wire.kafka.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

pytestmark = pytest.mark.asyncio(loop_scope="module")
MANY = 2_000
LED = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
MOVING = replace(LED, replicas=(1, 2), adding=(2,))
LEADERLESS = replace(LED, leader=-1)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ask(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    async with asker(tmp_path_factory.mktemp("node")) as found:
        services = KafkaServices(found.context, parked=found.frame.parked, inflight=found.frame.inflight)
        found.dispatch = KafkaDispatch(services, HANDLERS)
        topic = create_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await found(create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        yield found


@pytest.fixture
def seen_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[bool]]:
    """Return a function that notes for each call of a function whether it was in the event loop's thread."""

    def watch(module: Any, name: str) -> list[bool]:
        real, found = getattr(module, name), list[bool]()

        def noted(*args: Any, **kwargs: Any) -> Any:
            found.append(threading.current_thread() is threading.main_thread())
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, noted)
        return found

    return watch


@pytest.fixture
def world(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> Callable[..., MetadataImage]:
    """Return a function that gives the broker an image with other tables, until the end of the test."""

    def change(**tables: Any) -> MetadataImage:
        monkeypatch.setattr(ask.context.listener, "image", replace(ask.context.image, **tables))
        return ask.context.image

    return change


def topics_of(count: int, state: PartitionState) -> dict[str, Any]:
    ids = {f"topic-{number:05}": f"{number:032x}" for number in range(count)}
    topics = {key: TopicImage(topic=name, topic_id=key, partitions={0: state}) for name, key in ids.items()}
    return {"topics": topics, "names": ids}


def rules(count: int) -> dict[Acl, None]:
    return {
        Acl(principal=f"User:{number % 7}", operation="read", resource_type="topic", resource_name=f"{number}"): None
        for number in range(count)
    }


def every(cls: Any) -> Any:
    return cls(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


async def test_many_rules_are_sorted_and_encoded_in_a_worker_thread(
    ask: Asker, world: Callable[..., MetadataImage], seen_in: Callable[[Any, str], list[bool]]
):
    image = world(acls={replace(rule, host=f"10.0.{n}.1"): None for n in range(10) for rule in rules(200)})
    sorting, encoding = seen_in(acls_api, "_by_resource"), seen_in(dispatch, "encode_response")
    answer = await ask(every(describe_acls.DescribeAclsRequest))
    assert sum(len(one.acls) for one in answer.resources) == len(image.acls)
    assert sorting == encoding == [False]


async def test_many_rules_are_deleted_without_the_event_loop(ask: Asker, seen_in: Callable[[Any, str], list[bool]]):
    creations = [
        acls_api.AclCreation(
            resource_type=2,
            resource_name=f"t{number}",
            resource_pattern_type=3,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        )
        for number in range(MANY)
    ]
    assert {*codes((await ask(acls_api.CreateAclsRequest(creations=creations))).results)} == {0}
    reading, making = seen_in(acls_api, "from_plain"), seen_in(acls_api, "_deleted")
    watched = seen_in(audit, "outcomes")
    answer = await ask(delete_acls.DeleteAclsRequest(filters=[every(delete_acls.DeleteAclsFilter)]))
    assert len(answer.filter_results[0].matching_acls) == MANY
    assert (reading[-1], making) == (False, [False])
    assert not any(watched)


async def test_rules_of_a_match_are_deleted_some_at_a_time(ask: Asker):
    names = ["match", "*"]
    creations = [
        acls_api.AclCreation(
            resource_type=2,
            resource_name=name,
            resource_pattern_type=3,
            principal=f"User:{number}",
            host="*",
            operation=3,
            permission_type=3,
        )
        for name in names
        for number in range(30)
    ]
    assert {*codes((await ask(acls_api.CreateAclsRequest(creations=creations))).results)} == {0}
    wanted = replace(every(delete_acls.DeleteAclsFilter), resource_type_filter=2, pattern_type_filter=2)
    wanted.resource_name_filter = "match"
    (result,) = (await ask(delete_acls.DeleteAclsRequest(filters=[wanted]))).filter_results
    assert (result.error_code, len(result.matching_acls)) == (0, 60)


async def test_many_moving_partitions_are_encoded_in_a_worker_thread(
    ask: Asker, world: Callable[..., MetadataImage], seen_in: Callable[[Any, str], list[bool]]
):
    world(**topics_of(MANY, MOVING))
    encoding = seen_in(dispatch, "encode_response")
    answer = await ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=30_000))
    assert len(answer.topics) == MANY
    assert encoding == [False]


async def test_an_election_of_all_partitions_is_answered_in_a_worker_thread(
    ask: Asker, world: Callable[..., MetadataImage], seen_in: Callable[[Any, str], list[bool]]
):
    world(**topics_of(MANY, LEADERLESS))
    encoding = seen_in(dispatch, "encode_response")
    for kind, expected in ((1, MANY), (0, 0)):
        answer = await ask(elect_leaders.ElectLeadersRequest(election_type=kind, topic_partitions=None))
        assert len(answer.replica_election_results) == expected
    assert encoding == [False, False]


async def test_a_page_of_many_topics_is_encoded_in_a_worker_thread(
    ask: Asker, world: Callable[..., MetadataImage], seen_in: Callable[[Any, str], list[bool]]
):
    world(**topics_of(MANY + 1, LED))
    encoding = seen_in(dispatch, "encode_response")
    first = await ask(DescribeTopicPartitionsRequest(topics=[]))
    assert (len(first.topics), first.next_cursor.topic_name) == (MANY, f"topic-{MANY:05}")
    few = await ask(DescribeTopicPartitionsRequest(topics=[], response_partition_limit=10))
    assert len(few.topics) == 10
    assert encoding == [False, True]


async def test_names_of_a_page_are_looked_at_in_slices(
    ask: Asker, world: Callable[..., MetadataImage], monkeypatch: pytest.MonkeyPatch
):
    world(**topics_of(MANY, LED))
    sliced = list[int]()
    real = topic_partitions_api.in_slices

    def noted(items: Any, each: int = 64) -> Any:
        found = list(items)
        sliced.append(len(found))
        return real(found, each)

    monkeypatch.setattr(topic_partitions_api, "in_slices", noted)
    await ask(DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1))
    assert sliced == [MANY, MANY]


async def test_a_change_is_checked_in_a_worker_thread(ask: Asker, seen_in: Callable[[Any, str], list[bool]]):
    growing, changing = seen_in(topics_api, "decide_alteration"), seen_in(configs_api, "decide_alteration")
    grown = create_partitions.CreatePartitionsTopic(name="t", count=9_000, assignments=None)
    answer = await ask(create_partitions.CreatePartitionsRequest(topics=[grown], timeout_ms=30_000, validate_only=True))
    assert codes(answer.results) == [0]
    changed = configs.AlterableConfig(name="min.insync.replicas", value="1")
    resource = configs.AlterConfigsResource(resource_type=2, resource_name="t", configs=[changed])
    request = configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    assert codes((await ask(request)).responses) == [0]
    assert growing == changing == [False]


async def test_one_request_adds_ten_thousand_partitions_at_most(ask: Asker, world: Callable[..., MetadataImage]):
    world(**topics_of(3, LED))

    async def added(*counts: int) -> list[int]:
        topics = [
            create_partitions.CreatePartitionsTopic(name=f"topic-{number:05}", count=count, assignments=None)
            for number, count in enumerate(counts)
        ]
        request = create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=30_000, validate_only=True)
        return codes((await ask(request)).results)

    assert await added(5_000, 5_002) == [0, 0]
    assert await added(5_000, 5_002, 2) == [K.INVALID_PARTITIONS] * 3
    assert await added(5_000, 20_000) == [0, K.INVALID_PARTITIONS]


async def test_a_change_of_quotas_looks_at_no_replica(ask: Asker, monkeypatch: pytest.MonkeyPatch):
    applied, real = list[int](), ask.context.replicas.apply

    async def noted(assignments: Any, *args: Any, **kwargs: Any) -> None:
        applied.append(len(assignments))
        await real(assignments, *args, **kwargs)

    monkeypatch.setattr(ask.context.replicas, "apply", noted)
    entity = quotas.AlterClientQuotasRequestEntityData(entity_type="user", entity_name="ann")
    limit = quotas.OpData(key="producer_byte_rate", value=1e6)
    entry = quotas.AlterClientQuotasRequestEntryData(entity=[entity], ops=[limit])
    assert codes((await ask(quotas.AlterClientQuotasRequest(entries=[entry]))).entries) == [0]
    assert ask.context.image.quotas["ann", ""].limits == {"producer_byte_rate": 1e6}
    assert applied == []
    topic = create_topics.CreatableTopic(name="later", num_partitions=1, replication_factor=1)
    assert codes((await ask(create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=30_000))).topics) == [0]
    assert applied


async def test_large_listings_by_http_are_rendered_in_worker_threads(
    ask: Asker, world: Callable[..., MetadataImage], seen_in: Callable[[Any, str], list[bool]]
):
    world(acls=rules(700), **topics_of(MANY, MOVING))
    url = ask.context.config.public.url
    rendered = [seen_in(admin, "encode_listing"), seen_in(topics, "encode_json")]
    async with aiohttp.ClientSession() as session:
        for path, name, count in (("acls", "acls", 700), ("reassignments", "partitions", MANY)):
            async with session.get(f"{url}/v1/{path}?consistency=local") as answer:
                assert len((await answer.json())[name]) == count
    assert rendered == [[False], [False]]


async def test_the_audit_log_reads_large_answers_in_a_worker_thread(seen_in: Callable[[Any, str], list[bool]]):
    noted = list[str]()
    trail = SimpleNamespace(changed=lambda _, *, outcome, **__: noted.append(outcome))
    context = SimpleNamespace(access=SimpleNamespace(audit=trail))
    response = delete_acls.DeleteAclsResponse(filter_results=[delete_acls.DeleteAclsFilterResult(error_code=1)])
    looking = seen_in(audit, "outcomes")

    async def work() -> Any:
        return response

    for is_large in (False, True):
        call: Any = SimpleNamespace(context=context, has_many=False, is_large=is_large, sender=None)
        await audit.audited(call, work(), response, is_change=True)
    assert (looking, noted) == ([True, True, False, False], ["failed", "failed"])  # Each has one entry.


@pytest.mark.parametrize("acts", [False, True])
async def test_a_request_whose_client_disconnects_is_a_change_if_it_has_begun_to_change_something(acts: bool):
    """A sender without rights can disconnect without end; one with rights must not hide a change by it."""
    noted = list[tuple[str, bool, bool]]()
    trail = SimpleNamespace(
        changed=lambda _, *, outcome, often, has_effect, **__: noted.append((outcome, often, has_effect))
    )
    context = SimpleNamespace(access=SimpleNamespace(audit=trail))
    call: Any = SimpleNamespace(context=context, has_many=False, is_large=False, sender=None, acts=acts)

    async def work() -> Any:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await audit.audited(call, work(), None, is_change=True)
    assert noted == [("unknown", False, acts)]


async def test_all_partitions_of_a_deletion_have_its_time_out_together(monkeypatch: pytest.MonkeyPatch):
    loop, limits = asyncio.get_running_loop(), list[int]()
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + len(limits))  # Each takes a second.

    async def delete_before(*_: Any, timeout_ms: int, **__: Any) -> int:
        limits.append(timeout_ms)
        return 0

    config = SimpleNamespace(broker=SimpleNamespace(request_timeout_ms=30_000))
    services = SimpleNamespace(offsets=SimpleNamespace(delete_before=delete_before))
    call: Any = SimpleNamespace(context=SimpleNamespace(config=config), services=services, sender=None)
    parts = [delete_records.DeleteRecordsPartition(partition_index=0, offset=-1)] * 20
    named = [delete_records.DeleteRecordsTopic(name="t", partitions=parts)]
    request = delete_records.DeleteRecordsRequest(topics=named, timeout_ms=10_000)
    answer = await offsets_api.handle_delete_records(call, request)
    assert codes(answer.topics[0].partitions) == [0] * 20
    assert 9_000 < limits[0] <= 10_000
    assert limits[-1] < 0
