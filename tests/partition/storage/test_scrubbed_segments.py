"""Damage that the scrubber detects in one segment besides wrong checksums."""

from __future__ import annotations

from pathlib import Path

from storage_support import batch, open_log

from raftlog.partition.storage.scrub import SegmentScrub


def test_a_sound_batch_in_the_place_of_another_is_damage(tmp_path: Path):
    log = open_log(tmp_path / "p")
    for offset in range(3):
        log.append(batch(offset, f"{offset}"))
    log.fsync()
    (segment,) = log.segments
    content = segment.path.read_bytes()
    length = len(content) // 3
    segment.path.write_bytes(content[:length] + content[2 * length :] + content[2 * length :])
    work = SegmentScrub(segment)

    while not work.done:
        work.step()

    assert work.offset == 1
    assert "a batch of offset 2" in work.problem
    log.close()
