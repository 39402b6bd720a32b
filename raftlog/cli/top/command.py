"""`raftlog top`: a cluster's load and health, again each second."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

import click

from raftlog.cli.connecting import security_in_use
from raftlog.cli.connectivity import require_cluster
from raftlog.cli.daemon_threads import run_bounded
from raftlog.cli.remote import bootstrap_option
from raftlog.cli.shared import FiniteRange, failure, json_option, print_json, quiet_when_closed
from raftlog.cli.top.frame import SORTS, Line, frame, plain
from raftlog.client.security import Security
from raftlog.errors import RaftlogError
from raftlog.metrics.overview import Overview, overview

_PIPE_WIDTH = 120


@click.command("top")
@click.option(
    "--interval",
    "interval_s",
    type=FiniteRange(0.2, 3_600),
    default=1,
    show_default=True,
    metavar="SECONDS",
    help="The time between two frames.",
)
@click.option("--once", is_flag=True, help="Print one frame after one interval, and exit.")
@click.option("--sort", type=click.Choice(sorted(SORTS.values())), default=None, help="Sort rows by this at first.")
@bootstrap_option
@json_option
def command(bootstrap: list[str], interval_s: float, once: bool, sort: str | None, as_json: bool) -> None:
    """Show a cluster's health, nodes, throughput, topics, groups and requests, again each second.

    On a terminal, q quits and other keys sort. Without one, frames are printed below each other. --json prints one
    object, after one interval.
    """
    try:
        security = security_in_use()
        with quiet_when_closed():
            run_bounded(_work(bootstrap, security, interval_s, once=once, sort=sort or "", as_json=as_json))
    except RaftlogError as error:
        raise failure(error) from None


async def _work(
    bootstrap: Sequence[str], security: Security, interval_s: float, *, once: bool, sort: str, as_json: bool
) -> None:
    await require_cluster(bootstrap, security)
    if once or as_json:
        found = await _one(bootstrap, security, interval_s)
        print_json(asdict(found)) if as_json else _print(found, sort)
    elif sys.stdout.isatty():
        await _show(bootstrap, security, interval_s, sort)
    else:
        await _print_each(bootstrap, security, interval_s, sort)


async def _one(bootstrap: Sequence[str], security: Security, interval_s: float) -> Overview:
    from raftlog.cli.top.watcher import Watcher  # noqa: PLC0415  (`--help` needs no client)

    async with Watcher(bootstrap, security) as watcher:
        await watcher.look_and_wait()
        await asyncio.sleep(interval_s)
        await watcher.look_and_wait()
        return overview(watcher.reading())


def _print(found: Overview, sort: str) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH
    click.echo(plain(frame(found, width=width, height=None, sort=sort, status=_clock())))


def _clock() -> str:
    return time.strftime("%H:%M:%S")


async def _print_each(bootstrap: Sequence[str], security: Security, interval_s: float, sort: str) -> None:
    """Print a frame each interval, until a signal or until the pipe is closed."""
    from raftlog.cli.top.watcher import Watcher  # noqa: PLC0415

    stopping = asyncio.Event()
    with _stopped_by_signals(stopping.set):
        async with Watcher(bootstrap, security) as watcher:
            await watcher.look_and_wait()
            while not await _within(stopping, interval_s):
                _print(overview(watcher.reading()), sort)
                click.echo()
                sys.stdout.flush()
                watcher.look()


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for sig in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sig, stop)
    try:
        yield
    finally:
        for sig in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(sig)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Return whether an event happens before so many seconds have passed."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


async def _show(bootstrap: Sequence[str], security: Security, interval_s: float, sort: str) -> None:
    from raftlog.cli.top.screen import screen  # noqa: PLC0415
    from raftlog.cli.top.watcher import Watcher  # noqa: PLC0415

    view = _View(sort)
    async with Watcher(bootstrap, security) as watcher:
        with screen(view.on_key, view.changed.set, view.stop) as shown:
            due = time.monotonic()
            while not view.stopping:
                if time.monotonic() >= due:
                    watcher.look()
                    due = time.monotonic() + interval_s
                width, height = shown.size
                shown.show(view.frame(overview(watcher.reading()), width, height))
                view.changed.clear()
                await _within(view.changed, max(0.01, due - time.monotonic()))


class _View:
    """What the user has chosen by keys."""

    def __init__(self, sort: str) -> None:
        self.sort = sort
        self.stopping = False
        self.changed = asyncio.Event()

    def stop(self) -> None:
        self.stopping = True
        self.changed.set()

    def on_key(self, key: str) -> None:
        if key in "qQ\x03\x04":
            self.stop()
        elif key in SORTS:
            self.sort = "" if self.sort == SORTS[key] else SORTS[key]  # The same key again: the default order.
            self.changed.set()

    def frame(self, found: Overview, width: int, height: int) -> list[Line]:
        status = f"sorted by {self.sort}   {_clock()}" if self.sort else _clock()
        return frame(found, width=width, height=height, sort=self.sort, status=status, keys=True)
