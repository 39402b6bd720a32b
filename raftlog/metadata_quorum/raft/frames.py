"""The records of a journal file, checksummed so that a torn write can be told apart from damage.

    file   = magic, record*
    record = u32 length of body | u32 CRC-32C of body | u32 CRC-32C of both | body | 0xFF

- A record with a valid head that ends after the end of the file was torn by a crash.
- The last byte is never zero: a last sector of zeros was not written before a power failure.
- Any other invalid record was complete once, and it or a later one may have been acknowledged: this is damage.

Files of the first format (`RLRAFT01`) have no checksum of the head and no last byte; they are read, and rewritten. In
them a torn write can be told apart from one changed bit, but not from several.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from raftlog.checksum import crc32c
from raftlog.errors import StorageError
from raftlog.sectors import sector_parts

MAGIC, FIRST_MAGIC = b"RLRAFT02", b"RLRAFT01"
MAX_RECORD_BYTES = 64 << 20
KINDS = b"ETMCS"
REMEDY = (
    "This controller cannot start: entries or votes that it acknowledged may be lost. Give it an empty data folder and "
    "start it again: it rejoins, and catches up before it votes. Do not restore an older copy of its files"
)
"""What to do about a voter's damaged files; ends error messages."""
_NEVER_ZERO_BYTES = 8
"""The least zeros that show a lost write: a small number has up to seven."""
_SIZES = struct.Struct("<II")
_CHECK = struct.Struct("<I")
_END = b"\xff"
_HEAD_BYTES = _SIZES.size + _CHECK.size


@dataclass(frozen=True, slots=True)
class ValidRecords:
    """The valid records of a journal file."""

    bodies: list[bytes]
    end: int
    """The position after the last valid record."""
    size: int
    is_first_format: bool = False


def record(body: bytes) -> bytes:
    """Frame one record."""
    sizes = _SIZES.pack(len(body), crc32c(body))
    return b"".join([sizes, _CHECK.pack(crc32c(sizes)), body, _END])


def read_valid_records(path: Path) -> ValidRecords:
    """Read a journal's valid records. Changes nothing.

    Raises:
        StorageError: the file is not a journal, or damaged; a torn tail is not damage.
    """
    data = path.read_bytes()
    magic = data[: len(MAGIC)]
    if magic not in (MAGIC, FIRST_MAGIC):
        raise StorageError(f"{path} is not a Raft journal, or is damaged: it begins with {magic!r}. {REMEDY}")
    first_format, bodies, at = magic == FIRST_MAGIC, list[bytes](), len(MAGIC)
    while (found := _record_at(data, at, first_format)) is not None:
        body, at = found
        bodies.append(body)
    if at < len(data):
        _require_torn(path, data, at, first_format)
    return ValidRecords(bodies, at, len(data), first_format)


def _require_torn(path: Path, data: bytes, at: int, first_format: bool) -> None:
    starts = range(at + 1, len(data))
    later = next((start for start in starts if _record_at(data, start, first_format) is not None), None)
    if later is not None:
        what = f"a valid record follows at byte {later}"
    elif at == len(MAGIC):
        what = "the first record is written together with the file"
    elif not _is_torn(data[at:], at, first_format):
        what = "no bytes are missing there"
    else:
        return
    raise StorageError(f"{path} is damaged at byte {at}, and {what}: this is not a torn write. {REMEDY}")


def _is_torn(tail: bytes, at: int, first_format: bool) -> bool:
    """Return whether the record after the last valid one, at byte `at`, is an incomplete write.

    Sectors beyond that record do not count: a later write may lack them, and this record was complete before it.
    """
    if first_format:
        return _ends_early(tail) or _lacks_a_sector(tail, at, len(tail))
    if len(tail) < _HEAD_BYTES:
        return True
    if not _head_is_valid(tail, 0):
        return _lacks_a_sector(tail, at, _HEAD_BYTES)
    end = _HEAD_BYTES + int(_SIZES.unpack_from(tail)[0]) + len(_END)
    return end > len(tail) or _lacks_a_sector(tail, at, end)


def _ends_early(tail: bytes) -> bool:
    """Return whether a record of the first format ends after the end of the file."""
    if len(tail) < _SIZES.size:
        return True
    length, crc = map(int, _SIZES.unpack_from(tail))
    body = tail[_SIZES.size :]
    # If the checksum matches, the body is complete, and the length was changed.
    return len(body) < length <= MAX_RECORD_BYTES and crc32c(body) != crc


def _lacks_a_sector(tail: bytes, at: int, end: int) -> bool:
    """Return whether one of the sectors with the first `end` bytes of `tail`, at byte `at` of the file, is zeros."""
    start = 0
    for part in sector_parts(tail, at):
        is_last = start + len(part) == len(tail)
        if start < end and not any(part) and (is_last or len(part) >= _NEVER_ZERO_BYTES):
            return True
        start += len(part)
    return False


def _head_is_valid(data: bytes, at: int) -> bool:
    sizes = data[at : at + _SIZES.size]
    return bool(_CHECK.unpack_from(data, at + _SIZES.size)[0] == crc32c(sizes))


def _record_at(data: bytes, at: int, first_format: bool) -> tuple[bytes, int] | None:
    """Return the body of the valid record at a byte, and the position after it."""
    start = at + (_SIZES.size if first_format else _HEAD_BYTES)
    if start >= len(data) or data[start] not in KINDS:
        return None
    length, crc = _SIZES.unpack_from(data, at)
    end = start + length
    if not 0 < length <= min(MAX_RECORD_BYTES, len(data) - start):
        return None
    body = data[start:end]
    if first_format:
        return (body, end) if crc32c(body) == crc else None
    valid = data[end : end + len(_END)] == _END and _head_is_valid(data, at) and crc32c(body) == crc
    return (body, end + len(_END)) if valid else None
