"""The loops over one consumer: only one task, or one thread, may have one under way.

The consumer counts a record as processed once the next one is asked for. With two loops, a commit would cover records
that the other loop's body still handles.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from raftlog.errors import InvalidRequestError

U = TypeVar("U")


class Iteration(Generic[U]):
    """One loop. It is under way as long as this object exists: a loop that is left drops it."""

    __slots__ = ("__weakref__", "mark", "user")

    def __init__(self) -> None:
        self.user: U | None = None
        """The task or the thread that asked for the last record; None: none was asked for yet."""
        self.mark = object()
        """What stands for this loop in `Iterations.latest`, which must not keep it."""


class Iterations(Generic[U]):
    """The loops over one consumer.

    Args:
        kind: what uses the consumer, `task` or `thread`.
        name_of: returns a user's name, for the error.
        has_ended: returns whether a user can ask for no more records.
    """

    def __init__(self, kind: str, name_of: Callable[[U], str], has_ended: Callable[[U], bool]) -> None:
        self._kind = kind
        self._name_of = name_of
        self._has_ended = has_ended
        self._begun = weakref.WeakSet[Iteration[U]]()
        self.latest: object = None
        """The mark of the loop that asked for the last record; None: none has asked."""
        self._guard = threading.RLock()

    def continues(self, iteration: Iteration[U], user: U) -> bool:
        """Return whether the user's loop was the last one that asked for a record, so that `step` has nothing to do."""
        return iteration.user is user and self.latest is iteration.mark

    def is_refused(self, iteration: Iteration[U], user: U) -> bool:
        """Return whether `step` would raise."""
        return self._other(iteration, user) is not None

    def step(self, iteration: Iteration[U], user: U) -> None:
        """Note that a user asks for the next record of a loop.

        Raises:
            InvalidRequestError: another user's loop is under way.
        """
        if self.continues(iteration, user):
            return
        with self._guard:
            # No variable has the other iteration: the traceback would keep it.
            if (other := self._other(iteration, user)) is not None:
                raise self._refusal(other, self._name_of(user))
            iteration.user = user
            self._begun.add(iteration)
            self.latest = iteration.mark

    def _other(self, iteration: Iteration[U], user: U) -> str | None:
        """Return the name of another user whose loop is under way."""
        users = [begun.user for begun in list(self._begun) if begun is not iteration]
        others = (other for other in users if other is not None and other is not user)
        return next((self._name_of(other) for other in others if not self._has_ended(other)), None)

    def _refusal(self, first: str, second: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"this consumer is used by another {self._kind}: {first} iterates it, and its loop has not ended; {second} "
            "began to iterate, too, so that a commit would cover records that the first one still handles. Create one "
            f"consumer for each {self._kind}, or end the first loop"
        )
