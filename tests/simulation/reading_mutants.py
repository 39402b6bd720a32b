"""Limits of what one request may take or read, and the order of requests that pause."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.broker.kafka.call import ProduceTurn
from raftlog.broker.kafka.converted import ConvertedBatches
from raftlog.broker.kafka.fetch import KafkaFetch
from raftlog.broker.kafka.produce import KafkaProduce
from raftlog.coordinator.group.classic_draft import ClassicDraft
from raftlog.partition import consumer_fetch, replica_fetch_server
from raftlog.partition.storage import verified_reads
from raftlog.security.access import TopicReads

FETCHES = "tests/partition/test_consumer_and_replica_fetch.py"
KAFKA_DATA = "tests/broker/kafka/test_kafka_data.py"
AUDIT = "tests/security/test_audit.py"
CLASSIC_REBALANCES = "tests/coordinator/test_classic_rebalances.py"
KAFKA_CHECKSUMS = "tests/broker/kafka/test_kafka_fetch_checksums.py"


@mutant
@told_by("tests/partition/storage/test_verified_reads.py")
def reads_have_no_limit_of_batches(patch: Any) -> None:
    """A consumer's fetch of 8 MB in small batches holds the event loop for 265 ms."""
    patch.edit(verified_reads._find, "count < MOST_BATCHES and ", "")


@mutant
@told_by("tests/partition/storage/test_verified_reads.py")
def verified_reads_have_no_limit_of_bytes(patch: Any) -> None:
    """A consumer's fetch of 50 MB of one partition holds the event loop for 50 to 60 ms."""
    patch.edit(verified_reads.find_verified, "min(max_bytes, MOST_CHECKED_BYTES)", "max_bytes")


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


@mutant
@told_by(KAFKA_DATA)
def a_produce_request_overtakes_one_that_a_worker_decodes(patch: Any) -> None:
    patch.edit(ProduceTurn.__aenter__, "await self._order.acquire()\n    self._is_held = True", "pass")


@mutant
@told_by(KAFKA_DATA)
def a_produce_request_waits_for_the_replicas_of_the_one_before(patch: Any) -> None:
    patch.edit(KafkaProduce.append, "on_placed()\n", "pass\n")


@mutant
@told_by(CLASSIC_REBALANCES)
def an_assignment_is_not_in_the_draft_that_it_is_for(patch: Any) -> None:
    replays = "self.group.replay(record)"
    patch.edit(ClassicDraft.put, replays, f"isinstance(record, ClassicAssigned) or {replays}")


@mutant
@told_by(AUDIT)
def each_read_of_a_long_poll_is_noted(patch: Any) -> None:
    patch.edit(TopicReads.require, "known is not None and", "False and")


@mutant
@told_by(AUDIT)
def a_right_that_ends_during_a_long_poll_goes_on(patch: Any) -> None:
    patch.edit(TopicReads.require, 'known == self._access.allows(self._sender, "read", "topic", topic)', "known")
