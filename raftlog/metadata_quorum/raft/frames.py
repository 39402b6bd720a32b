"""The records of a journal file, framed so that a torn write can be told apart from damage.

    file   = magic, write+
    write  = record+                                  what one sync made durable
    record = 0xFF | u32 length of body | u32 CRC-32C of body | u64 write | u32 CRC-32C of these 16 bytes | body | 0xFF

`write` is twice the number of the write, plus 1 in its last record. The first write has number 0, and is written with
the file.

- A loss of power leaves any sectors of the last write, and zeros for the others. Such a write was not acknowledged: it
  is cut, with its valid records.
- The first and the last byte of a record are never zero, so a lost sector shows.
- Any other invalid record was complete once, and may have been acknowledged: this is damage.

Files of the format before (`RLRAFT02`) have no first byte and no write; they are read, and rewritten. In them a valid
record after an invalid one always counts as damage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from raftlog.checksum import crc32c
from raftlog.errors import StorageError
from raftlog.sectors import sector_parts

MAX_RECORD_BYTES = 64 << 20
KINDS = b"ETMCS"
REMEDY = (
    "This controller cannot start: entries or votes that it acknowledged may be lost. Give it an empty data folder and "
    "start it again: it rejoins, and catches up before it votes. Do not restore an older copy of its files"
)
"""What to do about a voter's damaged files; ends error messages."""
_NEVER_ZERO_BYTES = 8
"""The least zeros that show a lost write: a small number has up to seven."""
_CHECK = struct.Struct("<I")
_END = b"\xff"


@dataclass(frozen=True, slots=True)
class _Record:
    body: bytes
    end: int
    """The position after the record."""
    write: int
    is_last: bool
    """The record is the last one of its write."""


class _Format:
    """How records are framed in files of one magic."""

    def __init__(self, magic: bytes, start: bytes, fields: str) -> None:
        self.magic = magic
        self.start = start
        self.fields = struct.Struct(fields)
        self.has_writes = bool(start)
        self.head_bytes = len(start) + self.fields.size + _CHECK.size

    def length_at(self, data: bytes, at: int) -> int | None:
        """Return the length of the record at a byte, head and all; None if its head is not valid."""
        end = at + self.head_bytes
        if end > len(data) or not data.startswith(self.start, at):
            return None
        fields = data[at + len(self.start) : end - _CHECK.size]
        if not _head_is_valid(fields, data[end - _CHECK.size : end]):
            return None
        return self.head_bytes + int(self.fields.unpack(fields)[0]) + len(_END)

    def record_at(self, data: bytes, at: int) -> _Record | None:
        """Return the valid record at a byte."""
        start = at + self.head_bytes
        if start >= len(data) or data[start] not in KINDS or (length := self.length_at(data, at)) is None:
            return None
        end = at + length
        body = data[start : end - len(_END)]
        if not 0 < len(body) <= MAX_RECORD_BYTES or data[end - len(_END) : end] != _END:
            return None
        _, crc, *write = self.fields.unpack_from(data, at + len(self.start))
        if crc32c(body) != crc:
            return None
        return _Record(body, end, write[0] >> 1, bool(write[0] & 1)) if write else _Record(body, end, 0, is_last=False)

    def records_after(self, data: bytes, at: int) -> Iterator[tuple[int, _Record]]:
        """Yield the valid records that begin after a byte, with their positions."""
        for start in range(at + 1, len(data)):
            if (found := self.record_at(data, start)) is not None:
                yield start, found


_FORMAT = _Format(b"RLRAFT03", b"\xff", "<IIQ")
_FORMATS = (_FORMAT, _Format(b"RLRAFT02", b"", "<II"))
MAGIC = _FORMAT.magic


@dataclass(frozen=True, slots=True)
class ValidRecords:
    """The records of a journal file's whole writes."""

    bodies: list[bytes]
    content: bytes
    """The file's bytes up to the end of its last whole write."""
    size: int
    """The file's size; more than `content` if a write was torn."""
    next_write: int
    is_current_format: bool = True


