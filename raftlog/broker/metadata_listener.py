"""Replays the metadata log into this broker's image, and hands each image to its replicas."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any

from raftlog.broker.controller_channel import ControllerChannel
from raftlog.errors import ErrorCode, RaftlogError, RetriableError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import image_from_plain
from raftlog.metadata_quorum.records import FEATURE_LEVEL, record_from_plain
from raftlog.metadata_quorum.replay import Delta
from raftlog.model import BrokerId, Offset
from raftlog.runtime import freezing_objects, in_slices
from raftlog.transport import PeerAnswerError
from raftlog.wire.codec import decode_plain
from raftlog.wire.controller import MetadataEntry, MetadataUpdate

_log = logging.getLogger(__name__)
RETRY_S = 0.1
READ_TIMEOUT_MS = 5_000
"""The longest that a linearizable read of the metadata takes."""
LARGE_UPDATE = 1_000
"""An update with more records is decoded and replayed in slices."""


class MetadataListener:
    """Follows the metadata log by long poll."""

    def __init__(self, *, broker_id: BrokerId, channel: ControllerChannel) -> None:
        self.image = MetadataImage()
        self.offset: Offset = -1
        """The metadata offset that was read; entries without effect make it exceed `image.offset`."""
        self._broker_id = broker_id
        self._channel = channel
        self._moved: dict[asyncio.Future[None], Offset] = {}
        self._reachable = True
        self._anew = False
        """Something was missed: ask for a whole image."""

    def require_image(self) -> MetadataImage:
        """Return the newest image.

        Raises:
            RetriableError: there is none yet.
        """
        if self.offset < 0:
            raise RetriableError(f"broker {self._broker_id} has no metadata yet: no controller has answered")
        return self.image

    async def run(self, on_image: Callable[[MetadataImage], Awaitable[None]]) -> None:
        """Follow the metadata log until cancelled.

        Args:
            on_image: called with each newer image, one at a time.
        """
        while True:
            try:
                update = await self._channel.watch(-1 if self._anew else self.offset, broker_id=self._broker_id)
            except RaftlogError as error:
                if self._reachable:
                    _log.warning("no metadata update from the controllers: %s", error.message)
                self._reachable = False
                await asyncio.sleep(RETRY_S)
                continue
            self._reachable = True
            with freezing_objects() if _is_large(update) else nullcontext():
                await self._take(update, on_image)

    async def until(self, offset: Offset, *, timeout_ms: int) -> bool:
        """Wait until the metadata log is applied up to `offset`; return False after `timeout_ms`."""
        if self.offset >= offset:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._moved[future] = offset
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError:
            return False
        finally:
            del self._moved[future]
        return True

    async def require_applied(self, offset: Offset, *, timeout_ms: int) -> None:
        """Wait until the metadata log is applied up to `offset`.

        Raises:
            RetriableError: it is not within `timeout_ms`.
        """
        if not await self.until(offset, timeout_ms=timeout_ms):
            raise RetriableError(
                f"the change is done, but this broker did not receive it within {timeout_ms} ms",
                code=ErrorCode.REQUEST_TIMED_OUT,
            )

    async def catch_up(self) -> None:
        """Wait until all metadata that was committed before the call is applied.

        Raises:
            RetriableError: QUORUM_NOT_AVAILABLE, or it took longer than `READ_TIMEOUT_MS`.
        """
        offset = await self._channel.read(timeout_ms=READ_TIMEOUT_MS)
        await self.require_applied(offset, timeout_ms=READ_TIMEOUT_MS)

    async def _take(self, update: MetadataUpdate, on_image: Callable[[MetadataImage], Awaitable[None]]) -> None:
        image = self.image
        if update.snapshot is not None:
            if update.snapshot_offset < self.offset:
                return  # The controller is behind an earlier one. Metadata never goes back.
            image, self._anew = await asyncio.to_thread(image_from_plain, update.snapshot), False
        for entry in update.entries:
            if entry.previous_offset > max(image.offset, self.offset):
                _log.error("the metadata log skips from %d to %d: reading it again", image.offset, entry.offset)
                self._anew = True
                return
            if entry.offset > image.offset:
                image = await _replayed(image, entry)
        if image.feature_level > FEATURE_LEVEL:
            raise RaftlogError(
                f"the cluster's metadata has feature level {image.feature_level}, this version supports "
                f"{FEATURE_LEVEL}: install a newer raftlog on this node"
            )
        if image is not self.image:
            await on_image(image)
            self.image = image  # After `on_image`: handlers must not route to replicas that are not open yet.
        self.offset = max(self.offset, update.end_offset)
        for future, wanted in self._moved.items():
            if wanted <= self.offset and not future.done():
                future.set_result(None)


def _is_large(update: MetadataUpdate) -> bool:
    if update.snapshot is not None or any(entry.packed for entry in update.entries):
        return True
    return sum(len(entry.records) for entry in update.entries) > LARGE_UPDATE


async def _replayed(image: MetadataImage, entry: MetadataEntry) -> MetadataImage:
    """Return the next image; yield to the event loop within an entry of thousands of records."""
    delta = Delta(image, entry.offset)

    def apply(plain: Mapping[str, Any]) -> None:
        if (record := record_from_plain(plain)) is not None:
            delta.apply(record)

    for text in entry.packed:
        for plain in decode_plain(text.encode(), error=PeerAnswerError):
            apply(plain)
        await asyncio.sleep(0)
    async for plain in in_slices(entry.records, 256):
        apply(plain)
    return delta.image()
