"""Kafka's requests about transactions in bytes: what administrators see, several at a time, access rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import pytest_asyncio
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kafka_frame import Frame, broker_for_kafka
from kafka_listener import Client, request

from raftlog.broker.kafka import transaction_views_api
from raftlog.broker.kafka.call import MANY_ELEMENTS
from raftlog.config import SecurityConfig
from raftlog.coordinator.transaction.records import TransactionChanged
from raftlog.coordinator.transaction.service import TransactionService
from raftlog.model import Acl
from raftlog.wire import paths
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import add_partitions_to_txn as parts
from raftlog.wire.kafka.messages import describe_producers as producers
from raftlog.wire.kafka.messages import produce
from raftlog.wire.kafka.messages import txn_offset_commit as offsets
from raftlog.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from raftlog.wire.kafka.messages.describe_transactions import DescribeTransactionsRequest
from raftlog.wire.kafka.messages.end_txn import EndTxnRequest
from raftlog.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from raftlog.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from raftlog.wire.kafka.messages.list_transactions import ListTransactionsRequest
from raftlog.wire.metadata import CreateTopicRequest
from tests.broker.listener_support import connected

pytestmark = pytest.mark.cluster
E = KafkaError
PRODUCE, FIND, INIT, ADD, ADD_GROUP, END, COMMIT, PRODUCERS, DESCRIBE, LIST = 0, 10, 22, 24, 25, 26, 28, 61, 65, 66
Ask: TypeAlias = Callable[[int, int, Any], Awaitable[Any]]
Who: TypeAlias = tuple[int, int]


async def ready(frame: Frame, ask: Ask) -> None:
    """Wait until the topic `t` is led, and the coordinators of groups and transactions are loaded."""
    async with asyncio.timeout(60):
        while not frame.context.listener.image.brokers or frame.context.lifecycle.fenced:
            await asyncio.sleep(0.02)
        command = CreateTopicRequest(topic="t", partitions=3, replication_factor=1)
        await frame.context.channel.administer(paths.CREATE_TOPIC, command, timeout_ms=10_000)
        while not (frame.context.image.topic("t") and all(frame.context.leads("t", one) for one in range(3))):
            await asyncio.sleep(0.01)
        for kind in (0, 1):
            while (await ask(FIND, 3, FindCoordinatorRequest(key="x", key_type=kind))).error_code:
                await asyncio.sleep(0.05)
        for runtime in (frame.context.groups.runtime, frame.context.transactions.runtime):
            while runtime.loading or not runtime.active:
                await asyncio.sleep(0.01)


SETTINGS: dict[str, Any] = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}


@pytest_asyncio.fixture
async def frame(tmp_path: Path, free_ports: Callable[[int], list[int]]) -> AsyncIterator[Frame]:
    async with broker_for_kafka(tmp_path, free_ports(3), **SETTINGS) as frame:
        yield frame


@pytest_asyncio.fixture
async def ask(frame: Frame) -> AsyncIterator[Ask]:
    async with connected(frame.context.config.public) as streams:
        ask = asking_by(Client(*streams))
        await ready(frame, ask)
        yield ask


def asking_by(kafka: Client) -> Ask:
    async def asking(key: int, version: int, message: Any) -> Any:
        await kafka.send(request(key, version, message))
        async with asyncio.timeout(20):
            return (await kafka.answer(key, version))[1]

    return asking


async def begun(ask: Ask, name: str, *, version: int = 4, given: Who = (-1, -1)) -> Who:
    message = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=60_000, producer_id=given[0], producer_epoch=given[1]
    )
    async with asyncio.timeout(20):
        while (made := await ask(INIT, version, message)).error_code == E.CONCURRENT_TRANSACTIONS:
            await asyncio.sleep(0.02)
    assert made.error_code == 0
    return made.producer_id, made.producer_epoch


def of(*partitions: int, topic: str = "t") -> parts.AddPartitionsToTxnTopic:
    return parts.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))


def one_of(
    name: str, who: Who, *topics: parts.AddPartitionsToTxnTopic, verify_only: bool = False
) -> parts.AddPartitionsToTxnTransaction:
    return parts.AddPartitionsToTxnTransaction(
        transactional_id=name, producer_id=who[0], producer_epoch=who[1], topics=list(topics), verify_only=verify_only
    )


async def added(ask: Ask, name: str, who: Who, *topics: parts.AddPartitionsToTxnTopic) -> list[int]:
    message = parts.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=who[0],
        v3_and_below_producer_epoch=who[1],
        v3_and_below_topics=list(topics),
    )
    return codes((await ask(ADD, 3, message)).results_by_topic_v3_and_below)


def codes(results: list[parts.AddPartitionsToTxnTopicResult]) -> list[int]:
    return [one.partition_error_code for topic in results for one in topic.results_by_partition]


async def several(ask: Ask, version: int, *transactions: parts.AddPartitionsToTxnTransaction) -> dict[str, list[int]]:
    """Return the errors of each transaction of one request."""
    answer = await ask(ADD, version, parts.AddPartitionsToTxnRequest(transactions=list(transactions)))
    assert answer.error_code == 0
    return {one.transactional_id: codes(one.topic_results) for one in answer.results_by_transaction}


async def produced(
    ask: Ask, name: str, who: Who, *partitions: int, version: int = 12, sequence: int = 0, others: Who | None = None
) -> list[int]:
    """Send one record to each partition, with `others` as the producer of all but the first; return the errors."""

    def batch(who: Who) -> bytes:
        builder = DefaultRecordBatchBuilder(2, 0, True, *who, sequence, 1 << 20)
        builder.append(0, 1_700_000_000_000, None, b"v", [])
        return bytes(builder.build())

    data = [
        produce.PartitionProduceData(index=one, records=batch(others or who if at else who))
        for at, one in enumerate(partitions)
    ]
    message = produce.ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[produce.TopicProduceData(name="t", partition_data=data)],
    )
    answer = await ask(PRODUCE, version, message)
    return [one.error_code for one in answer.responses[0].partition_responses]


async def test_transactions_are_described(ask: Ask):
    who = await begun(ask, "a")
    idle = await begun(ask, "b")
    assert await added(ask, "a", who, of(0, 2)) == [0, 0]
    asked = DescribeTransactionsRequest(transactional_ids=["a", "b", "missing"])
    one, other, missing = (await ask(DESCRIBE, 0, asked)).transaction_states
    assert (one.transactional_id, one.error_code, one.transaction_state) == ("a", 0, "Ongoing")
    assert (one.producer_id, one.producer_epoch, one.transaction_timeout_ms) == (*who, 60_000)
    assert one.transaction_start_time_ms > 0
    assert [(topic.topic, topic.partitions) for topic in one.topics] == [("t", [0, 2])]
    assert (other.transaction_state, other.producer_id, other.topics) == ("Empty", idle[0], [])
    assert (missing.transactional_id, missing.error_code) == ("missing", E.TRANSACTIONAL_ID_NOT_FOUND)
    many = DescribeTransactionsRequest(transactional_ids=[f"n{number}" for number in range(1_001)])
    refused = (await ask(DESCRIBE, 0, many)).transaction_states
    assert {state.error_code for state in refused} == {E.INVALID_REQUEST}
    assert len(refused) == 1_001


async def test_transactions_are_listed_by_state_producer_age_and_pattern(ask: Ask):
    first, second = await begun(ask, "first"), await begun(ask, "second")
    assert await added(ask, "first", first, of(0)) == [0]

    async def listed(version: int, **filters: Any) -> list[tuple[str, int, str]]:
        answer = await ask(LIST, version, ListTransactionsRequest(**filters))
        assert answer.error_code == 0
        found = answer.transaction_states
        return sorted((one.transactional_id, one.producer_id, one.transaction_state) for one in found)

    ongoing, empty = ("first", first[0], "Ongoing"), ("second", second[0], "Empty")
    for version in (0, 1, 2):
        assert await listed(version) == [ongoing, empty]
        assert await listed(version, state_filters=["Ongoing", "PrepareCommit"]) == [ongoing]
        assert await listed(version, state_filters=["Dead"]) == []
        assert await listed(version, producer_id_filters=[second[0], 99]) == [empty]
    assert await listed(1, duration_filter=0) == [ongoing], "only a transaction that has begun has an age"
    assert await listed(1, duration_filter=3_600_000) == []
    assert await listed(2, transactional_id_pattern="f.*") == [ongoing]
    answer = await ask(LIST, 2, ListTransactionsRequest(state_filters=["Odd", "Empty"]))
    assert (answer.unknown_state_filters, len(answer.transaction_states)) == (["Odd"], 1)
    wrong = await ask(LIST, 2, ListTransactionsRequest(transactional_id_pattern="("))
    assert wrong.error_code == E.INVALID_REGULAR_EXPRESSION


class Counted(int):
    """A producer id that counts how often it is compared."""

    compared = 0
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return int.__eq__(self, other)


def test_each_transactional_id_is_compared_with_few_of_many_producers_in_a_filter():
    """A request with 100,000 producer ids compared all of them with 256 ids in one turn."""
    wanted = ListTransactionsRequest(producer_id_filters=[Counted(1_000 + number) for number in range(500)])
    fits = transaction_views_api._Filter(wanted).fits
    ids = [
        TransactionChanged(transactional_id="t", producer_id=one, producer_epoch=0, timeout_ms=1, changed_ms=0)
        for one in range(900, 1_100)
    ]
    assert sum(map(fits, ids)) == 100
    assert Counted.compared <= 2 * len(ids)


async def test_producers_of_partitions_are_described(ask: Ask):
    who = await begun(ask, "p")
    assert await produced(ask, "p", who, 1) == [0]
    asked = producers.DescribeProducersRequest(
        topics=[
            producers.TopicRequest(name="t", partition_indexes=[0, 1, 9]),
            producers.TopicRequest(name="missing", partition_indexes=[0]),
        ]
    )
    topic, missing = (await ask(PRODUCERS, 0, asked)).topics
    none, one, unknown = topic.partitions
    assert (none.error_code, none.active_producers) == (0, [])
    (seen,) = one.active_producers
    assert (seen.producer_id, seen.producer_epoch, seen.last_sequence) == (*who, 0)
    assert (seen.current_txn_start_offset, seen.last_timestamp > 0) == (0, True)
    assert unknown.error_code == missing.partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    ended = await ask(END, 5, EndTxnRequest(transactional_id="p", producer_id=who[0], producer_epoch=who[1]))
    assert ended.error_code == 0
    async with asyncio.timeout(20):
        while (await ask(PRODUCERS, 0, asked)).topics[0].partitions[1].active_producers[
            0
        ].current_txn_start_offset >= 0:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("version", [4, 5])
async def test_partitions_are_added_to_several_transactions_at_once(ask: Ask, version: int):
    a, b = await begun(ask, "a"), await begun(ask, "b")
    zombie, b = b, await begun(ask, "b")
    answers = await several(ask, version, one_of("a", a, of(0, 1)), one_of("b", zombie, of(2)), one_of("c", a, of(0)))
    assert answers == {"a": [0, 0], "b": [E.PRODUCER_FENCED], "c": [E.INVALID_PRODUCER_ID_MAPPING]}
    verified = await several(
        ask, version, one_of("a", a, of(0), verify_only=True), one_of("b", b, of(0), verify_only=True)
    )
    assert verified == {"a": [0], "b": [E.INVALID_TXN_STATE]}
    missing = await several(ask, version, one_of("b", b, of(0), of(0, topic="missing"), of(9)))
    assert missing == {"b": [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION]}
    state = (await ask(DESCRIBE, 0, DescribeTransactionsRequest(transactional_ids=["b"]))).transaction_states[0]
    assert state.transaction_state == "Empty", "none of a request's partitions is added if one cannot be"


async def test_offsets_beside_those_of_a_topic_that_is_not_there_are_sent_again(ask: Ask):
    """Kafka's producers are unusable after an error that they do not expect."""
    who = await begun(ask, "mixed")
    assert await added(ask, "mixed", who, of(0)) == [0]
    message = offsets.TxnOffsetCommitRequest(
        transactional_id="mixed",
        group_id="g",
        producer_id=who[0],
        producer_epoch=who[1],
        topics=[
            *OFFSETS,
            offsets.TxnOffsetCommitRequestTopic(name="missing", partitions=[offsets.TxnOffsetCommitRequestPartition()]),
        ],
    )
    here, missing = (await ask(COMMIT, 5, message)).topics
    assert missing.partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert here.partitions[0].error_code == E.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_request_with_too_many_partitions_is_refused_as_a_whole(ask: Ask):
    who = await begun(ask, "a")
    many = parts.AddPartitionsToTxnRequest(transactions=[one_of("a", who, of(*range(MANY_ELEMENTS)))])
    assert (await ask(ADD, 5, many)).error_code == E.INVALID_REQUEST
    assert set(await added(ask, "a", who, of(*range(MANY_ELEMENTS)))) == {E.INVALID_REQUEST}


