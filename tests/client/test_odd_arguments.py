"""Arguments that cannot be meant, and that no earlier test has tried: the error names the argument."""

from __future__ import annotations

from typing import Any

import pytest

from raftlog import Consumer, Producer, blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client.fetching import _with_option_name
from raftlog.client.transactions import Transaction
from raftlog.errors import ConfigError, InvalidRequestError, NotFoundError

DOWN = "http://127.0.0.1:1"


@pytest.mark.parametrize("value", [0, -5, "5", True])
async def test_a_consumers_request_timeout_is_a_time(value: Any):
    with pytest.raises(ConfigError, match="request_timeout_ms: expected"):
        Consumer(DOWN, "t", request_timeout_ms=value)


@pytest.mark.parametrize("value", [True, False])
async def test_acks_are_no_truth_values_which_would_be_taken_for_1_and_0(value: Any):
    with pytest.raises(ConfigError, match="acks: expected"):
        Producer(DOWN, acks=value)


@pytest.mark.parametrize("value", [2.5, "5", True])
async def test_what_is_in_flight_is_a_number(value: Any):
    with pytest.raises(ConfigError, match="max_in_flight must be 1 to 5"):
        Producer(DOWN, max_in_flight=value)


@pytest.mark.parametrize(
    "dial", [{"127.0.0.1:9": "localhost"}, {"b": "127.0.0.1:9"}, {"127.0.0.1:9": 9}, "a:1"], ids=str
)
async def test_a_dial_map_has_addresses(dial: Any):
    for make in (lambda: Producer(DOWN, dial=dial), lambda: Consumer(DOWN, "t", dial=dial)):
        with pytest.raises(ConfigError, match=r"dial: expected .*, received"):
            make()


@pytest.mark.parametrize("group", [None, 5, b"g"])
async def test_offsets_of_a_transaction_are_a_groups(group: Any):
    with pytest.raises(ConfigError, match=r"group: expected Consumer\.group_metadata or a group's name"):
        await Transaction(None).send_offsets({}, group)  # type: ignore[arg-type]


@pytest.mark.cluster
@pytest.mark.parametrize("partition", ["t", ("t",), ("t", "0")])
async def test_partitions_are_pairs_wherever_they_are_named(shared_cluster: LocalCluster, partition: Any):
    async with Consumer(shared_cluster.bootstrap, "__committed_offsets", group_id="odd") as consumer:
        for ask in (consumer.pause, consumer.resume):
            with pytest.raises(InvalidRequestError, match=r"expected \(topic, partition\)"):
                ask(partition)
        for find in (consumer.committed, lambda pair: consumer.seek_to("latest", pair)):
            with pytest.raises(InvalidRequestError, match=r"expected \(topic, partition\)"):
                await find(partition)
        with pytest.raises(ConfigError, match="max_wait_ms: expected"):
            await consumer.fetch_arrow(max_wait_ms=-1)


def test_a_refused_limit_has_the_name_of_the_consumers_option():
    refused = InvalidRequestError("max_bytes: expected 1 to 52428800, received 1000000000")
    assert _with_option_name(refused).message == "fetch_max_bytes: expected 1 to 52428800, received 1000000000"
    other = NotFoundError("there is no topic 't'")
    assert _with_option_name(other) is other


def test_a_close_that_is_refused_drops_nothing():
    producer = blocking.Producer(DOWN, close_timeout_ms=0, max_block_ms=100)
    try:
        with pytest.raises(ConfigError, match="timeout_ms: expected"):
            producer.close(timeout_ms=-1)
        assert producer.metrics().records_sent == 0  # It is open.
    finally:
        producer.close(timeout_ms=0)


@pytest.mark.parametrize(("topic", "error"), [("", InvalidRequestError), (None, TypeError)])
def test_a_blocking_producer_refuses_a_record_for_no_topic_at_once(topic: Any, error: type[Exception]):
    producer = blocking.Producer(DOWN, close_timeout_ms=0, max_block_ms=100)
    try:
        with pytest.raises(error, match="topic"):
            producer.send_nowait(topic, b"value")
    finally:
        producer.close(timeout_ms=0)
