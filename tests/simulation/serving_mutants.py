"""The rules of clients' cores, batches, listeners and connections, each checked by a test of its own."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.broker import appending, decisions, shared_read
from raftlog.broker.broker_node import BrokerNode
from raftlog.broker.kafka import produce
from raftlog.broker.kafka.answer_space import AnswerSpace
from raftlog.broker.kafka.connection import KafkaConnection
from raftlog.broker.lean.admission import LeanAdmission
from raftlog.broker.lean.connection import LeanConnection
from raftlog.client.core import backoff
from raftlog.client.core.epochs_read import EpochsRead
from raftlog.client.core.membership import Membership
from raftlog.client.core.partition_queue import PartitionQueue
from raftlog.client.fetching import Fetcher
from raftlog.client.produce_requests import ProduceRequests
from raftlog.coordinator.group import offsets
from raftlog.partition.core.follower_session import FollowerSession
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.segment import Segment
from raftlog.record import (
    batch,
    compacted,
    control,
    layouts,
    ordinary,
    reading,
    row_checks,
    short,
    small,
    structure,
    unpacking,
    validate,
)
from raftlog.serving import connections, workers
from raftlog.serving.admission import Admission
from raftlog.serving.connections import AiohttpConnection, ConnectionLimits
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.loop_shares import LoopShares
from raftlog.serving.spare_clock import SpareClock
from raftlog.transport import buffers, lean, session, socket_writer
from raftlog.wire import packed_fetch

QUEUE = "tests/client/test_client_accumulator.py"
HISTORIES = "tests/client/test_in_flight_histories.py"
MEMBERSHIP = "tests/coordinator/test_member_and_coordinator.py"
BATCH = "tests/record/test_record_batch.py"
SHORT = "tests/record/test_short_batch.py"
ORDINARY = "tests/record/test_ordinary_batches.py"
CONTROL = "tests/record/test_control_batch.py"
CONNECTIONS = "tests/broker/test_connection_limits.py"
LIMITS = "tests/broker/test_broker_limits.py"
LISTENER = "tests/serving/test_listener_rules.py"
TURNSTILE = "tests/serving/test_turnstile.py"
CHARGED = "tests/serving/test_charged_requests.py"
LEAN = "tests/broker/test_lean_path.py"
LEAN_CLIENT = "tests/transport/test_lean_client.py"
SESSION = "tests/transport/test_http_session.py"
KAFKA_TURNS = "tests/broker/kafka/test_kafka_turns.py"
KAFKA_DATA = "tests/broker/kafka/test_kafka_data.py"
OFFSETS = "tests/broker/test_large_offset_requests.py"

# The client's cores.


@mutant
@told_by(QUEUE, HISTORIES)
def what_may_be_in_the_log_is_sent_in_a_new_epoch(patch: Any) -> None:
    patch.edit(PartitionQueue._may_bump_epoch, "first.may_be_appended or ", "")


@mutant
@told_by(QUEUE)
def a_batch_without_linger_waits_for_none_in_flight(patch: Any) -> None:
    patch.edit(PartitionQueue._ready_ms, "linger_ms < BUSY_LINGER_MS and self._is_busy()", "False")


@mutant
@told_by(QUEUE)
def a_batch_waits_for_one_in_flight_although_it_is_full(patch: Any) -> None:
    patch.edit(PartitionQueue._ready_ms, "batch.closed", "batch.closed and not self._is_busy()")


@mutant
@told_by(QUEUE, HISTORIES)
def many_batches_go_at_once_after_a_pause(patch: Any) -> None:
    """To a leader that may have forgotten the producer, and accepts any of them first."""
    patch.edit(PartitionQueue._is_quiet, "now_ms - self._acknowledged_ms >= QUIET_MS", "False")


@mutant
@told_by(QUEUE, HISTORIES)
def halves_of_a_batch_have_the_same_sequence(patch: Any) -> None:
    patch.edit(PartitionQueue._split, "_after(batch.sequence, start)", "batch.sequence")


@mutant
@told_by("tests/client/test_fetching.py")
def the_first_partitions_of_a_broker_are_read_first(patch: Any) -> None:
    """The others are read once these have no records left, which may be never."""
    patch.edit(Fetcher._take, "self.positions[partition] = self.positions.pop(partition)", "pass")


@mutant
@told_by(QUEUE)
def who_waited_for_room_has_more_time(patch: Any) -> None:
    """A record's deadline counts from the call of the producer, even if it joins a batch late."""
    patch.edit(PartitionQueue._open_batch, "elif sent_ms < batch.created_ms:", "elif False:")


