"""The replication rules, each broken once, as somebody could break it by mistake: `make mutants` finds each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from raftlog.broker import metadata_listener
from raftlog.errors import RaftlogError
from raftlog.metadata_quorum import active_controller, decision_writer, records
from raftlog.metadata_quorum import replay as replaying
from raftlog.metadata_quorum.controller import brokers, elections, reassignment
from raftlog.metadata_quorum.controller import isr as isr_decisions
from raftlog.model import NO_LEADER, PartitionState
from raftlog.partition import fetcher, isr, readable, record_deletion, replica_manager, replica_serving
from raftlog.partition.core import fetch_sessions, leader, producers
from raftlog.partition.replica import Replica
from raftlog.partition.storage import data_dir, epochs, files, log, log_files, log_segments, recovery, sync

Mutant = Callable[[Any], None]
MUTANTS: dict[str, Mutant] = {}
TOLD_BY: dict[str, tuple[str, ...]] = {}


class Patches:
    """Undoes what it did."""

    def __init__(self) -> None:
        self._patches: list[Any] = []

    def __call__(self, target: Any, name: str, value: Any) -> None:
        patch = mock.patch.object(target, name, value)
        patch.start()
        self._patches.append(patch)

    def undo(self) -> None:
        for patch in reversed(self._patches):
            patch.stop()


@contextmanager
def broken_by(name: str) -> Iterator[None]:
    """Break one rule."""
    patches = Patches()
    MUTANTS[name](patches)
    try:
        yield
    finally:
        patches.undo()


def mutant(mutate: Mutant) -> Mutant:
    MUTANTS[mutate.__name__] = mutate
    return mutate


def told_by(*tests: str) -> Callable[[Mutant], Mutant]:
    """Name the tests of a rule that another one guards, too: no history of a cluster shows that it is broken."""

    def note(mutate: Mutant) -> Mutant:
        TOLD_BY[mutate.__name__] = tests
        return mutate

    return note


# The high watermark, and who counts.


@mutant
def high_watermark_of_the_leader_alone(patch: Any) -> None:
    patch(leader.LeaderCore, "maximal_isr", property(lambda self: frozenset({self.broker_id})))


@mutant
def pending_additions_do_not_count(patch: Any) -> None:
    patch(leader.LeaderCore, "maximal_isr", property(lambda self: frozenset(self.state.isr)))


@mutant
def pending_removals_do_not_count(patch: Any) -> None:
    patch(
        leader.LeaderCore,
        "maximal_isr",
        property(lambda self: self.pending_isr if self.pending_isr is not None else frozenset(self.state.isr)),
    )


@mutant
def high_watermark_moves_below_min_isr(patch: Any) -> None:
    patch(leader.LeaderCore, "under_min_isr", property(lambda self: False))


@mutant
def an_unknown_change_of_the_isr_is_taken_back(patch: Any) -> None:
    """After an attempt without an answer the leader goes on as if its proposal had been refused."""
    check = isr.IsrKeeper.check

    async def forgetful(self: Any) -> None:
        await check(self)
        for change in list(self._in_flight):
            if change in self._doubtful:
                for one in self._leaders():
                    if one.assignment.key == change and one.core is not None:
                        one.core.pending_isr = None
                self._in_flight.pop(change)

    patch(isr.IsrKeeper, "check", forgetful)


@mutant
def a_refused_change_may_still_be_on_its_way(patch: Any) -> None:
    """A late copy of a change that was sent twice is not shut out."""
    check = isr.IsrKeeper.check

    async def sure(self: Any) -> None:
        self._doubtful = set()
        await check(self)
        self._doubtful = set()

    patch(isr.IsrKeeper, "check", sure)


@mutant
def followers_count_before_they_sync(patch: Any) -> None:
    patch(fetcher, "_sync", lambda replicas: [])


@mutant
def the_leader_counts_before_it_syncs(patch: Any) -> None:
    patch(Replica, "held_end_offset", property(lambda self: self.log.log_end_offset))
    appended = Replica._appended

    def eager(self: Any, core: Any) -> None:
        appended(self, core)
        self._moved(core.on_local_end(self.log.log_end_offset))

    patch(Replica, "_appended", eager)


@mutant
def acknowledged_when_the_leader_has_it(patch: Any) -> None:
    async def wait(self: Any, result: Any, core: Any, acks: Any, timeout_ms: int) -> None:
        if self.held_end_offset <= result.last_offset:
            await self._held.wait(result.last_offset, timeout_ms=timeout_ms)

    patch(Replica, "_wait_for", wait)


@mutant
def a_leader_that_resigns_acknowledges(patch: Any) -> None:
    """Those who wait are told of success instead of not knowing."""
    resign = Replica._resign

    def cheerful(self: Any, why: str) -> None:
        self._acknowledged.passed(self.log.log_end_offset)
        resign(self, why)

    patch(Replica, "_resign", cheerful)


@mutant
def late_fetches_of_an_earlier_incarnation_count(patch: Any) -> None:
    """Two rules say so, one for sessions and one for positions: either alone is enough."""
    fetch, opened = leader.LeaderCore.on_follower_fetch, fetch_sessions.LeaderSessions._open

    def gullible(self: Any, follower_id: int, *, broker_epoch: int, **more: Any) -> bool:
        known = self.followers.get(follower_id)
        return fetch(self, follower_id, broker_epoch=max(broker_epoch, known.broker_epoch if known else -1), **more)

    def open_gullibly(self: Any, request: Any, broker_epoch: int) -> Any:
        known = self._by_follower.get(request.replica_id)
        newest = max(request.broker_epoch, known.broker_epoch if known else -1)
        return opened(self, replace(request, broker_epoch=newest), broker_epoch)

    patch(leader.LeaderCore, "on_follower_fetch", gullible)
    patch(fetch_sessions.LeaderSessions, "_open", open_gullibly)


# Who may join the ISR.


@mutant
def anybody_who_fetches_joins_the_isr(patch: Any) -> None:
    patch(
        leader.LeaderCore,
        "_may_join",
        lambda self, member, eligible, now_ms: (
            eligible.get(member) == self.followers[member].broker_epoch and self.followers[member].end_offset >= 0
        ),
    )


@mutant
def the_controller_takes_any_member(patch: Any) -> None:
    """Neither fenced brokers nor those of an earlier incarnation are kept out of an ISR."""
    judge = isr_decisions._judge

    def lenient(image: Any, state: Any, broker_id: int, asked: Any) -> Any:
        known = [m for m in asked.new_isr if m.broker_id in image.brokers]
        members = tuple(replace(m, broker_epoch=image.brokers[m.broker_id].broker_epoch) for m in known)
        with mock.patch.object(isr_decisions, "is_active", return_value=True):
            return judge(image, state, broker_id, replace(asked, new_isr=members))

    patch(isr_decisions, "_judge", lenient)


@mutant
def isr_changes_without_compare_and_swap(patch: Any) -> None:
    def require(state: Any, broker_id: int, asked: Any) -> None:
        if state.leader != broker_id:
            raise RaftlogError("not the leader")

    patch(isr_decisions, "_require_epochs", require)


# Histories.


@mutant
def followers_do_not_see_that_histories_part(patch: Any) -> None:
    patch(replica_serving, "diverging_epoch", lambda *_, **__: None)


@mutant
def followers_cut_where_the_leader_says_only(patch: Any) -> None:
    """Not where their own epoch ends."""
    patch(
        fetcher,
        "truncation_offset",
        lambda epochs, *, log_end_offset, leader_epoch, leader_end_offset: leader_end_offset,
    )


@mutant
def followers_cut_to_their_high_watermark(patch: Any) -> None:
    """KIP-101."""
    apply = Replica.apply

    def eager(self: Any, assignment: Any) -> None:
        epoch = self.assignment.state.leader_epoch
        apply(self, assignment)
        if self.core is None and self.state.leader_epoch != epoch and self.log.log_end_offset > self.high_watermark:
            self.truncate_to(self.high_watermark)

    patch(Replica, "apply", eager)


@mutant
def a_restarted_follower_cuts_to_its_high_watermark(patch: Any) -> None:
    opened = replica_manager.ReplicaManager._open_log

    def eager(self: Any, *arguments: Any) -> Any:
        found, known = opened(self, *arguments)
        found.truncate_to(max(found.log_start_offset, min(found.high_watermark_checkpoint, found.log_end_offset)))
        return found, known

    patch(replica_manager.ReplicaManager, "_open_log", eager)


@mutant
@told_by("tests/partition/test_replication.py::test_a_fetch_of_an_earlier_epoch_counts_for_nothing")
def requests_of_any_leader_epoch_are_served(patch: Any) -> None:
    patch(replica_serving, "require_same_epoch", lambda mine, theirs, partition: None)


@mutant
def epochs_are_not_cut_with_the_log(patch: Any) -> None:
    patch(epochs.EpochTable, "truncate_from", lambda self, offset: None)


@mutant
def a_leader_does_not_note_its_epoch(patch: Any) -> None:
    """KAFKA-7415: what it appends belongs to the epoch before."""
    patch(
        epochs.EpochTable,
        "assign",
        lambda self, epoch, start_offset: None if self._entries else self._replace([(epoch, start_offset)]),
    )


# Disks.


@mutant
def sync_does_nothing(patch: Any) -> None:
    def pretend(self: Any, log_end_offset: Any) -> Any:
        self.durable_end_offset = max(self.durable_end_offset, log_end_offset())
        return self.durable_end_offset

    patch(sync.Syncer, "sync", pretend)


@mutant
def folders_are_not_synced(patch: Any) -> None:
    for module in (files, log_files, log_segments, recovery, sync, data_dir):
        patch(module, "fsync_dir", lambda folder: None)


@mutant
def a_failed_sync_is_tried_again(patch: Any) -> None:
    synced = log.PartitionLog.fsync

    def stubborn(self: Any) -> Any:
        try:
            return synced(self)
        except RaftlogError:
            self._failure = None
            return self.log_end_offset

    patch(log.PartitionLog, "fsync", stubborn)


@mutant
@told_by("tests/storage/test_bad_files.py::test_every_byte_of_the_log_itself")
def a_torn_tail_is_kept(patch: Any) -> None:
    """Headers are believed without their payloads."""
    scan = recovery.Segment.scan
    patch(recovery.Segment, "scan", lambda self, start, end, *, verify: scan(self, start, end, verify=False))


@mutant
def a_replaced_disk_goes_unnoticed(patch: Any) -> None:
    decide = brokers.decide_registration

    def blind(image: Any, request: Any, **more: Any) -> Any:
        known = image.brokers.get(request.broker_id)
        return decide(image, replace(request, storage_id=known.storage_id if known else request.storage_id), **more)

    patch(active_controller, "decide_registration", blind)


@mutant
def a_lost_tail_goes_unnoticed(patch: Any) -> None:
    """KIP-966: the machine of a replica with `flush = os` went down, and it stays eligible."""
    last_end = data_dir._last_end
    patch(data_dir, "_last_end", lambda path: replace(last_end(path), unclean=False))


# Elections.


@mutant
def anybody_is_elected(patch: Any) -> None:
    def elect(state: Any, may_lead: Any) -> int:
        return next((replica for replica in state.replicas if may_lead(replica)), NO_LEADER)

    patch(elections, "elect", elect)


@mutant
def leader_epochs_stand_still(patch: Any) -> None:
    """Wherever the controller counts them."""
    for name in ("moved", "_without", "elected"):
        patch(elections, name, _standing_still(getattr(elections, name)))


def _standing_still(decide: Any) -> Any:
    def same_epoch(*arguments: Any, **more: Any) -> Any:
        before = next(one for one in arguments if isinstance(one, PartitionState))
        return replace(decide(*arguments, **more), leader_epoch=before.leader_epoch)

    return same_epoch


@mutant
def a_new_incarnation_keeps_its_place(patch: Any) -> None:
    patch(brokers, "take_out", lambda image, broker_id, **lost: [])


@mutant
def who_leaves_the_isr_stays_eligible(patch: Any) -> None:
    """At or above min ISR too: what is acknowledged then it does not have."""
    moved = elections.moved

    def generous(state: Any, *, isr: Any, leader: int, min_isr: int, lost: Any = frozenset()) -> Any:
        after = moved(state, isr=isr, leader=leader, min_isr=min_isr, lost=lost)
        left = {*state.elr, *state.isr} - {*after.isr, *lost}
        return replace(after, elr=tuple(member for member in state.replicas if member in left))

    for module in (elections, isr_decisions):
        patch(module, "moved", generous)


@mutant
def a_move_ends_before_its_targets_hold_anything(patch: Any) -> None:
    completed = reassignment.completed

    def hasty(image: Any, topic: Any, before: Any, state: Any) -> Any:
        target = tuple(replica for replica in state.replicas if replica not in state.removing)
        return completed(image, topic, before, replace(state, isr=tuple(dict.fromkeys((*target, *state.isr)))))

    for module in (reassignment, isr_decisions):
        patch(module, "completed", hasty)


# Records that go.


@mutant
def records_above_the_high_watermark_expire(patch: Any) -> None:
    for name in ("expired_segments", "active_has_expired"):
        patch(log_segments, name, _as_if_all_were_committed(getattr(log_segments, name)))


def _as_if_all_were_committed(decide: Any) -> Any:
    def hasty(log_or_segment: Any, config: Any, now_us: int, high_watermark: int, start: int) -> Any:
        return decide(log_or_segment, config, now_us, 1 << 62, start)

    return hasty


@mutant
def retention_takes_one_segment_too_many(patch: Any) -> None:
    decide = log_segments.expired_segments

    def greedy(segments: Any, config: Any, now_us: int, high_watermark: int, start: int) -> int:
        count = decide(segments, config, now_us, high_watermark, start)
        more = 0 < count < len(segments) - 1 and segments[count].next_offset <= high_watermark
        return int(count + more)

    patch(log_segments, "expired_segments", greedy)


@mutant
def segments_go_before_the_log_start_is_on_disk(patch: Any) -> None:
    save = log_files.LogFiles._save_checkpoint

    def lazy(self: Any, *, log_start_offset: int | None = None, recovery_point: int, high_watermark: int) -> None:
        if log_start_offset is None:
            save(self, recovery_point=recovery_point, high_watermark=high_watermark)
        else:
            self._checkpoint = replace(self._checkpoint, log_start_offset=log_start_offset)

    patch(log_segments.SegmentedLog, "_save_checkpoint", lazy)


@mutant
def followers_keep_what_the_leader_deleted(patch: Any) -> None:
    learn = Replica.learn_marks
    patch(
        Replica,
        "learn_marks",
        lambda self, mark, *, log_start_offset, replicated_offset: learn(
            self, mark, log_start_offset=0, replicated_offset=replicated_offset
        ),
    )


@mutant
def followers_wait_for_what_is_gone(patch: Any) -> None:
    """They ask again and again for what is below the leader's log start."""
    patch(fetcher.LeaderFetcher, "_on_error", lambda self, replica, error: False)


