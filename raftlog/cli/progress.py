"""Progress display on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress(what: str, count: Callable[[], int], *, total: int | None = None) -> Iterator[None]:
    """Show `count()` on standard error if that is a terminal; with a bar if the total is known.

    Without a total nothing is shown while standard input is a terminal: the user types there.
    """
    if not sys.stderr.isatty() or (total is None and sys.stdin.isatty()):
        yield
        return
    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.completed:,} " + what), TimeElapsedColumn()]
    if total is not None:
        columns[2:] = [BarColumn(), TimeRemainingColumn()]
    with _Following(*columns, console=Console(stderr=True, emoji=False), transient=True, refresh_per_second=5) as shown:
        shown.follow(count, total)
        yield


class _Following(Progress):
    """Reads a count at each refresh of the display, which is cheaper than an update for each record."""

    _count: Callable[[], int] | None = None

    def follow(self, count: Callable[[], int], total: int | None) -> None:
        self.add_task("", total=total)
        self._count = count

    def get_renderables(self) -> Iterable[RenderableType]:
        if self._count is not None:
            for task in self.tasks:
                self.update(task.id, completed=self._count())
        yield from super().get_renderables()
