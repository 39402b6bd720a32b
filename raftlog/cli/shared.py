"""What the subcommands share: running async work, errors as one line, tables and JSON."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
import orjson
from rich import box
from rich.console import Console
from rich.table import Table

from raftlog.errors import RaftlogError
from raftlog.schema import to_plain

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "http://127.0.0.1:9400"
_WIDEST = 10_000
"""Columns of a table: a terminal may wrap it, but a URL must stay whole to be copied."""


def json_option(function: F) -> F:
    """Add `--json`, for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")(function)


def run(work: Awaitable[T]) -> T:
    """Run async work; a `RaftlogError` becomes one line on standard error and exit code 1."""

    async def awaited() -> T:
        return await work

    try:
        return asyncio.run(awaited())
    except RaftlogError as error:
        raise failure(error) from None
    except asyncio.CancelledError:  # By a second Ctrl-C.
        raise click.Abort from None


def failure(error: RaftlogError) -> click.ClickException:
    """Return the error as click shows it, code first: `Error: TOPIC_ALREADY_EXISTS: ...`."""
    return click.ClickException(describe_error(error))


def describe_error(error: BaseException) -> str:
    """Return an error in one line, code first."""
    return f"{error.code.value}: {error.message}" if isinstance(error, RaftlogError) else repr(error)


def print_json(document: object) -> None:
    """Print one document, indented."""
    click.echo(orjson.dumps(document, default=to_plain, option=orjson.OPT_INDENT_2).decode())


def print_done(line: str, as_json: bool, **what: object) -> None:
    """Print that something was done: one line, or what it was as a document."""
    if as_json:
        print_json(what)
    else:
        click.echo(line)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "") -> None:
    """Print aligned columns, never cut; on a terminal with a rule, in a pipe bare, so that awk and grep work.

    Without rows it says `empty`, on standard error.
    """
    rows = list(rows)
    if not rows and empty:
        click.echo(empty, err=True)
        return
    style = box.SIMPLE_HEAD if sys.stdout.isatty() else None
    table = Table(*columns, box=style, pad_edge=False, show_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console(file=sys.stdout, width=_WIDEST, markup=False, highlight=False).print(table)


def plural(count: int, noun: str) -> str:
    """Return `1 record` or `2 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