async def test_the_partitions_of_one_produce_request_join_together(ask: Ask, monkeypatch: pytest.MonkeyPatch):
    asked = list[list[int]]()
    real = TransactionService.join_at_coordinator

    async def counting(self: Any, joined: Any, **more: Any) -> Any:
        asked.append([one.partition for one in joined.partitions])
        return await real(self, joined, **more)

    monkeypatch.setattr(TransactionService, "join_at_coordinator", counting)
    who = await begun(ask, "a")
    assert await produced(ask, "a", who, 0, 1, 2) == [0, 0, 0]
    assert asked == [[0, 1, 2]]
    assert await produced(ask, "a", who, 0, 1, 2, sequence=1) == [0, 0, 0]
    assert len(asked) == 1, "their partitions are known to be in the transaction"


async def test_a_partition_that_was_not_added_does_not_refuse_the_others(ask: Ask):
    who = await begun(ask, "a")
    assert await added(ask, "a", who, of(0, 2)) == [0, 0]
    assert await produced(ask, "a", who, 0, 1, 2, version=11) == [0, E.INVALID_TXN_STATE, 0]


async def test_batches_of_several_producers_under_one_transactional_id_are_refused(ask: Ask):
    """Else one request could ask the coordinator thousands of questions."""
    who = await begun(ask, "a")
    refused = [E.INVALID_PRODUCER_ID_MAPPING] * 3
    assert await produced(ask, "a", who, 0, 1, 2, others=(who[0] + 1, 0)) == refused
    assert await produced(ask, "a", who, 0, 1, 2) == [0, 0, 0]


