"""How a rule is broken, and restored."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
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

    def edit(self, function: Any, old: str, new: str) -> None:
        """Have a function do `new` where its source contains `old`, for all its callers."""
        edited = _Edited(function, old, new)
        edited.start()
        self._patches.append(edited)

    def undo(self) -> None:
        for patch in reversed(self._patches):
            patch.stop()


class _Edited:
    """One function, with another line in its source."""

    def __init__(self, function: FunctionType, old: str, new: str) -> None:
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(old) != 1:
            raise ValueError(f"{function.__qualname__} has {source.count(old)} times {old!r}, expected once")
        module = compile(
            f"from __future__ import annotations\n{source.replace(old, new)}", inspect.getfile(function), "exec"
        )
        codes = (const for const in module.co_consts if isinstance(const, CodeType))
        self._function, self._before = function, function.__code__
        self._code = next(code for code in codes if code.co_name == function.__name__)

    def start(self) -> None:
        self._function.__code__ = self._code

    def stop(self) -> None:
        self._function.__code__ = self._before


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
    """Name the tests of a rule that another rule guards, too: no history of a cluster shows that it is broken."""

    def note(mutate: Mutant) -> Mutant:
        TOLD_BY[mutate.__name__] = tests
        return mutate

    return note
