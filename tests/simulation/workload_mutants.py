"""The rules of what not every world has: JSON, pipelines, groups and compacted topics."""

from __future__ import annotations

from typing import Any

from mutating import mutant

from raftlog.broker.routes import produce
from raftlog.client.core.partition_queue import PartitionQueue
from raftlog.coordinator.group import reconciliation
from raftlog.model import ACKS_ALL
from raftlog.partition.core import compaction


@mutant
def json_is_answered_when_its_leader_has_it(patch: Any) -> None:
    """Whatever acks says, as long as another broker leads."""
    at_leader = produce.ProduceRoutes._at_leader

    async def hasty(self: Any, topic: str, partition: int, batch: Any, acks: Any, timeout_ms: int) -> Any:
        elsewhere = acks == ACKS_ALL and not self._context.leads(topic, partition)
        return await at_leader(self, topic, partition, batch, 1 if elsewhere else acks, timeout_ms)

    patch(produce.ProduceRoutes, "_at_leader", hasty)


@mutant
def json_is_forwarded_again_whatever_became_of_it(patch: Any) -> None:
    patch.edit(
        produce.ProduceRoutes._forward,
        "if appended or not error.retriable or left_ms <= FORWARD_RETRY_MS:",
        "if left_ms <= FORWARD_RETRY_MS:",
    )


@mutant
def nothing_waits_for_the_first_batch_of_an_epoch(patch: Any) -> None:
    """Nor after a failure: a leader that does not know the producer takes whatever comes first."""
    patch.edit(
        PartitionQueue._within_reach,
        "1 if self._alone or self._is_quiet(now_ms) else self._max_in_flight",
        "self._max_in_flight",
    )


@mutant
def what_may_be_in_the_log_is_sent_anew_after_a_hole(patch: Any) -> None:
    patch.edit(PartitionQueue._after_draining, "batch.may_be_appended or place < last or ", "")


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
