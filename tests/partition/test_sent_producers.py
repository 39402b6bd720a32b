"""A follower that starts its log over where its leader's log starts knows the producers of the deleted batches."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from replica_support import Solo
from replication_support import World

from raftlog.checksum import crc32c
from raftlog.errors import CorruptBatchError, DiskFullError
from raftlog.partition.core.producers import MOST_KEPT, ProducerLimits, ProducerStates
from raftlog.partition.sent_producers import MOST_BYTES, kept_by_leader, received_producers
from raftlog.partition.storage.log_files import PRODUCERS_SUFFIX
from raftlog.partition.storage.producer_snapshots import encode_producers
from raftlog.record import NewRecord, build_batch, stamp
from raftlog.record.batch import parse_header
from raftlog.record.control import Marker, build_marker

SEVEN = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
LIMITS = ProducerLimits()


def is_repeat(world: World, batch: bytes) -> bool:
    return world.brokers[3].replica.producers.check(parse_header(batch)) is not None


@pytest.mark.parametrize(
    ("missed", "start"), [("all", 2), ("all", 4), ("all", 6), ("the end", 2), ("an epoch", 2), ("an epoch", 4)]
)
async def test_a_repeat_of_a_deleted_batch_is_known_to_the_next_leader(missed: str, start: int, tmp_path: Path):
    """The leader's log then starts at a batch (2), inside one (4), or at its end (6)."""
    first, second = ["a"], ["b", "c", "d", "e"]
    eight = {"producer_id": 8, "producer_epoch": 0}
    async with World(tmp_path, isr=(1, 2)) as world:
        if missed == "all":
            await world.stop(3)
        await world.produce("x")
        if missed != "all":
            await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 1)
            await world.stop(3)
        if missed == "an epoch":
            await world.elect(1, (1, 2))
        await world.produce(*first, **SEVEN)
        await world.produce(*second, **eight, base_sequence=0)
        leader = world.brokers[1].replica
        leader.delete_before(start, leader.high_watermark)
        await world.start(3)
        await world.push()
        await world.until(lambda: 3 in world.state.isr)
        follower = world.brokers[3].replica
        await world.until(lambda: follower.log.log_start_offset == start and follower.log.log_end_offset == 6)
        repeat = build_batch([NewRecord(b"a", timestamp=1)], **SEVEN)
        assert is_repeat(world, repeat)

        await world.stop(3)  # As after a loss of power: what was not synced is gone.
        for path in (tmp_path / "3").rglob(f"*{PRODUCERS_SUFFIX}"):
            path.unlink()
        await world.start(3)
        await world.elect(3, (1, 2, 3))
        assert await world.produce(*first, broker=3, **SEVEN) == (1, True)
        assert await world.produce(*second, broker=3, **eight, base_sequence=0) == (2, True)
        assert await world.produce("f", broker=3, **eight, base_sequence=4) == (6, False)


def appended(count: int, epoch: int = 0) -> ProducerStates:
    states = ProducerStates()
    for producer in range(count):
        batch = build_batch([NewRecord(b"x", timestamp=1)], producer_id=producer, producer_epoch=epoch, base_sequence=0)
        stamp(batch, base_offset=producer, leader_epoch=0)
        states.on_appended(parse_header(batch), 1_000 + producer)
    return states


def test_what_is_sent_is_bounded_and_counts_as_seen_on_arrival():
    content, count = kept_by_leader(appended(MOST_KEPT + 9), 5_000, now_ms=2_000)
    assert count == 2 * MOST_KEPT
    states = received_producers(content, 5_000, limits=LIMITS, now_ms=90_000_000)
    assert states is not None
    assert len(states) == MOST_KEPT
    assert states.described()[0].producer_id == 9
    assert states.expire(90_000_000) == 0
    assert {one.seen_ms for one in states.described()} == {90_000_000}