def framed_write(bodies: Sequence[bytes], write: int) -> bytes:
    """Frame the records of one write."""
    parts = []
    for number, body in enumerate(bodies, 1):
        fields = _FORMAT.fields.pack(len(body), crc32c(body), write << 1 | (number == len(bodies)))
        parts += [_FORMAT.start, fields, _CHECK.pack(crc32c(fields)), body, _END]
    return b"".join(parts)


def read_valid_records(path: Path) -> ValidRecords:
    """Read the records of a journal's whole writes. Changes nothing.

    Raises:
        StorageError: the file is not a journal, or damaged; a torn write at its end is not damage.
    """
    data = path.read_bytes()
    form = next((form for form in _FORMATS if data.startswith(form.magic)), None)
    if form is None:
        magic = data[: len(MAGIC)]
        raise StorageError(f"{path} is not a Raft journal, or is damaged: it begins with {magic!r}. {REMEDY}")
    return _read_writes(path, data) if form.has_writes else _read_before_writes(path, data, form)


def _read_writes(path: Path, data: bytes) -> ValidRecords:
    bodies, torn, write = list[bytes](), list[bytes](), 0
    at = whole = len(MAGIC)
    while (found := _FORMAT.record_at(data, at)) is not None and found.write == write:
        torn.append(found.body)
        at = found.end
        if found.is_last:
            bodies += torn
            torn, write, whole = [], write + 1, at
    if whole < len(data) or not write:
        later = ((start, record) for start, record in _FORMAT.records_after(data, at - 1) if record.write != write)
        _require_torn(path, data, at, _FORMAT, next(later, None), is_first=write == 0)
    return ValidRecords(bodies, data[:whole], len(data), write)


def _read_before_writes(path: Path, data: bytes, form: _Format) -> ValidRecords:
    bodies, at = list[bytes](), len(MAGIC)
    while (found := form.record_at(data, at)) is not None:
        bodies.append(found.body)
        at = found.end
    if at < len(data):
        later = next(form.records_after(data, at), None)
        _require_torn(path, data, at, form, later, is_first=at == len(MAGIC))
    return ValidRecords(bodies, data[:at], len(data), 0, is_current_format=False)


def _require_torn(
    path: Path, data: bytes, at: int, form: _Format, later: tuple[int, _Record] | None, *, is_first: bool
) -> None:
    """Raise StorageError unless the record at byte `at` is an incomplete part of the last write.

    Args:
        later: a valid record of another write after it, and its position.
        is_first: the record is one of the first write.
    """
    if later is not None:
        what = f"a valid record of a later write follows at byte {later[0]}"
    elif is_first:
        what = "the first records are written together with the file"
    elif not _is_torn(data[at:], at, form):
        what = "no bytes are missing there"
    else:
        return
    raise StorageError(f"{path} is damaged at byte {at}, and {what}: this is not a torn write. {REMEDY}")


def _is_torn(tail: bytes, at: int, form: _Format) -> bool:
    """Return whether the record after the last valid one, at byte `at`, is an incomplete write.

    Sectors beyond that record do not count: a later write may lack them, and this record was complete before it.
    """
    if len(tail) < form.head_bytes:
        return True
    if (length := form.length_at(tail, 0)) is None:
        return _lacks_a_sector(tail, at, form.head_bytes, form)
    return length > len(tail) or _lacks_a_sector(tail, at, length, form)


def _lacks_a_sector(tail: bytes, at: int, end: int, form: _Format) -> bool:
    """Return whether one of the sectors with the first `end` bytes of `tail`, at byte `at` of the file, is zeros."""
    start = 0
    for part in sector_parts(tail, at):
        shows = start + len(part) == len(tail) or len(part) >= _NEVER_ZERO_BYTES or (start == 0 and form.start)
        if start < end and shows and not any(part):
            return True
        start += len(part)
    return False


def _head_is_valid(fields: bytes, check: bytes) -> bool:
    return bool(_CHECK.unpack(check)[0] == crc32c(fields))
