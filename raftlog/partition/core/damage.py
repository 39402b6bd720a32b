"""When a damaged log may be put aside and fetched anew (docs/adr/0009)."""

from __future__ import annotations

from raftlog.model import NO_LEADER, BrokerId, PartitionState


def may_fetch_anew(state: PartitionState, broker_id: BrokerId) -> bool:
    """Tell whether nobody relies on what this broker held: it may not be elected, and another one leads."""
    return state.leader not in (NO_LEADER, broker_id) and broker_id not in (*state.isr, *state.elr)
