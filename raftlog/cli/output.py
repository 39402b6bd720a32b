"""Writes to standard output in full: with PYTHONUNBUFFERED or O_NONBLOCK, a write may take only a part, or nothing.

A thread writes for an event loop, since a reader that stalls blocks the write for as long. It is a daemon, so that an
interrupted program can exit meanwhile.
"""

from __future__ import annotations

import io
import os
import select
import stat
import threading
from functools import partial
from typing import BinaryIO

from raftlog.cli.daemon_threads import in_thread

FILE_PIECE_BYTES = 1 << 20


class Output:
    """Writes in pieces that a pipe takes at once, so that a write that is interrupted has a known length."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.written = 0
        """How many bytes the stream has taken so far."""
        self._piece_bytes = FILE_PIECE_BYTES
        try:
            self._descriptor = stream.fileno()
        except io.UnsupportedOperation:  # Not a real file, in tests.
            self._descriptor = -1
        else:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                self._piece_bytes = select.PIPE_BUF

    async def write(self, content: bytes) -> None:
        """Write in a thread; being cancelled begins no further piece.

        Raises:
            OSError: the reader has exited, or the disk is full.
        """
        stopping = threading.Event()
        try:
            await in_thread(partial(self.write_now, content, stopping), timeout_s=None)
        finally:
            stopping.set()

    def write_now(self, content: bytes, stopping: threading.Event | None = None) -> None:
        """Write, however long that takes, or until `stopping` is set.

        Raises:
            OSError: see `write`.
        """
        if self._descriptor < 0:
            self.written += self._stream.write(content)
            return
        room = select.poll()
        room.register(self._descriptor, select.POLLOUT)
        at = 0
        while at < len(content):
            room.poll()
            if stopping is not None and stopping.is_set():
                return
            try:
                taken = os.write(self._descriptor, content[at : at + self._piece_bytes])
            except BlockingIOError:  # O_NONBLOCK, and another process was faster.
                continue
            at += taken
            self.written += taken
