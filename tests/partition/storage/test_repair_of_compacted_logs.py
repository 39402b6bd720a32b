"""Repair in place where a log was compacted under an earlier policy of its topic, which no file tells any more."""

from __future__ import annotations

from pathlib import Path

from storage_support import batch, open_log

from raftlog.partition.core.repair import accept
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.repair import OpenLog
from raftlog.partition.storage.segment import segment_path
from raftlog.record.compacted import build_filler

PLAIN = [batch(offset, f"value-{offset}") for offset in range(6)]


def filler(first: int, last: int) -> bytes:
    return build_filler(first, last, leader_epoch=0, max_timestamp=1)


def damaged_log(folder: Path, content: list[bytes], number: int) -> PartitionLog:
    """Return a log of these batches, with a wrong bit in the header of one."""
    log = open_log(folder)
    for one in content:
        log.append(one)
    log.fsync()
    path, damaged = segment_path(folder, 0), bytearray(b"".join(content))
    damaged[sum(map(len, content[:number])) + 3] ^= 1
    path.write_bytes(damaged)
    return log


def offer(log: PartitionLog, data: bytes) -> bytes | None:
    """Repair one place with what another replica sends; return the file's bytes if something was written."""
    target = OpenLog(log, (0,), compacts=False)
    damaged = target.find()
    assert damaged is not None
    if (accepted := accept(damaged, data)) is None:
        return None
    assert target.write(damaged, accepted)
    return segment_path(log.folder, 0).read_bytes()


def test_what_another_replica_has_compacted_replaces_no_intact_batches(tmp_path: Path):
    log = damaged_log(tmp_path / "p", PLAIN, 0)
    assert offer(log, filler(0, 2) + b"".join(PLAIN[3:])) is None
    assert offer(log, filler(0, 0) + b"".join(PLAIN[1:])) is None, "it is shorter than the batch that was there"
    assert offer(log, b"".join(PLAIN)) == b"".join(PLAIN)
    log.close()


def test_a_batch_in_front_of_a_compacted_one_is_replaced_only_by_one_that_fills_its_place(tmp_path: Path):
    own = [filler(0, 1), filler(2, 3), *PLAIN[4:]]
    log = damaged_log(tmp_path / "p", own, 0)
    assert offer(log, b"".join(PLAIN)) is None
    assert offer(log, b"".join(own)) == b"".join(own)
    log.close()