async def test_a_producer_that_keeps_its_epoch_writes_one_transaction_after_the_other(ask: Ask):
    who = await begun(ask, "a")
    for number in range(3):
        async with asyncio.timeout(20):
            while (errors := await added(ask, "a", who, of(0))) == [E.CONCURRENT_TRANSACTIONS]:
                await asyncio.sleep(0.02)
        assert errors == [0]
        assert await produced(ask, "a", who, 0, version=11, sequence=number) == [0]
        end = EndTxnRequest(transactional_id="a", producer_id=who[0], producer_epoch=who[1], committed=True)
        assert (await ask(END, 4, end)).error_code == 0


async def test_an_init_with_an_identity_is_answered_again(ask: Ask):
    who = await begun(ask, "a")
    assert await added(ask, "a", who, of(0)) == [0]
    again = await begun(ask, "a", given=who)
    assert again[1] > who[1]
    assert await begun(ask, "a", given=who) == again, "as if the first answer had been lost"
    assert await added(ask, "a", who, of(0)) == [E.PRODUCER_FENCED]
    assert await added(ask, "a", again, of(0)) == [0]


def rule(operation: str, name: str, resource: str) -> Acl:
    return Acl(principal="*", operation=operation, resource_type=resource, resource_name=name)  # type: ignore[arg-type]