def test_a_batch_of_an_earlier_epoch_that_is_not_deleted_is_not_sent():
    """A marker is deleted, and the last batch of the epoch before is not: the follower gets that one itself."""
    states = ProducerStates()
    marker = Marker(committed=True, coordinator_epoch=3, first_offset=0, stable_offset=1)
    written = build_marker(marker, producer_id=7, producer_epoch=0, timestamp_us=1)
    stamp(written, base_offset=1, leader_epoch=0)
    states.on_appended(parse_header(written), 0, marker=marker)
    for epoch in (0, 1):
        batch = build_batch([NewRecord(b"x", timestamp=1)], producer_id=7, producer_epoch=epoch, base_sequence=0)
        stamp(batch, base_offset=5 + epoch, leader_epoch=0)
        states.on_appended(parse_header(batch), 0)
    content, count = kept_by_leader(states, 5, now_ms=0)
    received = received_producers(content, 5, limits=LIMITS, now_ms=0)
    assert (count, received is not None and received.remembered_offsets()) == (1, {1})


def test_a_leader_that_knows_none_or_is_older_sends_none():
    assert kept_by_leader(ProducerStates(), 9, now_ms=0) == (b"", 0)
    assert received_producers(b"", 9, limits=LIMITS, now_ms=0) is None


def test_a_later_leaders_form_is_left_out():
    content, _ = kept_by_leader(appended(1), 9, now_ms=0)
    assert received_producers(b"RLPRD999" + content[8:], 9, limits=LIMITS, now_ms=0) is None


ONE = [7, 0, 5, [[0, 0, 1, 1, -1]], -1, -1]
WRONG = {
    "an id that is no number": ["7", *ONE[1:]],
    "a negative id": [-1, *ONE[1:]],
    "an epoch out of range": [7, 1 << 20, *ONE[2:]],
    "no batch": [7, 0, 5, [], -1, -1],
    "too many batches": [7, 0, 5, [[n, n, n, n, -1] for n in range(6)], -1, -1],
    "a batch at the log start": [7, 0, 5, [[0, 0, 9, 9, -1]], -1, -1],
    "a batch that ends before it begins": [7, 0, 5, [[0, 0, 3, 2, -1]], -1, -1],
    "a sequence out of range": [7, 0, 5, [[1 << 40, 0, 1, 1, -1]], -1, -1],
    "a marker at the log start": [7, 0, 5, [], 3, 9],
    "a batch with too few numbers": [7, 0, 5, [[0, 0, 1]], -1, -1],
    "too little": [7, 0, 5],
    "no list": 7,
    "an epoch before without a batch": [*ONE, [0], 1],
}


@pytest.mark.parametrize("entry", WRONG.values(), ids=WRONG.keys())
def test_what_no_leader_sends_is_refused(entry: object):
    content = encode_producers(9, {"producers": [entry]})
    with pytest.raises(CorruptBatchError):
        received_producers(content, 9, limits=LIMITS, now_ms=0)


def with_body(body: bytes) -> bytes:
    return b"RLPRD003" + crc32c(body).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    "content",
    [
        b"RLPRD003",
        with_body(b"{"),
        with_body(b"[]"),
        with_body(b'{"offset":9}'),
        with_body(orjson.dumps({"offset": 8, "producers": [ONE]})),
        with_body(orjson.dumps({"offset": 9, "producers": 3})),
        with_body(orjson.dumps({"offset": 9, "producers": [ONE] * (MOST_KEPT + 1)})),
        with_body(orjson.dumps({"offset": 9, "producers": [ONE]}))[:-1],
        with_body(orjson.dumps({"offset": 9, "producers": [ONE]})) + b" " * MOST_BYTES,
    ],
    ids=["short", "no JSON", "no object", "none", "another offset", "no list", "too many", "cut", "too long"],
)
def test_what_is_damaged_is_refused(content: bytes):
    with pytest.raises(CorruptBatchError):
        received_producers(content, 9, limits=LIMITS, now_ms=0)


async def test_a_full_disk_leaves_the_log_and_its_producers_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo = Solo(tmp_path, isr=(1,), min_insync_replicas=1)
    await solo.append("a", **SEVEN)
    solo.change(leader=2, leader_epoch=1)

    def full(*_: object, **__: object) -> None:
        raise DiskFullError("full")

    monkeypatch.setattr("raftlog.partition.storage.producer_snapshots.atomic_write", full)
    with pytest.raises(DiskFullError):
        solo.replica.start_over_at(40, appended(3))
    assert (solo.replica.log.log_end_offset, len(solo.replica.producers)) == (1, 1)
    assert solo.replica.log.failure is None
    monkeypatch.undo()
    solo.replica.start_over_at(40, appended(3))
    assert (solo.replica.log.log_start_offset, len(solo.replica.producers)) == (40, 3)
    await solo.close()
