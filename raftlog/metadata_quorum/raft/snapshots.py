"""Snapshots of the state machine: written, loaded, and sent in chunks. No fork, no swallowed errors.

Replaces PySyncObj's serializer, and keeps its method names. One file, replaced atomically:

    magic | u32 CRC-32C of body | u64 length of body | body = (state, last applied entry, the entry before it)

The body is MessagePack.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pysyncobj.config import SERIALIZER_STATE

from raftlog.checksum import crc32c
from raftlog.errors import StorageError
from raftlog.metadata_quorum.quorum_interface import StateMachine
from raftlog.metadata_quorum.raft.codec import MessageFormatError, decode, encode
from raftlog.metadata_quorum.raft.frames import REMEDY
from raftlog.metadata_quorum.raft.journal import Entry, RaftJournal

_log = logging.getLogger(__name__)
CHUNK_BYTES = 256 << 10
_MAGIC = b"RLSNAP02"
_HEAD = struct.Struct("<IQ")
_RETRY_ENTRIES = 1_000
"""Entries between a failed attempt (on a full disk, say) and the next one."""


class Snapshots:
    """The snapshot file of one voter."""

    def __init__(
        self,
        path: Path,
        *,
        machine: StateMachine,
        journal: RaftJournal,
        fatal: Callable[[str], None],
        take_new: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up; `take_new` must call `serialize` at once."""
        self._path = path
        self._machine = machine
        self._journal = journal
        self._fatal = fatal
        self._take_new = take_new
        self._result: tuple[int, int] | None = None
        self._retry_after = 0
        self._outgoing: dict[Any, tuple[bytes, int]] = {}
        self._incoming: bytearray | None = None

    def serialize(self, data: tuple[Any, Entry, Entry, Any], id: int) -> None:  # noqa: A002
        """Write a snapshot at the last applied entry; `checkSerializing` returns the result."""
        _, last, previous, _ = data
        if id < self._retry_after:
            return
        body = encode((self._machine.take_snapshot(), tuple(last), tuple(previous)))
        try:
            self._replace(_MAGIC + _HEAD.pack(crc32c(body), len(body)) + body)
        except OSError as error:
            _log.error("cannot write %s: %s; the journal keeps growing", self._path, error)
            self._retry_after = id + _RETRY_ENTRIES
            return
        self._outgoing.clear()
        self._result = (SERIALIZER_STATE.SUCCESS, id)

    def checkSerializing(self) -> tuple[int, int | None]:  # noqa: N802
        result, self._result = self._result, None
        return result or (SERIALIZER_STATE.NOT_SERIALIZING, None)

    def deserialize(self) -> tuple[None, Entry, Entry, tuple[()]]:
        """Verify and load the file.

        The core swallows errors from here and acknowledges the snapshot (S5). So damage stops the process instead.
        """
        try:
            state, last, previous = self._read()
            self._machine.load_snapshot(last[1], state)
            self._journal.trim_to_snapshot(previous, last)
        except Exception as error:
            self._fatal(f"cannot load the snapshot {self._path}: {error!r}")
            raise
        return None, last, previous, ()

    def getTransmissionData(self, peer: Any) -> tuple[bytes, bool, bool] | None:  # noqa: N802
        """Return the next chunk for a peer: (data, is first, is last)."""
        try:
            content, position = self._outgoing.get(peer) or (self._valid_content(), 0)
        except OSError as error:
            _log.error("cannot read %s to send it: %s", self._path, error)
            return None
        chunk = content[position : position + CHUNK_BYTES]
        end = position + len(chunk)
        if end == len(content):
            self._outgoing.pop(peer, None)
        else:
            self._outgoing[peer] = (content, end)
        return chunk, position == 0, end == len(content)

    def setTransmissionData(self, chunk: tuple[bytes, bool, bool]) -> bool:  # noqa: N802
        """Add a chunk; return whether the snapshot is complete, verified and on disk. The guard orders the chunks."""
        data, first, last = chunk
        if first:
            self._incoming = bytearray()
        if self._incoming is None:
            return False
        self._incoming += data
        if not last:
            return False
        content, self._incoming = bytes(self._incoming), None
        try:
            _body(content)
            self._replace(content)
        except (OSError, MessageFormatError) as error:
            _log.error("cannot store a snapshot from the leader: %s", error)
            return False
        return True

    def cancelTransmisstion(self, peer: Any) -> None:  # noqa: N802  (spelt so by PySyncObj)
        self._outgoing.pop(peer, None)

    def _valid_content(self) -> bytes:
        """Read the file to send it. Replace a damaged one by a new snapshot first: followers would reject it.

        This happens at once, because the core would retry in a loop.
        """
        try:
            return self._checked_content()
        except MessageFormatError as error:
            _log.error("%s cannot be sent to a follower, and is replaced by a new snapshot: %s", self._path, error)
        self._retry_after = 0
        self._take_new()
        try:
            return self._checked_content()
        except MessageFormatError as error:
            self._fatal(f"cannot replace the damaged snapshot {self._path}: {error}")
            raise

    def _checked_content(self) -> bytes:
        content = self._path.read_bytes()
        _body(content)
        return content

    def _read(self) -> tuple[bytes, Entry, Entry]:
        state, last, previous = decode(_body(self._path.read_bytes()))
        return state, tuple(last), tuple(previous)

    def _replace(self, content: bytes) -> None:
        temporary = unfinished_snapshot(self._path)
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)  # The journal needs its space: a full disk would end this voter.
            raise
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def unfinished_snapshot(path: Path) -> Path:
    """Return the file in which the next snapshot is written."""
    return path.with_name(path.name + ".new")


def check_snapshot(path: Path) -> int:
    """Check a snapshot file; return the index of the first entry that the log needs after it.

    Raises:
        MessageFormatError: the file is damaged.
    """
    _, _, previous = decode(_body(path.read_bytes()))
    return int(previous[1])


def require_valid_snapshot(path: Path) -> int:
    """Check a snapshot before a voter starts; return as `check_snapshot` does, or 1 if there is none.

    Raises:
        StorageError: the file is damaged.
    """
    try:
        return check_snapshot(path) if path.exists() else 1
    except MessageFormatError as error:
        raise StorageError(f"{path}: {error}. {REMEDY}") from None


def _body(content: bytes) -> bytes:
    start = len(_MAGIC) + _HEAD.size
    if not content.startswith(_MAGIC) or len(content) < start:
        raise MessageFormatError(f"not a snapshot: it begins with {content[:8]!r}")
    crc, length = _HEAD.unpack_from(content, len(_MAGIC))
    body = content[start:]
    if len(body) != length or crc32c(body) != crc:
        raise MessageFormatError(f"the snapshot is damaged: {len(body)} of {length} bytes, or a wrong checksum")
    return body
