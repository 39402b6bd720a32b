"""Options that would have no effect, and arguments that cannot be meant: refused at once, with what to do instead."""

from __future__ import annotations

import re
from typing import Any, get_type_hints

import pytest
from api_reference import types_of

from raftlog import Admin, Consumer, Producer
from raftlog.client import consumer_options
from raftlog.client.arguments import partition_argument
from raftlog.client.consumer_options import ConsumerOptions
from raftlog.client.group_session import OnRebalance
from raftlog.client.offsets import full
from raftlog.errors import ConfigError, InvalidRequestError
from raftlog.model import TopicPartition
from raftlog.wire.groups import Assignor

DOWN = "http://127.0.0.1:1"


def ignore(_: object) -> None:
    pass


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("auto_offset_reset", "earliest", "start"),
        ("enable_auto_commit", False, "group_id"),
        ("auto_commit_interval_ms", 100, "group_id"),
        ("session_timeout_ms", 10_000, "group_id"),
        ("max_poll_interval_ms", 10_000, "group_id"),
        ("assignor", "sticky", "group_id"),
        ("on_assigned", ignore, "group_id"),
        ("on_revoked", ignore, "group_id"),
        ("on_lost", ignore, "group_id"),
        ("group_instance_id", "one", "group_id"),
        ("pattern", "t.*", "group_id"),
    ],
)
async def test_an_option_of_groups_is_refused_without_one(name: str, value: object, instead: str):
    with pytest.raises(ConfigError, match=rf"{name}: .*group.*{instead}"):
        Consumer(DOWN, "t", **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("start", "earliest", "auto_offset_reset"),
        ("on_out_of_range", "earliest", "auto_offset_reset"),
        ("partitions", [0], "coordinator assigns"),
    ],
)
async def test_an_option_of_lone_consumers_is_refused_in_a_group(name: str, value: object, instead: str):
    with pytest.raises(ConfigError, match=rf"{name}: .*{instead}"):
        Consumer(DOWN, "t", group_id="g", **{name: value})  # type: ignore[arg-type]


async def test_a_default_that_is_spelt_out_is_no_error():
    await Consumer(DOWN, "t", group_id="g", start="latest", partitions=None, on_out_of_range="error").close()
    await Consumer(DOWN, "t", session_timeout_ms=None, on_assigned=None, enable_auto_commit=True).close()


async def test_a_transactions_timeout_needs_a_transactional_id():
    with pytest.raises(ConfigError, match=r"transaction_timeout_ms: .*transactional_id"):
        Producer(DOWN, transaction_timeout_ms=1_000)


@pytest.mark.parametrize("name", [".", "..", "", None, 7, "a/b\x00", "x" * 250, "\ud800"])
async def test_a_group_id_that_no_url_can_carry_is_refused(name: Any):
    if name is not None:
        with pytest.raises(ConfigError, match="group_id: expected"):
            Consumer(DOWN, "t", group_id=name)
    async with Admin(DOWN) as admin:
        for ask in (admin.describe_group, admin.delete_group, admin.group_offsets):
            with pytest.raises(ConfigError, match="group_id: expected"):
                await ask(name)
    if name:
        with pytest.raises(ConfigError, match="transactional_id: expected"):
            Producer(DOWN, transactional_id=name)


@pytest.mark.parametrize("offset", [-1, "5", None, 1.5, True, 1 << 63])
async def test_an_offset_is_a_whole_number_from_0(offset: Any):
    consumer = Consumer(DOWN, "t")  # It is refused before anybody is asked.
    with pytest.raises(InvalidRequestError, match=r"offset: expected a whole number from 0.*received"):
        await consumer.seek("t", 0, offset)
    await consumer.close()
    with pytest.raises(InvalidRequestError, match="offset: expected a whole number from 0"):
        full({("t", 0): offset})


def test_offsets_to_commit_are_a_mapping_of_partitions():
    cases: list[tuple[Any, str]] = [
        ([("t", 0)], r"offsets: expected {\(topic, partition\): offset}, received list"),
        (None, r"offsets: expected {\(topic, partition\): offset}, received None"),
        ({"t": 5}, r"expected \(topic, partition\) such as \('flights', 0\), received 't'"),
        ({("t", "0"): 5}, r"expected \(topic, partition\) such as \('flights', 0\), received \('t', '0'\)"),
        ({("t", -1): 5}, r"expected \(topic, partition\) such as"),
    ]
    for offsets, message in cases:
        with pytest.raises(InvalidRequestError, match=message):
            full(offsets)
    assert list(full({TopicPartition("t", 0): 5})) == [TopicPartition("t", 0)]
    assert partition_argument(("t", 0)) == TopicPartition("t", 0)


@pytest.mark.parametrize("partitions", [["0"], 3, [-1], [True], "01", []])
async def test_partitions_are_whole_numbers(partitions: Any):
    with pytest.raises(ConfigError, match="partitions: expected whole numbers from 0"):
        Consumer(DOWN, "t", partitions=partitions)


@pytest.mark.parametrize("topic", [None, 5, b"t", ""])
async def test_a_topic_is_a_name(topic: Any):
    async with Producer(DOWN) as producer:
        with pytest.raises(TypeError if topic != "" else InvalidRequestError, match="topic: expected a name"):
            await producer.send(topic, b"x")
        with pytest.raises(TypeError if topic != "" else InvalidRequestError, match="topic: expected a name"):
            producer.send_nowait(topic, b"x")
        with pytest.raises(TypeError if topic != "" else InvalidRequestError, match="topic: expected a name"):
            await producer.send_many(topic, [b"x"])


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("max_poll_records", "fetch(max_records=...)"),
        ("bootstrap_servers", "did you mean bootstrap?"),
        ("compression_type", "did you mean compression?"),
        ("isolation_level", "did you mean isolation?"),
        ("fetch_max_wait", "did you mean fetch_max_wait_ms?"),
        ("retries", "delivery_timeout_ms"),
        ("enable_idempotence", "always"),
    ],
)
async def test_kafkas_option_names_lead_to_ours(option: str, hint: str):
    kind = Producer if option in {"compression_type", "retries", "enable_idempotence"} else Consumer
    with pytest.raises(ConfigError, match=re.escape(hint)):
        kind(DOWN, **{option: 1}) if kind is Producer else kind(DOWN, "t", **{option: 1})  # type: ignore[arg-type]


def test_a_consumers_checked_options_are_those_of_its_constructor():
    given = types_of(Consumer.__init__)
    del given["return"]
    given["topics"] = tuple[str, ...]
    names = {**vars(consumer_options), "OnRebalance": OnRebalance, "Assignor": Assignor}
    assert get_type_hints(ConsumerOptions, names) == given
