"""The rules of what only some worlds have: JSON, several batches in flight, groups and compacted topics."""

from __future__ import annotations

from typing import Any

from mutating import mutant

from raftlog.broker.routes import produce
from raftlog.coordinator.group import reconciliation
from raftlog.partition.core import compaction, producers
from raftlog.record.model import RecordColumns


@mutant
def json_names_one_offset_for_all_records_of_a_partition(patch: Any) -> None:
    patch.edit(produce._answer_of, "next_offsets[partition] += next_offsets[partition] >= 0", "pass")


@mutant
def json_is_forwarded_again_whatever_became_of_it(patch: Any) -> None:
    patch.edit(
        produce.ProduceRoutes._forward,
        "if appended or not error.retriable or left_ms <= FORWARD_RETRY_MS:",
        "if left_ms <= FORWARD_RETRY_MS:",
    )


@mutant
def records_in_a_batch_of_several_lose_their_headers(patch: Any) -> None:
    patch.edit(RecordColumns.append, "self.headers.append(headers)", "self.headers.append(())")


@mutant
def a_leader_takes_batches_in_any_order(patch: Any) -> None:
    """Only a producer with several requests in flight shows it: the first is lost and sent again later."""
    patch(producers.ProducerStates, "_require_next", staticmethod(lambda header, *, expected: None))


@mutant
def a_partition_is_given_before_it_is_given_up(patch: Any) -> None:
    """KIP-848: two members read it, and both commit."""
    patch.edit(
        reconciliation.next_current,
        "for partition in missing if group.owners.get(partition, member_id) == member_id)",
        "for partition in missing)",
    )


@mutant
def compaction_keeps_the_first_record_of_a_key(patch: Any) -> None:
    patch.edit(compaction.LastOffsets.learn, "self.of[key] = offset", "self.of.setdefault(key, offset)")
    patch.edit(
        compaction.Compactor._clean_rows,
        "self._last.of.get(key, offset) > offset",
        "self._last.of.get(key, offset) < offset",
    )


@mutant
def an_aborted_record_replaces_the_earlier_ones_of_its_key(patch: Any) -> None:
    patch.edit(compaction.LastOffsets.learn, " or header in self._aborted", "")
