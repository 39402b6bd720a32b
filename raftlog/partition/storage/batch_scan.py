"""Scans of a segment file: iterate over batches, find the next intact batch, and tell torn writes from damage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from raftlog.errors import CorruptBatchError
from raftlog.model import Offset
from raftlog.record.batch import (
    ALIGNMENT,
    HEADER_BYTES,
    KNOWN_ATTRIBUTES,
    BatchHeader,
    parse_header,
    verify_payload_crc,
)
from raftlog.sectors import SECTOR_BYTES, sector_parts

Read = Callable[[int, int], bytes]
"""Read function: (length, position) -> bytes, fewer at the file's end."""
WINDOW_BYTES = 1 << 20
_NEVER_ZERO_BYTES = 8
"""A header's first bytes: the base offset, which is 0 only where the log begins."""
_MAGIC_AT = 20
_MAYBE_HEADER = re.compile(rb"\x01(?=[\x00-%b]\x00\x00)" % re.escape(bytes([KNOWN_ATTRIBUTES])), re.DOTALL)
"""Magic, attributes and flags of a batch header. Only the magic is consumed: the byte before it may look the same."""


def scan_batches(
    read: Read, position: int, end: int, *, verify: bool, name: str, window_bytes: int = WINDOW_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over (position, header) of the batches in [position, end); `verify` checks payloads, too.

    Args:
        window_bytes: read at once, at least a header.

    Raises:
        CorruptBatchError: at the first batch that is damaged or incomplete.
    """
    while position < end:
        window = read(min(window_bytes, end - position), position)
        header = parse_header(window)
        if header.batch_length > end - position:
            raise CorruptBatchError(f"{name}: the batch at byte {position} is not whole")
        if verify and header.batch_length > len(window):
            window = read(header.batch_length, position)
        at = 0
        while True:
            if verify:
                verify_payload_crc(header, memoryview(window)[at:])
            yield position, header
            position, at = position + header.batch_length, at + header.batch_length
            if len(window) - at < HEADER_BYTES or position >= end:
                break
            header = parse_header(window, at)
            if header.batch_length > len(window) - at:
                break


def sound_batch_after(read: Read, position: int, end: int, *, min_offset: Offset) -> BatchHeader | None:
    """Return the header of the first intact batch in [position, end) with a base offset of `min_offset` or more."""
    found = find_sound_header(read, position, end, min_offset=min_offset)
    return found and found[1]


def find_sound_header(read: Read, position: int, end: int, *, min_offset: Offset) -> tuple[int, BatchHeader] | None:
    """Like `sound_batch_after`, with the position of the batch."""
    for at in _maybe_headers(read, position, end):
        header = _sound_batch_at(read, at, end)
        if header is not None and header.base_offset >= min_offset:
            return at, header
    return None


def find_header(read: Read, position: int, end: int, *, base_offset: Offset) -> int | None:
    """Return the position in [position, end) of a valid header with this base offset; None if there is none."""
    return next((at for at, header in iter_headers(read, position, end) if header.base_offset == base_offset), None)


def iter_headers(read: Read, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over (position, header) of the valid headers in [position, end), whatever payload follows them."""
    for at in _maybe_headers(read, position, end):
        try:
            header = parse_header(read(HEADER_BYTES, at))
        except CorruptBatchError:
            continue
        yield at, header


def _maybe_headers(read: Read, position: int, end: int) -> Iterator[int]:
    """Iterate over the positions where a header may begin."""
    while position < end:
        window = read(min(WINDOW_BYTES, end - position), position)
        for match in _MAYBE_HEADER.finditer(window):
            at = match.start() - _MAGIC_AT
            if at >= 0 and not at % ALIGNMENT and at + HEADER_BYTES <= len(window):
                yield position + at
        # Windows overlap by a header, and stay aligned, so no header is split between two.
        position += max(ALIGNMENT, len(window) - HEADER_BYTES)


def _sound_batch_at(read: Read, position: int, end: int) -> BatchHeader | None:
    try:
        header = parse_header(read(HEADER_BYTES, position))
        if header.batch_length > end - position:
            return None
        verify_payload_crc(header, read(header.batch_length, position))
    except CorruptBatchError:
        return None
    return header


def ends_amid_batch(read: Read, position: int, end: int) -> bool:
    """Return whether the file ends inside the batch at `position`: a write that a killed process left incomplete."""
    if end - position < HEADER_BYTES:
        return True
    try:
        return position + parse_header(read(HEADER_BYTES, position)).batch_length > end
    except CorruptBatchError:
        return False


def write_was_lost(read: Read, position: int, end: int) -> bool:
    """Return whether the invalid batch at `position` looks like a write that never reached the disk.

    A power loss leaves a file that ends early, or whole sectors of zeros. Anything else is damage.
    """
    if ends_amid_batch(read, position, end):
        return True
    try:
        length = parse_header(read(HEADER_BYTES, position)).batch_length
    except CorruptBatchError:
        length = HEADER_BYTES
    sectors_end = position + length + -(position + length) % SECTOR_BYTES
    batch = read(min(end, sectors_end) - position, position)
    return any(
        not any(part) and len(part) >= (HEADER_BYTES if number else _NEVER_ZERO_BYTES)
        for number, part in enumerate(sector_parts(batch, position))
    )
