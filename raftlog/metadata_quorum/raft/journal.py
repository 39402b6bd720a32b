"""The Raft log on disk: entries, term and vote, in one file of checksummed records.

    body = E index term command | T number of entries kept | M term vote | C commit index | S standing

- Records are buffered until `sync`, which the engine calls before every message that it sends. What one sync writes is
  there as a whole after a crash, or not at all.
- A torn last write is truncated: it ends early (a crash during a write) or lacks sectors (a power failure during a
  write). Any other damage is refused (`frames`).
- Rewriting (after a snapshot) is crash-atomic.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

from pysyncobj.journal import Journal

from raftlog.errors import StorageError
from raftlog.metadata_quorum.raft.frames import MAGIC, framed_write, read_valid_records
from raftlog.metadata_quorum.raft.rejoin import Standing
from raftlog.metrics import Histogram

_ENTRY = struct.Struct("<QQ")
_TERM = struct.Struct("<Q")

Entry = tuple[bytes, int, int]
"""PySyncObj's order: command, index, term."""


def unfinished_journal(path: Path) -> Path:
    """Return the file in which the journal is written again."""
    return path.with_suffix(".new")


class RaftJournal(Journal):  # type: ignore[misc]
    """PySyncObj's journal interface (camel case is its own) over our file.

    Raises:
        StorageError: on construction, when the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[Entry] = []
        self._term = 0
        self._vote: str | None = None
        self._commit_index = 1
        self._commit_written = 1
        self._buffer: list[bytes] = []
        self._next_write = 0
        self.size = 0
        """Bytes of entries since the last rewrite."""
        self.syncs = Histogram()
        """Times of syncs, in seconds."""
        self.standing: str = Standing.FULL
        if path.exists():
            self._recover()
        else:
            self.standing = Standing.BLANK
            self._rewrite()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    # For the engine.

    def sync(self) -> None:
        """Make everything so far durable.

        Raises:
            OSError: the state on disk is unknown; the process must stop.
        """
        if not self._buffer:
            return
        data = framed_write(self._buffer, self._next_write)
        self._buffer = []
        self._next_write += 1
        if os.write(self._file, data) != len(data):
            raise OSError(f"{self._path}: short write")
        began = time.perf_counter()
        os.fdatasync(self._file)
        self.syncs.observe(time.perf_counter() - began)

    def set_standing(self, standing: Standing) -> None:
        """Store this voter's standing (see `rejoin`), durable on return."""
        self.standing = standing
        self._buffer.append(self._standing_record())
        self.sync()

    def trim_to_snapshot(self, previous: Entry, last: Entry) -> None:
        """Drop entries that a snapshot covers, and keep the entries after it.

        A crash between writing the snapshot and trimming leaves both intact. The core would clear the log (S4).
        """
        if not self._entries or not self._entries[0][1] <= previous[1] < last[1] <= self._entries[-1][1]:
            return
        at = previous[1] - self._entries[0][1]
        if at and self._entries[at] == previous and self._entries[at + 1] == last:
            self.deleteEntriesTo(at)

    def rewrite(self) -> None:
        """Replace a damaged file by the entries in memory.

        Raises:
            OSError: the state on disk is unknown; the process must stop.
        """
        self.deleteEntriesTo(0)

    # PySyncObj's interface.

    def add(self, command: bytes, idx: int, term: int) -> None:
        assert not self._entries or idx == self._entries[-1][1] + 1
        self._entries.append((bytes(command), idx, term))
        self._buffer.append(b"E" + _ENTRY.pack(idx, term) + command)
        self.size += len(command)

    def clear(self) -> None:
        self.deleteEntriesFrom(0)

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        del self._entries[entryFrom:]
        self._buffer.append(b"T" + _TERM.pack(entryFrom))

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        self._entries = self._entries[entryTo:]
        self._rewrite()
        os.close(self._file)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def __getitem__(self, item: Any) -> Any:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        self._commit_index = raftCommitIndex

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        return min(self._commit_index, self._entries[-1][1]) if self._entries else 1

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803
        """Store term and vote, durable on return: a forgotten vote could be cast twice."""
        self._term, self._vote = term, votedForNodeId
        self._buffer.append(self._term_record())
        self.sync()

    def getCurrentTerm(self) -> int:  # noqa: N802
        return self._term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        return self._vote

    def onOneSecondTimer(self) -> None:  # noqa: N802
        """Store the commit index periodically: a hint, so that a restarted voter applies sooner."""
        if self._commit_index != self._commit_written:
            self._commit_written = self._commit_index
            self._buffer.append(self._commit_record())
            self.sync()

    def close(self) -> None:
        """Sync and close the file."""
        if self._file >= 0:
            self.sync()
            os.close(self._file)
            self._file = -1

    def abandon(self) -> None:
        """Close the file without syncing: buffered writes are lost, as in a crash."""
        self._buffer = []
        self.close()

    def _destroy(self) -> None:
        self.close()

    # The file.

    def _term_record(self) -> bytes:
        return b"M" + _TERM.pack(self._term) + (self._vote or "").encode()

    def _commit_record(self) -> bytes:
        return b"C" + _TERM.pack(self._commit_index)

    def _standing_record(self) -> bytes:
        return b"S" + self.standing.encode()

    def _rewrite(self) -> None:
        temporary = unfinished_journal(self._path)
        entries = [b"E" + _ENTRY.pack(index, term) + command for command, index, term in self._entries]
        try:
            with temporary.open("wb") as file:
                facts = [self._standing_record(), self._term_record(), self._commit_record()]
                file.write(MAGIC + framed_write([*facts, *entries], 0))
                file.flush()
                os.fsync(file.fileno())
            # A snapshot that was renamed just before must be durable before the entries that it covers are removed.
            fsync_folder(self._path.parent)
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)  # Nothing else may be written to a full disk.
            raise
        fsync_folder(self._path.parent)
        self._buffer = []
        self._next_write = 1
        self.size = sum(len(command) for command, _, _ in self._entries)

    def _recover(self) -> None:
        """Load the file's records, then write and sync them again before they are used.

        The previous process may have exited between a write and its sync, or after a failed sync. Such bytes can be
        read, but a power failure would still remove them.
        """
        valid = read_valid_records(self._path)
        for body in valid.bodies:
            self._replay(body)
        try:
            if not valid.is_current_format:
                self._rewrite()
                return
            self._next_write = valid.next_write
            with self._path.open("r+b") as file:
                file.write(valid.content)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"cannot write and sync {self._path} again: {error}") from error

    def _replay(self, body: bytes) -> None:
        kind, rest = body[:1], body[1:]
        if kind == b"E":
            index, term = _ENTRY.unpack_from(rest)
            self._entries.append((rest[_ENTRY.size :], index, term))
            self.size += len(rest)
        elif kind == b"T":
            del self._entries[_TERM.unpack(rest)[0] :]
        elif kind == b"M":
            self._term, self._vote = _TERM.unpack_from(rest)[0], rest[_TERM.size :].decode() or None
        elif kind == b"C":
            self._commit_index = self._commit_written = _TERM.unpack(rest)[0]
        elif kind == b"S":
            self.standing = Standing(rest.decode())


def fsync_folder(folder: Path) -> None:
    """Make creations and renames inside a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