@mutant
@told_by(QUEUE)
def clients_that_failed_together_come_back_together(patch: Any) -> None:
    patch.edit(backoff.backoff_ms, "(0.8 + 0.4 * jitter)", "1.0")


@mutant
@told_by("tests/client/test_epochs_read.py")
def epochs_of_records_that_nobody_has_read_are_known(patch: Any) -> None:
    patch.edit(EpochsRead.before, " or offset > self._ends[partition]", "")


@mutant
@told_by(MEMBERSHIP)
def members_say_what_they_read_now_only(patch: Any) -> None:
    """While the heartbeat is in flight they may begin to read newly assigned partitions."""
    patch.edit(Membership.request, "self.owned | self.target", "self.owned")


@mutant
@told_by(MEMBERSHIP)
def late_answers_make_a_member_of_who_was_fenced(patch: Any) -> None:
    patch.edit(Membership.on_response, 'if self.phase not in ("joining", "member"):', "if False:")


# Batches.


@mutant
@told_by(BATCH)
def batches_may_leave_offsets_out(patch: Any) -> None:
    patch.edit(validate.validate_batch, "header.last_offset_delta != header.record_count - 1", "False")


@mutant
@told_by(BATCH)
def the_newest_time_in_a_header_is_believed(patch: Any) -> None:
    """Retention goes by it."""
    patch.edit(validate.validate_batch, "!= header.max_timestamp:", "is None:")


@mutant
@told_by(BATCH)
def a_transaction_needs_no_producer(patch: Any) -> None:
    patch.edit(validate.validate_batch, "header.is_transactional and header.producer_id == NO_PRODUCER_ID", "False")


@mutant
@told_by("tests/record/test_tables_of_batches.py")
def batches_of_a_table_are_not_validated(patch: Any) -> None:
    patch.edit(reading._are_sound, "table.column(column).validate(full=True)", "pass")


@mutant
@told_by("tests/record/test_tables_of_batches.py")
def what_one_batch_needs_validated_is_enough_for_all(patch: Any) -> None:
    patch.edit(reading._are_sound, "if len(needed) == 1 else None", "")


@mutant
@told_by("tests/record/test_small_batch.py")
def what_looks_like_few_records_may_have_any_metadata(patch: Any) -> None:
    patch.edit(small.newest_of_few, " or not content.startswith(shape.prefix)", "")


@mutant
@told_by("tests/record/test_small_batch.py")
def a_small_batch_may_hide_bytes(patch: Any) -> None:
    patch.edit(small.newest_of_few, "any(content[start:end] != zeros for start, end, zeros in shape.zeros)", "False")


@mutant
@told_by("tests/record/test_small_batch.py")
def the_offsets_of_a_small_batch_may_go_back(patch: Any) -> None:
    patch.edit(small.newest_of_few, " or any(map(operator.gt, offsets, offsets[1:]))", "")


@mutant
@told_by(SHORT)
def a_short_batch_may_hide_bytes(patch: Any) -> None:
    patch.edit(short.read_short, " or any(payload[end:])", "")


@mutant
@told_by(SHORT)
def a_short_batch_may_be_compressed(patch: Any) -> None:
    patch.edit(batch._implausible, " or header.attributes & _NOT_SHORT", "")


@mutant
@told_by(SHORT)
def short_batches_count_as_what_is_stored(patch: Any) -> None:
    """In memory they are up to nine times as large."""
    patch.edit(unpacking.unpacked_bytes, "(ATTRIBUTE_COMPRESSION | ATTRIBUTE_SHORT)", "ATTRIBUTE_COMPRESSION")


