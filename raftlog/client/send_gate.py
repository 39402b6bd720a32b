"""Whether a producer may send now, and what a failed record means for its transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftlog.client.loop_affinity import LoopAffinity
from raftlog.errors import RaftlogError

if TYPE_CHECKING:
    from raftlog.client.transactions import TransactionManager


class SendGate:
    """The state of one producer that each `send` depends on."""

    def __init__(self) -> None:
        self.closed = False
        self.loop = LoopAffinity("producer")
        self.transactions: TransactionManager | None = None
        """Set if the producer has a transactional id: then records are sent in transactions only."""

    def close(self) -> None:
        """Let nothing be sent or committed from now on."""
        self.closed = True
        if self.transactions is not None:
            self.transactions.closing = True

    def require_open(self) -> None:
        """Raise unless the producer may send now.

        Raises:
            RuntimeError: the producer is closed, used in another event loop, or outside a transaction.
            TransactionAbortedError, FencedError: the open transaction has failed.
        """
        if self.closed:
            raise RuntimeError("the producer is closed; make another one")
        if self.transactions is not None:
            self.transactions.require_open()
        self.loop.require()

    def on_failed(self, error: RaftlogError) -> None:
        """Note that a record failed: an open transaction can only be aborted."""
        if self.transactions is not None:
            self.transactions.fail(error)
