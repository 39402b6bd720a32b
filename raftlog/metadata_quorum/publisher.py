"""Hands the metadata log to brokers: recent entries from memory, a whole image to those that are too far behind."""

from __future__ import annotations

import asyncio
from collections import deque

from raftlog.metadata_quorum.image import MetadataImage, image_to_plain
from raftlog.metadata_quorum.records import Record, record_to_plain
from raftlog.model import Offset
from raftlog.wire.controller import MetadataEntry, MetadataUpdate

KEPT_ENTRIES = 2_000
MAX_ENTRIES_PER_ANSWER = 500


class Publisher:
    """Keeps the last entries that took effect, each with its offset."""

    def __init__(self) -> None:
        self._entries: deque[MetadataEntry] = deque(maxlen=KEPT_ENTRIES)
        self._image = MetadataImage()
        self._complete_after: Offset = -1
        """Every effective entry above this offset is kept."""
        self._wakers: set[asyncio.Future[None]] = set()

    def publish(self, image: MetadataImage, records: tuple[Record, ...]) -> None:
        """Take in one applied entry; those without effect only move the offset."""
        self._image = image
        if records:
            if len(self._entries) == KEPT_ENTRIES:
                self._complete_after = self._entries[0].offset
            entry = MetadataEntry(offset=image.offset, records=tuple(record_to_plain(record) for record in records))
            self._entries.append(entry)
            self._wake()

    def restart_from(self, image: MetadataImage) -> None:
        """Take in a loaded snapshot: what led to it is not known."""
        self._image, self._complete_after = image, image.offset
        self._entries.clear()
        self._wake()

    async def updates(self, after_offset: Offset, *, max_wait_ms: int) -> MetadataUpdate:
        """Return what follows `after_offset`: at once if there is anything, else after at most `max_wait_ms`."""
        if not self._has_news(after_offset):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wakers.add(future)
            try:
                async with asyncio.timeout(max_wait_ms / 1000):
                    await future
            except TimeoutError:
                pass
            finally:
                self._wakers.discard(future)
        return self._update(after_offset)

    def _has_news(self, after_offset: Offset) -> bool:
        if after_offset < self._complete_after or after_offset < 0 <= self._image.offset:
            return True
        return bool(self._entries) and self._entries[-1].offset > after_offset

    def _update(self, after_offset: Offset) -> MetadataUpdate:
        image = self._image
        if after_offset < self._complete_after or after_offset < 0:
            return MetadataUpdate(
                end_offset=image.offset,
                snapshot=image_to_plain(image),
                snapshot_offset=image.offset,
                controller_id=image.controller_id,
                controller_epoch=image.controller_epoch,
            )
        entries = [entry for entry in self._entries if entry.offset > after_offset]
        whole = len(entries) <= MAX_ENTRIES_PER_ANSWER
        entries = entries[:MAX_ENTRIES_PER_ANSWER]
        end = max(image.offset, after_offset) if whole else entries[-1].offset
        return MetadataUpdate(
            end_offset=end,
            entries=tuple(entries),
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
        )

    def _wake(self) -> None:
        for future in self._wakers:
            if not future.done():
                future.set_result(None)