@mutant
def a_deletion_is_answered_when_the_leader_has_done_it(patch: Any) -> None:
    async def hasty(*_: Any) -> None:
        return None

    patch(record_deletion, "_until_gone_everywhere", hasty)


@mutant
def who_joins_the_isr_may_still_hold_what_was_deleted(patch: Any) -> None:
    patch(leader.LeaderCore, "on_deletion", lambda self, offset: None)


@mutant
def who_left_the_isr_is_not_asked_to_delete(patch: Any) -> None:
    """KIP-966: below min ISR it may lead next, all the same."""
    low = leader.LeaderCore.low_watermark

    def forgetful(self: Any, own_log_start_offset: int) -> int:
        with mock.patch.object(self, "state", replace(self.state, elr=())):
            return low(self, own_log_start_offset)

    patch(leader.LeaderCore, "low_watermark", forgetful)


# Producers.


@mutant
def repeats_are_appended(patch: Any) -> None:
    patch(producers.ProducerStates, "check", lambda self, header: None)


@mutant
def producers_are_forgotten_at_a_restart(patch: Any) -> None:
    opened = replica_manager.ReplicaManager._open_log
    patch(
        replica_manager.ReplicaManager,
        "_open_log",
        lambda self, *arguments: (opened(self, *arguments)[0], producers.ProducerStates()),
    )


