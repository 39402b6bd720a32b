"""Names and values as long as the protocol allows: each entry gets its error, and no answer is too long to be sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from admin_support import Asker, asker

from raftlog.errors import MAX_MESSAGE
from raftlog.wire.kafka.error_codes import KafkaError as K
from raftlog.wire.kafka.messages import alter_partition_reassignments as reassign
from raftlog.wire.kafka.messages import alter_user_scram_credentials as users
from raftlog.wire.kafka.messages import create_acls, create_topics, delete_topics
from raftlog.wire.kafka.messages import incremental_alter_configs as configs

pytestmark = pytest.mark.asyncio(loop_scope="module")
LONG = "x" * 32_767
"""The longest string of the protocol."""
BROKER = 4


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ask(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    async with asker(tmp_path_factory.mktemp("node")) as found:
        command = create_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await found(create_topics.CreateTopicsRequest(topics=[command], timeout_ms=30_000))
        yield found


def moving(topic: str, replicas: list[int]) -> reassign.AlterPartitionReassignmentsRequest:
    part = reassign.ReassignablePartition(partition_index=0, replicas=replicas)
    return reassign.AlterPartitionReassignmentsRequest(
        topics=[reassign.ReassignableTopic(name=topic, partitions=[part])]
    )


def rate(text: str) -> configs.IncrementalAlterConfigsRequest:
    changed = configs.AlterableConfig(name="max.connection.creation.rate", value=text)
    resource = configs.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[changed])
    return configs.IncrementalAlterConfigsRequest(resources=[resource])


def rule(name: str) -> create_acls.CreateAclsRequest:
    made = create_acls.AclCreation(
        resource_type=2,
        resource_name=name,
        resource_pattern_type=3,
        principal="User:a",
        host="",
        operation=3,
        permission_type=3,
    )
    return create_acls.CreateAclsRequest(creations=[made])


def first_of(answer: Any) -> Any:
    """Return the first entry of the first list in an answer; of its own list, if it has one."""
    for name in ("responses", "results", "partitions"):
        if isinstance(entries := getattr(answer, name, None), list) and entries:
            return first_of(entries[0])
    return answer


@pytest.mark.parametrize(
    ("message", "number"),
    [
        (rate(LONG), K.INVALID_CONFIG),
        (rule(LONG), K.INVALID_REQUEST),
        (moving(LONG, [1]), K.UNKNOWN_TOPIC_OR_PARTITION),
        (moving("t", list(range(100_000, 109_000))), K.INVALID_REPLICA_ASSIGNMENT),
        (
            delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name=LONG)], timeout_ms=30_000),
            K.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (
            users.AlterUserScramCredentialsRequest(deletions=[users.ScramCredentialDeletion(name=LONG, mechanism=1)]),
            K.RESOURCE_NOT_FOUND,
        ),
    ],
    ids=["rate", "rule", "topic that moves", "replicas", "deleted topic", "user"],
)
async def test_an_error_that_quotes_a_long_name_is_answered(ask: Asker, message: Any, number: int):
    entry = first_of(await ask(message))
    assert entry.error_code == number
    assert 100 < len(entry.error_message) <= MAX_MESSAGE
