"""Decides whether concurrent operations on one register can be put into an order that explains every answer.

This is just-in-time linearization (Lowe, "Testing for linearizability", 2017). Walking through the history, it keeps
every possible *configuration*: the register's state, and which of the pending steps have taken effect. An operation
that completes must have taken effect by then, so configurations in which it cannot have are dropped. When none is left,
no order explains the history.

An operation is a series of steps, each with its effect at one instant between invocation and completion. An operation
whose outcome is unknown never completes: its step may take effect at any time after the invocation, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

State = TypeVar("State")
Source = TypeVar("Source")

MAX_CONFIGURATIONS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[State, Source]):
    """One operation on the register.

    Args:
        steps: each returns the state after it, or None if it could not have happened.
        completed_ns: None if the outcome is unknown.
        source: the caller's own reference to the operation.
    """

    invoked_ns: int
    completed_ns: int | None
    steps: tuple[Callable[[State], State | None], ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction(Generic[State, Source]):
    """The first operation to complete that no order explains, and the possible states where it failed."""

    operation: Source
    possible: tuple[State, ...]


class TooManyConfigurationsError(Exception):
    """The history has too many possible orders to be judged."""


Configuration = tuple[State, frozenset[tuple[int, int]]]
"""The state, and for each pending operation with steps that took effect: its number, and how many steps."""


NO_STEP = (-1, 0)


@dataclass(slots=True)
class _Search(Generic[State, Source]):
    pending: dict[int, Operation[State, Source]] = field(default_factory=dict)

    def following(self, configuration: Configuration[State], spare: tuple[int, int]) -> Iterable[Configuration[State]]:
        """Yield what can come next: one more step of one pending operation, other than `spare`, takes effect."""
        state, done = configuration
        counts = dict(done)
        for number, operation in self.pending.items():
            count = counts.get(number, 0)
            if count == len(operation.steps) or (number, count + 1) == spare:
                continue
            after = operation.steps[count](state)
            if after is not None:
                yield after, (done - {(number, count)}) | {(number, count + 1)}

    def reachable(
        self,
        start: Iterable[Configuration[State]],
        *,
        until: tuple[int, int] = NO_STEP,
        spare: tuple[int, int] = NO_STEP,
    ) -> set[Configuration[State]]:
        """Return `start` and everything reachable from it, up to where `until` has taken effect."""
        found = set(start)
        waiting = list(found)
        while waiting:
            configuration = waiting.pop()
            if until in configuration[1]:
                continue
            for following in self.following(configuration, spare):
                if following not in found:
                    found.add(following)
                    waiting.append(following)
            if len(found) > MAX_CONFIGURATIONS:
                raise TooManyConfigurationsError(f"{len(self.pending)} operations are pending at once")
        return found

    def complete(self, configurations: set[Configuration[State]], number: int) -> set[Configuration[State]]:
        """Return the configurations in which all steps of an operation took effect; it is no longer pending."""
        whole = (number, len(self.pending[number].steps))
        found = {
            configuration for configuration in self.reachable(configurations, until=whole) if whole in configuration[1]
        }
        if found:
            del self.pending[number]
        return {(state, done - {whole}) for state, done in found}

    def possible(self, configurations: set[Configuration[State]], number: int) -> tuple[State, ...]:
        """Return the states in which the last step of an operation would have had to happen, or else its first step."""
        last = len(self.pending[number].steps)
        reachable = self.reachable(configurations, spare=(number, last))
        begun = [c for c in reachable if (number, last - 1) in c[1]]
        return tuple(dict.fromkeys(state for state, _ in begun or reachable))


def explain(initial: State, operations: Sequence[Operation[State, Source]]) -> Contradiction[State, Source] | None:
    """Return None if some order explains all answers, else the first operation that no order explains.

    Raises:
        TooManyConfigurationsError: too many operations are pending at once.
    """
    search: _Search[State, Source] = _Search()
    configurations: set[Configuration[State]] = {(initial, frozenset())}
    for _, completes, number in _events(operations):
        operation = operations[number]
        if not completes:
            search.pending[number] = operation
            continue
        before = configurations
        configurations = search.complete(configurations, number)
        if not configurations:
            return Contradiction(operation=operation.source, possible=search.possible(before, number))
    return None


def _events(operations: Sequence[Operation[State, Source]]) -> list[tuple[int, bool, int]]:
    """Return (time, whether it completes, number) in order; of events at the same time, invocations come first."""
    events = [(operation.invoked_ns, False, number) for number, operation in enumerate(operations)]
    events += [(op.completed_ns, True, number) for number, op in enumerate(operations) if op.completed_ns is not None]
    return sorted(events)
