"""When a damaged log may be put aside and fetched anew (docs/adr/0009, docs/adr/0011)."""

from __future__ import annotations

from raftlog.model import NO_LEADER, NO_LEADER_EPOCH, BrokerId, LeaderEpoch, PartitionState


def may_refetch(state: PartitionState, broker_id: BrokerId, *, served_epoch: LeaderEpoch = NO_LEADER_EPOCH) -> bool:
    """Tell whether nobody relies on what this broker held: it may not be elected, and another one leads.

    Args:
        served_epoch: the last leader epoch in which this process has led, or told a leader what it holds. What it has
            said there may still bring it into the ISR; what was said in an epoch that has ended counts for nobody.
    """
    return (
        state.leader not in (NO_LEADER, broker_id)
        and broker_id not in (*state.isr, *state.elr)
        and state.leader_epoch > served_epoch
    )
