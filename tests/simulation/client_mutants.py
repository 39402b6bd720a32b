"""The rules that producers and readers rely on, and those of metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mutating import mutant, told_by

from raftlog.broker import metadata_listener, producer_ids
from raftlog.client import (
    admin_topics,
    fetching,
    group_commits,
    group_session,
    producer,
    reader,
    routing,
    sender,
    transactions,
)
from raftlog.client.core import accumulator, delivery_errors, membership
from raftlog.errors import RaftlogError
from raftlog.metadata_quorum import active_controller, decision_writer, records
from raftlog.metadata_quorum import replay as replaying
from raftlog.partition import admission, log_opener, readable_replica
from raftlog.partition.core import producers
from raftlog.partition.replica import Replica

# Consumers.


@mutant
@told_by("tests/client/test_fetching.py")
def a_partition_without_a_leader_makes_its_topic_stale(patch: Any) -> None:
    patch.edit(
        fetching.Fetcher._start_fetches,
        "leaderless.add(partition.topic)",
        "self.connection.forget_leader_of([partition.topic])",
    )


@mutant
@told_by("tests/client/test_group_session.py")
def new_partitions_begin_together_or_not_at_all(patch: Any) -> None:
    starts = reader.PartitionReader.offsets_in_time

    async def all_or_none(self: Any, *arguments: Any) -> Any:
        found, late = await starts(self, *arguments)
        return ({}, late) if late is not None else (found, late)

    patch(reader.PartitionReader, "offsets_in_time", all_or_none)


@mutant
@told_by("tests/client/test_group_session.py")
def a_cancelled_read_ends_the_callbacks_of_a_rebalance(patch: Any) -> None:
    async def in_place(_: Any, step: Any, **__: Any) -> None:
        await step

    patch(group_session.GroupSession, "_uncancelled", in_place)


@mutant
@told_by("tests/client/test_out_of_range.py")
def a_lookup_overwrites_a_seek(patch: Any) -> None:
    patch.edit(
        reader.PartitionReader._decide,
        "self.fetcher.positions.get(failure.partition) is before",
        "failure.partition in self.positions",
    )


@mutant
@told_by("tests/client/test_iteration_of_many_partitions.py")
def every_record_compares_the_assignment(patch: Any) -> None:
    patch.edit(
        membership.Membership._difference,
        "owned is not self._latest.owned or target is not self._latest.target",
        "True",
    )


@mutant
@told_by("tests/client/test_old_metadata.py")
def a_consumer_uses_no_old_metadata(patch: Any) -> None:
    patch.edit(fetching.Fetcher._start_fetches, "self.connection.must_refresh(", "self.connection.is_stale(")


@mutant
@told_by("tests/client/test_old_metadata.py")
def a_consumer_with_records_ready_refreshes_nothing(patch: Any) -> None:
    patch.edit(fetching.Fetcher.read_ahead, "self._refresh()", "pass")


# Producers.


@mutant
@told_by("tests/client/test_old_metadata.py")
def a_producer_uses_no_old_metadata(patch: Any) -> None:
    patch.edit(sender.Sender._route, "self._connection.must_refresh(", "self._connection.is_stale(")


@mutant
@told_by("tests/client/test_old_metadata.py")
def a_producer_uses_wrong_metadata(patch: Any) -> None:
    patch.edit(sender.Sender._route, "self._connection.must_refresh(topic)", "False")


@mutant
@told_by("tests/client/test_old_metadata.py")
def a_producer_asks_for_metadata_without_a_pause(patch: Any) -> None:
    patch.edit(sender.Sender._refresh, "await asyncio.sleep(MAX_WAIT_S)", "pass")


@mutant
@told_by("tests/client/test_routing.py")
def a_record_takes_its_request_for_metadata_with_it(patch: Any) -> None:
    patch.edit(routing.Routing._ask_until_known, "asyncio.shield(asking)", "asking")


@mutant
def repeats_are_appended(patch: Any) -> None:
    patch(producers.ProducerStates, "check", lambda self, header, now_ms: None)


@mutant
@told_by("tests/partition/test_epochs_and_producers.py")
def a_repeat_is_known_by_its_numbers_alone(patch: Any) -> None:
    known = producers.AppendedBatch.is_repeated_by
    patch(producers.AppendedBatch, "is_repeated_by", lambda self, header: known(replace(self, payload_crc=-1), header))


@mutant
@told_by("tests/partition/test_epochs_and_producers.py")
def newcomers_push_out_who_may_send_again(patch: Any) -> None:
    patch(producers.ProducerStates, "_require_room", lambda self, producer_id, now_ms: None)


@mutant
@told_by("tests/broker/test_producer_ids.py")
def any_producer_id_was_given(patch: Any) -> None:
    patch(producer_ids, "numbers_ahead", lambda image, producer_id: -1)


@mutant
@told_by("tests/partition/test_ids_at_leaders.py")
def anybody_writes_under_a_coordinators_id(patch: Any) -> None:
    patch(admission, "is_of_transactions", lambda producer_id: False)


@mutant
def producers_are_forgotten_at_a_restart(patch: Any) -> None:
    opened = log_opener.LogOpener._open
    patch(
        log_opener.LogOpener,
        "_open",
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
    """Readers of committed records are not blocked: only a record that was read and is missing later shows it."""
    honest = Replica.read

    def read(self: Any, offset: int, max_bytes: int, *, isolation: str = "read_uncommitted", **more: Any) -> Any:
        if isolation == "read_committed":
            return honest(self, offset, max_bytes, isolation=isolation, **more)
        core = self.require_leader()
        end = self.log.log_end_offset
        return readable_replica.ReadResult(
            data=self.log.read(offset, max_bytes, limit_offset=end),
            high_watermark=end,
            log_start_offset=self.log.log_start_offset,
            leader_epoch=core.state.leader_epoch,
        )

    patch(Replica, "read", read)


@mutant
@told_by("tests/broker/test_metadata_listener.py")
def metadata_goes_back(patch: Any) -> None:
    """A broker takes any image that it gets, and former leaderships with it."""
    take = metadata_listener.MetadataListener._take

    async def gullible(self: Any, update: Any) -> None:
        if update.snapshot is not None:
            self.offset = -1
        await take(self, update)

    patch(metadata_listener.MetadataListener, "_take", gullible)


@mutant
@told_by("tests/metadata_quorum/test_controller_doubt.py")
def a_controller_decides_on_what_it_does_not_know(patch: Any) -> None:
    """After an unknown outcome it continues in its epoch, on an image that the lost command may still change."""
    patch(decision_writer.DecisionWriter, "_abandon_epoch", lambda self: None)


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


# The client by itself.


@mutant
@told_by("tests/client/test_group_consumers.py::test_a_commit_after_seeking_back_counts")
def a_commit_after_seeking_back_is_dropped(patch: Any) -> None:
    honest = group_commits.GroupCommits.positions

    def forward(self: Any, partitions: Any) -> Any:
        return {
            partition: position
            for partition, position in honest(self, partitions).items()
            if position.offset > self._committed.get(partition, -1)
        }

    patch(group_commits.GroupCommits, "positions", forward)


@mutant
@told_by("tests/client/test_fetching.py")
def a_seek_waits_for_what_was_asked_before_it(patch: Any) -> None:
    seek = fetching.Fetcher.seek

    def patient(self: Any, *arguments: Any, **options: Any) -> None:
        asked, self._asked = self._asked, {}
        seek(self, *arguments, **options)
        self._asked = asked

    patch(fetching.Fetcher, "seek", patient)


@mutant
@told_by("tests/client/test_outages.py")
def a_consumer_gives_up_in_an_outage(patch: Any) -> None:
    async def impatient(self: Any) -> None:
        try:
            await self.connection.refresh(self._topics())
        except RaftlogError as error:
            self._refused = replace_retriable(error)
        finally:
            self._arrived.set()

    def replace_retriable(error: RaftlogError) -> RaftlogError:
        return RaftlogError(error.message, code=error.code)

    patch(fetching.Fetcher, "_ask_metadata", impatient)


@mutant
@told_by("tests/client/test_cancelled_commits.py")
def a_commit_that_was_cancelled_counts_as_aborted(patch: Any) -> None:
    patch(transactions.TransactionManager, "abort_commit", transactions.TransactionManager.abort)


@mutant
@told_by("tests/client/test_transactional_clients.py")
def a_refusal_after_a_lost_answer_counts_as_aborted(patch: Any) -> None:
    patch.edit(transactions.TransactionManager.commit, "self._in_doubt or isinstance", "isinstance")


@mutant
@told_by("tests/client/test_hurried_closes.py")
def a_producer_that_is_left_in_a_hurry_sends_nothing(patch: Any) -> None:
    async def finish(self: Any, *, flush: bool) -> None: ...

    patch(producer.Producer, "_finish", finish)


@mutant
@told_by("tests/client/test_client_accumulator.py")
def a_time_out_hides_what_a_broker_said(patch: Any) -> None:
    patch(delivery_errors, "cause", lambda before, error: error)


@mutant
@told_by("tests/client/test_many_due_batches.py::test_one_turn_sends_a_bounded_number_of_batches")
def a_turn_sends_any_number_of_batches(patch: Any) -> None:
    patch.edit(sender.Sender._send_due, "batches >= TURN_BATCHES or ", "")


@mutant
@told_by("tests/client/test_many_due_batches.py::test_one_turn_sends_a_bounded_number_of_bytes")
def a_turn_sends_any_number_of_bytes(patch: Any) -> None:
    patch.edit(sender.Sender._send_due, " or size >= TURN_BYTES", "")


@mutant
@told_by("tests/client/test_many_due_batches.py")
def partitions_that_were_sent_come_first_again(patch: Any) -> None:
    patch(accumulator.Accumulator, "put_last", lambda self, partitions: None)


# More partitions than one request may have.


@mutant
@told_by("tests/client/test_fetching.py")
def a_fetch_asks_for_any_number_of_partitions(patch: Any) -> None:
    patch(fetching.Fetcher, "_first_of", lambda self, requested: requested)


@mutant
@told_by("tests/client/test_fetching.py")
def partitions_without_records_do_not_take_turns(patch: Any) -> None:
    patch.edit(fetching.Fetcher._first_of, "self.positions.pop(partition)", "self.positions[partition]")


@mutant
@told_by("tests/client/test_commits_of_many_partitions.py")
def offsets_of_any_number_of_partitions_are_one_request(patch: Any) -> None:
    patch(group_commits, "_shares", lambda partitions: [list(partitions)])


# Deletions.


@mutant
@told_by("tests/client/test_deletions_at_failing_leaders.py")
def a_repeated_deletion_deletes_later_records(patch: Any) -> None:
    patch.edit(admin_topics.TopicAdmin._delete_before, "before_offset=offset", 'before_offset="high_watermark"')


@mutant
@told_by("tests/client/test_deletions_at_failing_leaders.py")
def a_deletion_at_a_new_leader_deletes_later_records(patch: Any) -> None:
    patch.edit(admin_topics.TopicAdmin.delete_records, "min(end, later_end)", "later_end")
