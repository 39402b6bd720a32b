"""What one shard of the transaction coordinator knows: its log, replayed."""

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
    """Whose markers have to be written."""
    sets: dict[str, TransactionSetCommitted] = field(default_factory=dict)

    def require(self, transactional_id: str) -> TransactionChanged:
        """Return what is known of a transactional id.

        Raises:
            NotFoundError: TRANSACTIONAL_ID_NOT_FOUND.
        """
        if (known := self.by_id.get(transactional_id)) is None:
            raise NotFoundError(
                f"transactional id {transactional_id!r} is not known: it never was, or was not used for long",
                code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            )
        return known

    def apply(self, record: LogRecord) -> None:
        """Let a record take effect. Total: it never raises."""
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
