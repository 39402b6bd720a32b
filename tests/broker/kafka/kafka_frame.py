"""A broker in this process whose public listener serves Kafka's clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from raftlog.broker.broker_node import BrokerNode
from raftlog.broker.context import BrokerContext
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.broker.kafka.server import KafkaServer
from raftlog.config import (
    BrokerConfig,
    GroupConfig,
    ListenersConfig,
    NodeConfig,
    QuorumConfig,
    SecurityConfig,
    VoterConfig,
)
from raftlog.errors import RaftlogError
from raftlog.metadata_quorum.controller_node import ControllerNode
from raftlog.model import Address
from raftlog.partition.storage.log_dirs import open_folders
from raftlog.wire.errors import WireError


def number(error: RaftlogError | WireError | None) -> int:
    """Return Kafka's number of an error of a topic."""
    return error_number(error, "topic")


class Frame:
    """The parts of one broker that tests use beside its listener."""

    def __init__(self, context: BrokerContext, server: KafkaServer) -> None:
        services = server.dispatch.services
        self.context = context
        self.server = server
        self.parked = services.parked
        self.inflight = services.inflight
        self.producing = services.producing
        self.fetching = services.fetching
        self.offsets = services.offsets
        self.port = context.config.public.port


@asynccontextmanager
async def broker_for_kafka(
    folder: Path,
    ports: list[int],
    *,
    security: SecurityConfig | None = None,
    group: GroupConfig | None = None,
    **settings: Any,
) -> AsyncIterator[Frame]:
    """Run one node with both roles."""
    (folder / "key").write_text("k" * 64)
    public, internal, quorum = (Address("127.0.0.1", port) for port in ports)
    config = NodeConfig(
        node_id=1,
        roles=("controller", "broker"),
        data_dir=str(folder / "data"),
        cluster_id="c",
        quorum=QuorumConfig(
            voters=(VoterConfig(node_id=1, quorum=quorum, internal=internal),), key_file=str(folder / "key")
        ),
        listeners=ListenersConfig(public=public, internal=internal),
        broker=BrokerConfig(**settings),
        security=security or SecurityConfig(),
        group=group or GroupConfig(),
    )
    data_dir = open_folders(config.data_dir, config.log_dirs, cluster_id="c", node_id=1)
    controller, node = ControllerNode(config, data_dir.path), BrokerNode(config, data_dir)
    await node.start(internal=controller.routes.application())
    await controller.start(serve=False)
    assert node.kafka is not None
    try:
        yield Frame(node.context, node.kafka)
    finally:
        await node.close()
        await controller.close()
        data_dir.close()
