"""Reads the newest lines of an audit log's files in threads, piece by piece, one piece at a time.

A page is bounded by its lines, its characters, and the bytes that are looked at. So a request never reads a whole file,
and the event loop never waits for the disk. A disk that hangs blocks these threads and no other work.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from raftlog.errors import InvalidRequestError, OverloadedError, StorageError
from raftlog.security.audit_search import LATEST_MS, AuditFilter, Found, search, time_of_first_line
from raftlog.serving import metered
from raftlog.wire.audit import AuditEntry

T = TypeVar("T")
PIECE_BYTES = 512 << 10
"""A longer line is not shown."""
MAX_LOOKED_BYTES = 16 << 20
"""A page that has looked at so many bytes ends, also with few lines or none."""
MAX_TEXT = 1 << 20
"""Characters of the lines of one page."""
MAX_WAITING = 8
"""Pieces that are read or wait."""
WITHIN_S = 5.0
_PROBE_BYTES = 64 << 10
_POSITION = re.compile(r"([0-9]{1,20})-([0-9]{1,19})")
_END = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The lines before a byte of one file. A file that is renamed keeps its number."""

    file: int
    """The file's inode number."""
    end: int

    @classmethod
    def of(cls, text: str) -> Position | None:
        """Return the position of a query; None: the end of the newest file.

        Raises:
            InvalidRequestError: it is not the `next` of a page.
        """
        found = _POSITION.fullmatch(text)
        if text and found is None:
            raise InvalidRequestError(f"before: expected the next of a page, received {text!r:.80}")
        return None if found is None else cls(file=int(found[1]), end=int(found[2]))

    def __str__(self) -> str:
        return f"{self.file}-{self.end}"


@dataclass(slots=True, kw_only=True)
class AuditPage:
    """Lines, newest first."""

    entries: list[AuditEntry] = field(default_factory=list)
    reached: str = ""
    """The time of the oldest line that was looked at."""
    next: Position | None = None
    """Where the next page begins; None: there are no older lines."""


class AuditReader:
    """Reads the files of one audit log.

    Args:
        path: the newest file.
        files: how many files are kept, the newest included: `path`, `path.1`, ...
    """

    def __init__(self, path: str, files: int) -> None:
        self._path = Path(path)
        self._files = files
        self._one_at_a_time = threading.Lock()
        """Threads that decode lines slow the event loop down: one of them is enough."""
        self._waiting = 0

    async def page(self, wanted: AuditFilter, *, before: Position | None, lines: int) -> AuditPage:
        """Return one page.

        Raises:
            OverloadedError: too many pages are read.
            StorageError: a file cannot be read, or not in time.
        """
        if self._waiting >= MAX_WAITING:
            raise OverloadedError(f"{self._waiting} pages of the audit log are being read already; try again")
        try:
            async with asyncio.timeout(WITHIN_S):
                return await self._page(wanted, before, lines)
        except TimeoutError:
            raise StorageError(f"the audit log {self._path} was not read within {WITHIN_S:g} s; try again") from None
        except OSError as error:
            raise StorageError(f"the audit log cannot be read: {self._path}: {error.strerror}") from error

    async def _page(self, wanted: AuditFilter, before: Position | None, lines: int) -> AuditPage:
        page, room = AuditPage(next=before), MAX_TEXT
        for _ in range(MAX_LOOKED_BYTES // PIECE_BYTES):
            work = partial(self._look, page.next, wanted, lines - len(page.entries), room)
            found, page.next = await self._in_thread(work)
            page.entries += found.entries
            page.reached = found.reached or page.reached
            room -= sum(len(one.line) for one in found.entries)
            if page.next is None or found.is_full:
                break
        return page

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread that a shutdown does not wait for, and add its CPU time to the request's meter.

        A piece that hangs keeps its place, so that no more than `MAX_WAITING` gather behind it.
        """
        loop, meter = asyncio.get_running_loop(), metered.current()
        future: asyncio.Future[T] = loop.create_future()

        def done(found: T | None, error: BaseException | None, seconds: float) -> None:
            self._waiting -= 1
            if meter is not None:
                meter.add(seconds)
            if future.done():
                return  # The page timed out.
            if error is None:
                future.set_result(cast("T", found))
            else:
                future.set_exception(error)

        def run() -> None:
            found, error = None, None
            with self._one_at_a_time:
                try:
                    found = work()
                except Exception as failed:  # noqa: BLE001  (the request gets it)
                    error = failed
            with suppress(RuntimeError):  # The node is shutting down, and its loop is closed.
                loop.call_soon_threadsafe(done, found, error, time.thread_time())

        self._waiting += 1
        threading.Thread(target=run, name="audit-page", daemon=True).start()
        return await future

    def _look(self, at: Position | None, wanted: AuditFilter, lines: int, room: int) -> tuple[Found, Position | None]:
        """Look at one piece; return what it has, and the position before it."""
        files = self._existing()
        numbers = list(files)
        if not files or (at is not None and at.file not in files):
            return Found(), None  # The files of this page and of older ones were deleted since.
        number = numbers[0] if at is None else at.file
        here = Position(file=number, end=_END if at is None else at.end)
        try:
            file = os.open(files[number], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:  # It was renamed just now.
            return Found(), here
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"the audit log {self._path} is not a file, so its lines cannot be read again")
            if status.st_ino != number:  # Another file has its name since.
                return Found(), here
            end = min(here.end, status.st_size)
            if end == status.st_size and wanted.until_ms < LATEST_MS:
                end = _end_before(file, end, wanted.until_ms)
            start = max(0, end - PIECE_BYTES)
            found = search(os.pread(file, end - start, start), start, wanted, lines=lines, room=room)
        finally:
            os.close(file)
        if found.is_over:
            return found, None
        if found.begin > 0:
            return found, Position(file=number, end=found.begin)
        older = numbers[numbers.index(number) + 1 :]
        return found, Position(file=older[0], end=_END) if older else None

    def _existing(self) -> dict[int, Path]:
        """Return the files by their numbers, newest first.

        A file that is renamed meanwhile gets a later name, so that none is missed.
        """
        found: dict[int, Path] = {}
        for number in range(self._files):
            path = self._path if number == 0 else self._path.with_name(f"{self._path.name}.{number}")
            try:
                found.setdefault(path.stat().st_ino, path)
            except FileNotFoundError:
                continue
        return found


def _end_before(file: int, end: int, until_ms: int) -> int:
    """Return where the lines of a time and later ones begin, or a little after it. Times grow within a file."""
    low = 0
    while end - low > PIECE_BYTES:
        middle = (low + end) // 2
        at_ms, begin = time_of_first_line(os.pread(file, min(_PROBE_BYTES, end - middle), middle))
        if begin < 0:
            return end
        if at_ms < until_ms:
            low = middle
        elif middle + begin < end:
            end = middle + begin
        else:
            return end
    return end
