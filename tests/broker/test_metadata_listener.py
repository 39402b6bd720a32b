"""A broker's image of the metadata: it takes newer ones, requests missed ones again, and never goes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import orjson

from raftlog.broker.metadata_listener import MetadataListener
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import image_to_plain
from raftlog.metadata_quorum.records import AllocateProducerIds, record_to_plain
from raftlog.model import Offset
from raftlog.wire.codec import encode_json
from raftlog.wire.controller import MetadataEntry, MetadataUpdate


class Channel:
    """Answers with updates one after another, then no more."""

    def __init__(self, updates: Sequence[MetadataUpdate]) -> None:
        self._updates = list(updates)
        self.asked: list[Offset] = []
        self.spent = asyncio.Event()

    async def watch(self, after_offset: Offset, *, broker_id: int) -> MetadataUpdate:
        self.asked.append(after_offset)
        if not self._updates:
            self.spent.set()
            await asyncio.Event().wait()
        return self._updates.pop(0)


def snapshot(offset: Offset) -> MetadataUpdate:
    plain = orjson.loads(orjson.dumps(image_to_plain(MetadataImage(offset=offset))))
    return MetadataUpdate(
        end_offset=offset, snapshot=plain, snapshot_offset=offset, controller_id=101, controller_epoch=1
    )


async def listened(*updates: MetadataUpdate) -> tuple[MetadataListener, list[Offset], list[Offset]]:
    """Return the listener, the images that it took, and what it asked for."""
    taken: list[Offset] = []

    async def on_image(image: MetadataImage) -> None:
        taken.append(image.offset)

    channel = Channel(updates)
    listener = MetadataListener(broker_id=1, channel=channel)  # type: ignore[arg-type]
    running = asyncio.ensure_future(listener.run(on_image))
    await channel.spent.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return listener, taken, channel.asked


async def test_an_image_of_a_controller_that_has_less_is_left_alone():
    listener, taken, asked = await listened(snapshot(7), snapshot(5), snapshot(9))

    assert (taken, asked) == ([7, 9], [-1, 7, 7, 9])
    assert (listener.offset, listener.image.offset) == (9, 9)


async def test_what_was_missed_is_asked_for_anew():
    gap = MetadataEntry(offset=12, previous_offset=11, records=())
    late = MetadataUpdate(end_offset=12, entries=(gap,), controller_id=101, controller_epoch=1)

    listener, taken, asked = await listened(snapshot(7), late, snapshot(12))

    assert (taken, asked) == ([7, 12], [-1, 7, -1, 12])
    assert listener.offset == 12


async def test_packed_records_are_applied_in_their_order():
    records = [AllocateProducerIds(next_producer_id=number) for number in (5, 9)]
    texts = tuple(encode_json([record_to_plain(one)]).decode() for one in records)
    entry = MetadataEntry(offset=9, previous_offset=7, packed=texts)
    update = MetadataUpdate(end_offset=9, entries=(entry,), controller_id=101, controller_epoch=1)

    listener, taken, _ = await listened(snapshot(7), update)

    assert taken == [7, 9]
    assert listener.image.next_producer_id == 9
