"""Helpers of the subcommands: running async work, errors as one line, tables and JSON."""

from __future__ import annotations

import asyncio
import io
import math
import os
import select
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, TypeVar

import click
import orjson
from rich import box
from rich.console import Console
from rich.table import Table

from raftlog.cli.terminal import bytes_on_terminal, escaped, in_one_line
from raftlog.errors import RaftlogError
from raftlog.schema import to_plain

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "http://127.0.0.1:9400"
_WIDEST = 10_000
"""The width of tables in characters: a terminal may wrap lines, but a URL must stay whole to be copied."""


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
    except asyncio.CancelledError:  # A second Ctrl-C.
        raise click.Abort from None


class CommandError(click.ClickException):
    """A `RaftlogError` for click, code first: `Error: TOPIC_ALREADY_EXISTS: ...`."""

    def __init__(self, error: RaftlogError) -> None:
        super().__init__(escaped(describe_error(error)))
        self.error = error


class JsonError(click.ClickException):
    """An error shown as one JSON document on standard error: what a command with `--json` prints."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(error.format_message())
        told: dict[str, object] = {"code": "USAGE" if isinstance(error, click.UsageError) else "FAILED"}
        told["message"] = error.format_message()
        if isinstance(error, CommandError):
            told |= {"code": error.error.code.value, "message": error.error.message, "details": error.error.details}
        self._document = {"error": told}

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the document."""
        text = orjson.dumps(self._document, default=to_plain, option=orjson.OPT_INDENT_2)
        click.echo(text.decode(), file=file, err=file is None)


class JsonUsageError(JsonError):
    """A wrong option or argument, as JSON."""

    exit_code = 2


def as_json_error(error: click.ClickException) -> JsonError:
    """Return the error in the form of `--json`."""
    return JsonUsageError(error) if isinstance(error, click.UsageError) else JsonError(error)


def failure(error: RaftlogError) -> click.ClickException:
    """Return the error as click shows it."""
    return CommandError(error)


def describe_error(error: BaseException) -> str:
    """Return an error in one line, code first."""
    return f"{error.code.value}: {error.message}" if isinstance(error, RaftlogError) else repr(error)


def print_json(document: object) -> None:
    """Print one document, indented."""
    _echo_json(orjson.dumps(document, default=to_plain, option=orjson.OPT_INDENT_2))


def print_json_line(document: object) -> None:
    """Print one document in one line."""
    _echo_json(orjson.dumps(document, default=to_plain))


def _echo_json(text: bytes) -> None:
    """Print JSON in UTF-8, whatever encoding a terminal has: it would not be JSON otherwise."""
    click.echo(bytes_on_terminal(text, json=True) if sys.stdout.isatty() else text)


def print_done(line: str, as_json: bool, **what: object) -> None:
    """Print a result: one line, or `what` as JSON."""
    if as_json:
        print_json(what)
    else:
        say(line)


def say(line: str) -> None:
    """Print one line: names in it may be hostile."""
    click.echo(in_one_line(line))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "") -> None:
    """Print aligned columns, never truncated; on a terminal with a rule, in a pipe without, for awk and grep.

    Control characters in cells are escaped: each row is one line.

    Without rows, print `empty` on standard error.
    """
    rows = list(rows)
    if not rows and empty:
        click.echo(empty, err=True)
        return
    terminal = sys.stdout.isatty()
    style = box.SIMPLE_HEAD if terminal and sys.stdout.encoding.lower().startswith("utf") else None
    table = Table(*columns, box=style, pad_edge=False, show_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(in_one_line(str(cell)) for cell in row))
    text = io.StringIO()  # Written by click: rich exits the process at a broken pipe.
    Console(file=text, width=_WIDEST, markup=False, emoji=False, highlight=False, force_terminal=terminal).print(table)
    click.echo(text.getvalue(), nl=False)


@contextmanager
def quiet_when_closed() -> Iterator[None]:
    """Print within this block; after a broken pipe (`| head -1`), stop printing and continue."""
    try:
        yield
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            if _is_closed_pipe(stream.fileno()):
                os.dup2(nowhere, stream.fileno())  # Buffered output must not fail at exit.
        os.close(nowhere)


def _is_closed_pipe(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def plural(count: int, noun: str) -> str:
    """Return `1 record` or `2 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class FiniteRange(click.FloatRange):
    """A range of numbers that are neither infinite nor NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