@mutant
@told_by(SHORT)
def compaction_keeps_the_mark_of_short_batches(patch: Any) -> None:
    patch.edit(compacted.keep_rows, " & ~ATTRIBUTE_SHORT", "")


@mutant
@told_by("tests/broker/test_appending.py")
def leaders_take_short_batches_that_followers_refuse(patch: Any) -> None:
    patch.edit(appending.append_batch, "context.image.feature_level < SHORT_BATCHES", "False")


@mutant
@told_by("tests/client/test_produce_requests.py")
def producers_write_short_batches_for_earlier_brokers(patch: Any) -> None:
    patch.edit(ProduceRequests.encode, "feature_level >= SHORT_BATCHES", "True")


@mutant
@told_by("tests/record/test_row_checks.py")
def columns_of_nulls_may_point_anywhere(patch: Any) -> None:
    patch.edit(row_checks._has_only_nulls, " and _is_zero(offsets, (count + 1) * _OFFSET_BYTES)", "")


@mutant
@told_by(BATCH)
def columns_may_share_their_bytes(patch: Any) -> None:
    patch.edit(structure._check_buffers, "sum(lengths) > size", "False")


@mutant
@told_by(BATCH)
def batches_unpack_to_what_they_take_packed(patch: Any) -> None:
    patch.edit(structure._unpacked_size, "else declared", "else length")


@mutant
@told_by(BATCH)
def what_lies_between_known_places_is_not_compared(patch: Any) -> None:
    patch.edit(layouts.known_numbers, "bits & layout.mask == layout.constant", "True")


@mutant
@told_by(ORDINARY)
def columns_of_nulls_are_believed_to_be_zero(patch: Any) -> None:
    patch.edit(ordinary.columns_with_contents, "not _ZEROS.startswith(body[zeros])", "False")


@mutant
@told_by(ORDINARY)
def null_headers_are_believed_to_be_zero(patch: Any) -> None:
    patch.edit(ordinary.columns_with_contents, "not _ZEROS.startswith(body[shape.headers])", "False")


@mutant
@told_by(ORDINARY)
def buffers_of_ordinary_batches_may_lie_anywhere(patch: Any) -> None:
    patch.edit(ordinary._are_in_order, "return end <= body_bytes", "return True")


@mutant
@told_by(CONTROL)
def what_a_producer_wrote_after_an_abort_counts_as_aborted(patch: Any) -> None:
    patch.edit(control.AbortedBatches.__contains__, " and header.base_offset <= ranges[at - 1][1]", "")


@mutant
@told_by(CONTROL)
def any_control_batch_is_a_marker(patch: Any) -> None:
    patch.edit(control.parse_marker, "header.batch_length != MARKER_BYTES or not as_written", "not as_written")


# What listeners take.


@mutant
@told_by(LIMITS)
def bodies_are_counted_once_they_are_too_many(patch: Any) -> None:
    patch.edit(InflightLimits.hold, "self.bytes + size > self._max_bytes", "self.bytes > self._max_bytes")


@mutant
@told_by("tests/serving/test_inflight_limits.py")
def one_address_may_hold_all_the_memory(patch: Any) -> None:
    patch.edit(InflightLimits._is_too_much, "own > self._max_bytes - held", "False")


@mutant
@told_by("tests/broker/kafka/test_kafka_versions.py")
def records_are_converted_that_nothing_may_hold(patch: Any) -> None:
    patch.edit(AnswerSpace.take, "if self.is_refused:", "if False:")


@mutant
@told_by("tests/broker/kafka/test_kafka_versions.py")
def waiting_fetches_keep_their_memory(patch: Any) -> None:
    patch.edit(AnswerSpace.keep, "min(most, self.taken)", "self.taken")


@mutant
@told_by(LISTENER)
def json_may_be_as_large_as_batches(patch: Any) -> None:
    patch.edit(RequestLimits.require_size, "min(self.max_json_bytes, self.max_body_bytes) if json else ", "")


