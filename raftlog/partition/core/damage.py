"""When a damaged log may be quarantined and fetched again (docs/adr/0009, docs/adr/0011)."""

from __future__ import annotations

from raftlog.model import NO_LEADER, NO_LEADER_EPOCH, BrokerId, LeaderEpoch, PartitionState


def is_relied_upon(state: PartitionState, broker_id: BrokerId) -> bool:
    """Return whether a replica may lead: it has every acknowledged record, and maybe no other one has."""
    return broker_id in (*state.isr, *state.elr)


def may_refetch(state: PartitionState, broker_id: BrokerId, *, served_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> bool:
    """Return whether the cluster no longer relies on this replica: it is outside ISR and ELR, and another one leads.

    Args:
        served_epoch: the last leader epoch in which this process has led or fetched. Its positions in that epoch may
            still bring it into the ISR; positions of an earlier epoch count no longer.
    """
    return (
        state.leader not in (NO_LEADER, broker_id)
        and not is_relied_upon(state, broker_id)
        and state.leader_epoch > served_epoch
    )