@mutant
def followers_learn_nothing_of_producers(patch: Any) -> None:
    append = Replica.append_fetched

    def ignorant(self: Any, batches: bytes) -> None:
        known, self.producers = self.producers, producers.ProducerStates()
        append(self, batches)
        self.producers = known

    patch(Replica, "append_fetched", ignorant)


# Readers, and metadata.


@mutant
def consumers_read_what_is_not_committed(patch: Any) -> None:
    """Readers of committed records go on as they should: nothing tells but a record that was read, and is gone."""
    honest = Replica.read

    def read(self: Any, offset: int, max_bytes: int, *, isolation: str = "read_uncommitted", **more: Any) -> Any:
        if isolation == "read_committed":
            return honest(self, offset, max_bytes, isolation=isolation, **more)
        core = self.require_leader()
        end = self.log.log_end_offset
        return readable.ReadResult(
            data=self.log.read(offset, max_bytes, limit_offset=end),
            high_watermark=end,
            log_start_offset=self.log.log_start_offset,
            leader_epoch=core.state.leader_epoch,
        )

    patch(Replica, "read", read)


@mutant
@told_by("tests/broker/test_metadata_listener.py")
def metadata_goes_back(patch: Any) -> None:
    """A broker takes any image that it is given, and leaderships that have ended with it."""
    take = metadata_listener.MetadataListener._take

    async def gullible(self: Any, update: Any) -> None:
        if update.snapshot is not None:
            self.offset = -1
        await take(self, update)

    patch(metadata_listener.MetadataListener, "_take", gullible)


@mutant
@told_by("tests/metadata_quorum/test_controller_doubt.py")
def a_controller_decides_on_what_it_does_not_know(patch: Any) -> None:
    """After an unknown outcome it goes on in its epoch, on an image that the lost command may still change."""
    patch(decision_writer.DecisionWriter, "_doubt", lambda self: None)


@mutant
@told_by("tests/metadata_quorum/test_controller_doubt.py")
def commands_of_a_deposed_controller_take_effect(patch: Any) -> None:
    command = replaying.replay_command

    def lenient(image: Any, offset: int, payload: bytes) -> Any:
        read = records.decode_command(payload)
        if not any(isinstance(record, records.BeginEpoch) for record in read.records):
            late = replace(read, controller_epoch=image.controller_epoch, sequence=image.last_sequence + 1)
            payload = records.encode_command(late)
        return command(image, offset, payload)

    patch(active_controller, "replay_command", lenient)
