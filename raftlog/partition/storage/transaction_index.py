"""A segment's index of aborted transactions: those whose marker lies in the segment. In memory, and as a file.

The file is written with the sparse index, whose head has the number of entries. A segment without an aborted
transaction has no such file. A missing, damaged or outdated file is rebuilt from the segment's markers. Layout:
docs/reference/storage-format.md.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.model import Offset, ProducerId
from raftlog.partition.storage.files import atomic_write, read_file
from raftlog.record.batch import BatchHeader
from raftlog.record.control import Marker

SUFFIX = ".txnindex"
_MAGIC = b"RLTXN001"
_HEAD = struct.Struct("<8sIIqq")
"""Magic, CRC-32C of all that follows it, 0, base offset and size of the segment's part that is indexed."""
_ENTRY = struct.Struct("<qqqq")
_CRC_END = 12


class AbortedEntry(NamedTuple):
    """One aborted transaction."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    """Offset of its marker."""
    stable_offset: Offset
    """Every transaction whose marker comes later began at or after it."""


def entry_of(header: BatchHeader, marker: Marker) -> AbortedEntry | None:
    """Return the index entry of a marker; None if it commits, or if the transaction wrote nothing here."""
    if marker.committed or marker.first_offset < 0:
        return None
    return AbortedEntry(header.producer_id, marker.first_offset, header.base_offset, marker.stable_offset)


def encode_aborted(base_offset: Offset, size: int, entries: Sequence[AbortedEntry]) -> bytes:
    """Return a file's content."""
    rest = struct.pack("<Iqq", 0, base_offset, size) + b"".join(_ENTRY.pack(*entry) for entry in entries)
    return _MAGIC + struct.pack("<I", crc32c(rest)) + rest


def decode_aborted(content: bytes, base_offset: Offset, size: int) -> list[AbortedEntry] | None:
    """Return the entries; None if they are damaged, or of another segment or size."""
    if len(content) < _HEAD.size or (len(content) - _HEAD.size) % _ENTRY.size:
        return None
    magic, crc, _, base, covered = _HEAD.unpack_from(content)
    if magic != _MAGIC or crc32c(content[_CRC_END:]) != crc or (base, covered) != (base_offset, size):
        return None
    return [AbortedEntry(*fields) for fields in _ENTRY.iter_unpack(content[_HEAD.size :])]


def read_aborted(path: Path, base_offset: Offset, size: int, count: int) -> list[AbortedEntry] | None:
    """Read a segment's index file; None if it is missing, damaged, outdated or unreadable.

    Args:
        path: of the segment.
        count: the expected number of entries.
    """
    if not count:
        return []
    try:
        entries = decode_aborted(read_file(path.with_suffix(SUFFIX)) or b"", base_offset, size)
    except OSError:
        return None
    return entries if entries is not None and len(entries) == count else None


def write_aborted(path: Path, base_offset: Offset, size: int, entries: Sequence[AbortedEntry]) -> None:
    """Replace a segment's index file; without entries, none is written.

    Raises:
        StorageError: the file still has its old content.
    """
    if entries:
        atomic_write(path.with_suffix(SUFFIX), encode_aborted(base_offset, size, entries), durable=False)
