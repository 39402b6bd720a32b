"""What every target of the fuzzer is: inputs, and a judge of one."""

from __future__ import annotations

from typing import Protocol, Self

from hypothesis.strategies import SearchStrategy


class Finding(AssertionError):  # noqa: N818  (it is what the fuzzer looks for)
    """An input did what no input may do."""


class Target(Protocol):
    """One part of raftlog, and what it may be given. Used as a context manager: it runs inside only."""

    name: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def inputs(self) -> SearchStrategy[bytes]:
        """Return what makes inputs, each as bytes that a file can hold."""
        ...

    def judge(self, data: bytes) -> None:
        """Try one input.

        Raises:
            Finding: it did harm; the message says which.
        """
        ...

    def finish(self) -> str:
        """Judge what all the inputs have left behind, and say it in a line.

        Raises:
            Finding: as for `judge`.
        """
        ...
