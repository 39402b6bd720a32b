"""Options of the commands that write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from raftlog.record.model import Compression

F = TypeVar("F", bound=Callable[..., Any])

_COMPRESSIONS: dict[str, Compression | None] = {"none": None, "lz4": "lz4", "zstd": "zstd"}


def acks_option(function: F) -> F:
    """Add `--acks`."""
    return click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)(function)


def compression_option(function: F) -> F:
    """Add `--compression`."""
    return click.option(
        "--compression",
        type=click.Choice([*_COMPRESSIONS]),
        default="none",
        show_default=True,
        callback=lambda _, __, name: _COMPRESSIONS[name],
    )(function)
