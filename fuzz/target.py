"""The interface of every target of the fuzzer: inputs, and a judge of one."""

from __future__ import annotations

from typing import Protocol, Self

from hypothesis.strategies import SearchStrategy


class Finding(AssertionError):  # noqa: N818  (it is what the fuzzer looks for)
    """An input did harm."""


class Target(Protocol):
    """One part of raftlog, and its inputs. A context manager: the part runs inside it only."""

    name: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def inputs(self) -> SearchStrategy[bytes]:
        """Return a strategy for inputs, each as bytes that a file can store."""
        ...

    def judge(self, data: bytes) -> None:
        """Try one input.

        Raises:
            Finding: it did harm; the message says which.
        """
        ...

    def finish(self) -> str:
        """Judge the effects of all the inputs together, and report them in a line.

        Raises:
            Finding: as for `judge`.
        """
        ...
