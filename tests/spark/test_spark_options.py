"""What users may write in options, and what each mistake is answered with."""

from __future__ import annotations

import pickle

import pytest

from pyspark_raftlog.options import KNOWN_OPTIONS, SourceOptions, parse_options
from pyspark_raftlog.parsing import Assign, AtTime, Subscribe, SubscribePattern
from raftlog.errors import ConfigError
from raftlog.model import Address, TopicPartition


def options(**given: str) -> SourceOptions:
    return parse_options({"bootstrap": "http://h:9400", "subscribe": "t"} | given)


def test_only_bootstrap_and_a_subscription_are_required():
    parsed = options()

    assert parsed.bootstrap == (Address("h", 9400),)
    assert parsed.subscription == Subscribe(("t",))
    assert parsed.for_batch().starting == "earliest"
    assert parsed.for_batch().ending == "latest"
    assert parsed.for_stream().starting == "latest"
    assert parsed.fail_on_data_loss
    assert not parsed.include_headers


def test_option_names_are_case_insensitive():
    assert options(STARTINGOFFSETS="Latest", failondataloss="FALSE").fail_on_data_loss is False


def test_several_brokers_may_be_named():
    parsed = options(bootstrap="http://a:1, b:2,http://[::1]:3/")

    assert parsed.bootstrap == (Address("a", 1), Address("b", 2), Address("::1", 3))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("subscribe", " a, b,a ", Subscribe(("a", "b"))),
        ("subscribePattern", "fl.*", SubscribePattern("fl.*")),
        ("assign", '{"b": [1], "a": [2, 0]}',
         Assign((TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)))),
    ],
)  # fmt: skip
def test_subscriptions(name, text, expected):
    assert parse_options({"bootstrap": "h:1", name: text}).subscription == expected


def test_positions_by_partition_mix_offsets_and_edges():
    parsed = options(startingOffsets='{"t": {"0": 23, "1": -2}}', endingOffsets='{"t": {"0": 40, "1": -1}}')

    assert parsed.starting == {TopicPartition("t", 0): 23, TopicPartition("t", 1): "earliest"}
    assert parsed.ending == {TopicPartition("t", 0): 40, TopicPartition("t", 1): "latest"}


def test_a_time_beats_times_by_partition_and_these_beat_offsets():
    by_partition = {"startingOffsetsByTimestamp": '{"t": {"0": 7}}', "startingOffsets": "latest"}

    assert options(**by_partition).starting == {TopicPartition("t", 0): AtTime(7)}
    assert options(**by_partition, startingTimestamp="9").starting == AtTime(9)
    assert options(endingTimestamp="9", endingOffsets="latest").ending == AtTime(9)


def test_options_travel_to_executors():
    parsed = options(startingOffsets='{"t": {"0": 23}}', dial='{"h:9400": "127.0.0.1:1"}')

    assert pickle.loads(pickle.dumps(parsed)) == parsed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bootstrap": "ftp://h:1"}, "not ftp"),
        ({"bootstrap": "http://h:"}, "a URL such as"),
        ({"bootstrap": "http://h:1/topics"}, "nothing after it"),
        ({"bootstrap": " , "}, "one or more broker URLs"),
        ({"subscribe": ","}, "topic names"),
        ({"assign": '{"t": [0]}'}, "received subscribe and assign"),
        ({"startingOffsets": "first"}, "earliest, latest or JSON"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "earliest, latest or JSON"),
        ({"startingOffsets": '{"t": {"0": true}}'}, "earliest, latest or JSON"),
        ({"startingOffsets": '{"t": {"x": 3}}'}, "earliest, latest or JSON"),
        ({"startingOffsets": '{"t": 3}'}, "earliest, latest or JSON"),
        ({"startingOffsets": "[1]"}, "earliest, latest or JSON"),
        ({"startingOffsets": "{}"}, "earliest, latest or JSON"),
        ({"startingTimestamp": "2024-01-01"}, "milliseconds since 1970"),
        ({"startingTimestamp": "-1"}, "milliseconds since 1970"),
        ({"endingTimestamp": "253402300800000"}, "milliseconds since 1970, -62135596800000 to 253402300799999"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 1e30}}'}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 10000000000000000}}'}, "the years 1 to 9999"),
        ({"maxOffsetsPerTrigger": "9223372036854775808"}, r"less than 2\*\*63"),
        ({"bootstrap": "http://me:secret@h:1"}, "without a user"),
        ({"bootstrap": "http://h:1#x"}, "nothing after it"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "error or latest"),
        ({"failOnDataLoss": "no"}, "true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"minPartitions": "-1"}, "at least 1"),
        ({"maxPartitions": "0"}, "at least 1"),
        ({"minPartitions": "3", "maxPartitions": "2"}, r"minPartitions \(3\) is larger than maxPartitions \(2\)"),
        (
            {"maxRecordsPerPartition": "3", "maxPartitions": "2"},
            "both .* set one of them",
        ),
        ({"maxRecordsPerPartition": "many"}, "at least 1"),
        ({"dial": '{"h": "x"}'}, "host:port"),
        ({"kafka.bootstrap.servers": "h:9092"}, "use .option\\('bootstrap'"),
        ({"kafka.group.id": "g"}, "use .option\\('groupId', 'g'"),
        ({"kafka.isolation.level": "read_committed"}, "use .option\\('isolation', 'read_committed'"),
        ({"kafka.max.poll.records": "7"}, "sets a Kafka client"),
        ({"isolation": "serializable"}, "read_committed or read_uncommitted"),
        ({"maxBytesPerTrigger": "many"}, "such as 64m"),
        ({"maxBytesPerTrigger": "0m"}, "such as 64m"),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "soon"}, "such as 15m, 30s"),
        ({"maxTriggerDelay": "1m"}, "set that one, too"),
        ({"groupId": " "}, "expected a name"),
        ({"path": "flights"}, "topics have no path, received 'flights': name topics by"),
        (
            {"startingOfsets": "latest"},
            r"'startingofsets' \(did you mean startingOffsets\?\); known options are bootstrap, .*",
        ),
        ({"kafka.linger.ms": "5"}, "there is nothing to set here: all rows of a task are available.*; leave it out"),
        ({"acks": "1"}, "every in-sync replica has it, always; leave it out"),
        ({"fetchBytes": "1m", "fetch.max.bytes": "2m"}, "'fetchBytes' is set twice, by 'fetchBytes' too: set it once"),
    ],
)
def test_mistakes_are_answered_with_what_is_possible(given, message):
    with pytest.raises(ConfigError, match=message):
        options(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "'bootstrap' is required"),
        ({"bootstrap": "h:1"}, "exactly one of subscribe, subscribePattern and assign"),
        ({"bootstrap": "h:1", "subscribePattern": "("}, "regular expression"),
        ({"bootstrap": "h:1", "assign": '{"t": 0}'}, "expected JSON like"),
        ({"bootstrap": "h:1", "assign": '{"t": [0, 0]}'}, "each partition once"),
        ({"bootstrap": "h:1", "assign": "{"}, "expected JSON like"),
    ],
)
def test_what_is_missing_is_named(given, message):
    with pytest.raises(ConfigError, match=message):
        parse_options(given)


