"""Kafka's APIs and the rights that a request of each needs: those of the HTTP route that does the same.

The broker does not start with a handler whose API has no entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from raftlog.model import AclOperation, AclResource
from raftlog.security.routes import Gate, Right, Route

_BODY = "in the request"
_LISTED = "of each entry; others are left out"


def _each(operation: AclOperation, resource: AclResource, where: str = _BODY, *, replaceable: bool = False) -> Right:
    return Right(operation=operation, resource=resource, where=where, replaceable=replaceable)


def _cluster(operation: AclOperation) -> Right:
    return Right(operation=operation, resource="cluster")


def _api(name: str, *rights: Right, gate: Gate = "login") -> Route:
    return Route(method="KAFKA", path=name, gate=gate, rights=rights)


_TXN = _each("write", "transactional_id")
_GROUP = _each("read", "group")
KAFKA: Final[Mapping[int, Route]] = {
    0: _api("Produce", _each("write", "topic"), _each("write", "transactional_id", "in the request, if it has one")),
    1: _api("Fetch", _each("read", "topic")),
    2: _api("ListOffsets", _each("describe", "topic")),
    3: _api(
        "Metadata",
        _each("describe", "topic", _LISTED),
        _each("create", "topic", "of each entry that is created, or create on the cluster"),
    ),
    8: _api("OffsetCommit", _GROUP, _each("read", "topic")),
    9: _api("OffsetFetch", _each("describe", "group"), _each("describe", "topic", _LISTED)),
    10: _api(
        "FindCoordinator",
        _each("describe", "group", "in the request, if its type is group"),
        _each("describe", "transactional_id", "in the request, if its type is transaction"),
    ),
    11: _api("JoinGroup", _GROUP),
    12: _api("Heartbeat", _GROUP),
    13: _api("LeaveGroup", _GROUP),
    14: _api("SyncGroup", _GROUP),
    15: _api("DescribeGroups", _each("describe", "group")),
    16: _api("ListGroups", _each("describe", "group", _LISTED)),
    17: _api("SaslHandshake", gate="open"),
    18: _api("ApiVersions", gate="open"),
    19: _api("CreateTopics", _each("create", "topic", "in the request, or create on the cluster", replaceable=True)),
    20: _api("DeleteTopics", _each("delete", "topic")),
    21: _api("DeleteRecords", _each("delete", "topic")),
    22: _api(
        "InitProducerId",
        _each("write", "transactional_id", "in the request, if it has one"),
        _each("idempotent_write", "cluster", "cluster, or write on any topic, if it has none", replaceable=True),
    ),
    23: _api("OffsetForLeaderEpoch", _each("describe", "topic")),
    24: _api("AddPartitionsToTxn", _TXN, _each("write", "topic")),
    25: _api("AddOffsetsToTxn", _TXN, _GROUP),
    26: _api("EndTxn", _TXN),
    28: _api("TxnOffsetCommit", _TXN, _GROUP, _each("read", "topic")),
    29: _api("DescribeAcls", _cluster("describe")),
    30: _api("CreateAcls", _cluster("alter")),
    31: _api("DeleteAcls", _cluster("alter")),
    32: _api(
        "DescribeConfigs",
        _each("describe", "topic"),
        _each("describe_configs", "cluster", "cluster, for brokers"),
    ),
    33: _api(
        "AlterConfigs",
        _each("alter_configs", "topic"),
        _each("alter_configs", "cluster", "cluster, for brokers"),
    ),
    35: _api("DescribeLogDirs", _cluster("describe")),
    36: _api("SaslAuthenticate", gate="open"),
    37: _api("CreatePartitions", _each("alter", "topic")),
    42: _api("DeleteGroups", _each("delete", "group")),
    43: _api("ElectLeaders", _cluster("alter")),
    44: _api(
        "IncrementalAlterConfigs",
        _each("alter_configs", "topic"),
        _each("alter_configs", "cluster", "cluster, for brokers"),
    ),
    45: _api("AlterPartitionReassignments", _cluster("alter")),
    46: _api("ListPartitionReassignments", _cluster("describe")),
    47: _api("OffsetDelete", _each("delete", "group"), _each("read", "topic")),
    48: _api("DescribeClientQuotas", _cluster("describe_configs")),
    49: _api("AlterClientQuotas", _cluster("alter_configs")),
    50: _api("DescribeUserScramCredentials", _cluster("describe")),
    51: _api("AlterUserScramCredentials", _cluster("alter")),
    55: _api("DescribeQuorum", _cluster("describe")),
    60: _api("DescribeCluster"),
    61: _api("DescribeProducers", _each("read", "topic")),
    64: _api("UnregisterBroker", _cluster("alter")),
    65: _api("DescribeTransactions", _each("describe", "transactional_id")),
    66: _api("ListTransactions", _each("describe", "transactional_id", _LISTED)),
    68: _api("ConsumerGroupHeartbeat", _GROUP, _each("describe", "topic")),
    69: _api("ConsumerGroupDescribe", _each("describe", "group")),
    75: _api("DescribeTopicPartitions", _each("describe", "topic", _LISTED)),
}
"""By API key."""
CHANGES: Final = frozenset({19, 20, 21, 30, 31, 33, 37, 42, 43, 44, 45, 47, 49, 51, 64})
"""APIs whose requests are administrative changes, which the audit log shows."""
