"""The records of a journal's file: each checksummed, so that a torn write, which is cut, is told apart from damage.

    file   = magic, record*
    record = u32 length of body | u32 CRC-32C of body | u32 CRC-32C of both | body | 0xFF

A head that is sound announces the length that was written: a file that ends before it was torn there, by a crash. The
last byte is never zero: a last sector of zeros never reached the disk, when the power was lost. What is unsound
otherwise was whole once, however many bits of it have changed, and it, or what follows it, was acknowledged.

Files of the first format (`RLRAFT01`) have no checksum of the head and no last byte; they are read, and written anew.
There a torn write is told from one changed bit, and not from several.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from raftlog.checksum import crc32c
from raftlog.errors import StorageError

MAGIC, FIRST_MAGIC = b"RLRAFT02", b"RLRAFT01"
MAX_RECORD_BYTES = 64 << 20
KINDS = b"ETMCS"
DUTY = (
    "It takes no part as it is: what it has promised may be gone. Give this controller an empty data folder and start "
    "it again: it joins as new, and catches up before it votes. An older copy of its files would be as dangerous"
)
"""What to do about a voter's damaged files."""
_SECTOR_BYTES = 512
_NEVER_ZERO_BYTES = 8
"""A small number ends in seven zeros at most: fewer than this are no sign of a write that was lost."""
_SIZES = struct.Struct("<II")
_CHECK = struct.Struct("<I")
_END = b"\xff"


@dataclass(frozen=True, slots=True)
class Sound:
    """What of a journal's file is sound."""

    bodies: list[bytes]
    end: int
    """Where its sound records end."""
    size: int
    is_first_format: bool = False


def record(body: bytes) -> bytes:
    """Frame one record."""
    sizes = _SIZES.pack(len(body), crc32c(body))
    return b"".join([sizes, _CHECK.pack(crc32c(sizes)), body, _END])


def sound_records(path: Path) -> Sound:
    """Read a journal's sound records. Changes nothing.

    Raises:
        StorageError: it is no journal, or damaged; a torn tail is no damage.
    """
    data = path.read_bytes()
    magic = data[: len(MAGIC)]
    if magic not in (MAGIC, FIRST_MAGIC):
        raise StorageError(f"{path} is no Raft journal, or damaged: it begins with {magic!r}. {DUTY}")
    first_format, bodies, at = magic == FIRST_MAGIC, list[bytes](), len(MAGIC)
    while (found := _record_at(data, at, first_format)) is not None:
        body, at = found
        bodies.append(body)
    if at < len(data):
        _require_torn(path, data, at, first_format)
    return Sound(bodies, at, len(data), first_format)


def _require_torn(path: Path, data: bytes, at: int, first_format: bool) -> None:
    starts = range(at + 1, len(data))
    later = next((start for start in starts if _record_at(data, start, first_format) is not None), None)
    if later is not None:
        what = f"a sound record follows at byte {later}"
    elif at == len(MAGIC):
        what = "the first record is written with the file"
    elif not _is_torn(data[at:], at, first_format):
        what = "nothing is missing there"
    else:
        return
    raise StorageError(f"{path} is damaged at byte {at}, and {what}: this is no torn write. {DUTY}")


def _is_torn(tail: bytes, at: int, first_format: bool) -> bool:
    """Tell whether what follows the last sound record, at byte `at`, is a write that did not wholly reach the disk."""
    return _ends_early(tail, first_format) or _lacks_a_sector(tail, at)


def _ends_early(tail: bytes, first_format: bool) -> bool:
    head_bytes = _SIZES.size + (0 if first_format else _CHECK.size)
    if len(tail) < head_bytes:
        return True
    length, crc = map(int, _SIZES.unpack_from(tail))
    if not first_format:
        return _head_is_sound(tail, 0) and len(tail) < head_bytes + length + len(_END)
    body = tail[head_bytes:]
    return len(body) < length <= MAX_RECORD_BYTES and crc32c(body) != crc  # Else all is there: the length was changed.


def _lacks_a_sector(tail: bytes, at: int) -> bool:
    cuts = [0, *range(-at % _SECTOR_BYTES or _SECTOR_BYTES, len(tail), _SECTOR_BYTES), len(tail)]
    parts = [tail[start:stop] for start, stop in pairwise(cuts)]
    return not any(parts[-1]) or any(len(part) >= _NEVER_ZERO_BYTES and not any(part) for part in parts)


def _head_is_sound(data: bytes, at: int) -> bool:
    sizes = data[at : at + _SIZES.size]
    return bool(_CHECK.unpack_from(data, at + _SIZES.size)[0] == crc32c(sizes))


def _record_at(data: bytes, at: int, first_format: bool) -> tuple[bytes, int] | None:
    """Return the body of the sound record at a byte, and where it ends."""
    start = at + _SIZES.size + (0 if first_format else _CHECK.size)
    if start >= len(data) or data[start] not in KINDS:
        return None
    length, crc = _SIZES.unpack_from(data, at)
    end = start + length
    if not 0 < length <= min(MAX_RECORD_BYTES, len(data) - start):
        return None
    body = data[start:end]
    if first_format:
        return (body, end) if crc32c(body) == crc else None
    sound = data[end : end + len(_END)] == _END and _head_is_sound(data, at) and crc32c(body) == crc
    return (body, end + len(_END)) if sound else None
