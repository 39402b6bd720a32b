"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from admin_support import Asker, asker, codes

from raftlog.wire.kafka.error_codes import KafkaError as K
from raftlog.wire.kafka.messages import alter_configs as alter
from raftlog.wire.kafka.messages import incremental_alter_configs as incremental
from raftlog.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from raftlog.wire.kafka.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ask(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    async with asker(tmp_path_factory.mktemp("node")) as found:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "tuvwx"]
        made = await found(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
        assert codes(made.topics) == [0] * 5
        yield found


def resource(kind: int, name: str, keys: list[str] | None = None) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)


async def describe(ask: Asker, *resources: DescribeConfigsResource, version: int | None = None, **more: Any) -> Any:
    return (await ask(DescribeConfigsRequest(resources=list(resources), **more), version)).results


async def values(ask: Asker, kind: int, name: str) -> dict[str, Any]:
    (found,) = await describe(ask, resource(kind, name), include_synonyms=True)
    assert found.error_code == 0, found.error_message
    return {one.name: one for one in found.configs}


def changed(kind: int, name: str, *configs: tuple[str, int, str | None]) -> incremental.AlterConfigsResource:
    given = [incremental.AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in configs]
    return incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)


async def change(ask: Asker, *resources: incremental.AlterConfigsResource, **more: Any) -> Any:
    return (await ask(incremental.IncrementalAlterConfigsRequest(resources=list(resources), **more))).responses


class TestDescription:
    async def test_a_topic_in_every_version(self, ask: Asker):
        for version in ask.versions("DescribeConfigs"):
            (found,) = await describe(ask, resource(TOPIC, "t"), version=version, include_documentation=version >= 3)
            named = {one.name: one for one in found.configs}
            assert named["retention.ms"].value == str(7 * 86_400_000)
            assert named["retention.ms"].config_source == 5
            assert named["min.insync.replicas"].config_source == 1
            assert named["message.timestamp.before.max.ms"].value == str(2**63 - 1)
            assert named["flush.messages"].value == "1"
            assert (named["compression.type"].value, named["compression.type"].read_only) == ("producer", True)
            if version >= 3:
                assert named["retention.ms"].config_type == 5
                assert "ms" in named["retention.ms"].documentation

    async def test_only_the_keys_that_are_named(self, ask: Asker):
        (found,) = await describe(ask, resource(TOPIC, "t", ["retention.ms", "nothing"]))
        assert [one.name for one in found.configs] == ["retention.ms"]
        assert found.configs[0].documentation is None
        assert found.configs[0].synonyms == []

    async def test_synonyms_show_what_a_value_hides(self, ask: Asker):
        await change(ask, changed(TOPIC, "t", ("segment.ms", SET, "70000")))
        await change(ask, changed(BROKER, "", ("log.roll.ms", SET, "80000")))
        await change(ask, changed(BROKER, "1", ("log.roll.ms", SET, "90000")))
        found = (await values(ask, TOPIC, "t"))["segment.ms"]
        assert [(one.name, one.value, one.source) for one in found.synonyms] == [
            ("segment.ms", "70000", 1),
            ("log.roll.ms", "90000", 2),
            ("log.roll.ms", "80000", 3),
            ("log.roll.ms", str(7 * 86_400_000), 5),
        ]
        assert (await values(ask, TOPIC, "u"))["segment.ms"].value == "90000"

    async def test_this_broker(self, ask: Asker):
        found = await values(ask, BROKER, "1")
        assert found["node.id"].value == "1"
        assert found["node.id"].read_only
        assert not found["log.retention.ms"].read_only
        assert found["min.insync.replicas"].read_only
        assert found["auto.create.topics.enable"].value == "false"
        assert len(found) == len(set(found))

    @pytest.mark.parametrize(
        ("kind", "name", "code"),
        [
            (TOPIC, "nothing", K.UNKNOWN_TOPIC_OR_PARTITION),
            (TOPIC, "", K.UNKNOWN_TOPIC_OR_PARTITION),
            (BROKER, "2", K.INVALID_REQUEST),
            (BROKER, "-1", K.INVALID_REQUEST),
            (BROKER, "one", K.INVALID_REQUEST),
            (BROKER, "9" * 4_000, K.INVALID_REQUEST),
            (LOGGER, "1", K.INVALID_REQUEST),
            (GROUP, "g", K.INVALID_REQUEST),
            (0, "", K.INVALID_REQUEST),
            (-128, "", K.INVALID_REQUEST),
        ],
    )
    async def test_what_has_no_settings_gets_a_reason_and_others_their_answer(
        self, ask: Asker, kind: int, name: str, code: K
    ):
        refused, found = await describe(ask, resource(kind, name), resource(TOPIC, "t"))
        assert (refused.error_code, found.error_code) == (code, 0)
        assert refused.error_message
        assert len(refused.error_message) < 500

    async def test_20000_resources_are_refused(self, ask: Asker):
        found = await describe(ask, *(resource(TOPIC, "t", []) for _ in range(20_000)))
        assert {one.error_code for one in found} == {K.POLICY_VIOLATION}

    async def test_1000_resources_are_described(self, ask: Asker):
        found = await describe(ask, *(resource(TOPIC, "t", ["retention.ms"]) for _ in range(1_000)))
        assert set(codes(found)) == {0}


