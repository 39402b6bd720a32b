"""What a follower calls committed: what its leader does, as far as it has persisted the log itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from replica_support import Solo

from raftlog.record import NewRecord, build_batch, stamp


def fetched(offset: int) -> bytearray:
    batch = bytearray(build_batch([NewRecord(b"value")]))
    stamp(batch, base_offset=offset, leader_epoch=0)
    return batch


@pytest.mark.parametrize("flush", ["batch", "os"])
async def test_the_high_watermark_of_a_follower_covers_what_it_has_persisted(flush: str, tmp_path: Path):
    """An unclean election may make it leader before its sync; a loss of power then took what it called committed."""
    solo = Solo(tmp_path, leader=2, flush=flush, min_insync_replicas=1)
    for offset in range(3):
        solo.replica.append_fetched(fetched(offset))
    persisted = 3 if flush == "os" else 0
    solo.replica.update_marks(9, log_start_offset=0, replicated_offset=0)
    assert solo.replica.high_watermark == persisted

    solo.change(leader=1, isr=(1,), leader_epoch=1)
    assert solo.replica.high_watermark == persisted
    await solo.replica.until_replicated(3, leader_epoch=1, timeout_ms=5_000)
    assert solo.replica.high_watermark == solo.replica.persisted_end_offset == 3
    await solo.close()
