"""Transactions: what producers say to their coordinator, and coordinators to partition leaders."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.model import ProducerEpoch, ProducerId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarker:
    """The end of one producer's transaction, as the coordinator decided it."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    """The one after the transaction's own: from here on, the transaction's epoch is refused (KIP-890)."""
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition."""
    committed: bool
