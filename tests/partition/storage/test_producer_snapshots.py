"""Producer state survives restarts without reading the whole log; damage and truncation lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_support import open_log

from raftlog.errors import InvalidRequestError
from raftlog.partition.core.producers import ProducerLimits, ProducerStates
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.producer_snapshots import (
    encode_producers,
    recover_producers,
    save_producers,
    snapshot_offsets,
    snapshot_path,
)
from raftlog.record import NewRecord, build_batch, stamp
from raftlog.record.batch import parse_header

LIMITS = ProducerLimits(expiration_ms=1_000, max_producers=3)


def produce(log: PartitionLog, states: ProducerStates, producer: int, sequence: int, *, now_ms: int = 0) -> None:
    offset = log.log_end_offset
    built = build_batch([NewRecord(b"x", timestamp=1)], producer_id=producer, producer_epoch=0, base_sequence=sequence)
    stamp(built, base_offset=offset, leader_epoch=0)
    log.append(built)
    states.on_appended(parse_header(built), now_ms)


def recovered(log: PartitionLog, *, now_ms: int = 0, limits: ProducerLimits = LIMITS) -> dict:
    return recover_producers(log, limits=limits, now_ms=now_ms).to_plain()


def test_a_snapshot_and_the_headers_after_it_give_what_the_whole_log_gives(tmp_path: Path):
    log, states = open_log(tmp_path / "p"), ProducerStates(limits=LIMITS)
    for sequence in range(8):
        produce(log, states, 7, sequence)
        produce(log, states, 8, sequence)
        if sequence == 4:
            save_producers(log.folder, log.log_end_offset, states.to_plain())

    assert recovered(log) == states.to_plain()
    snapshot_path(log.folder, 10).unlink()
    assert recovered(log) == states.to_plain()
    assert [batch[0] for batch in states.to_plain()["producers"][0][3]] == [3, 4, 5, 6, 7]


def test_a_snapshot_of_an_earlier_version_is_read(tmp_path: Path):
    log, states = open_log(tmp_path / "p"), ProducerStates(limits=LIMITS)
    for sequence in range(2):
        produce(log, states, 7, sequence)
    plain = states.to_plain()
    for batch in plain["producers"][0][3]:
        batch.pop()  # There were no checksums of payloads.
    content = encode_producers(2, plain)
    snapshot_path(log.folder, 2).write_bytes(b"RLPRD002" + content[8:])

    (producer,) = recovered(log)["producers"]
    assert [batch[-1] for batch in producer[3]] == [-1, -1]
    assert snapshot_path(log.folder, 2).exists()


def test_only_headers_after_the_snapshot_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log, states = open_log(tmp_path / "p"), ProducerStates(limits=LIMITS)
    for sequence in range(6):
        produce(log, states, 7, sequence)
    save_producers(log.folder, 4, ProducerStates().to_plain())
    asked = []
    real = PartitionLog.scan
    monkeypatch.setattr(PartitionLog, "scan", lambda self, start, end: asked.append(start) or real(self, start, end))

    ((producer, _, _, batches, *_),) = recovered(log)["producers"]

    assert (asked, producer, [batch[0] for batch in batches]) == ([4], 7, [4, 5])


def test_every_damaged_byte_costs_a_rebuild_and_nothing_else(tmp_path: Path):
    log, states = open_log(tmp_path / "p"), ProducerStates(limits=LIMITS)
    for sequence in range(3):
        produce(log, states, 7, sequence)
    save_producers(log.folder, 3, states.to_plain())
    path = snapshot_path(log.folder, 3)
    sound = path.read_bytes()

    for at in range(len(sound)):
        for damaged in (sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :], sound[:at]):
            path.write_bytes(damaged)
            assert recovered(log) == states.to_plain()
            assert not path.exists()
    path.write_bytes(sound)
    assert recovered(log) == states.to_plain()
    assert path.exists()


def test_truncation_removes_what_lies_beyond_it_and_an_older_snapshot_serves(tmp_path: Path):
    log, states = open_log(tmp_path / "p"), ProducerStates(limits=LIMITS)
    for sequence in range(9):
        produce(log, states, 7, sequence)
        if sequence in (2, 4, 6):
            save_producers(log.folder, log.log_end_offset, states.to_plain())
    assert snapshot_offsets(log.folder) == [5, 7]

    log.truncate_to(6)

    assert snapshot_offsets(log.folder) == [5]
    ((_, _, _, batches, *_),) = recovered(log)["producers"]
    assert [batch[0] for batch in batches] == [1, 2, 3, 4, 5]
    log.reset_to(100)
    assert (snapshot_offsets(log.folder), recovered(log)) == ([], ProducerStates().to_plain())


def test_a_snapshot_of_before_the_log_start_does_not_count(tmp_path: Path):
    """What came between is deleted: also the marker of a transaction that is open in it, which then never ends."""
    log, states = open_log(tmp_path / "p"), ProducerStates(limits=LIMITS)
    for sequence in range(8):
        produce(log, states, 7, sequence)
        if sequence == 1:
            save_producers(log.folder, log.log_end_offset, states.to_plain())
    log.advance_log_start(5, 8)

    again = recover_producers(log, limits=LIMITS, now_ms=0)
    ((producer, *_, batches, _),) = [(one[0], one[3], None) for one in again.to_plain()["producers"]]
    assert (producer, [batch[0] for batch in batches]) == (7, [5, 6, 7])
    assert snapshot_offsets(log.folder) == []


def test_the_newest_snapshot_of_what_is_committed_stays(tmp_path: Path):
    """A truncation to the high watermark would otherwise have the whole log read."""
    log, states = open_log(tmp_path / "p"), ProducerStates(limits=LIMITS)
    for sequence in range(8):
        produce(log, states, 7, sequence)
        if sequence >= 2:
            save_producers(log.folder, log.log_end_offset, states.to_plain(), high_watermark=4)
    assert snapshot_offsets(log.folder) == [4, 7, 8]
    log.truncate_to(5)
    assert snapshot_offsets(log.folder) == [4]


def test_producers_expire_by_this_replicas_clock_not_by_what_they_say(tmp_path: Path):
    log, states = open_log(tmp_path / "p"), ProducerStates(limits=LIMITS)
    produce(log, states, 7, 0, now_ms=10_000)
    produce(log, states, 8, 0, now_ms=10_500)

    assert (states.expire(10_999), states.expire(11_000), len(states)) == (0, 1, 1)
    save_producers(log.folder, 2, states.to_plain())
    assert [producer for producer, *_ in recovered(log, now_ms=11_100)["producers"]] == [8]
    assert recovered(log, now_ms=11_500)["producers"] == []


def test_the_producer_that_wrote_longest_ago_makes_room_on_leader_and_follower_alike(tmp_path: Path):
    log, states = open_log(tmp_path / "p"), ProducerStates(limits=LIMITS)
    for producer in (1, 2, 3, 1, 4, 5):
        known = {plain[0]: plain[3][-1][0] for plain in states.to_plain()["producers"]}
        produce(log, states, producer, known.get(producer, -1) + 1)

    assert [producer for producer, *_ in states.to_plain()["producers"]] == [1, 4, 5]
    assert recovered(log) == states.to_plain()
    built = build_batch([NewRecord(b"x", timestamp=1)], producer_id=2, producer_epoch=0, base_sequence=9)
    assert states.check(parse_header(built), LIMITS.min_idle_ms) is None  # Forgotten: any sequence may come next.
    built = build_batch([NewRecord(b"x", timestamp=1)], producer_id=4, producer_epoch=0, base_sequence=9)
    with pytest.raises(InvalidRequestError, match="expected sequence 1"):
        states.check(parse_header(built))


def test_a_snapshot_beyond_the_logs_end_is_not_used(tmp_path: Path):
    """So it may be after a loss of power: it was written without a sync, and the log ends earlier."""
    log, states = open_log(tmp_path / "p"), ProducerStates(limits=LIMITS)
    for sequence in range(3):
        produce(log, states, 7, sequence)
    known, gone = states.to_plain(), open_log(tmp_path / "q")
    for sequence in range(3):
        produce(gone, ProducerStates(), 7, sequence)
    for sequence in range(3, 6):
        produce(gone, states, 7, sequence)
    save_producers(log.folder, 6, states.to_plain())

    assert recovered(log) == known
    assert not snapshot_path(log.folder, 6).exists()
