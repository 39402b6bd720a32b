"""Writes the lines of an audit log in a thread of its own, to a file that rotates by size.

The event loop never waits: a line that finds the queue full is dropped and counted. A disk that fails or is full loses
lines, which are counted, too. The node continues, and the next line that can be written says how many are missing.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import stat
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import orjson

from raftlog.errors import ConfigError

_log = logging.getLogger(__name__)
_journal = logging.getLogger("raftlog.audit")
MAX_QUEUED = 20_000
MAX_QUEUED_BYTES = 32 << 20
_AT_ONCE = 1_000
CLOSE_WITHIN_S = 5.0
_UNSAFE = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters that JSON need not escape, and those that end or turn a line."""


class AuditFile:
    """The file of an audit log, and its thread.

    Args:
        path: "": lines go to the log only.
        max_bytes: the file is renamed to `PATH.1` before it grows beyond this.
        files: how many files are kept, the current one included.
        to_log: whether lines also go to the logger `raftlog.audit`.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, path: str, *, max_bytes: int, files: int, to_log: bool = False) -> None:
        self._path = Path(path) if path else None
        self._max_bytes = max_bytes
        self._files = files
        self._to_log = to_log
        self._queue: deque[tuple[bytes, Mapping[str, object]]] = deque()
        """Lines as they are written, and the beginning of one that says how many were lost before it."""
        self._queued_bytes = 0
        self._changed = threading.Condition()
        self._closed = self._reopens = False
        self._lost = 0
        """Lines that were dropped since the last line was written."""
        self.lost = 0
        """Lines that were dropped since the start."""
        self._failing = False
        self._overflows = False
        self._file = -1
        self._size = 0
        try:
            self._open()
        except OSError as error:
            raise ConfigError(f"security.audit_file: cannot write {path}: {error.strerror}") from error
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many lines wait to be written."""
        return len(self._queue)

    def put(self, line: Mapping[str, object]) -> None:
        """Write a line soon; drop it if too many wait."""
        text, beginning = _encoded(line), {"time": line["time"], "node": line["node"], "event": "lost"}
        with self._changed:
            has_room = len(self._queue) < MAX_QUEUED and self._queued_bytes + len(text) <= MAX_QUEUED_BYTES
            if has_room and not self._closed:
                self._queue.append((text, beginning))
                self._queued_bytes += len(text)
                self._changed.notify()
                return
            self._lost += 1
            self.lost += 1
            is_first, self._overflows = not (self._overflows or self._closed), True
        if is_first:
            _log.error("the audit log is written too slowly, lines are lost: %s", self._path)

    def reopen(self) -> None:
        """Open the file again: another program has renamed it."""
        with self._changed:
            self._reopens = True
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, for a few seconds at most."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(CLOSE_WITHIN_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._queue or self._closed or self._reopens):
                    self._changed.wait()
                lines = [self._queue.popleft() for _ in range(min(_AT_ONCE, len(self._queue)))]
                self._queued_bytes -= sum(len(text) for text, _ in lines)
                reopens, self._reopens = self._reopens, False
                lost, self._lost = self._lost, 0
                if not lines and self._closed:
                    break
            if reopens:
                with suppress(OSError):
                    self._open()
            self._write_all(lines, lost)
        if self._file >= 0:
            os.close(self._file)

    def _write_all(self, lines: list[tuple[bytes, Mapping[str, object]]], lost: int) -> None:
        for text, beginning in lines:
            if lost and self._write(_encoded({**beginning, "lines": lost})):
                lost = 0
            if not self._write(text):
                lost += 1
                with self._changed:
                    self.lost += 1
        if lost:
            with self._changed:
                self._lost += lost
        elif self._overflows and not self._queue:
            self._overflows = False
            _log.warning("the audit log is written again: %s", self._path)

    def _write(self, text: bytes) -> bool:
        """Return whether a line was written."""
        if self._to_log:
            _journal.info("%s", text.decode("utf-8", "replace").rstrip())
        if self._path is None:
            return True
        try:
            self._append(self._path, text)
        except OSError as error:
            if not self._failing:
                self._failing = True
                _log.error("the audit log cannot be written, lines are lost: %s: %s", self._path, error.strerror)
            return False
        if self._failing:
            self._failing = False
            _log.warning("the audit log is written again: %s", self._path)
        return True

    def _append(self, path: Path, text: bytes) -> None:
        if self._file < 0:
            self._open()
        if self._size and self._size + len(text) > self._max_bytes:
            self._rotate(path)
        written = 0
        try:
            while written < len(text):
                written += os.write(self._file, text[written:])
        except OSError:
            if written:
                with suppress(OSError):  # No half line may precede the next one.
                    os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise
        self._size += written

    def _rotate(self, path: Path) -> None:
        """Rename the files, oldest first, and begin a new one. If that fails, the current one grows."""
        try:
            for number in range(self._files - 1, 0, -1):
                older = path if number == 1 else path.with_name(f"{path.name}.{number - 1}")
                if older.exists():
                    older.replace(path.with_name(f"{path.name}.{number}"))
            if self._files == 1:
                path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the audit log cannot be rotated: %s: %s", path, error.strerror)
            self._size = 0  # Tried again after as many bytes.
            return
        os.close(self._file)
        self._file, self._size = -1, 0  # Also if the next call fails: the old files are not renamed once more.
        self._open()

    def _open(self) -> None:
        if self._path is None:
            return
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _is_own(file):
            os.close(file)
            raise OSError(errno.EBUSY, "another process writes it; each node needs a file of its own")
        previous, self._file = self._file, file
        self._size = os.fstat(file).st_size
        if previous >= 0:
            os.close(previous)


def _is_own(file: int) -> bool:
    """Lock a file; return False if another process has: both would rename it. Not every file system has locks."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _encoded(line: Mapping[str, object]) -> bytes:
    """Return a line in JSON, which a terminal shows as it is."""
    try:
        text = orjson.dumps(line).decode()
    except orjson.JSONEncodeError:  # Such as a lone surrogate of an odd request.
        plain = {name: str(value).encode("ascii", "backslashreplace").decode() for name, value in line.items()}
        text = orjson.dumps(plain).decode()
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n"
