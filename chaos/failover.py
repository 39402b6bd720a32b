"""How long partitions acknowledged nothing after a fault of their leader: a failover, as clients see it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.history import Fault, History

STRIKES = {"SIGKILL", "SIGSTOP", "power cut"}
TARGETS = {"leader", "leader and controller", "minority", "each"}
"""These leave a majority of replicas and of controllers; partitions under other targets wait until the fault ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One partition's outage. `ms` is from the fault to the first acknowledgement of a record sent since."""

    kind: str
    target: str
    partition: int
    ms: int


def p99(times: Sequence[int]) -> int:
    """Return the 99th percentile (nearest rank); of few times, the longest."""
    return sorted(times)[math.ceil(0.99 * len(times)) - 1]


def outages(history: History) -> list[Outage]:
    """Return the outages of all partitions whose leader was the target of a fault, each fault by itself."""
    acknowledged: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for send in history.sends:
        if send.durable:
            acknowledged[send.partition].append((send.completed_ns, send.invoked_ns))
    for moments in acknowledged.values():
        moments.sort()
    found = []
    for fault in history.faults:
        if fault.kind in STRIKES and fault.target in TARGETS and not fault.skipped and not _overlapped(fault, history):
            for partition in _led_by(history, fault):
                moments = acknowledged[partition]
                since = moments[bisect_left(moments, (fault.begun_ns, 0)) :]
                first = next((done for done, invoked in since if invoked >= fault.begun_ns), None)
                if first is not None:
                    ms = (first - fault.begun_ns) // 1_000_000
                    found.append(Outage(kind=fault.kind, target=fault.target, partition=partition, ms=ms))
    return found


def _overlapped(fault: Fault, history: History) -> bool:
    """Return whether another fault was active at the same time."""
    return any(
        other is not fault and not other.skipped and other.begun_ns < fault.ended_ns and fault.begun_ns < other.ended_ns
        for other in history.faults
    )


def _led_by(history: History, fault: Fault) -> list[int]:
    newest: dict[int, tuple[int, int]] = {}
    for seen in history.leaderships:
        if seen.seen_ns > fault.begun_ns:
            break
        newest[seen.partition] = max(newest.get(seen.partition, (-1, -1)), (seen.leader_epoch, seen.leader))
    return [partition for partition, (_, leader) in sorted(newest.items()) if f"broker-{leader}" in fault.nodes]
