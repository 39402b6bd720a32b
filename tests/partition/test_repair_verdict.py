"""The verdict on a batch that no replica could repair: short stories for the pure core (docs/adr/0017)."""

from __future__ import annotations

import pytest

from raftlog.model import PartitionState
from raftlog.partition.core.repair import RepairVerdict, repair_verdict
from raftlog.wire.repair import Holding

WORDS = {"other": Holding.OTHER, "absent": Holding.ABSENT, "damaged": Holding.DAMAGED, "silent": None}


@pytest.mark.parametrize(
    ("who", "answers", "patience_over", "expected"),
    [
        # Leader 1, followers 2 and 3; "isr" and "elr" say who may lead.
        ("isr 1 2 3", "2 silent, 3 silent", False, RepairVerdict.WAIT),
        ("isr 1 2 3", "2 silent, 3 silent", True, RepairVerdict.RESIGN),
        ("isr 1 2 3", "2 damaged, 3 silent", False, RepairVerdict.WAIT),
        ("isr 1 2 3", "2 damaged, 3 silent", True, RepairVerdict.RESIGN),
        ("isr 1 2 3", "2 damaged, 3 damaged", True, RepairVerdict.LOST),
        ("isr 1 2 3", "2 absent, 3 damaged", False, RepairVerdict.RESIGN),
        ("isr 1 2 3", "2 other, 3 silent", False, RepairVerdict.RESIGN),
        ("isr 2 3", "2 other, 3 other", False, RepairVerdict.RESIGN),
        # Who is out of sync may have it whole, and may not lead: it is waited for, and nothing it lacks counts.
        ("isr 1 2", "2 damaged, 3 silent", True, RepairVerdict.WAIT),
        ("isr 1", "2 silent, 3 silent", True, RepairVerdict.WAIT),
        ("isr 1", "2 absent, 3 other", True, RepairVerdict.LOST),
        ("isr 1", "2 absent, 3 silent", True, RepairVerdict.WAIT),
        # Whoever left an ISR below min ISR holds everything (KIP-966).
        ("isr 1, elr 2", "2 absent, 3 damaged", False, RepairVerdict.RESIGN),
        ("isr 1, elr 2", "2 silent, 3 damaged", True, RepairVerdict.RESIGN),
        ("isr 1, elr 2", "2 damaged, 3 absent", True, RepairVerdict.LOST),
    ],
)
def test_repair_verdict(who: str, answers: str, patience_over: bool, expected: RepairVerdict):
    sets: dict[str, tuple[int, ...]] = {"isr": (), "elr": ()}
    for part in who.split(", "):
        name, *members = part.split()
        sets[name] = tuple(map(int, members))
    said = {int(part.split()[0]): WORDS[part.split()[1]] for part in answers.split(", ")}
    state = PartitionState(
        replicas=(1, 2, 3), isr=sets["isr"], elr=sets["elr"], leader=1, leader_epoch=3, partition_epoch=7
    )
    assert repair_verdict(state, 1, said, patience_over=patience_over) is expected


def test_a_replica_without_others_has_lost_what_it_does_not_hold():
    state = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=3, partition_epoch=7)
    assert repair_verdict(state, 1, {}, patience_over=False) is RepairVerdict.LOST