OTHERS = [rule("all", "other", kind) for kind in ("topic", "group", "transactional_id")]
"""A sender without any rule has to log in."""
WRITES, DESCRIBES = rule("write", "x", "transactional_id"), rule("describe", "x", "transactional_id")
WRITES_T, READS_T, READS_G = rule("write", "t", "topic"), rule("read", "t", "topic"), rule("read", "g", "group")
ID_DENIED, TOPIC_DENIED, GROUP_DENIED = (
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    E.TOPIC_AUTHORIZATION_FAILED,
    E.GROUP_AUTHORIZATION_FAILED,
)
OFFSETS = [offsets.TxnOffsetCommitRequestTopic(name="t", partitions=[offsets.TxnOffsetCommitRequestPartition()])]
ADDING = parts.AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="x", v3_and_below_producer_id=1, v3_and_below_topics=[of(0)]
)
REQUESTS: dict[str, tuple[int, int, Any, list[tuple[Acl, int]]]] = {
    "InitProducerId": (
        INIT,
        4,
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000),
        [(WRITES, ID_DENIED)],
    ),
    "AddPartitionsToTxn v3": (ADD, 3, ADDING, [(WRITES, ID_DENIED), (WRITES_T, TOPIC_DENIED)]),
    "AddPartitionsToTxn v5": (
        ADD,
        5,
        parts.AddPartitionsToTxnRequest(transactions=[one_of("x", (1, 0), of(0))]),
        [(WRITES, ID_DENIED), (WRITES_T, TOPIC_DENIED)],
    ),
    "AddOffsetsToTxn": (
        ADD_GROUP,
        4,
        AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, group_id="g"),
        [(WRITES, ID_DENIED), (READS_G, GROUP_DENIED)],
    ),
    "EndTxn": (END, 5, EndTxnRequest(transactional_id="x", producer_id=1), [(WRITES, ID_DENIED)]),
    "TxnOffsetCommit": (
        COMMIT,
        5,
        offsets.TxnOffsetCommitRequest(transactional_id="x", group_id="g", producer_id=1, topics=OFFSETS),
        [(WRITES, ID_DENIED), (READS_G, GROUP_DENIED), (READS_T, TOPIC_DENIED)],
    ),
    "DescribeTransactions": (
        DESCRIBE,
        0,
        DescribeTransactionsRequest(transactional_ids=["x"]),
        [(DESCRIBES, ID_DENIED)],
    ),
    "DescribeProducers": (
        PRODUCERS,
        0,
        producers.DescribeProducersRequest(topics=[producers.TopicRequest(name="t", partition_indexes=[0])]),
        [(READS_T, TOPIC_DENIED)],
    ),
}
"""A request of each API, and the rules that it needs with the errors without them, in the order of the checks."""


