"""Many producers' transactions that end as one: those of the tasks of a Spark job, for instance.

Transactional ids `name::member` make up the set `name`. One shard has them all, so one decision, one batch in its log,
ends them all: what is listed commits, what else is under way in the set is aborted. Commits are numbered within a
**run** (a streaming query, say): a number that was committed is not committed again, whoever asks, and so a batch that
is done twice counts once. No IO, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from raftlog.coordinator.runtime.codec import LogRecord
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.coordinator.transaction.records import TransactionChanged, TransactionSetCommitted
from raftlog.coordinator.transaction.state import Transactions
from raftlog.coordinator.transaction.transitions import decided_end, of_producer
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from raftlog.wire.transactions import EndSetBody, SetMember, TransactionSetInfo, set_of

MAX_MEMBERS = 10_000
"""Whose transactions one decision commits."""


def describe_set(state: Transactions, set_id: str) -> TransactionSetInfo:
    """Return what was committed last for a set; number -1 if nothing was, or not for long."""
    known = state.sets.get(set_id)
    return TransactionSetInfo(set_id=set_id) if known is None else known.info()


def end_set(state: Transactions, now: Now, set_id: str, asked: EndSetBody) -> Decision[TransactionSetInfo]:
    """Commit the listed transactions of a set and abort its others, or abort them all.

    The same question again gets the same answer; so does one for a number of this run that was committed by others.

    Raises:
        InvalidRequestError: the members are not of this set; INVALID_TXN_STATE, one has nothing under way;
            INVALID_PRODUCER_ID_MAPPING.
        FencedError: INVALID_PRODUCER_EPOCH; one was ended, or begun anew by another.
        TransactionAbortedError: one took too long. Nothing has changed in any of these cases.
    """
    _check(set_id, asked)
    known = state.sets.get(set_id)
    done = known is not None and known.run == asked.run and known.number >= asked.number
    committed = [] if done or not asked.committed else [_under_way(state, member) for member in asked.members]
    records = list[LogRecord](decided_end(one, now, committed=True, fresh_id=None, renew=False) for one in committed)
    records += _aborts(state, now, set_id, besides={one.transactional_id for one in committed})
    if asked.committed and not done:
        known = TransactionSetCommitted(
            set_id=set_id, run=asked.run, number=asked.number, passing=asked.passing, changed_ms=now.wall_ms
        )
        records.append(known)
    return Decision(records, TransactionSetInfo(set_id=set_id) if known is None else known.info())


def is_passing(state: Transactions, transactional_id: str) -> bool:
    """Tell whether a member's id will not be used again, so that nothing of it needs to be kept."""
    known = state.sets.get(set_of(transactional_id))
    return known is not None and known.passing and known.set_id != transactional_id


def _check(set_id: str, asked: EndSetBody) -> None:
    if set_of(set_id) != set_id or not set_id:
        raise InvalidRequestError(f"set_id: expected the part of a transactional id before '::', received {set_id!r}")
    names = [member.transactional_id for member in asked.members]
    if strange := [name for name in names if set_of(name) != set_id or name == set_id]:
        raise InvalidRequestError(f"members: expected ids that begin with {set_id + '::'!r}, received {strange[0]!r}")
    if len(set(names)) != len(names) or len(names) > MAX_MEMBERS:
        raise InvalidRequestError(
            f"members: expected at most {MAX_MEMBERS} different ids, received {len(names)}, {len(set(names))} different"
        )
    if asked.number < 0:
        raise InvalidRequestError(f"number: expected 0 or more, received {asked.number}")


def _under_way(state: Transactions, member: SetMember) -> TransactionChanged:
    known = of_producer(state, member.transactional_id, member.producer_id, member.producer_epoch)
    if known.phase != "ongoing":
        raise InvalidRequestError(
            f"{member.transactional_id!r} has no transaction under way (it is {known.phase}), so nothing to commit",
            code=ErrorCode.INVALID_TXN_STATE,
        )
    return known


def _aborts(state: Transactions, now: Now, set_id: str, *, besides: set[str]) -> Iterator[TransactionChanged]:
    for name in state.ongoing:
        if set_of(name) == set_id != name and name not in besides:
            ended = decided_end(state.by_id[name], now, committed=False, fresh_id=None, renew=False)
            # Its producer did not ask for this, and is told that it is fenced.
            yield replace(ended, ended_id=NO_PRODUCER_ID, ended_epoch=NO_PRODUCER_EPOCH)
