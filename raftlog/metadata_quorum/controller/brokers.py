"""The broker registry: registration, fencing, unfencing, controlled shutdown.

Sessions are soft state of the active controller's shell, and are passed in as arguments. Each start of a broker
process is a new incarnation with a new broker epoch. It is fenced until it has replayed the metadata log up to its own
registration.
"""

from __future__ import annotations

from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, NotFoundError, RetriableError
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.controller.elections import elect_leaderless, mark_offline, remove_from_isrs
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import (
    BeginControlledShutdown,
    FenceBroker,
    Record,
    RegisterBroker,
    UnfenceBroker,
    UnregisterBroker,
)
from raftlog.model import BrokerEpoch, BrokerId, BrokerRegistration, TopicIdPartition
from raftlog.wire.admin import UnregisterBrokerRequest
from raftlog.wire.controller import HeartbeatRequest, HeartbeatResponse, RegisterBrokerRequest

MAX_REPLACED = 128
"""Limit of earlier incarnations that are remembered for each broker; a request names up to 101."""


def decide_registration(
    image: MetadataImage, request: RegisterBrokerRequest, *, cluster_id: str, session_alive: bool
) -> Decision[BrokerEpoch | None]:
    """Register a broker process; the response is its epoch, None if that is the offset of this decision.

    Raises:
        InvalidRequestError: INCONSISTENT_CLUSTER_ID, UNSUPPORTED_VERSION, or DUPLICATE_BROKER_REGISTRATION while
            another process with this id has a session, or if a later process of this broker has registered.
    """
    if request.broker_id < 0:
        raise InvalidRequestError(f"broker_id: expected a whole number from 0, received {request.broker_id}")
    if request.cluster_id != cluster_id:
        raise InvalidRequestError(
            f"broker {request.broker_id} belongs to cluster {request.cluster_id}, this is cluster {cluster_id}",
            code=ErrorCode.INCONSISTENT_CLUSTER_ID,
        )
    if image.feature_level and not request.min_feature_level <= image.feature_level <= request.max_feature_level:
        raise InvalidRequestError(
            f"broker {request.broker_id} (version {request.version or 'unknown'}) supports the feature levels "
            f"{request.min_feature_level} to {request.max_feature_level}, the cluster has {image.feature_level}",
            code=ErrorCode.UNSUPPORTED_VERSION,
        )
    registered = image.brokers.get(request.broker_id)
    if registered is not None and registered.incarnation_id == request.incarnation_id:
        _require_same_process(registered, request)
        return _update_registration(registered, request)
    if registered is not None and session_alive and not registered.fenced and not registered.in_controlled_shutdown:
        raise InvalidRequestError(
            f"another process is registered as broker {request.broker_id} at {registered.internal} and has a session; "
            "if that process has exited, its session will expire soon",
            code=ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        )
    if registered is not None and request.incarnation_id in registered.replaced:
        # Its process has ended, but the network has delivered its request late.
        raise InvalidRequestError(
            f"a later process of broker {request.broker_id} has registered, at {registered.internal}",
            code=ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        )
    # The previous process has exited, even if its session has not expired: no two processes lead in one leader epoch.
    lost_disk = registered is not None and _has_lost_disk(registered, request)
    changes = remove_from_isrs(image, request.broker_id, lost_disk=lost_disk, lost_unsynced=request.unclean)
    return Decision((*changes, _registration(request, replaced=_replaced(registered, request))), None)


def _require_same_process(registered: BrokerRegistration, request: RegisterBrokerRequest) -> None:
    """Raise if an incarnation registers again with another address or storage id: these never change.

    Raises:
        InvalidRequestError: DUPLICATE_BROKER_REGISTRATION.
    """
    for name in ("public", "internal", "storage_id"):
        if getattr(registered, name) != getattr(request, name):
            raise InvalidRequestError(
                f"broker {request.broker_id} has registered with {name} {getattr(registered, name)} in this "
                f"incarnation, received {getattr(request, name)}",
                code=ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            )


def _has_lost_disk(registered: BrokerRegistration, request: RegisterBrokerRequest) -> bool:
    """Return whether a broker lacks its last process' records: it starts on a new data folder, or an older copy."""
    if registered.storage_id not in ("", request.storage_id):
        return True
    return request.previous_incarnations is not None and registered.incarnation_id not in request.previous_incarnations


def _replaced(registered: BrokerRegistration | None, request: RegisterBrokerRequest) -> tuple[str, ...]:
    """Return the incarnations that a new process replaces, the latest last."""
    known = () if registered is None else (*registered.replaced, registered.incarnation_id)
    return tuple(dict.fromkeys((*known, *(request.previous_incarnations or ()))))[-MAX_REPLACED:]