@mutant
@told_by(LEAN)
def bodies_count_for_ever(patch: Any) -> None:
    patch.edit(Admission._admit, "body.release()", "pass")


@mutant
@told_by(LEAN)
def requests_count_for_ever(patch: Any) -> None:
    patch.edit(Admission._admit, "self._inflight.leave()", "pass")


@mutant
@told_by(CONNECTIONS)
def connections_of_an_address_count_for_ever(patch: Any) -> None:
    patch.edit(ConnectionLimits.leave, "self._from[address] -= 1", "pass")


@mutant
@told_by(LEAN)
def connections_of_aiohttp_count_for_ever(patch: Any) -> None:
    patch.edit(AiohttpConnection.connection_lost, "self._limits.leave(self._address)", "pass")


@mutant
@told_by(LEAN)
def a_request_must_be_handled_within_the_time_of_its_head(patch: Any) -> None:
    patch.edit(AiohttpConnection.began, "self._stop_timer()", "pass")


@mutant
@told_by(TURNSTILE)
def who_took_much_waits_without_limit(patch: Any) -> None:
    patch.edit(LoopShares.charge, "min(free_at, now + MAX_DEBT_S)", "free_at")


@mutant
@told_by(TURNSTILE)
def a_share_is_one_of_the_walls_time(patch: Any) -> None:
    """Several loops that share processors then serve an address together more than they have."""
    patch.edit(SpareClock.time, "now - self._taken_s", "now")


@mutant
@told_by("tests/broker/test_controller_channel.py")
def linearizable_reads_are_charged_to_nobody(patch: Any) -> None:
    patch(shared_read, "ROUND_S", 0.0)


@mutant
@told_by(TURNSTILE)
def a_busy_loop_counts_as_one_that_is_idle(patch: Any) -> None:
    patch.edit(SpareClock._read_taken_s, " + (1 - COMPUTING) * int(ran_ns)", "")


@mutant
@told_by(LIMITS)
def each_listener_gives_an_address_a_share_of_the_loop(patch: Any) -> None:
    patch.edit(BrokerNode.start, "Turnstile(shares)", "Turnstile()")


@mutant
@told_by(CHARGED)
def what_aiohttp_computes_itself_costs_nothing(patch: Any) -> None:
    patch.edit(AiohttpConnection.charge_response, "self.charge(seconds + _AIOHTTP_S)", "pass")


@mutant
@told_by(CHARGED)
def a_request_whose_client_disconnects_costs_nothing(patch: Any) -> None:
    patch.edit(connections.charged, "    finally:", "    except ZeroDivisionError:")


@mutant
@told_by(TURNSTILE)
def a_thread_that_failed_or_was_cancelled_costs_nothing(patch: Any) -> None:
    patch.edit(workers._Timed.run, "self.seconds = time.thread_time() - began", "pass")


@mutant
@told_by(KAFKA_TURNS)
def requests_of_kafka_wait_for_no_turn(patch: Any) -> None:
    patch.edit(KafkaConnection._try_enter, "return turnstile.try_enter(self.address)", "return True")


@mutant
@told_by(KAFKA_TURNS)
def requests_of_kafka_cost_nothing(patch: Any) -> None:
    patch.edit(KafkaConnection._charged, "self._server.turnstile.charge(self.address, work.seconds)", "pass")


@mutant
@told_by(KAFKA_TURNS)
def clients_of_kafka_are_not_served(patch: Any) -> None:
    """An address that floods HTTP then gets all of the loop's time."""
    patch.edit(KafkaConnection._try_enter, "turnstile.mark_active(self.address)", "pass")


# Connections.


@mutant
@told_by(LEAN)
def lean_connections_count_for_ever(patch: Any) -> None:
    patch.edit(LeanConnection.connection_lost, "self._connections.leave(self._address)", "pass")


