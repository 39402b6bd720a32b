"""The state of one shard of the transaction coordinator, and how records change it."""

from __future__ import annotations

from dataclasses import dataclass, field

from raftlog.coordinator.runtime.codec import LogRecord, Tombstone
from raftlog.coordinator.transaction.records import TransactionChanged, TransactionSetCommitted, bytes_at_end
from raftlog.errors import ErrorCode, NotFoundError
from raftlog.wire.transactions import set_of

IDLE = ("empty", "committed", "aborted")
ENDING = ("committing", "aborting")


@dataclass(slots=True)
class Transactions:
    """The transactional ids of one shard."""

    by_id: dict[str, TransactionChanged] = field(default_factory=dict)
    ongoing: dict[str, int] = field(default_factory=dict)
    """The transactional ids with an ongoing transaction, and about how many bytes the record of its end takes."""
    set_bytes: dict[str, int] = field(default_factory=dict)
    """The sums of `ongoing` for each set."""
    ending: dict[str, None] = field(default_factory=dict)
    """The transactional ids whose markers have to be written."""
    sets: dict[str, TransactionSetCommitted] = field(default_factory=dict)
    ahead: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Ongoing transactions that began in the future: its time in ms since 1970, and when that was first seen, in
    monotonic ms. Soft state."""
    expiry_due_ms: int = 0
    """When the next check of all ids for expiry begins. Soft state."""
    unchecked: list[str] = field(default_factory=list)
    """The ids, of transactions and of sets, that the current check for expiry has yet to look at. Soft state."""

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
            self._note_ongoing(name, 0)
            _put(self.ending, name, within=False)
        elif isinstance(record, TransactionChanged):
            name = record.transactional_id
            self.by_id[name] = record
            self._note_ongoing(name, bytes_at_end(record) if record.phase == "ongoing" else 0)
            _put(self.ending, name, within=record.phase in ENDING)
        elif isinstance(record, TransactionSetCommitted):
            self.sets[record.set_id] = record

    def _note_ongoing(self, name: str, size: int) -> None:
        set_id = set_of(name)
        total = self.set_bytes.pop(set_id, 0) - self.ongoing.get(name, 0) + size
        if total:
            self.set_bytes[set_id] = total
        if size:
            self.ongoing[name] = size
        else:
            self.ongoing.pop(name, None)
            self.ahead.pop(name, None)


def _put(names: dict[str, None], name: str, *, within: bool) -> None:
    if within:
        names[name] = None
    else:
        names.pop(name, None)
