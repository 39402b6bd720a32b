"""Closed clients, unreadable files, and large things of which little was sent: no seed looks at them."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.broker.kafka.connection import KafkaConnection
from raftlog.broker.topic_reads.tail import Tail
from raftlog.partition.log_cleaner import LogCleaner
from raftlog.partition.readable_replica import ReadableReplica
from raftlog.partition.repair import Repairer
from raftlog.partition.storage import files
from raftlog.partition.storage.log import PartitionLog
from raftlog.record.kafka import reading

LOST = "tests/broker/kafka/test_kafka_lost_connections.py"


@mutant
@told_by(LOST)
def a_client_that_closes_loses_what_it_produced(patch: Any) -> None:
    patch.edit(KafkaConnection.connection_lost, "self._drop(overlapping=False)", "self._drop()")


@mutant
@told_by(LOST)
def a_closed_client_keeps_the_beginning_of_its_frame(patch: Any) -> None:
    patch.edit(KafkaConnection.connection_lost, "self._input.received < self._input.expected", "False")


@mutant
@told_by(LOST)
def a_closed_client_is_served_for_ever(patch: Any) -> None:
    patch.edit(KafkaConnection.connection_lost, "self._loop.call_later(GO_ON_S, self._end)", "None")


@mutant
@told_by(LOST)
def a_client_that_closes_during_a_shutdown_loses_what_it_produced(patch: Any) -> None:
    patch.edit(KafkaConnection._go_on, " or (self._ending and self._writer is None)", " or self._ending")


@mutant
@told_by("tests/broker/test_topic_stream.py")
def each_partition_of_a_followed_topic_is_decoded_at_once(patch: Any) -> None:
    patch.edit(Tail._ask_leader, "size > _MOST_LOADED_BYTES", "False")


@mutant
@told_by("tests/record/kafka/test_kafka_reading.py")
def a_filler_of_more_offsets_than_kafka_has_is_sent_again_and_again(patch: Any) -> None:
    patch.edit(reading._from, "header.last_offset_delta <= MAX_OFFSET_DELTA", "True")


@mutant
@told_by("tests/partition/test_unreadable_blocks.py")
def a_file_that_the_disk_cannot_read_keeps_a_replica_offline(patch: Any) -> None:
    patch.edit(files.read_json, "if is_unreadable(error):", "if False:")


@mutant
@told_by("tests/partition/test_loops_that_go_on.py")
def a_repair_that_cannot_open_the_log_is_over(patch: Any) -> None:
    patch.edit(Repairer._repair, "except Exception", "except OSError")


@mutant
@told_by("tests/partition/test_transactional_replica.py")
def damage_that_an_index_of_transactions_meets_is_not_noted(patch: Any) -> None:
    patch.edit(ReadableReplica._aborted_in, "self.note_damage(offset, error.message)", "pass")


@mutant
@told_by("tests/partition/test_log_cleaner.py")
def a_compacted_file_stays_on_the_full_disk(patch: Any) -> None:
    patch.edit(LogCleaner._take, "except DiskFullError:", "except ZeroDivisionError:")


@mutant
@told_by("tests/partition/test_damage_with_syncs.py")
def damage_above_a_cut_is_met_when_producers_are_read(patch: Any) -> None:
    patch.edit(PartitionLog.scan, "sys.maxsize if end is None else end", "sys.maxsize")
