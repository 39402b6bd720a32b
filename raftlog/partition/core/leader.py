"""The rules of a partition leader: which replicas are in sync, and the high watermark.

The high watermark is the lowest log end over the *maximal* ISR: the ISR in force, and also the members of a proposed
change whose outcome is unknown. A pending addition already counts, because the controller may have accepted it. A
pending removal still counts, because the controller may have refused it. The change stays pending until newer metadata
decides it. Sources: KIP-497 (AlterPartition), KIP-841 and KIP-903 (which replicas may join), KIP-966 (high watermark
frozen below min ISR).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from raftlog.errors import ErrorCode, RetriableError, StaleRouteError
from raftlog.model import BrokerEpoch, BrokerId, Offset, PartitionState

UNKNOWN_OFFSET: Offset = -1


@dataclass(slots=True)
class SessionClock:
    """When a fetch session last fetched: one time for all of its partitions, however few a request names."""

    last_fetch_ms: int = 0


@dataclass(slots=True)
class Follower:
    """The state of one follower in this leader epoch."""

    end_offset: Offset = UNKNOWN_OFFSET
    """The follower has persisted every record below it, as the topic's `flush` requires."""
    broker_epoch: BrokerEpoch = -1
    """The incarnation that fetched: a late fetch of an earlier one must not bring the replica into the ISR."""
    last_fetch_ms: int = 0
    last_fetch_leader_end: Offset = UNKNOWN_OFFSET
    last_caught_up_ms: int = 0
    log_start_offset: Offset = UNKNOWN_OFFSET
    """The follower's log start offset in its last fetch."""
    session: SessionClock | None = None
    """The fetch session: each of its requests confirms the follower's last position."""

    @property
    def last_seen_ms(self) -> int:
        return max(self.last_fetch_ms, self.session.last_fetch_ms) if self.session else self.last_fetch_ms

    def note_caught_up(self, log_end_offset: Offset) -> None:
        """Record that at its last fetch the follower had the whole log, which ended at `log_end_offset`."""
        self.last_fetch_ms = self.last_seen_ms
        self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.last_fetch_leader_end = log_end_offset


@dataclass(frozen=True, slots=True)
class IsrLimits:
    """When a follower counts as out of sync, in ms."""

    lag_time_max_ms: int
    silence_max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOffsets:
    """The leader's own log when its epoch begins."""

    end: Offset
    """The log end offset: the start of this epoch."""
    own_end: Offset
    """The end of what counts as this replica's own copy; with `flush=batch`, of what is on disk."""
    high_watermark: Offset
    start: Offset = UNKNOWN_OFFSET
    """The log start offset. Records below it were deleted."""