@mutant
@told_by(LEAN)
def bodies_of_lean_requests_count_for_ever(patch: Any) -> None:
    patch.edit(LeanAdmission.end, "self._routes.inflight.release(self._held_bytes, self._address)", "pass")


@mutant
@told_by(LEAN, LIMITS)
def supervisors_wait_for_their_turn(patch: Any) -> None:
    patch.edit(LeanConnection._request_handover, "self._input.asks_for_health or ", "")


@mutant
@told_by(LEAN)
def the_body_of_a_refused_request_is_the_next_request(patch: Any) -> None:
    patch.edit(LeanConnection._refuse, "self._input.unwanted = left", "self._input.unwanted = 0")


@mutant
@told_by(LEAN)
def who_sends_ahead_is_not_stopped(patch: Any) -> None:
    patch.edit(LeanConnection.buffer_updated, "self._muting.pause()", "pass")


@mutant
@told_by(LEAN_CLIENT)
def a_connection_with_an_answer_to_come_is_used_again(patch: Any) -> None:
    patch.edit(lean._Connection.reusable.fget, " and self._answer is None", "")


@mutant
@told_by(LEAN_CLIENT)
def connections_rest_for_any_time(patch: Any) -> None:
    patch.edit(lean.LeanPool._take_idle, "now - connection.idle_since > IDLE_S", "False")


@mutant
@told_by(LEAN_CLIENT, SESSION)
def a_buffer_that_somebody_looks_into_is_used_again(patch: Any) -> None:
    patch.edit(buffers._is_free, "return False", "return True")


@mutant
@told_by(SESSION)
def what_may_have_taken_effect_is_sent_again(patch: Any) -> None:
    patch.edit(session.HttpSession._send_by_aiohttp, 'if method in ("PUT", "DELETE") else ()', "if False else ()")


@mutant
@told_by(LISTENER)
def what_a_socket_did_not_take_is_skipped(patch: Any) -> None:
    patch.edit(socket_writer._after, "[piece[written:], *pieces[number + 1 :]]", "pieces[number + 1 :]")


# Requests that take several decisions.


@mutant
@told_by(OFFSETS)
def only_the_first_offsets_of_a_transaction_end(patch: Any) -> None:
    patch.edit(decisions.decide_all, "while await", "if await")


@mutant
@told_by(OFFSETS)
def all_offsets_of_a_transaction_end_in_one_decision(patch: Any) -> None:
    patch.edit(offsets.decide_end_of_transaction, "found[:OFFSETS_AT_ONCE]", "found")


@mutant
@told_by(KAFKA_DATA)
def a_kafka_batch_overtakes_one_whose_producer_is_asked_for(patch: Any) -> None:
    patch.edit(produce._Places.taken, "await self._all.wait()", "await asyncio.sleep(0)")


# Followers' fetches in packed form, and the newest batch in memory.


@mutant
@told_by("tests/partition/test_fetch_loop.py")
def a_leader_that_failed_is_asked_in_packed_form_again(patch: Any) -> None:
    patch.edit(FollowerSession.reset, '"", NEW_SESSION, False, False', '"", NEW_SESSION, False, self.packs')


@mutant
@told_by("tests/wire/test_packed_fetch.py")
def a_packed_fetch_may_have_more_than_it_says(patch: Any) -> None:
    patch.edit(packed_fetch.unpack_request, "len(message) != at", "len(message) < at")


@mutant
@told_by("tests/wire/test_packed_fetch.py")
def an_error_gets_lost_in_packed_form(patch: Any) -> None:
    patch.edit(packed_fetch._packed_result, "result.error is not None or ", "")


@mutant
@told_by("tests/partition/storage/test_verified_reads.py")
def the_newest_batch_is_shown_before_it_is_committed(patch: Any) -> None:
    patch.edit(PartitionLog.find_verified, " and segment.next_offset <= limit_offset", "")


@mutant
@told_by("tests/partition/storage/test_verified_reads.py")
def the_newest_batch_outlives_its_truncation(patch: Any) -> None:
    patch.edit(Segment.forget_recent, "(), _NONE", "(), self._newest")
