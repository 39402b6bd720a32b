"""The broker registry: registration, fencing, unfencing, controlled shutdown.

Sessions are soft state of the active controller's shell, and come in as arguments. A broker process that starts is a
new incarnation with a new broker epoch, fenced until it has read the metadata log up to its own registration.
"""

from __future__ import annotations

from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.controller.elections import elect_leaderless, take_offline, take_out
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


def decide_registration(
    image: MetadataImage, request: RegisterBrokerRequest, *, cluster_id: str, session_alive: bool
) -> Decision[BrokerEpoch | None]:
    """Register a broker process; the response is its epoch, None if that is the offset of this decision.

    Raises:
        InvalidRequestError: INCONSISTENT_CLUSTER_ID, or DUPLICATE_BROKER_REGISTRATION while another process lives.
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
            f"broker {request.broker_id} (version {request.version or 'unknown'}) knows the feature levels "
            f"{request.min_feature_level} to {request.max_feature_level}, the cluster has {image.feature_level}",
            code=ErrorCode.UNSUPPORTED_VERSION,
        )
    known = image.brokers.get(request.broker_id)
    if known is not None and known.incarnation_id == request.incarnation_id:
        _require_same_process(known, request)
        return _amended(known, request)
    if known is not None and session_alive and not known.fenced and not known.in_controlled_shutdown:
        raise InvalidRequestError(
            f"another process is registered as broker {request.broker_id} at {known.internal} and is alive; if that "
            "process has ended, its session will expire in a moment",
            code=ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        )
    # The process that had these leaderships is gone, even if nobody has noticed yet: a leader epoch is never led twice.
    lost_disk = known is not None and _is_other_disk(known, request)
    changes = take_out(image, request.broker_id, lost_disk=lost_disk, lost_unsynced=request.unclean)
    return Decision((*changes, _registration(request)), None)


def _require_same_process(known: BrokerRegistration, request: RegisterBrokerRequest) -> None:
    """Refuse what contradicts the process that has registered: its addresses and its disk are its own for good.

    Raises:
        InvalidRequestError: DUPLICATE_BROKER_REGISTRATION.
    """
    for name in ("public", "internal", "storage_id"):
        if getattr(known, name) != getattr(request, name):
            raise InvalidRequestError(
                f"broker {request.broker_id} has registered with {name} {getattr(known, name)} in this incarnation, "
                f"received {getattr(request, name)}",
                code=ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            )


def _is_other_disk(known: BrokerRegistration, request: RegisterBrokerRequest) -> bool:
    """Tell whether a broker comes back without what its last process held: on a new folder, or an older copy of it."""
    if known.storage_id not in ("", request.storage_id):
        return True
    return request.previous_incarnations is not None and known.incarnation_id not in request.previous_incarnations


def _registration(request: RegisterBrokerRequest, broker_epoch: BrokerEpoch = -1) -> RegisterBroker:
    fields = {name: getattr(request, name) for name in RegisterBroker.__slots__ if name != "broker_epoch"}
    return RegisterBroker(broker_epoch=broker_epoch, **fields)


def _amended(known: BrokerRegistration, request: RegisterBrokerRequest) -> Decision[BrokerEpoch | None]:
    """The same process asks again: its epoch stays, what it says of itself now holds."""
    amended = _registration(request, known.broker_epoch)
    if all(getattr(known, name) == getattr(amended, name) for name in RegisterBroker.__slots__):
        return Decision((), known.broker_epoch)
    return Decision((amended,), known.broker_epoch)


def require_current(image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> BrokerRegistration:
    """Return a broker's registration, if `broker_epoch` is its present one.

    Raises:
        InvalidRequestError: BROKER_ID_NOT_REGISTERED.
        FencedError: STALE_BROKER_EPOCH.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise InvalidRequestError(f"broker {broker_id} is not registered", code=ErrorCode.BROKER_ID_NOT_REGISTERED)
    if broker.broker_epoch != broker_epoch:
        raise FencedError(
            f"broker {broker_id}: epoch {broker_epoch} was replaced by {broker.broker_epoch}",
            code=ErrorCode.STALE_BROKER_EPOCH,
        )
    return broker


def decide_heartbeat(image: MetadataImage, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
    """Answer a heartbeat: unfence a broker that has caught up, move leaderships away from one that wants to stop."""
    broker = require_current(image, request.broker_id, request.broker_epoch)
    if request.want_shutdown:
        return _decide_shutdown(image, broker)
    offline = [TopicIdPartition(replica.topic_id, replica.partition) for replica in request.offline]
    records: list[Record] = list(take_offline(image, broker.broker_id, offline))
    caught_up = request.metadata_offset >= broker.broker_epoch
    if broker.fenced and caught_up and not broker.in_controlled_shutdown:
        # A broker says which of its logs are damaged before it can be elected: in one decision with its return.
        records.append(UnfenceBroker(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch))
        records += elect_leaderless(image, broker.broker_id, offline=offline)
        return Decision(tuple(records), HeartbeatResponse(fenced=False))
    if not records and not broker.fenced and not broker.in_controlled_shutdown:
        # Replicas that it could not open before may have been repaired.
        records += elect_leaderless(image, broker.broker_id, offline=offline)
    return Decision(tuple(records), HeartbeatResponse(fenced=broker.fenced))


def _decide_shutdown(image: MetadataImage, broker: BrokerRegistration) -> Decision[HeartbeatResponse]:
    if broker.in_controlled_shutdown:
        return Decision((), HeartbeatResponse(fenced=broker.fenced, should_shut_down=True))
    begin = BeginControlledShutdown(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    # What cannot move (nobody else is eligible) becomes leaderless and waits for it.
    records: tuple[Record, ...] = (*take_out(image, broker.broker_id), begin)
    return Decision(records, HeartbeatResponse(fenced=broker.fenced, should_shut_down=False))


def decide_fence(image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> Decision[None]:
    """Fence a broker that lost its session: out of the ISRs, new leaders, then the fence, in one decision."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch or broker.fenced:
        return Decision((), None)
    fence = FenceBroker(broker_id=broker_id, broker_epoch=broker_epoch)
    return Decision((*take_out(image, broker_id), fence), None)


def decide_unregistration(image: MetadataImage, request: UnregisterBrokerRequest) -> Decision[None]:
    """Forget a broker that will not come back.

    Raises:
        NotFoundError: RESOURCE_NOT_FOUND.
        InvalidRequestError: it is alive, or partitions still have a replica there.
    """
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise NotFoundError(f"broker {request.broker_id} is not registered", code=ErrorCode.RESOURCE_NOT_FOUND)
    if not broker.fenced:
        raise InvalidRequestError(f"broker {request.broker_id} is alive; stop it first")
    held = sum(request.broker_id in state.replicas for _, _, state in image.partitions())
    if held:
        raise InvalidRequestError(
            f"{held} partitions have a replica on broker {request.broker_id}; reassign or delete them first"
        )
    return Decision((UnregisterBroker(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch),), None)
