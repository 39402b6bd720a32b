"""How a rule is broken, and mended again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

Mutant = Callable[[Any], None]
MUTANTS: dict[str, Mutant] = {}
TOLD_BY: dict[str, tuple[str, ...]] = {}


class Patches:
    """Undoes what it did."""

    def __init__(self) -> None:
        self._patches: list[Any] = []

    def __call__(self, target: Any, name: str, value: Any) -> None:
        patch = mock.patch.object(target, name, value)
        patch.start()
        self._patches.append(patch)

    def undo(self) -> None:
        for patch in reversed(self._patches):
            patch.stop()


@contextmanager
def broken_by(name: str) -> Iterator[None]:
    """Break one rule."""
    patches = Patches()
    MUTANTS[name](patches)
    try:
        yield
    finally:
        patches.undo()


def mutant(mutate: Mutant) -> Mutant:
    MUTANTS[mutate.__name__] = mutate
    return mutate


def told_by(*tests: str) -> Callable[[Mutant], Mutant]:
    """Name the tests of a rule that another one guards, too: no history of a cluster shows that it is broken."""

    def note(mutate: Mutant) -> Mutant:
        TOLD_BY[mutate.__name__] = tests
        return mutate

    return note
