"""Prints events as lines of JSON on standard output while a command runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, BinaryIO

from raftlog.cli.output import Output
from raftlog.wire.codec import encode_json


class JsonLines:
    """Writes the lines of a turn of the event loop at once.

    Args:
        on_closed: called when the reader of the pipe has exited (`| head`), or when a line cannot be written.
    """

    def __init__(self, out: BinaryIO, on_closed: Callable[[], object]) -> None:
        self._out = out
        self._output = Output(out)
        self._lines: list[bytes] = []
        self._on_closed = on_closed
        self._flush_is_due = False
        self._failure: OSError | None = None

    def write(self, event: str, **members: Any) -> None:
        """Write an object whose first member is `event`."""
        self._lines.append(encode_json({"event": event, **members}) + b"\n")
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        self._flush_is_due = False
        lines, self._lines = self._lines, []
        try:
            self._output.write_now(b"".join(lines))
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self._failure = self._failure or error
            nowhere = os.open(os.devnull, os.O_WRONLY)  # Later lines must not fail again.
            os.dup2(nowhere, self._out.fileno())
            os.close(nowhere)
            self._on_closed()

    def finish(self) -> None:
        """Write what is left.

        Raises:
            OSError: a line could not be written, now or earlier: on a full disk, say.
        """
        self.flush()
        if self._failure is not None:
            raise self._failure
