"""What brokers get of the metadata log, and whose session is alive."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Sequence
from itertools import chain

import orjson
import pytest
from metadata_support import register

from raftlog.metadata_quorum import publisher as publisher_module
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import image_from_plain
from raftlog.metadata_quorum.publisher import Publisher
from raftlog.metadata_quorum.records import AllocateProducerIds, PutUser, Record, record_from_plain, record_to_plain
from raftlog.metadata_quorum.replay import replay
from raftlog.metadata_quorum.sessions import Sessions
from raftlog.model import UserCredential
from raftlog.wire import codec
from raftlog.wire.codec import decode_json, encode_json
from raftlog.wire.controller import MetadataUpdate


class Source:
    """Publishes one effective entry at each offset, as a controller that applies them would."""

    def __init__(self) -> None:
        self.publisher = Publisher()
        self.image = MetadataImage()

    def apply(self, *records: Record) -> None:
        self.image = replay(self.image, self.image.offset + 1, records)
        self.publisher.publish(self.image, records)

    def allocate(self, count: int) -> None:
        for _ in range(count):
            self.apply(AllocateProducerIds(next_producer_id=self.image.next_producer_id + 1))


class Reader:
    """A broker that follows the metadata log."""

    def __init__(self, *, packed: bool = False) -> None:
        self.image = MetadataImage()
        self.packed = packed
        self.answers: list[int] = []
        self.snapshots = 0
        self.position = -1

    async def read(self, publisher: Publisher) -> None:
        made = await publisher.updates(self.position, max_wait_ms=0, packed=self.packed)
        update = decode_json(MetadataUpdate, encode_json(made))
        if update.snapshot is not None:
            self.image = image_from_plain(update.snapshot)
            self.snapshots += 1
        for entry in update.entries:
            assert not (entry.packed and (entry.records or not self.packed))
            plain = [*entry.records, *chain.from_iterable(map(orjson.loads, entry.packed))]
            records = [record_from_plain(record) for record in plain]
            self.image = replay(self.image, entry.offset, [record for record in records if record is not None])
        self.answers.append(len(update.entries))
        assert update.end_offset >= self.image.offset
        self.position = update.end_offset


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "MAX_KEPT_ENTRIES", 10)
    one = len(encode_json([record_to_plain(AllocateProducerIds(next_producer_id=1))]))
    monkeypatch.setattr(publisher_module, "MAX_BYTES_PER_ANSWER", 4 * one)


async def test_entries_take_the_memory_of_their_text():
    """orjson's results have 4 KB each: 2,000 entries took 8 MB in each controller."""
    source = Source()
    source.allocate(10)
    await Reader().read(source.publisher)
    tracemalloc.start(2)
    try:
        source.allocate(200)
        await Reader().read(source.publisher)
        traces = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, codec.__file__)])
    finally:
        tracemalloc.stop()
    kept = sum(statistic.size for statistic in traces.statistics("filename"))
    assert 200 * 50 < kept < 200 * 500


@pytest.mark.usefixtures("_small")
async def test_a_reader_gets_pages_and_misses_nothing():
    source, reader = Source(), Reader()
    source.apply(register(1))
    await reader.read(source.publisher)
    source.allocate(9)
    for _ in range(3):
        await reader.read(source.publisher)

    assert (reader.snapshots, reader.answers) == (1, [0, 4, 4, 1])
    assert reader.image == source.image


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(("missed", "snapshots"), [(10, 1), (11, 2)])
async def test_who_missed_more_than_is_kept_gets_a_snapshot(missed: int, snapshots: int):
    source, reader = Source(), Reader()
    source.apply(register(1))
    await reader.read(source.publisher)
    source.allocate(missed)
    for _ in range(3):
        await reader.read(source.publisher)

    assert reader.snapshots == snapshots
    assert reader.image == source.image


async def test_few_large_entries_are_kept_rather_than_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publisher_module, "MAX_KEPT_BYTES", 1_000)
    source, late, early = Source(), Reader(), Reader()
    source.allocate(1)
    await late.read(source.publisher)
    for _ in range(10):
        source.apply(*(AllocateProducerIds(next_producer_id=number) for number in range(10)))
    await early.read(source.publisher)
    kept = len(source.publisher._entries)
    await late.read(source.publisher)

    assert kept == 1  # One alone may exceed the limit.
    assert (late.snapshots, late.image) == (2, source.image)


