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


def make_parts(
    config: NodeConfig, data_dir: NodeFolders, *, node: NodeMetrics, tls: NodeTls, shared: SharedSecurity
) -> BrokerParts:
    """Make all parts of a broker; nothing is started.

    Raises:
        ConfigError: a file of the settings cannot be used.
    """
    clock, counters, proofs = SystemClock(), BrokerMetrics(), node_proofs(config)
    dialling = partial(HttpSession, dial=config.dial, tls=tls.client, credentials=proof_headers(proofs, clock))
    session, vital = dialling(), dialling(connections_per_host=_VITAL_CONNECTIONS)
    channel = ControllerChannel([voter.internal for voter in config.quorum.voters], session, vital=vital)
    listener = MetadataListener(broker_id=config.node_id, channel=channel)
    security = node_security(
        config,
        clock,
        users=lambda: listener.require_image().users,
        rules=lambda: listener.image.acls,
        proofs=proofs,
        shared=shared,
    )
    rates = ConnectionRates(
        now=partial(_seconds, clock),
        on_delay=partial(counters.throttling.count, "connection"),
        on_refused=counters.throttling.count_refusal,
    )
    context = _context(config, data_dir, clock, session, channel, listener, counters, node, security)
    return BrokerParts(context=context, security=security, rates=rates, vital_session=vital)


def _context(
    config: NodeConfig,
    data_dir: NodeFolders,
    clock: Clock,
    session: HttpSession,
    channel: ControllerChannel,
    listener: MetadataListener,
    counters: BrokerMetrics,
    node: NodeMetrics,
    security: NodeSecurity,
) -> BrokerContext:
    lifecycle = BrokerLifecycle(config, channel=channel, data_dir=data_dir)
    ports = ReplicaPorts(
        session=session,
        controller=channel,
        clock=clock,
        on_disk_failure=lifecycle.refuse,
        require_given=IssuedIds(listener.require_image, listener.catch_up).require,
        metrics=counters.partition,
    )
    local = LocalBroker(config.node_id)
    replicas = ReplicaManager(local, data_dir, replica_settings(config), ports)
    groups = GroupService(
        broker_id=config.node_id,
        config=config.group,
        replicas=replicas,
        clock=clock,
        max_parked=config.broker.max_inflight_requests // 4,
    )
    producer_ids = ProducerIds(local, channel)
    transactions = TransactionService(
        transaction_settings(config),
        replicas=replicas,
        metadata=listener,
        session=session,
        producer_ids=producer_ids,
        groups=groups,
        clock=clock,
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
        session=session,
        clock=clock,
        metrics=counters,
        node=node,
        admin_limits=AdminLimits(),
        access=security.access,
        quotas=QuotaGate(lambda: listener.image, config.node_id, counters.throttling, now=partial(_seconds, clock)),
    )


def _seconds(clock: Clock) -> float:
    return clock.monotonic_ms() / 1000
