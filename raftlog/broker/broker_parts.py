"""The parts of a broker, each made from those that it needs. `BrokerNode` starts, uses and closes them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from raftlog.broker.admin_limits import AdminLimits
from raftlog.broker.context import BrokerContext
from raftlog.broker.controller_channel import ControllerChannel
from raftlog.broker.groups import GroupService
from raftlog.broker.internal_topics import InternalTopics
from raftlog.broker.lifecycle import BrokerLifecycle
from raftlog.broker.metadata_listener import MetadataListener
from raftlog.broker.metrics.traffic import BrokerMetrics
from raftlog.broker.producer_ids import IssuedIds, ProducerIds
from raftlog.broker.quotas import QuotaGate
from raftlog.broker.settings import replica_settings, transaction_settings
from raftlog.config import NodeConfig
from raftlog.coordinator.transaction.service import TransactionService
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.partition.settings import ReplicaPorts
from raftlog.partition.storage.log_dirs import NodeFolders
from raftlog.runtime import Clock, SystemClock
from raftlog.security.node_security import NodeSecurity, SharedSecurity, node_proofs, node_security, proof_headers
from raftlog.serving.connection_rates import ConnectionRates
from raftlog.serving.node_metrics import NodeMetrics
from raftlog.serving.node_tls import NodeTls
from raftlog.transport import HttpSession
from raftlog.transport.session_credentials import SessionCredentials

_VITAL_CONNECTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """What a broker node is made of."""

    context: BrokerContext
    security: NodeSecurity
    rates: ConnectionRates
    """Limits how often connections to the public listener begin."""
    vital_session: HttpSession
    """A session with its own connections, so that heartbeats do not queue behind clients' requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """What a broker has of its own process: settings, folders, time, and what is counted."""

    config: NodeConfig
    folders: NodeFolders
    clock: Clock
    node: NodeMetrics
    counters: BrokerMetrics

    def seconds(self) -> float:
        return self.clock.monotonic_ms() / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Links:
    """What connects a broker to the other nodes of its cluster."""

    session: HttpSession
    vital_session: HttpSession
    channel: ControllerChannel
    listener: MetadataListener


def make_parts(
    config: NodeConfig, data_dir: NodeFolders, *, node: NodeMetrics, tls: NodeTls, shared: SharedSecurity
) -> BrokerParts:
    """Make all parts of a broker; nothing is started.

    Raises:
        ConfigError: a file of the settings cannot be used.
    """
    own = _Process(config=config, folders=data_dir, clock=SystemClock(), node=node, counters=BrokerMetrics())
    proofs = node_proofs(config)
    links = _links(config, tls, SessionCredentials(node_proof=proof_headers(proofs, own.clock)))
    security = node_security(
        config,
        own.clock,
        users=lambda: links.listener.require_image().users,
        rules=lambda: links.listener.image.acls,
        proofs=proofs,
        shared=shared,
    )
    rates = ConnectionRates(
        now=own.seconds,
        on_delay=partial(own.counters.throttling.count, "connection"),
        on_refused=own.counters.throttling.count_refusal,
    )
    return BrokerParts(
        context=_context(own, links, security), security=security, rates=rates, vital_session=links.vital_session
    )


def _links(config: NodeConfig, tls: NodeTls, credentials: SessionCredentials) -> _Links:
    dialling = partial(HttpSession, dial=config.dial, tls=tls.client, credentials=credentials)
    session, vital = dialling(), dialling(connections_per_host=_VITAL_CONNECTIONS)
    channel = ControllerChannel([voter.internal for voter in config.quorum.voters], session, vital=vital)
    listener = MetadataListener(broker_id=config.node_id, channel=channel)
    return _Links(session=session, vital_session=vital, channel=channel, listener=listener)


def _context(own: _Process, links: _Links, security: NodeSecurity) -> BrokerContext:
    config, listener, channel = own.config, links.listener, links.channel
    lifecycle = BrokerLifecycle(config, channel=channel, data_dir=own.folders)
    local = LocalBroker(config.node_id)
    replicas = ReplicaManager(local, own.folders, replica_settings(config), _replica_ports(own, links, lifecycle))
    groups = GroupService(
        broker_id=config.node_id,
        config=config.group,
        replicas=replicas,
        clock=own.clock,
        max_parked=config.broker.max_inflight_requests // 8,  # Fetches that wait take at most three quarters.
        # One for each connection: they take no place of other requests, and a refused one would stop its group.
        max_parked_members=config.broker.max_connections,
    )
    groups.runtime.catch_up = listener.catch_up
    producer_ids = ProducerIds(local, channel)
    transactions = TransactionService(
        transaction_settings(config),
        replicas=replicas,
        metadata=listener,
        session=links.session,
        producer_ids=producer_ids,
        groups=groups,
        clock=own.clock,
    )
    return BrokerContext(
        config=config,
        replicas=replicas,
        listener=listener,
        lifecycle=lifecycle,
        channel=channel,
        producer_ids=producer_ids,
        internal_topics=InternalTopics(config.broker, image=listener.require_image, listener=listener, channel=channel),
        groups=groups,
        transactions=transactions,
        session=links.session,
        clock=own.clock,
        metrics=own.counters,
        node=own.node,
        admin_limits=AdminLimits(),
        access=security.access,
        logins=security.logins,
        quotas=QuotaGate(lambda: listener.image, config.node_id, own.counters.throttling, now=own.seconds),
    )


def _replica_ports(own: _Process, links: _Links, lifecycle: BrokerLifecycle) -> ReplicaPorts:
    return ReplicaPorts(
        session=links.session,
        controller=links.channel,
        clock=own.clock,
        on_disk_failure=lifecycle.refuse,
        require_given=IssuedIds(links.listener.require_image, links.listener.catch_up).require,
        metrics=own.counters.partition,
    )
