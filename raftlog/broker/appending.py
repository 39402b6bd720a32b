"""Appending one batch to a partition that this broker leads, for every protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from raftlog.broker.append_spans import begin_append
from raftlog.broker.context import BrokerContext
from raftlog.broker.internal_topics import require_ordinary
from raftlog.errors import RetriableError
from raftlog.model import NO_PRODUCER_EPOCH, Acks, ProducerEpoch, TopicId
from raftlog.partition.admission import Admit
from raftlog.partition.replica import AppendResult
from raftlog.record.batch import Buffer, is_marked_short
from raftlog.wire.data import ProduceResult
from raftlog.wire.metadata import SHORT_BATCHES
from raftlog.wire.transactions import TransactionPartition


async def append_batch(
    context: BrokerContext,
    topic: str,
    partition: int,
    batch: Buffer,
    acks: Acks,
    timeout_ms: int,
    *,
    topic_id: TopicId = "",
    transactional_id: str = "",
    admit: Admit | None = None,
    since: ProducerEpoch = NO_PRODUCER_EPOCH,
    on_appended: Callable[[AppendResult], None] | None = None,
) -> ProduceResult:
    """Append a batch as its producer sent it, and count it; see `Replica.append`.

    Args:
        transactional_id: that of the request, which its sender may use; empty: none.
        admit: asks the transaction's coordinator; None: as leaders do.
        since: see `ProducerStates.check`.
        on_appended: called once the batch is in the log, before any wait for replicas.

    Raises:
        NotFoundError: the topic or the partition does not exist.
        RetriableError: a short batch, and this broker has no feature level yet that permits it.
        RaftlogError: what `Replica.append` raises.
    """
    require_ordinary(topic)
    replica = context.leader(topic, partition, topic_id)
    if context.image.feature_level < SHORT_BATCHES and is_marked_short(batch):
        # Followers of an earlier version would refuse it for ever. The sender may have newer metadata than this broker.
        raise RetriableError(
            f"the batch is a short one, which needs feature level {SHORT_BATCHES}; the cluster has "
            f"{context.image.feature_level}: raise it once all nodes are upgraded, or write the record as Arrow"
        )
    if transactional_id and admit is None:
        part = TransactionPartition(topic=topic, partition=partition, topic_id=replica.assignment.topic_id)
        admit = context.transactions.admission(transactional_id, part, timeout_ms=timeout_ms)
    append = partial(
        replica.append,
        batch,
        acks=acks,
        timeout_ms=timeout_ms,
        admit=admit,
        transactional_id=transactional_id,
        since=since,
        on_appended=on_appended,
    )
    spans = begin_append(topic, partition, acks)
    done = await (append() if spans is None else spans.of(append))
    if not done.duplicate:
        records = done.last_offset - done.base_offset + 1
        context.metrics.appended(topic, records=records, size=len(batch))
    result = ProduceResult(
        topic=topic,
        partition=partition,
        base_offset=done.base_offset,
        last_offset=done.last_offset,
        duplicate=done.duplicate,
        leader_epoch=done.leader_epoch,
        outlived_retention_ms=done.outlived_retention_ms,
    )
    return replace(result, base_offset=-1, last_offset=-1) if acks == 0 else result
