"""The remembered layouts of IPC messages: where one writer puts its numbers, and every other byte of its metadata.

Messages of one writer differ only in 50 numbers at fixed positions. A message whose metadata equals a layout
everywhere else needs no walk through its flatbuffer: one comparison of all bytes at once shows that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

NODES = 7
"""timestamp, key, value, headers, its struct, and the struct's two fields; a compacted batch's offset_delta follows."""
BUFFERS = 17
"""Validity, offsets and data of each node, as its type has them; a compacted batch has two more."""
MAX_LAYOUTS = 64
MAX_METADATA_BYTES = 4 << 10
"""Longer metadata is not remembered: pyarrow writes 472 bytes."""

_NUMBER = struct.Struct("<q")
_BITS = struct.Struct("<Q")
_PAIRS = {count: struct.Struct(f"<{2 * count}q") for count in (NODES, NODES + 1, BUFFERS, BUFFERS + 2)}
_NUMBER_MASK = 0xFFFF_FFFF_0000_0000
"""The bits of a number that are zero: none is negative, and no batch has 4 GiB."""
_OFFSET_MASK = _NUMBER_MASK | 7
"""Buffers begin at multiples of 8."""


class Positions(NamedTuple):
    """Where the numbers of a message are in its metadata."""

    body_length: int
    rows: int
    nodes: int
    buffers: int


class Numbers(NamedTuple):
    """The numbers in a message's metadata that describe its body."""

    body_length: int
    rows: int
    nodes: tuple[int, ...]
    """Length and null count of each node."""
    buffers: tuple[int, ...]
    """Offset and length of each buffer in the body."""
    codec: int | None
    """None: not compressed."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The positions of one writer's numbers, and the constant bytes between them."""

    mask: int
    """The constant bits of the metadata, taken as one large number: all but the lower halves of its numbers."""
    constant: int
    """Those bits."""
    at: Positions
    codec: int | None

    def read(self, metadata: bytes, nodes: int, buffers: int) -> Numbers:
        """Return the numbers of metadata that has the constant bits."""
        return Numbers(
            _NUMBER.unpack_from(metadata, self.at.body_length)[0],
            _NUMBER.unpack_from(metadata, self.at.rows)[0],
            _PAIRS[nodes].unpack_from(metadata, self.at.nodes),
            _PAIRS[buffers].unpack_from(metadata, self.at.buffers),
            self.codec,
        )


_layouts: dict[tuple[int, int], list[_Layout]] = {}
"""Remembered layouts, by the metadata's length and the number of nodes; at most `MAX_LAYOUTS` in all."""


def known_numbers(metadata: bytes, nodes: int, buffers: int) -> Numbers | None:
    """Return the numbers of metadata with a remembered layout; None: its layout, or a number, is another one.

    None of the numbers is negative, and buffers begin at multiples of 8.
    """
    layouts = _layouts.get((len(metadata), nodes))
    if layouts is None:
        return None
    bits = int.from_bytes(metadata, "little")
    for layout in layouts:
        if bits & layout.mask == layout.constant:
            return layout.read(metadata, nodes, buffers)
    return None


def remember(metadata: bytes, at: Positions, codec: int | None, nodes: int, buffers: int) -> None:
    """Remember the layout of metadata that was walked, whose groups of numbers do not overlap."""
    if len(metadata) > MAX_METADATA_BYTES:
        return
    mask, constant = bytearray(b"\xff" * len(metadata)), bytearray(metadata)
    for place, bits in _masks(at, nodes, buffers):
        _BITS.pack_into(mask, place, bits)
        _BITS.pack_into(constant, place, 0)
    layout = _Layout(int.from_bytes(mask, "little"), int.from_bytes(constant, "little"), at, codec)
    key = len(metadata), nodes
    if layout in _layouts.get(key, ()):
        return  # A number of this message is too large, or not a multiple of 8.
    if sum(map(len, list(_layouts.values()))) >= MAX_LAYOUTS:  # A copy: several threads read batches.
        _layouts.clear()  # Layouts in use are remembered again, so a client cannot block the memory with others.
    _layouts.setdefault(key, []).append(layout)


def _masks(at: Positions, nodes: int, buffers: int) -> Iterator[tuple[int, int]]:
    """Return the position of each number, and its bits that are always zero."""
    yield at.body_length, _NUMBER_MASK
    yield at.rows, _NUMBER_MASK
    for number in range(2 * nodes):
        yield at.nodes + 8 * number, _NUMBER_MASK
    for number in range(2 * buffers):
        yield at.buffers + 8 * number, _NUMBER_MASK if number % 2 else _OFFSET_MASK
