"""The admin operations of the active controller: path, request type, decision function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raftlog.metadata_quorum.controller.brokers import decide_unregistration
from raftlog.metadata_quorum.controller.cluster_settings import decide_broker_configs, decide_features
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.controller.leadership import decide_elections
from raftlog.metadata_quorum.controller.reassignment import decide_reassignment
from raftlog.metadata_quorum.controller.security import (
    decide_acl_deletion,
    decide_acls,
    decide_quota,
    decide_user,
    decide_user_deletion,
)
from raftlog.metadata_quorum.controller.topics import decide_alteration, decide_deletion
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.wire import admin, paths
from raftlog.wire.metadata import DeleteTopicRequest

ADMIN_OPERATIONS: dict[str, tuple[type[Any], Callable[[MetadataImage, Any], Decision[Any]]]] = {
    paths.DELETE_TOPIC: (DeleteTopicRequest, decide_deletion),
    paths.ALTER_TOPIC: (admin.AlterTopicRequest, decide_alteration),
    paths.REASSIGN: (admin.ReassignmentRequest, decide_reassignment),
    paths.ELECT_LEADERS: (admin.ElectLeadersRequest, decide_elections),
    paths.ALTER_BROKER_CONFIGS: (admin.BrokerConfigsRequest, decide_broker_configs),
    paths.UNREGISTER_BROKER: (admin.UnregisterBrokerRequest, decide_unregistration),
    paths.SET_FEATURES: (admin.FeaturesBody, decide_features),
    paths.PUT_USER: (admin.PutUserRequest, decide_user),
    paths.DELETE_USER: (admin.DeleteUserRequest, decide_user_deletion),
    paths.CREATE_ACLS: (admin.AclsRequest, decide_acls),
    paths.DELETE_ACLS: (admin.AclFilter, decide_acl_deletion),
    paths.ALTER_QUOTA: (admin.QuotaRequest, decide_quota),
}
