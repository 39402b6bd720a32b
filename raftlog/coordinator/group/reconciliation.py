"""A member's next step towards its target assignment: revoke first, then receive partitions that are free (KIP-848).

- A member keeps the partitions that it has and should have: only partitions that move are interrupted.
- It reaches the target's epoch once it has given up all partitions that it must.
- Partitions that other members have not given up yet it receives later, in the same epoch.
"""

from __future__ import annotations

from dataclasses import replace

from raftlog.coordinator.group.state import Current, Group
from raftlog.model import TopicPartition


def next_current(group: Group, member_id: str, current: Current, owned: frozenset[TopicPartition] | None) -> Current:
    """Return a member's next current assignment.

    Args:
        owned: the partitions that the member reports to read; None: it did not report any.
    """
    if current.state == "stable" and current.epoch == group.assignment_epoch:
        return current
    if current.revoking and (owned is None or owned & current.revoking):
        return current
    target = group.target.get(member_id, frozenset())
    keeps, revokes = current.assigned & target, current.assigned - target
    if revokes and (owned is None or owned & revokes):
        return replace(current, state="unrevoked", assigned=keeps, revoking=revokes)
    missing = target - keeps
    free = frozenset(partition for partition in missing if group.owners.get(partition, member_id) == member_id)
    previous = current.epoch if current.epoch != group.assignment_epoch else current.previous_epoch
    return Current(
        epoch=group.assignment_epoch,
        previous_epoch=previous,
        state="stable" if free == missing else "unreleased",
        assigned=keeps | free,
    )