def error_of(answer: Any) -> int:
    """Return the error of the one entry of an answer, wherever its message has it."""
    for field in ("results_by_topic_v3_and_below", "results_by_transaction", "topics", "transaction_states"):
        if found := getattr(answer, field, None):
            return error_of(found[0])
    for field in ("topic_results", "results_by_partition", "partitions"):
        if found := getattr(answer, field, None):
            return error_of(found[0])
    return int(answer.partition_error_code if hasattr(answer, "partition_error_code") else answer.error_code)


async def test_each_request_about_transactions_needs_its_rules(
    tmp_path: Path, free_ports: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "cluster.key").write_text("c" * 64)
    security = SecurityConfig(
        authorizer="acl", super_users=("User:admin",), cluster_key_file=str(tmp_path / "cluster.key")
    )
    async with broker_for_kafka(tmp_path, free_ports(3), security=security, **SETTINGS) as frame:

        def allow(*rules: Acl) -> None:
            kept = dict.fromkeys((*OTHERS, *rules))
            monkeypatch.setattr(frame.context.access, "_rules", lambda: kept)

        async with connected(frame.context.config.public) as streams:
            ask = asking_by(Client(*streams))
            allow(rule("describe", "x", "group"), DESCRIBES)
            await ready(frame, ask)
            for name, (key, version, message, needed) in REQUESTS.items():
                for count, (_, denied) in enumerate(needed):
                    allow(*(one for one, _ in needed[:count]))
                    assert error_of(await ask(key, version, message)) == denied, (name, count)
                allow(*(one for one, _ in needed))
                allowed = error_of(await ask(key, version, message))
                assert allowed not in {denied for _, denied in needed}, name
            allow(DESCRIBES)
            shown = (await ask(LIST, 2, ListTransactionsRequest())).transaction_states
            assert [one.transactional_id for one in shown] == ["x"]
            allow()
            assert (await ask(LIST, 2, ListTransactionsRequest())).transaction_states == []
