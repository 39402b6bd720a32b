"""Every public name in a typical call. It is checked by mypy and pyright, never run; see test_public_types.py."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import assert_type

import raftlog
from raftlog import (
    Admin,
    AuthenticationError,
    AuthorizationError,
    ConfigError,
    Consumer,
    ConsumerMetrics,
    CorruptBatchError,
    Delivery,
    ErrorCode,
    FencedError,
    InvalidRequestError,
    NotFoundError,
    OffsetAndMetadata,
    OffsetOutOfRangeError,
    OverloadedError,
    Partitioner,
    Producer,
    ProducerMetrics,
    Profile,
    RaftlogError,
    Record,
    RecordMetadata,
    RetriableError,
    Security,
    TopicPartition,
    TransactionAbortedError,
    TransactionInDoubtError,
    UnknownOutcomeError,
    blocking,
    read_arrow,
    read_pandas,
    scan_polars,
)
from raftlog.model import Acl
from raftlog.prometheus import ClientCollector

BROKERS = ["http://127.0.0.1:9400", "http://127.0.0.1:9401"]
RULE = Acl(principal="ann", operation="read", resource_type="topic", resource_name="flights")


def by_length(topic: str, key: bytes | None, value: bytes | None, count: int) -> int | None:
    return None if topic == "flights" or key is None else (len(key) + len(value or b"")) % count


async def taken(partitions: list[TopicPartition]) -> None:
    print(*partitions)


def lost(partitions: list[TopicPartition]) -> None:
    print(*partitions)


async def producing() -> None:
    partitioner: Partitioner = by_length
    async with Producer(
        BROKERS,
        acks=1,
        linger_ms=20,
        compression="zstd",
        partitioner=partitioner,
        dial={"a:1": "b:2"},
        client_id="loader",
    ) as producer:
        sent = await producer.send("flights", b"one", key=b"AA", headers={"n": b"1"}, timestamp=datetime.now(UTC))
        assert_type(sent, RecordMetadata)
        assert_type(sent.offset, int)
        delivery = producer.send_nowait("flights", b"two", headers=[("n", None)], partition=0, timestamp=1)
        assert_type(delivery, Delivery)
        delivery.add_done_callback(lambda done: print(done.exception()))
        delivery.remove_done_callback(print)
        if not delivery.done():
            assert_type(delivery.cancel(), bool)
        print(delivery.cancelled(), delivery.get_loop().time())
        assert_type(await delivery, RecordMetadata)
        assert_type(delivery.result(), RecordMetadata)
        assert_type(await producer.send_many("flights", [b"three", None], key=b"AA"), Sequence[RecordMetadata])
        assert_type(producer.metrics(), ProducerMetrics)
        assert_type(producer.metrics().queue_time_ms.p99, float)
        await producer.flush(timeout_ms=1_000)
        await producer.close(flush=False, timeout_ms=1_000)


async def exactly_once() -> None:
    consumer = Consumer(BROKERS, "flights", group_id="delays", enable_auto_commit=False, isolation="read_committed")
    async with consumer, Producer(BROKERS, transactional_id="delays-0", acks="all") as producer:
        await producer.init_transactions()
        try:
            async with producer.transaction() as transaction:
                for record in await consumer.fetch(max_records=100, max_wait_ms=50):
                    await producer.send("delays", record.value)
                    done = {(record.topic, record.partition): record.offset + 1}
                    await transaction.send_offsets(done, consumer.group_metadata)
        except TransactionAbortedError:
            await consumer.seek_to_committed()
        except (TransactionInDoubtError, UnknownOutcomeError, FencedError) as error:
            assert_type(error.code, ErrorCode)


async def consuming() -> None:
    async with Consumer(
        BROKERS,
        "flights",
        group_id="readers",
        auto_offset_reset=timedelta(days=1),
        assignor="sticky",
        on_assigned=taken,
        on_lost=lost,
        client_rack="a",
    ) as consumer:
        async for record in consumer:
            assert_type(record, Record)
            assert_type(record.value, bytes | None)
            break
        assert_type(await consumer.fetch(), list[Record])
        print((await consumer.fetch_arrow(max_wait_ms=100)).num_rows)
        assert_type(consumer.assignment, list[TopicPartition])
        for partition in consumer.assignment:
            assert_type(consumer.position(*partition), int)
            assert_type(consumer.lag(partition.topic, partition.partition), int | None)
            await consumer.seek("flights", partition.partition, 0)
        consumer.pause(("flights", 0))
        consumer.resume()
        await consumer.seek_to("earliest", ("flights", 0))
        await consumer.commit({("flights", 0): OffsetAndMetadata(offset=17, metadata="checked")})
        assert_type(consumer.commit_nowait(), asyncio.Task[None])
        assert_type(await consumer.committed(), dict[TopicPartition, OffsetAndMetadata | None])
        assert_type(await consumer.beginning_offsets(), dict[TopicPartition, int])
        assert_type(await consumer.end_offsets(), dict[TopicPartition, int])
        assert_type(consumer.metrics(), ConsumerMetrics)
        ClientCollector().add(consumer, "reader")
        assert_type(consumer.metrics().lag, Mapping[TopicPartition, int | None])
        await consumer.close()


async def administering() -> None:
    async with Admin("http://127.0.0.1:9400,http://127.0.0.1:9401", timeout_ms=5_000) as admin:
        topic = await admin.create_topic("flights", partitions=3, configs={"retention.ms": 1}, if_not_exists=True)
        assert_type(topic.partitions[0].leader, int)
        await admin.alter_topic("flights", configs={"retention.ms": None}, partitions=6)
        print([each.topic for each in await admin.list_topics(local=True)], await admin.describe_topic("flights"))
        print((await admin.list_offsets("flights", timedelta(hours=1), partitions=[0]))[0].high_watermark)
        assert_type(await admin.delete_records("flights", 0, before=10), int)
        await admin.reassign_partitions({("flights", 0): [1, 2], ("flights", 1): None})
        print(await admin.reassignments(), await admin.elect_leaders([("flights", 0)], unclean=False))
        print(await admin.describe_cluster(), await admin.describe_quorum(), await admin.controller())
        print([broker.url for broker in await admin.brokers()], await admin.log_dirs([1]))
        print(await admin.scrub(topics=["flights"]), await admin.scrub_progress())
        print(await admin.broker_configs(1), await admin.alter_broker_configs({"log.retention.ms": 1}, 1))
        print(await admin.list_groups(), await admin.describe_group("readers"))
        print(await admin.find_coordinator("group", "readers"))
        assert_type(await admin.group_offsets("readers"), dict[TopicPartition, int])
        assert_type(await admin.group_lag("readers"), dict[TopicPartition, int])
        await admin.alter_group_offsets("readers", {("flights", 0): 5})
        await admin.reset_group_offsets("readers", to="earliest", shift_by=3, dry_run=True)
        await admin.delete_group_offsets("readers", [TopicPartition("flights", 0)])
        await admin.delete_group("readers")
        await admin.put_user("ann", "secret")
        print(await admin.users())
        await admin.create_acls([RULE])
        assert_type(await admin.acls(operation="read", local=True), list[Acl])
        assert_type(await admin.authorizer(), str)
        await admin.delete_acls(principal="ann")
        await admin.alter_quota({"producer_byte_rate": 1e6}, user="ann")
        assert_type(await admin.quotas_enforced_for(), str)
        print((await admin.quotas())[0].limits)
        await admin.delete_user("ann")
        await admin.unregister_broker(3)
        await admin.delete_topic("flights")
        await admin.close()


def without_async() -> None:
    with blocking.Admin(BROKERS) as admin, blocking.Producer(BROKERS, transactional_id="plain") as producer:
        admin.create_topic("flights", partitions=3)
        assert_type(admin.acls(principal="ann"), list[Acl])
        assert_type(admin.group_offsets("readers"), dict[TopicPartition, int])
        assert_type(admin.delete_records("flights", 0), int)
        producer.init_transactions()
        with producer.transaction() as transaction:
            assert_type(producer.send("flights", b"one", key=b"AA"), RecordMetadata)
            assert_type(producer.send_nowait("flights", b"two"), Future[RecordMetadata])
            assert_type(producer.send_many("flights", [b"three"]), Sequence[RecordMetadata])
            transaction.send_offsets({("flights", 0): OffsetAndMetadata(offset=1)}, "readers")
        producer.flush(timeout_ms=100)
        assert_type(producer.metrics(), ProducerMetrics)
        producer.close(flush=False)
    with blocking.Consumer(BROKERS, "flights", group_id="readers", on_revoked=lost) as consumer:
        for record in consumer:
            assert_type(record, Record)
            break
        assert_type(consumer.fetch(max_records=10), list[Record])
        assert_type(consumer.commit_nowait({("flights", 0): 3}), Future[None])
        assert_type(consumer.committed(("flights", 0)), dict[TopicPartition, OffsetAndMetadata | None])
        assert_type(consumer.assignment, list[TopicPartition])
        assert_type(consumer.metrics(), ConsumerMetrics)


def tables() -> None:
    print(read_arrow("flights", bootstrap=BROKERS, start={0: 1500}, columns=["key", "value"]).num_rows)
    print(read_pandas("flights", partitions=[0], end=datetime.now(UTC), max_records=10).shape)
    print(scan_polars("flights", isolation="read_uncommitted", timeout_ms=1_000).collect())


async def fetched_token() -> str:
    return "token"


def security() -> None:
    trusted = Security(ca_file="ca.pem", username="alice", password="secret")
    assert_type(trusted.authorization, str)
    raftlog.Admin("https://broker:9400", security=trusted)
    raftlog.Producer(BROKERS, security=Security(username="alice", password="secret", login="basic"))
    raftlog.Producer(BROKERS, security=Security(token_provider=lambda: "token"))
    blocking.Producer(BROKERS, security=Security(token_provider=fetched_token))
    raftlog.Producer(BROKERS, security=Security(token_file="token.json"))
    assert_type(Profile.load("prod", config="config.toml").security(), Security)
    blocking.Producer(Profile.load().bootstrap, security=Security(username="alice", password_file="password"))
    print(read_arrow("flights", security=trusted).num_rows)
    blocking.Consumer(BROKERS, "flights", security=Security.from_environment({"RAFTLOG_TOKEN": "t"}))


def what_to_do(error: RaftlogError) -> str:
    """Return what each family of errors requires of the caller; the narrower ones come first."""
    match error:
        case NotFoundError() | ConfigError() | CorruptBatchError() | OffsetOutOfRangeError():
            return f"correct it: {error.message}"
        case AuthenticationError() | AuthorizationError():
            return "log in, or ask for a rule"
        case InvalidRequestError(code=ErrorCode.MESSAGE_TOO_LARGE):
            return "divide it"
        case OverloadedError():
            return "slow down"
        case RetriableError():
            return f"again: {error.retriable}"
        case _:
            return f"{error.http_status}: {error.details}"


def every_name() -> list[str]:
    return raftlog.__all__
