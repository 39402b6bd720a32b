"""Finds a batch behind one whose header is damaged, and so says no more where the next batch begins.

Other replicas usually have the damaged batch, and repair restores it (docs/adr/0017). If none has it, or its records
were deleted, the batches behind it must still be read.
"""

from __future__ import annotations

from raftlog.model import Offset
from raftlog.partition.storage.batch_scan import Read, iter_headers
from raftlog.partition.storage.index import INTERVAL_BYTES
from raftlog.partition.storage.segment import Segment
from raftlog.record.batch import HEADER_BYTES


def position_behind(segment: Segment, read: Read, damaged_at: int, offset: Offset) -> int | None:
    """Return the position of the batch that has `offset`, behind a damaged header at `damaged_at`.

    The bytes of a record may look like a header. So the batch must be the first of a row that leads without a gap, in
    bytes and in offsets, to the next entry of the index, or to the end of the segment.

    Returns:
        None: there is no such batch; then `offset` may be one of the damaged batch.
    """
    known = segment.load_index().entry_after(offset)
    end_offset, end = (segment.next_offset, segment.size) if known is None else known
    last_header_end = min(end, damaged_at + INTERVAL_BYTES + HEADER_BYTES)  # A later batch has an entry in the index.
    leads_on = {end: end_offset}
    """By position of a batch or of the end: the offset there."""
    for position, header in reversed(list(iter_headers(read, damaged_at, last_header_end))):
        if leads_on.get(position + header.batch_length) == header.next_offset:
            leads_on[position] = header.base_offset
            if header.base_offset <= offset:
                return position
    return None
