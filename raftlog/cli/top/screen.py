"""A terminal that shows frames and sends keys. It is left as it was: at the end, after a signal, after a crash."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live
from rich.text import Text

from raftlog.cli.top.frame import Line

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MOST_KEYS = 64
_STYLES = {
    "": "",
    "title": "bold",
    "healthy": "bold green",
    "warning": "bold yellow",
    "critical": "bold red",
    "dim": "dim",
}


class Screen:
    """The alternate screen of a terminal."""

    def __init__(self, live: Live, console: Console) -> None:
        self._live = live
        self._console = console

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines; 80 and 24 if the terminal does not say.

        Rich prefers the variables COLUMNS and LINES, which do not change with the terminal.
        """
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        return columns or 80, lines or 24

    def show(self, lines: Sequence[Line]) -> None:
        """Replace what is shown."""
        self._console.size = ConsoleDimensions(*self.size)
        texts = [Text(line.text, style=_STYLES[line.style], no_wrap=True, overflow="crop") for line in lines]
        self._live.update(Group(*texts), refresh=True)


@contextmanager
def screen(on_key: Callable[[str], None], on_resize: Callable[[], None], stop: Callable[[], None]) -> Iterator[Screen]:
    """Yield the screen of standard output's terminal, within an event loop.

    Args:
        on_key: called with each character that is typed.
        on_resize: called when the size has changed.
        stop: called at Ctrl-C, SIGTERM, and when the terminal is closed.
    """
    loop = asyncio.get_running_loop()
    console = Console(highlight=False, markup=False, emoji=False)
    for sig in STOPPING:
        loop.add_signal_handler(sig, stop)
    loop.add_signal_handler(signal.SIGWINCH, on_resize)
    try:
        with _keys(on_key, stop), Live(console=console, screen=True, auto_refresh=False) as live:
            yield Screen(live, console)
    finally:
        for sig in (*STOPPING, signal.SIGWINCH):
            loop.remove_signal_handler(sig)


@contextmanager
def _keys(on_key: Callable[[str], None], stop: Callable[[], None]) -> Iterator[None]:
    """Call `on_key` for each key of standard input's terminal; nothing if that is none."""
    if not sys.stdin.isatty():
        yield
        return
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        try:
            typed = os.read(descriptor, _MOST_KEYS)
        except OSError:
            typed = b""
        if not typed:  # The terminal is closed.
            loop.remove_reader(descriptor)
            stop()
        for character in typed.decode("latin-1"):
            on_key(character)

    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        loop.add_reader(descriptor, read)
        yield
    finally:
        loop.remove_reader(descriptor)
        with suppress(termios.error):  # The terminal is closed.
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