class TestIncrementalChange:
    async def test_set_append_subtract_and_delete(self, ask: Asker):
        await change(ask, changed(TOPIC, "v", ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")))
        found = await values(ask, TOPIC, "v")
        assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("5", "compact,delete")
        await change(ask, changed(TOPIC, "v", ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete")))
        found = await values(ask, TOPIC, "v")
        assert (found["retention.ms"].config_source, found["cleanup.policy"].value) == (5, "compact")

    async def test_durable_settings_are_reset_to_the_default_not_removed(self, ask: Asker):
        (done,) = await change(ask, changed(TOPIC, "v", ("flush.messages", SET, str(2**63 - 1))))
        assert done.error_code == 0
        assert (await values(ask, TOPIC, "v"))["flush.messages"].value == str(2**63 - 1)
        reset = changed(TOPIC, "v", ("flush.messages", DELETE, None), ("min.insync.replicas", DELETE, None))
        (done,) = await change(ask, reset)
        assert done.error_code == 0, done.error_message
        found = await values(ask, TOPIC, "v")
        assert (found["flush.messages"].value, found["min.insync.replicas"].value) == ("1", "1")

    @pytest.mark.parametrize(
        ("config", "code"),
        [
            (("retention.ms", SET, None), K.INVALID_REQUEST),
            (("retention.ms", SET, "x"), K.INVALID_CONFIG),
            (("retention.ms", APPEND, "1"), K.INVALID_REQUEST),
            (("retention.ms", 9, "1"), K.INVALID_REQUEST),
            (("cleanup.policy", SUBTRACT, "delete,compact"), K.INVALID_CONFIG),
            (("unknown.setting", SET, "1"), K.INVALID_CONFIG),
            (("unknown.setting", DELETE, None), K.INVALID_CONFIG),
            (("", SET, ""), K.INVALID_CONFIG),
            (("compression.type", SET, "gzip"), K.INVALID_CONFIG),
            (("compression.type", SET, "producer"), K.NONE),
            (("compression.type", DELETE, None), K.NONE),
            (("leader.replication.throttled.replicas", SET, "*"), K.INVALID_CONFIG),
            (("leader.replication.throttled.replicas", DELETE, None), K.NONE),
            (("min.insync.replicas", SET, "3"), K.INVALID_CONFIG),
        ],
    )
    async def test_each_topic_has_its_own_answer(self, ask: Asker, config: Any, code: K):
        first, second = await change(ask, changed(TOPIC, "w", config), changed(TOPIC, "x", ("segment.ms", SET, "9")))
        assert (first.error_code, second.error_code) == (code, 0)
        assert bool(first.error_message) == bool(code)
        (checked,) = await change(ask, changed(TOPIC, "w", config), validate_only=True)
        assert checked.error_code == code

    async def test_validate_only_changes_nothing(self, ask: Asker):
        (done,) = await change(ask, changed(TOPIC, "w", ("retention.ms", SET, "77")), validate_only=True)
        assert done.error_code == 0
        assert (await values(ask, TOPIC, "w"))["retention.ms"].config_source == 5

    async def test_repeated_settings_and_resources_are_refused(self, ask: Asker):
        twice = changed(TOPIC, "w", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
        assert codes(await change(ask, twice)) == [K.INVALID_REQUEST]
        once = changed(TOPIC, "w", ("retention.ms", SET, "1"))
        assert codes(await change(ask, once, once)) == [K.INVALID_REQUEST] * 2
        assert (await values(ask, TOPIC, "w"))["retention.ms"].config_source == 5

    @pytest.mark.parametrize(
        ("name", "config", "code"),
        [
            ("1", ("follower.replication.throttled.rate", SET, "1000"), K.NONE),
            ("1", ("follower.replication.throttled.rate", SET, str(2**63 - 1)), K.NONE),
            ("1", ("follower.replication.throttled.rate", DELETE, None), K.NONE),
            ("1", ("follower.replication.throttled.rate", SET, "0"), K.INVALID_CONFIG),
            ("1", ("follower.replication.throttled.rate", APPEND, "0"), K.INVALID_REQUEST),
            ("", ("max.connection.creation.rate", SET, "50"), K.NONE),
            ("1", ("leader.replication.throttled.rate", DELETE, None), K.NONE),
            ("1", ("leader.replication.throttled.rate", SET, "9"), K.INVALID_CONFIG),
            ("1", ("min.insync.replicas", SET, "1"), K.INVALID_CONFIG),
            ("1", ("num.partitions", SET, "1"), K.INVALID_CONFIG),
            ("1", ("log4j.level", SET, "1"), K.INVALID_CONFIG),
            ("9", ("log.retention.ms", SET, "1"), K.RESOURCE_NOT_FOUND),
            ("x", ("log.retention.ms", SET, "1"), K.INVALID_REQUEST),
        ],
    )
    async def test_brokers(self, ask: Asker, name: str, config: Any, code: K):
        for validate_only in (True, False):
            (done,) = await change(ask, changed(BROKER, name, config), validate_only=validate_only)
            assert done.error_code == code, done.error_message
            assert bool(done.error_message) == bool(code)

    async def test_other_kinds_are_refused_with_advice(self, ask: Asker):
        refused = await change(ask, changed(LOGGER, "1", ("kafka", SET, "DEBUG")), changed(GROUP, "g"))
        assert codes(refused) == [K.INVALID_REQUEST] * 2
        assert "node.toml" in refused[1].error_message

    async def test_20000_resources_are_refused(self, ask: Asker):
        refused = await change(ask, *(changed(TOPIC, f"n{number}") for number in range(20_000)))
        assert {one.error_code for one in refused} == {K.POLICY_VIOLATION}


class TestWholeChange:
    async def test_settings_that_are_not_given_are_reset_in_every_version(self, ask: Asker):
        for version in ask.versions("AlterConfigs"):
            await change(ask, changed(TOPIC, "x", ("retention.ms", SET, "5"), ("segment.bytes", SET, "9000")))
            given = [alter.AlterableConfig(name="segment.bytes", value="8000")]
            one = alter.AlterConfigsResource(resource_type=TOPIC, resource_name="x", configs=given)
            done = (await ask(alter.AlterConfigsRequest(resources=[one]), version)).responses
            assert codes(done) == [0], done
            found = await values(ask, TOPIC, "x")
            assert found["retention.ms"].config_source == 5
            assert found["segment.bytes"].value == "8000"
            assert found["min.insync.replicas"].value == "1"

    async def test_what_is_described_can_be_sent_back(self, ask: Asker):
        before = await values(ask, TOPIC, "t")
        given = [alter.AlterableConfig(name=one.name, value=one.value) for one in before.values()]
        one = alter.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=given)
        done = (await ask(alter.AlterConfigsRequest(resources=[one]))).responses
        assert codes(done) == [0], done
        after = await values(ask, TOPIC, "t")
        assert {name: one.value for name, one in after.items()} == {name: one.value for name, one in before.items()}

    async def test_dynamic_settings_of_brokers_are_replaced(self, ask: Asker):
        await change(ask, changed(BROKER, "1", ("log.retention.ms", SET, "5")))
        given = [alter.AlterableConfig(name="log.segment.bytes", value="9000")]
        one = alter.AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=given)
        assert codes((await ask(alter.AlterConfigsRequest(resources=[one]))).responses) == [0]
        assert ask.context.image.broker_configs[1] == {"segment_bytes": 9000}
