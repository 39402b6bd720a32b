"""Serves the metadata log to brokers: recent entries from memory, a whole image to brokers too far behind."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from orjson import Fragment

from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import image_to_plain, public_image, public_record
from raftlog.metadata_quorum.records import PutUser, Record, record_to_plain
from raftlog.model import Offset
from raftlog.wire.codec import encode_json, trimmed
from raftlog.wire.controller import MetadataEntry, MetadataUpdate

MAX_KEPT_ENTRIES = 2_000
MAX_KEPT_BYTES = 8 << 20
"""A broker that is further behind gets an image, which is smaller: 15,500 partitions take 0.7 MB."""
MAX_BYTES_PER_ANSWER = 4 << 20
RECORDS_PER_TEXT = 500
"""An entry with more records is packed into several texts, each of which is decoded in a few milliseconds."""


class Publisher:
    """Keeps the last entries that took effect, each with its offset, encoded once for all brokers.

    Every such entry above `_complete_after` is kept. A broker at or above that offset gets entries, others the image.
    """

    def __init__(self) -> None:
        self._entries: deque[tuple[Offset, MetadataEntry, int]] = deque()
        self._newest: tuple[Offset, tuple[Record, ...]] | None = None
        """The newest entry, until it is encoded: in the turn of the first reader, since applying it takes as long."""
        self._encoding = asyncio.Lock()
        self._bytes = 0
        self._image = MetadataImage()
        self._complete_after: Offset = -1
        """Every effective entry above this offset is kept."""
        self._snapshots: dict[bool, tuple[MetadataImage, Fragment]] = {}
        """The encoded image, with and without the verifiers of passwords."""
        self._public: dict[Offset, MetadataEntry] = {}
        """The entries that have verifiers, without them."""
        self._wakers: dict[asyncio.Future[None], None] = {}

    def publish(self, image: MetadataImage, records: tuple[Record, ...]) -> None:
        """Add one applied entry; an entry without records only moves the offset."""
        self._image = image
        if not records:
            return
        self._encode_newest()
        self._newest = image.offset, records
        self._wake()

    def _encode_newest(self) -> None:
        if self._newest is not None:
            self._keep_newest(*_encoded(self._newest[1]))

    async def _encode_large(self) -> None:
        """Encode the newest entry in a thread if it is large: 10,000 records take 30 ms."""
        async with self._encoding:
            newest = self._newest
            if newest is not None and len(newest[1]) > RECORDS_PER_TEXT:
                encoded = await asyncio.to_thread(_encoded, newest[1])
                if self._newest is newest:
                    self._keep_newest(*encoded)

    def _keep_newest(self, texts: list[bytes], public: list[bytes] | None) -> None:
        assert self._newest is not None
        (offset, _), self._newest = self._newest, None
        previous, size = self.last_offset, sum(map(len, texts))
        if public is not None:
            self._public[offset] = _entry(offset, previous, public)
        self._entries.append((offset, _entry(offset, previous, texts), size))
        self._bytes += size
        while len(self._entries) > MAX_KEPT_ENTRIES or (self._bytes > MAX_KEPT_BYTES and len(self._entries) > 1):
            self._complete_after, _, size = self._entries.popleft()
            self._bytes -= size
            self._public.pop(self._complete_after, None)

    @property
    def last_offset(self) -> Offset:
        """The offset of the last entry that took effect: a broker that has applied it is up to date.

        The image's own offset may be higher: commits that only confirm leadership move it. Brokers never need those.
        """
        if self._newest is not None:
            return self._newest[0]
        return self._entries[-1][0] if self._entries else self._complete_after

    @property
    def waiting(self) -> int:
        """The number of brokers that wait for entries."""
        return len(self._wakers)

    def restart_from(self, image: MetadataImage) -> None:
        """Replace everything by a loaded snapshot; the entries before it are not available."""
        self._image, self._complete_after, self._newest = image, image.offset, None
        self._entries.clear()
        self._public.clear()
        self._bytes = 0
        self._wake()

    async def updates(
        self, after_offset: Offset, *, max_wait_ms: int, verifiers: bool = False, packed: bool = False
    ) -> MetadataUpdate:
        """Return the entries after `after_offset`; wait up to `max_wait_ms` if there are none yet.

        Args:
            verifiers: include the verifiers of users' passwords: the reader has proved to be a node.
            packed: the reader knows `MetadataEntry.packed`.
        """
        if not self._has_update(after_offset):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wakers[future] = None
            try:
                async with asyncio.timeout(max_wait_ms / 1000):
                    await future
            except TimeoutError:
                pass
            finally:
                del self._wakers[future]
        await self._encode_large()
        update = self._update(after_offset, verifiers)
        return update if packed else replace(update, entries=tuple(map(_unpacked, update.entries)))

    def _has_update(self, after_offset: Offset) -> bool:
        if after_offset < self._complete_after or after_offset < 0 <= self._image.offset:
            return True
        return self.last_offset > after_offset

    def _update(self, after_offset: Offset, verifiers: bool) -> MetadataUpdate:
        self._encode_newest()
        image = self._image
        if after_offset < self._complete_after or after_offset < 0:
            return MetadataUpdate(
                end_offset=image.offset,
                snapshot=self._encoded_image(verifiers),
                snapshot_offset=image.offset,
                controller_id=image.controller_id,
                controller_epoch=image.controller_epoch,
            )
        entries, size = list[MetadataEntry](), 0
        first = bisect_right(self._entries, after_offset, key=lambda kept: kept[0])
        for position in range(first, len(self._entries)):
            _, entry, entry_size = self._entries[position]
            if entries and size + entry_size > MAX_BYTES_PER_ANSWER:
                end = entries[-1].offset
                break
            entries.append(entry if verifiers else self._public.get(entry.offset, entry))
            size += entry_size
        else:
            end = max(image.offset, after_offset)
        return MetadataUpdate(
            end_offset=end,
            entries=tuple(entries),
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
        )

    def _encoded_image(self, verifiers: bool) -> Fragment:
        known = self._snapshots.get(verifiers)
        if known is None or known[0] is not self._image:
            shown = self._image if verifiers else public_image(self._image)
            known = self._snapshots[verifiers] = (self._image, Fragment(encode_json(image_to_plain(shown))))
        return known[1]

    def _wake(self) -> None:
        for future in self._wakers:
            if not future.done():
                future.set_result(None)


def _encoded(records: Sequence[Record]) -> tuple[list[bytes], list[bytes] | None]:
    """Return lists of records as JSON, with and (if there are any) without the verifiers of passwords."""
    if not any(isinstance(record, PutUser) for record in records):
        return _texts(records), None
    return _texts(records), _texts([public_record(record) for record in records])


def _texts(records: Sequence[Record]) -> list[bytes]:
    starts = range(0, len(records), RECORDS_PER_TEXT)
    return [
        trimmed(encode_json([record_to_plain(one) for one in records[at : at + RECORDS_PER_TEXT]])) for at in starts
    ]


def _entry(offset: Offset, previous: Offset, texts: list[bytes]) -> MetadataEntry:
    if len(texts) == 1:
        return MetadataEntry(offset=offset, previous_offset=previous, records=Fragment(texts[0]))
    return MetadataEntry(offset=offset, previous_offset=previous, packed=tuple(text.decode() for text in texts))


def _unpacked(entry: MetadataEntry) -> MetadataEntry:
    """Return an entry for readers of earlier versions."""
    if not entry.packed:
        return entry
    whole = ",".join(text[1:-1] for text in entry.packed)
    return replace(entry, packed=(), records=Fragment(f"[{whole}]"))
