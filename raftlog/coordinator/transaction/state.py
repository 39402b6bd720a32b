"""The state of one shard of the transaction coordinator, and how records change it."""

from __future__ import annotations

from dataclasses import dataclass, field

from raftlog.coordinator.runtime.codec import LogRecord, Tombstone
from raftlog.coordinator.transaction.records import TransactionChanged, TransactionSetCommitted
from raftlog.errors import ErrorCode, NotFoundError

IDLE = ("empty", "committed", "aborted")
ENDING = ("committing", "aborting")


@dataclass(slots=True)
class Transactions:
    """The transactional ids of one shard."""

    by_id: dict[str, TransactionChanged] = field(default_factory=dict)
    ongoing: dict[str, None] = field(default_factory=dict)
    ending: dict[str, None] = field(default_factory=dict)
    """The transactional ids whose markers have to be written."""
    sets: dict[str, TransactionSetCommitted] = field(default_factory=dict)

    def require(self, transactional_id: str) -> TransactionChanged:
        """Return the state of a transactional id.

        Raises:
            NotFoundError: TRANSACTIONAL_ID_NOT_FOUND.
        """
        if (current := self.by_id.get(transactional_id)) is None:
            raise NotFoundError(
                f"transactional id {transactional_id!r} does not exist: it was never used, or it has expired",
                code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            )
        return current

    def apply(self, record: LogRecord) -> None:
        """Apply a record. Total: it never raises."""
        if isinstance(record, Tombstone):
            name = str(record.key[0])
            if record.kind is TransactionSetCommitted:
                self.sets.pop(name, None)
                return
            self.by_id.pop(name, None)
            _put(self.ongoing, name, within=False)
            _put(self.ending, name, within=False)
        elif isinstance(record, TransactionChanged):
            name = record.transactional_id
            self.by_id[name] = record
            _put(self.ongoing, name, within=record.phase == "ongoing")
            _put(self.ending, name, within=record.phase in ENDING)
        elif isinstance(record, TransactionSetCommitted):
            self.sets[record.set_id] = record


def _put(names: dict[str, None], name: str, *, within: bool) -> None:
    if within:
        names[name] = None
    else:
        names.pop(name, None)
