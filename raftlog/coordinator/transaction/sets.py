"""Transaction sets: transactions of many producers that end atomically, such as those of a Spark job's tasks.

- Transactional ids `name::member` form the set `name`. One shard coordinates all of them.
- One decision, which is one batch in its log, ends them all: listed members commit, other ongoing ones abort.
- Commits are numbered within a **run** (a streaming query, say). A committed number is not committed again, so a batch
  that is processed twice takes effect once.

No IO, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from raftlog.coordinator.runtime.codec import LogRecord
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.coordinator.transaction.records import TransactionChanged, TransactionSetCommitted
from raftlog.coordinator.transaction.state import Transactions
from raftlog.coordinator.transaction.transitions import prepare_end, require_producer
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from raftlog.wire.transactions import EndSetBody, SetMember, TransactionSetInfo, set_of

MAX_MEMBERS = 10_000
"""The most members of one commit."""


def describe_set(state: Transactions, set_id: str) -> TransactionSetInfo:
    """Return the last commit of a set; its number is -1 if there was none, or if it has expired."""
    current = state.sets.get(set_id)
    return TransactionSetInfo(set_id=set_id) if current is None else current.info()


def end_set(state: Transactions, now: Now, set_id: str, request: EndSetBody) -> Decision[TransactionSetInfo]:
    """Commit the listed transactions of a set and abort its others, or abort them all.

    Idempotent: repeating the request, or a number of this run that was committed before, returns the last commit.

    Raises:
        InvalidRequestError: the members are not of this set; INVALID_TXN_STATE: a member has no ongoing transaction;
            INVALID_PRODUCER_ID_MAPPING.
        FencedError: INVALID_PRODUCER_EPOCH: a member's transaction has ended, or another producer has its id.
        TransactionAbortedError: a member's transaction timed out. In all these cases nothing was changed.
    """
    _check(set_id, request)
    current = state.sets.get(set_id)
    done = current is not None and current.run == request.run and current.number >= request.number
    committed = [] if done or not request.committed else [_require_ongoing(state, member) for member in request.members]
    records = list[LogRecord](
        prepare_end(entry, now, committed=True, fresh_id=None, renew=False) for entry in committed
    )
    records += _aborts(state, now, set_id, except_ids={entry.transactional_id for entry in committed})
    if request.committed and not done:
        current = TransactionSetCommitted(
            set_id=set_id, run=request.run, number=request.number, passing=request.passing, changed_ms=now.wall_ms
        )
        records.append(current)
    return Decision(records, TransactionSetInfo(set_id=set_id) if current is None else current.info())


def is_passing(state: Transactions, transactional_id: str) -> bool:
    """Return whether a member's id is used only once, so that its state is deleted at its end."""
    current = state.sets.get(set_of(transactional_id))
    return current is not None and current.passing and current.set_id != transactional_id


def _check(set_id: str, request: EndSetBody) -> None:
    if set_of(set_id) != set_id or not set_id:
        raise InvalidRequestError(f"set_id: expected the part of a transactional id before '::', received {set_id!r}")
    names = [member.transactional_id for member in request.members]
    if foreign := [name for name in names if set_of(name) != set_id or name == set_id]:
        raise InvalidRequestError(f"members: expected ids that begin with {set_id + '::'!r}, received {foreign[0]!r}")
    if len(set(names)) != len(names) or len(names) > MAX_MEMBERS:
        raise InvalidRequestError(
            f"members: expected at most {MAX_MEMBERS} distinct ids, received {len(names)}, {len(set(names))} distinct"
        )
    if request.number < 0:
        raise InvalidRequestError(f"number: expected 0 or more, received {request.number}")


def _require_ongoing(state: Transactions, member: SetMember) -> TransactionChanged:
    current = require_producer(state, member.transactional_id, member.producer_id, member.producer_epoch)
    if current.phase != "ongoing":
        raise InvalidRequestError(
            f"{member.transactional_id!r} has no ongoing transaction to commit: it is {current.phase}",
            code=ErrorCode.INVALID_TXN_STATE,
        )
    return current


def _aborts(state: Transactions, now: Now, set_id: str, *, except_ids: set[str]) -> Iterator[TransactionChanged]:
    for name in state.ongoing:
        if set_of(name) == set_id != name and name not in except_ids:
            ended = prepare_end(state.by_id[name], now, committed=False, fresh_id=None, renew=False)
            # Its producer did not request this end: a request of its own gets INVALID_PRODUCER_EPOCH.
            yield replace(ended, ended_id=NO_PRODUCER_ID, ended_epoch=NO_PRODUCER_EPOCH)
