"""Limits of what one read of a partition returns, and the thread that verifies it."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.broker.kafka.converted import ConvertedBatches
from raftlog.broker.kafka.fetch import KafkaFetch
from raftlog.partition import consumer_fetch, replica_fetch_server
from raftlog.partition.storage import verified_reads

FETCHES = "tests/partition/test_consumer_and_replica_fetch.py"
KAFKA_CHECKSUMS = "tests/broker/kafka/test_kafka_fetch_checksums.py"


@mutant
@told_by("tests/partition/storage/test_verified_reads.py")
def reads_have_no_limit_of_batches(patch: Any) -> None:
    """A consumer's fetch of 8 MB in small batches holds the event loop for 265 ms."""
    patch.edit(verified_reads._find, "count < MOST_BATCHES and ", "")


@mutant
@told_by(FETCHES)
def small_batches_count_by_their_size_in_turns(patch: Any) -> None:
    patch.edit(consumer_fetch._read_all, "max(len(served.data), served.batches * _BATCH_BYTES)", "len(served.data)")


@mutant
@told_by(FETCHES)
def followers_responses_have_no_limit_of_batches(patch: Any) -> None:
    look = replica_fetch_server.ReplicaFetchServer._look
    patch.edit(look, "count += found.count", "pass")


@mutant
@told_by(FETCHES)
def a_fetch_waits_although_there_is_more(patch: Any) -> None:
    patch.edit(consumer_fetch.serve_fetch, "one.has_more or ", "")


@mutant
@told_by(KAFKA_CHECKSUMS)
def kafka_gets_payloads_that_were_not_verified(patch: Any) -> None:
    patch.edit(ConvertedBatches.get, "verify_payload_crc(header, batch)", "pass")


@mutant
@told_by(KAFKA_CHECKSUMS)
def what_a_conversion_finds_damaged_is_not_read_again(patch: Any) -> None:
    """The replica never learns of the damage, and its consumers never get beyond it."""
    patch.edit(KafkaFetch._read_all, "isinstance(error, CorruptBatchError) and not were_checked", "False")


@mutant
@told_by(KAFKA_CHECKSUMS)
def the_loop_verifies_what_a_worker_verifies(patch: Any) -> None:
    patch.edit(KafkaFetch._wanted, "check_crcs=False", "check_crcs=True")
