"""How much memory batches take once they are unpacked, whatever their stored length."""

from __future__ import annotations

from raftlog.record.batch import ATTRIBUTE_COMPRESSION, ATTRIBUTE_SHORT, BatchHeader, Buffer, iter_batches
from raftlog.record.short import arrow_bytes
from raftlog.record.structure import check_structure


def unpacked_bytes(header: BatchHeader, batch: Buffer) -> int:
    """Return how many bytes a batch takes once it is unpacked: as many as it has, unless it is compressed or short.

    Raises:
        CorruptBatchError: its structure is wrong.
    """
    if not header.attributes & (ATTRIBUTE_COMPRESSION | ATTRIBUTE_SHORT) or header.is_empty or header.is_control:
        return header.batch_length
    if header.is_short:
        return arrow_bytes(header, batch)
    return check_structure(header, batch)[0]


def first_that_unpack_to(most: int, batches: Buffer) -> Buffer:
    """Return the first of some whole batches, at least one, whose uncompressed size is at most `most` bytes in total.

    A batch of 1 kB may decompress to 8 MiB, so the stored length is no bound.

    Raises:
        CorruptBatchError: a header or a structure is wrong.
    """
    total = at = 0
    for header, batch in iter_batches(batches):
        total += unpacked_bytes(header, batch)
        if at and total > most:
            return memoryview(batches)[:at]
        at += header.batch_length
    return batches
