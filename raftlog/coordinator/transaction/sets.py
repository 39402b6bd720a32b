"""Transaction sets: transactions of many producers that end atomically, such as those of a Spark job's tasks.

- Transactional ids `name::member` form the set `name`. One shard coordinates all of them.
- One decision, which is one batch in its log, commits the listed members. So a set has only as many partitions and
  groups as one batch can name (`require_room`).
- Other ongoing transactions of the set abort: in the same decision, or, where they are many, in later ones.
- Commits are numbered within a **run** (a streaming query, say). A committed number is not committed again, so a batch
  that is processed twice takes effect once.

No IO, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from raftlog.coordinator.runtime.codec import LogRecord
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.coordinator.transaction.records import TransactionChanged, TransactionSetCommitted, bytes_at_end
from raftlog.coordinator.transaction.state import Transactions
from raftlog.coordinator.transaction.transitions import prepare_end, producer_of, require_producer
from raftlog.errors import ErrorCode, InvalidRequestError, TransactionAbortedError
from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from raftlog.wire.transactions import EndSetBody, SetMember, TransactionSetInfo, set_of

MAX_MEMBERS = 10_000
"""The most members of one commit."""
MAX_SET_BYTES = (8 << 20) - (256 << 10)
"""The most bytes of one commit's records: the default of `max_message_bytes`, less what the batch adds to them."""
STEP_BYTES, STEP_RECORDS = 1 << 20, 1_000
"""The most aborts in one decision: each of them is right without the others."""


@dataclass(frozen=True, slots=True)
class EndedSet:
    """What became of a set."""

    info: TransactionSetInfo
    left: Sequence[TransactionChanged] = ()
    """The ongoing transactions that `abort_left` has yet to abort."""


def describe_set(state: Transactions, set_id: str) -> TransactionSetInfo:
    """Return the last commit of a set; its number is -1 if there was none, or if it has expired."""
    current = state.sets.get(set_id)
    return TransactionSetInfo(set_id=set_id) if current is None else current.info()


def end_set(state: Transactions, now: Now, set_id: str, request: EndSetBody) -> Decision[EndedSet]:
    """Commit the listed transactions of a set and abort its others, or abort them all.

    Pass what is left to `abort_left`. Idempotent: repeating the request, or a number of this run that was committed
    before, returns the last commit.

    Raises:
        InvalidRequestError: the members are not of this set; INVALID_TXN_STATE: a member has no ongoing transaction;
            INVALID_PRODUCER_ID_MAPPING; MESSAGE_TOO_LARGE: they do not fit one decision.
        FencedError: INVALID_PRODUCER_EPOCH: a member's transaction has ended, or another producer has its id.
        TransactionAbortedError: a member's transaction timed out. In all these cases nothing was changed.
    """
    _check(set_id, request)
    current = state.sets.get(set_id)
    done = current is not None and current.run == request.run and current.number >= request.number
    committed = [] if done or not request.committed else [_require_ongoing(state, member) for member in request.members]
    if (size := sum(state.ongoing[entry.transactional_id] for entry in committed)) > MAX_SET_BYTES:
        raise InvalidRequestError(_too_large(set_id, size), code=ErrorCode.MESSAGE_TOO_LARGE)
    records = list[LogRecord](
        prepare_end(entry, now, committed=True, fresh_id=None, renew=False) for entry in committed
    )
    others = _others(state, set_id, except_ids={entry.transactional_id for entry in committed})
    aborted = first_of(state, others, most_bytes=min(STEP_BYTES, MAX_SET_BYTES - size), least=0 if committed else 1)
    records += [_abort(entry, now) for entry in aborted]
    if request.committed and not done:
        current = TransactionSetCommitted(
            set_id=set_id, run=request.run, number=request.number, passing=request.passing, changed_ms=now.wall_ms
        )
        records.append(current)
    info = TransactionSetInfo(set_id=set_id) if current is None else current.info()
    return Decision(records, EndedSet(info, others[len(aborted) :]))


def abort_left(
    state: Transactions, now: Now, left: Sequence[TransactionChanged]
) -> Decision[Sequence[TransactionChanged]]:
    """Abort the next ones of those that `end_set` left; return which are left now.

    A transaction that ended since is passed over, and so is the next one of its id: it began after the set's end.
    """
    still = [entry for known in left if (entry := _still_ongoing(state, known)) is not None]
    aborted = first_of(state, still)
    return Decision([_abort(entry, now) for entry in aborted], still[len(aborted) :])


def first_of(
    state: Transactions, ongoing: Iterable[TransactionChanged], *, most_bytes: int = STEP_BYTES, least: int = 1
) -> list[TransactionChanged]:
    """Return the first ongoing transactions, as many as one decision should end."""
    taken, size = list[TransactionChanged](), 0
    for entry in ongoing:
        size += state.ongoing[entry.transactional_id]
        if len(taken) >= STEP_RECORDS or (size > most_bytes and len(taken) >= least):
            break
        taken.append(entry)
    return taken


def require_room(state: Transactions, changed: TransactionChanged) -> None:
    """Raise if a transaction, with all ongoing ones of its set, would be too large to commit.

    Raises:
        TransactionAbortedError: it can still be aborted.
    """
    name, size = changed.transactional_id, bytes_at_end(changed)
    others = state.set_bytes.get(set_of(name), 0) - state.ongoing.get(name, 0)
    if others + size > MAX_SET_BYTES:
        raise TransactionAbortedError(_too_large(set_of(name), others + size))


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


def _others(state: Transactions, set_id: str, *, except_ids: set[str]) -> list[TransactionChanged]:
    names = (name for name in state.ongoing if set_of(name) == set_id != name and name not in except_ids)
    return [state.by_id[name] for name in names]


def _still_ongoing(state: Transactions, known: TransactionChanged) -> TransactionChanged | None:
    """Return the newest state of a transaction, with the partitions that have joined since; None if it has ended."""
    current = state.by_id.get(known.transactional_id)
    if current is None or current.phase != "ongoing" or producer_of(current) != producer_of(known):
        return None
    return current


def _abort(entry: TransactionChanged, now: Now) -> TransactionChanged:
    ended = prepare_end(entry, now, committed=False, fresh_id=None, renew=False)
    # Its producer did not request this end: a request of its own gets INVALID_PRODUCER_EPOCH.
    return replace(ended, ended_id=NO_PRODUCER_ID, ended_epoch=NO_PRODUCER_EPOCH)


def _too_large(set_id: str, size: int) -> str:
    return (
        f"the open transactions of {set_id!r} name so many partitions and groups that their commit takes {size} bytes, "
        f"of at most {MAX_SET_BYTES}: abort them, and commit more often, or with fewer tasks or fewer partitions a task"
    )
