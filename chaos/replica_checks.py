"""Checks of the replicas' logs on disk in the end, and of the leaders over time.

The logs are complete evidence. A batch names the leader epoch that appended it, its producer, the producer epoch and
the sequence. So zombies, gaps and repeats of producers, and two leaders in one epoch show here even if no client saw
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from chaos.history import History, ReplicaLog, StoredBatch

MAX_SEQUENCE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken promise."""

    kind: str
    detail: str


def replicas_that_differ(history: History) -> Iterator[Anomaly]:
    """Find replicas that differ at the same offset: two leaders of one epoch, or a log that was not truncated."""
    first: dict[tuple[int, int], tuple[str, StoredBatch]] = {}
    appended: dict[tuple[int, int, int], tuple[str, StoredBatch]] = {}
    for log in history.replicas:
        for batch in log.batches:
            owner, other = appended.setdefault(
                (log.partition, batch.leader_epoch, batch.base_offset), (log.broker, batch)
            )
            where = f"partition {log.partition} offset {batch.base_offset}"
            if other.crc != batch.crc:
                detail = f"in leader epoch {batch.leader_epoch} {owner} and {log.broker} appended different batches"
                yield Anomaly("two leaders in an epoch", f"{where}: {detail}")
                continue
            owner, other = first.setdefault((log.partition, batch.base_offset), (log.broker, batch))
            if log.in_sync and other.leader_epoch != batch.leader_epoch:
                detail = f"epoch {other.leader_epoch} on {owner}, epoch {batch.leader_epoch} on {log.broker}"
                yield Anomaly("replicas differ", f"{where}: {detail}")


def unstable_replicas(history: History) -> Iterator[Anomaly]:
    """Find values that were read or durably acknowledged, and that the disk of a replica in sync lacks (strong ISR)."""
    known: dict[int, dict[int, str]] = defaultdict(dict)
    for read in (*history.reads, *history.final_reads):
        known[read.partition][read.offset] = read.value
    for send in history.sends:
        if send.placed:
            known[send.partition].setdefault(send.offset, send.value)
    for log in history.replicas:
        where = f"partition {log.partition} on {log.broker}"
        if log.damage:
            yield Anomaly("damaged log", f"{where}: {log.damage}")
        if not log.in_sync:
            continue
        held = _values(log)
        missing = [(at, value) for at, value in known[log.partition].items() if held.get(at) != value]
        for offset, value in missing[:3]:
            yield Anomaly("not on every replica", f"{where}: offset {offset} holds {held.get(offset)}, not {value}")


def epochs_that_fall(history: History) -> Iterator[Anomaly]:
    """Find leader epochs that decrease along a log, and offsets that are not consecutive."""
    for log in history.replicas:
        for before, after in pairwise(log.batches):
            where = f"partition {log.partition} on {log.broker}: offset {after.base_offset}"
            if after.leader_epoch < before.leader_epoch:
                detail = f"is of leader epoch {after.leader_epoch}, the one before of {before.leader_epoch}"
                yield Anomaly("epochs fall", f"{where} {detail}")
            if after.base_offset != before.base_offset + len(before.values):
                detail = f"follows {len(before.values)} records from {before.base_offset} on"
                yield Anomaly("hole in a log", f"{where} {detail}")


def zombies(history: History) -> Iterator[Anomaly]:
    """Find appends of a producer epoch after a newer one, and sequences with gaps or repeats within an epoch."""
    for log in history.replicas:
        last: dict[int, StoredBatch] = {}
        for batch in log.batches:
            before = last.get(batch.producer_id)
            if batch.producer_id < 0:
                continue
            last[batch.producer_id] = batch
            if before is None:
                continue
            where = (
                f"partition {log.partition} on {log.broker}: offset {batch.base_offset}, producer {batch.producer_id}"
            )
            if batch.producer_epoch < before.producer_epoch:
                yield Anomaly("zombie", f"{where}: epoch {batch.producer_epoch} after {before.producer_epoch}")
            elif batch.producer_epoch == before.producer_epoch and batch.base_sequence >= 0:
                expected = (before.base_sequence + len(before.values)) % (MAX_SEQUENCE + 1)
                if batch.base_sequence != expected:
                    yield Anomaly("sequence", f"{where}: sequence {batch.base_sequence}, expected {expected}")


def two_leaders(history: History) -> Iterator[Anomaly]:
    """Find two brokers that led a partition in the same leader epoch, as brokers reported it."""
    leaders: dict[tuple[int, int], tuple[int, str]] = {}
    for seen in history.leaderships:
        if seen.leader < 0:
            continue
        leader, said = leaders.setdefault((seen.partition, seen.leader_epoch), (seen.leader, seen.broker))
        if leader != seen.leader:
            detail = f"{said} named broker {leader}, {seen.broker} named broker {seen.leader}"
            yield Anomaly(
                "two leaders in an epoch", f"partition {seen.partition} leader epoch {seen.leader_epoch}: {detail}"
            )


def _values(log: ReplicaLog) -> dict[int, str]:
    return {batch.base_offset + index: value for batch in log.batches for index, value in enumerate(batch.values)}


REPLICA_CHECKS: tuple[Callable[[History], Iterable[Anomaly]], ...] = (
    replicas_that_differ,
    unstable_replicas,
    epochs_that_fall,
    zombies,
    two_leaders,
)
