"""The simulator's ledger of committed records, checked with a real replica."""

from __future__ import annotations

from pathlib import Path

from replica_support import Solo

from simulation.cluster.ledger import Ledger


async def test_what_a_leader_called_committed_before_it_resigned_binds_its_successors(tmp_path: Path):
    first, second = (Solo(tmp_path / name, isr=(1,), min_insync_replicas=1) for name in "12")
    for solo in (first, second):
        await solo.append("a")
    await first.append("b")
    first.replica.resign()
    ledger = Ledger()

    assert first.replica.core is None
    assert ledger.extend(first.replica, first.replica.high_watermark) is None

    assert ledger.end == 2
    assert ledger.differs(second.replica, ledger.end) == (
        "it does not hold offsets 1 to 1 of epoch 0, which were committed"
    )
    await first.close()
    await second.close()