async def test_entries_are_encoded_once_and_the_newest_in_the_turn_of_its_first_reader(monkeypatch: pytest.MonkeyPatch):
    encoded, encode = list[int](), publisher_module.encode_json

    def counted(plain: list[object]) -> bytes:
        encoded.append(len(plain))
        return encode(plain)

    source, readers = Source(), [Reader(), Reader()]
    source.allocate(1)
    await Reader().read(source.publisher)
    monkeypatch.setattr(publisher_module, "encode_json", counted)
    for count in (1, 2, 3):
        source.apply(*(AllocateProducerIds(next_producer_id=number) for number in range(count)))
        assert encoded == [1, 2, 3][: count - 1]
        assert source.publisher.last_offset == source.image.offset
    for reader in readers:
        reader.position = source.image.offset - 3
        await reader.read(source.publisher)
    assert encoded == [1, 2, 3]
    assert [reader.answers for reader in readers] == [[3], [3]]


@pytest.mark.parametrize("packed", [True, False])
async def test_a_large_entry_is_packed_for_who_asks(packed: bool):
    """10,000 partitions took 30 ms of the controller's event loop to encode, and 50 ms of each broker's to decode."""
    source, reader = Source(), Reader(packed=packed)
    source.allocate(1)
    await reader.read(source.publisher)
    users = [PutUser(credential=UserCredential.of(f"u{number}", {})) for number in range(1_203)]
    source.apply(*users)
    source.allocate(2)
    await reader.read(source.publisher)
    assert (reader.snapshots, reader.answers) == (1, [0, 3])
    assert reader.image == source.image
    assert len(source.image.users) == 1_203


async def test_a_large_entry_is_encoded_in_a_thread_once(monkeypatch: pytest.MonkeyPatch):
    threads, encoded = list[int](), publisher_module._encoded

    def seen(records: Sequence[Record]) -> object:
        threads.append(threading.get_ident())
        return encoded(records)

    monkeypatch.setattr(publisher_module, "_encoded", seen)
    source, readers = Source(), [Reader(packed=True) for _ in range(3)]
    source.allocate(1)
    for reader in readers:
        await reader.read(source.publisher)
    threads.clear()
    source.apply(*(AllocateProducerIds(next_producer_id=number) for number in range(1_203)))
    await asyncio.gather(*(reader.read(source.publisher) for reader in readers))
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
    assert [reader.image for reader in readers] == [source.image] * 3


async def test_after_a_loaded_snapshot_only_later_entries_are_known():
    source, reader = Source(), Reader()
    source.allocate(3)
    await reader.read(source.publisher)
    loaded = replay(source.image, 50, [register(2)])
    source.publisher.restart_from(loaded)
    await reader.read(source.publisher)

    assert (reader.snapshots, reader.image) == (2, loaded)


async def test_entries_without_effect_wake_nobody_and_still_move_the_end():
    source = Source()
    source.allocate(1)
    waiting = asyncio.ensure_future(source.publisher.updates(0, max_wait_ms=20))
    await asyncio.sleep(0)
    source.apply()
    update = await waiting

    assert (update.entries, update.end_offset) == ((), 1)


async def test_every_waiting_reader_is_woken_by_one_entry_or_by_a_loaded_snapshot():
    source = Source()
    source.allocate(1)
    first = [asyncio.ensure_future(source.publisher.updates(0, max_wait_ms=20_000)) for _ in range(3)]
    await asyncio.sleep(0)
    source.allocate(1)
    async with asyncio.timeout(5):
        assert [len(update.entries) for update in await asyncio.gather(*first)] == [1, 1, 1]

    second = asyncio.ensure_future(source.publisher.updates(1, max_wait_ms=20_000))
    await asyncio.sleep(0)
    source.publisher.restart_from(replay(source.image, 9, []))
    async with asyncio.timeout(5):
        assert (await second).snapshot_offset == 9


async def test_a_reader_that_is_ahead_of_this_controller_is_never_sent_back():
    source = Source()
    source.allocate(1)
    update = await source.publisher.updates(7, max_wait_ms=1)

    assert (update.entries, update.snapshot, update.end_offset) == ((), None, 7)


async def test_a_reader_that_hangs_up_leaves_nothing_behind():
    source = Source()
    source.allocate(1)
    waiting = asyncio.ensure_future(source.publisher.updates(0, max_wait_ms=20_000))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert not source.publisher._wakers


def test_a_session_lives_from_one_heartbeat_to_its_timeout():
    sessions = Sessions(timeout_ms=3_000)
    assert not sessions.alive(1, 0)
    assert sessions.silent_for(1, 0) == 3_001

    sessions.touch(1, 100)
    assert (sessions.alive(1, 3_100), sessions.alive(1, 3_101), sessions.silent_for(1, 900)) == (True, False, 800)
    sessions.touch(1, 2_000)
    assert sessions.alive(1, 5_000)
    sessions.end(1)
    assert not sessions.alive(1, 2_000)


def test_a_new_controller_knows_only_the_brokers_that_it_is_told():
    sessions = Sessions(timeout_ms=3_000)
    sessions.touch(1, 100)
    sessions.restart([2, 3], 10_000)

    assert [sessions.alive(broker, 13_000) for broker in (1, 2, 3)] == [False, True, True]