class LeaderCore:
    """One leader epoch of one partition.

    - The high watermark never decreases, and does not advance while the ISR is smaller than `min_isr`.
    - It advances only to the lowest log end of the maximal ISR; a member without a position here blocks it.
    - At most one ISR change is pending; only metadata with a higher partition epoch, or a certain refusal, ends it.
    - A replica joins the ISR only in the incarnation that fetched, with every record below the high watermark and below
      the start of this epoch, and without records that were deleted.
    """

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        state: PartitionState,
        log: LogOffsets,
        min_insync_replicas: int,
        limits: IsrLimits,
        now_ms: int,
    ) -> None:
        self.broker_id = broker_id
        self.epoch_start_offset = log.end
        self.high_watermark = log.high_watermark
        self.pending_isr: frozenset[BrokerId] | None = None
        self._deleted_below = log.start
        """Records below it were deleted. A replica that has them must not join the ISR: they would reappear."""
        self._limits = limits
        self._own_end_offset = log.own_end
        self._log_end_offset = log.end
        self.followers: dict[BrokerId, Follower] = {}
        self._take(state, min_insync_replicas)
        self._track_followers(now_ms)

    def _take(self, state: PartitionState, min_insync_replicas: int) -> None:
        """Use a state, and remember what follows from it: every append and every fetch asks."""
        self.state = state
        self._isr = frozenset(state.isr)
        self.min_isr = min(min_insync_replicas, state.most_in_sync)
        """How many in-sync replicas acks=all needs; see `PartitionState.most_in_sync`."""
        self._lacks_replicas = len(state.isr) < self.min_isr or bool(state.adding and state.elr)

    @property
    def maximal_isr(self) -> frozenset[BrokerId]:
        return self._isr if self.pending_isr is None else self._isr | self.pending_isr

    @property
    def replicated_offset(self) -> Offset:
        """Every assigned replica, in sync or not, has persisted all records below it."""
        return min([self._own_end_offset, *(self._end_of(r) for r in self.state.replicas if r != self.broker_id)])

    def on_deletion(self, offset: Offset) -> None:
        """Record that records below `offset` are deleted: a replica that still has them may not join the ISR."""
        self._deleted_below = max(self._deleted_below, offset)

    def low_watermark(self, own_log_start_offset: Offset) -> Offset:
        """Return the lowest log start offset of all replicas that may lead next: records below it stay deleted."""
        others = (self.maximal_isr | {*self.state.elr}) - {self.broker_id}
        return min([own_log_start_offset, *(self._start_of(member) for member in others)])

    @property
    def under_min_isr(self) -> bool:
        """Whether acks=all is refused, and the high watermark stays.

        Also while replicas are added and others are eligible to lead. A controller of an earlier version requires more
        replicas in sync than this leader. It may elect one of those, which must have every acknowledged record.
        """
        return self._lacks_replicas

    def require_min_isr(self) -> None:
        """Raise if too few replicas are in sync for acks=all.

        Raises:
            RetriableError: NOT_ENOUGH_REPLICAS; nothing was appended.
        """
        if self.under_min_isr:
            raise RetriableError(
                f"{len(self.state.isr)} of {len(self.state.replicas)} replicas are in sync, acks=all needs "
                f"{self.min_isr}: nothing was appended",
                code=ErrorCode.NOT_ENOUGH_REPLICAS,
                details={"isr": list(self.state.isr), "min_insync_replicas": self.min_isr},
            )

    def require_assigned(self, follower_id: BrokerId) -> None:
        """Raise if this broker's metadata assigns no replica to a broker that fetches as a follower.

        The follower's metadata may be newer; it must send its position again.

        Raises:
            StaleRouteError: UNKNOWN_LEADER_EPOCH, as in Kafka.
        """
        if follower_id not in self.followers:
            raise StaleRouteError(
                f"broker {follower_id} is not an assigned replica in this leader's metadata, which has "
                f"{list(self.state.replicas)} (partition epoch {self.state.partition_epoch})",
                code=ErrorCode.UNKNOWN_LEADER_EPOCH,
            )

    def counts_session(self, follower_id: BrokerId, session: SessionClock | None) -> bool:
        """Return whether the follower's last position in this session was counted."""
        follower = self.followers.get(follower_id)
        return follower is not None and follower.session is session

    def on_local_append(self, log_end_offset: Offset) -> None:
        """Handle an append to the leader's log; its records count once `on_local_end` covers them."""
        for follower in self.followers.values():
            if follower.end_offset >= self._log_end_offset:
                follower.note_caught_up(self._log_end_offset)
        self._log_end_offset = log_end_offset

    def on_local_end(self, end_offset: Offset) -> bool:
        """Record this replica's persisted end offset; return whether the high watermark moved."""
        self._own_end_offset = max(self._own_end_offset, end_offset)
        return self._advance()

    def on_follower_fetch(
        self,
        follower_id: BrokerId,
        *,
        broker_epoch: BrokerEpoch,
        fetch_offset: Offset,
        now_ms: int,
        session: SessionClock | None = None,
        log_start_offset: Offset = UNKNOWN_OFFSET,
    ) -> bool:
        """Record that a follower has every record below `fetch_offset`; return whether the high watermark moved.

        The caller has resolved divergence and checked the leader epoch.

        Args:
            session: its later requests count as fetches of this partition, also when they do not name it.

        Raises:
            StaleRouteError: see `require_assigned`.
        """
        self.require_assigned(follower_id)
        follower = self.followers[follower_id]
        if broker_epoch < follower.broker_epoch:
            return False  # A late fetch of an earlier incarnation.
        assert fetch_offset <= self._log_end_offset
        if fetch_offset >= self._log_end_offset:
            follower.last_caught_up_ms = now_ms
        elif fetch_offset >= follower.last_fetch_leader_end != UNKNOWN_OFFSET:
            # It has the log as of its previous fetch, so it was caught up at that time.
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        follower.last_fetch_leader_end = self._log_end_offset
        follower.last_fetch_ms = now_ms
        follower.broker_epoch = broker_epoch
        follower.end_offset = fetch_offset
        follower.session = session
        follower.log_start_offset = log_start_offset
        return self._advance()

    def on_follower_left(self, follower_id: BrokerId, session: SessionClock) -> None:
        """Record that a session no longer covers a follower: it left the session, or its position is invalid."""
        follower = self.followers.get(follower_id)
        if follower is not None and follower.session is session:
            follower.last_fetch_ms, follower.session = follower.last_seen_ms, None

    def on_state(self, state: PartitionState, now_ms: int, *, min_insync_replicas: int) -> bool:
        """Apply newer metadata, which ends a pending ISR change; return whether the high watermark moved."""
        if state.partition_epoch <= self.state.partition_epoch:
            self._take(self.state, min_insync_replicas)
            return False
        self._take(state, min_insync_replicas)
        self.pending_isr = None
        self._track_followers(now_ms)
        return self._advance()

    def propose_isr(self, eligible: Mapping[BrokerId, BrokerEpoch], now_ms: int) -> frozenset[BrokerId] | None:
        """Return the ISR to propose, or None if no change is due; the proposal is pending from now on.

        Args:
            eligible: brokers that the controller would accept (unfenced, not shutting down), with their epochs.
        """
        if self.pending_isr is not None:
            return None
        isr = self._isr
        lagging = {member for member in isr if member != self.broker_id and self._out_of_sync(member, now_ms)}
        joining = {
            member for member in self.followers if member not in isr and self._may_join(member, eligible, now_ms)
        }
        # Shrinking first: removal lets writes go on, and only one change is in flight at a time.
        proposed = isr - lagging if lagging else isr | joining
        if proposed == isr:
            return None
        self.pending_isr = proposed
        return proposed

    def on_proposal_refused(self) -> None:
        """Handle a refusal: the controller certainly did not accept the proposal."""
        self.pending_isr = None

    def _track_followers(self, now_ms: int) -> None:
        others = [replica for replica in self.state.replicas if replica != self.broker_id]
        # In-sync replicas get the whole lag time from here: a new leader has received no fetch yet.
        fresh = Follower(last_fetch_ms=now_ms, last_caught_up_ms=now_ms)
        self.followers = {
            replica: self.followers.get(replica)
            or Follower(last_fetch_ms=fresh.last_fetch_ms, last_caught_up_ms=fresh.last_caught_up_ms)
            for replica in others
        }

    def _out_of_sync(self, member: BrokerId, now_ms: int) -> bool:
        follower = self.followers.get(member)
        if follower is None:
            return True
        if now_ms - follower.last_seen_ms > self._limits.silence_max_ms:
            return True
        behind = follower.end_offset < self._log_end_offset
        return behind and now_ms - follower.last_caught_up_ms > self._limits.lag_time_max_ms

    def _may_join(self, member: BrokerId, eligible: Mapping[BrokerId, BrokerEpoch], now_ms: int) -> bool:
        follower = self.followers[member]
        return (
            now_ms - follower.last_seen_ms <= self._limits.silence_max_ms
            and eligible.get(member) == follower.broker_epoch
            and follower.end_offset >= self.high_watermark
            and follower.end_offset >= self.epoch_start_offset
            and follower.log_start_offset >= self._deleted_below
        )

    def _advance(self) -> bool:
        if self.under_min_isr:
            return False
        lowest = min(
            [self._own_end_offset if member == self.broker_id else self._end_of(member) for member in self.maximal_isr]
        )
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True

    def _end_of(self, member: BrokerId) -> Offset:
        follower = self.followers.get(member)
        return follower.end_offset if follower else UNKNOWN_OFFSET

    def _start_of(self, member: BrokerId) -> Offset:
        follower = self.followers.get(member)
        return follower.log_start_offset if follower else UNKNOWN_OFFSET