def _registration(
    request: RegisterBrokerRequest, broker_epoch: BrokerEpoch = -1, *, replaced: tuple[str, ...]
) -> RegisterBroker:
    decided = ("broker_epoch", "replaced")
    fields = {name: getattr(request, name) for name in RegisterBroker.__slots__ if name not in decided}
    return RegisterBroker(broker_epoch=broker_epoch, replaced=replaced, **fields)


def _update_registration(
    registered: BrokerRegistration, request: RegisterBrokerRequest
) -> Decision[BrokerEpoch | None]:
    """Update the registration of a process that registers again; its epoch stays."""
    updated = _registration(request, registered.broker_epoch, replaced=registered.replaced)
    if all(getattr(registered, name) == getattr(updated, name) for name in RegisterBroker.__slots__):
        return Decision((), registered.broker_epoch)
    return Decision((updated,), registered.broker_epoch)


def require_current(image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> BrokerRegistration:
    """Return a broker's registration, if `broker_epoch` is its current one.

    Raises:
        InvalidRequestError: BROKER_ID_NOT_REGISTERED.
        FencedError: STALE_BROKER_EPOCH.
        RetriableError: NOT_CONTROLLER: the epoch is newer than this image. A controller that was frozen does not know
            yet that another one is active, and must not end a broker that has registered there.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise InvalidRequestError(f"broker {broker_id} is not registered", code=ErrorCode.BROKER_ID_NOT_REGISTERED)
    if broker_epoch > broker.broker_epoch:
        raise RetriableError(
            f"broker {broker_id}: the newest metadata here has epoch {broker.broker_epoch}, received {broker_epoch}",
            code=ErrorCode.NOT_CONTROLLER,
        )
    if broker_epoch < broker.broker_epoch:
        raise FencedError(
            f"broker {broker_id}: epoch {broker_epoch} was replaced by {broker.broker_epoch}",
            code=ErrorCode.STALE_BROKER_EPOCH,
        )
    return broker


def decide_heartbeat(image: MetadataImage, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
    """Handle a heartbeat: unfence a broker that has caught up; move leaderships away from one that wants to stop."""
    broker = require_current(image, request.broker_id, request.broker_epoch)
    if request.want_shutdown:
        return _decide_shutdown(image, broker)
    # Not a list: each partition without a leader is looked up in it.
    offline = dict.fromkeys(TopicIdPartition(replica.topic_id, replica.partition) for replica in request.offline)
    records: list[Record] = list(mark_offline(image, broker.broker_id, offline))
    caught_up = request.metadata_offset >= broker.broker_epoch
    if broker.fenced and caught_up and not broker.in_controlled_shutdown:
        # Damaged logs are excluded in the same decision that unfences their broker, so they are never elected.
        records.append(UnfenceBroker(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch))
        records += elect_leaderless(image, broker.broker_id, offline=offline)
        return Decision(tuple(records), HeartbeatResponse(fenced=False))
    if not records and not broker.fenced and not broker.in_controlled_shutdown:
        # Replicas that the broker could not open before may have been repaired.
        records += elect_leaderless(image, broker.broker_id, offline=offline)
    return Decision(tuple(records), HeartbeatResponse(fenced=broker.fenced))


def _decide_shutdown(image: MetadataImage, broker: BrokerRegistration) -> Decision[HeartbeatResponse]:
    if broker.in_controlled_shutdown:
        return Decision((), HeartbeatResponse(fenced=broker.fenced, should_shut_down=True))
    begin = BeginControlledShutdown(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    # A partition without another eligible replica becomes leaderless until this broker restarts.
    records: tuple[Record, ...] = (*remove_from_isrs(image, broker.broker_id), begin)
    return Decision(records, HeartbeatResponse(fenced=broker.fenced, should_shut_down=False))


def decide_fence(image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> Decision[None]:
    """Fence a broker that lost its session: shrink ISRs, elect leaders and record the fence in one decision."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch or broker.fenced:
        return Decision((), None)
    fence = FenceBroker(broker_id=broker_id, broker_epoch=broker_epoch)
    return Decision((*remove_from_isrs(image, broker_id), fence), None)


def decide_unregistration(image: MetadataImage, request: UnregisterBrokerRequest) -> Decision[None]:
    """Remove a broker that will not restart.

    Raises:
        NotFoundError: RESOURCE_NOT_FOUND.
        InvalidRequestError: the broker is alive, or partitions still have a replica there.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise NotFoundError(f"broker {request.broker_id} is not registered", code=ErrorCode.RESOURCE_NOT_FOUND)
    if not broker.fenced:
        raise InvalidRequestError(f"broker {request.broker_id} is alive; stop it first")
    replicas = sum(request.broker_id in state.replicas for _, _, state in image.partitions())
    if replicas:
        raise InvalidRequestError(
            f"{replicas} partitions have a replica on broker {request.broker_id}; reassign or delete them first"
        )
    return Decision((UnregisterBroker(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch),), None)