def test_an_unknown_option_lists_all_known_ones():
    with pytest.raises(ConfigError) as raised:
        options(colour="blue")

    assert all(name in raised.value.message for name in KNOWN_OPTIONS)


@pytest.mark.parametrize("text", ["latest", '{"t": {"0": -1}}'])
def test_a_batch_cannot_begin_at_the_end(text):
    with pytest.raises(ConfigError, match="cannot begin at latest"):
        options(startingOffsets=text).for_batch()


@pytest.mark.parametrize("text", ["earliest", '{"t": {"0": -2}}'])
def test_a_batch_cannot_end_at_the_beginning(text):
    with pytest.raises(ConfigError, match="cannot end at earliest"):
        options(endingOffsets=text).for_batch()


def test_a_stream_has_no_end():
    with pytest.raises(ConfigError, match="batch queries only"):
        options(endingTimestamp="1").for_stream()


def test_a_batch_ignores_the_limit_of_streams_and_says_so(caplog):
    assert options(maxOffsetsPerTrigger="10").for_batch().max_offsets_per_trigger == 10
    assert "ignores them" in caplog.text


@pytest.mark.parametrize(("text", "bytes_"), [("7", 7), ("64k", 64 << 10), ("2 MB", 2 << 20), ("1g", 1 << 30)])
def test_sizes_are_written_as_spark_writes_them(text, bytes_):
    assert options(maxBytesPerTrigger=text).max_bytes_per_trigger == bytes_


@pytest.mark.parametrize(("text", "delay_ms"), [("7", 7), ("30s", 30_000), ("15m", 900_000), ("1 h", 3_600_000)])
def test_times_are_written_as_spark_writes_them(text, delay_ms):
    assert options(minOffsetsPerTrigger="1", maxTriggerDelay=text).max_trigger_delay_ms == delay_ms


def test_a_batch_that_must_hold_more_than_it_may_is_refused():
    with pytest.raises(ConfigError, match=r"minOffsetsPerTrigger \(9\) is larger than maxOffsetsPerTrigger \(8\)"):
        options(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="8").for_stream()


def test_the_rack_is_the_options_or_the_machines(monkeypatch):
    monkeypatch.setenv("RAFTLOG_CLIENT_RACK", "here")

    assert options().rack == "here"
    assert options(clientRack="there").rack == "there"


def test_times_before_1970_are_times():
    assert options(startingTimestamp="-1000").starting == AtTime(-1000)
    assert options(startingOffsetsByTimestamp='{"t": {"0": -62135596800000}}').starting == {
        TopicPartition("t", 0): AtTime(-62_135_596_800_000)
    }


def test_the_client_id_is_a_name_for_quotas():
    assert options().client_id == ""
    assert options(clientId=" nightly ").client_id == "nightly"
    assert options(**{"client.id": "nightly"}).client_id == "nightly"
    for wrong in ("*", "x" * 129, "a\nb"):
        with pytest.raises(ConfigError, match="clientId"):
            options(clientId=wrong)
